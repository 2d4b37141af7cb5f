//! A running process tree.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::control::Control;
use crate::exit::{Ending, Exit};
use crate::nursery::Nursery;
use crate::remains::{Remains, end_tree, kill_session};
use crate::spec::Stop;
use crate::streams::{Chunk, Streams};
use crate::survivor::Survivor;
use crate::turn::TurnBudget;
use crate::wire::{Report, Status};

/// How long the streams may stay open when the tree is gone, before somebody outside is held to have
/// them.
const DRAIN: Duration = Duration::from_millis(200);
/// What may still be in the streams by then, so that it is the tree's own: the size of the largest
/// pipes, twice.
const DRAIN_BYTES: usize = 2 * 1024 * 1024;

/// What a process tree did next.
#[derive(Debug)]
pub enum Step {
    /// It printed something.
    Printed(Chunk),
    /// It is gone.
    Gone(Exit),
}

/// A running process tree. When it is dropped, the tree is ended as by [`Stop::Terminate`], without
/// anybody waiting for it.
#[derive(Debug)]
pub struct Process {
    leader: i32,
    /// Variables of its environment that tell who belongs to it, as `NAME=value`.
    marks: Vec<String>,
    control: Control,
    home: Home,
    streams: Streams,
    stdin: Option<JoinHandle<()>>,
    /// The strongest stop so far: 0 for none, or the order's rank.
    asked: AtomicU8,
    ended: Option<Ended>,
    gone: Option<Gone>,
    /// Set when the tree has gone.
    drain: Option<Drain>,
    leaked: bool,
    exit: Option<Exit>,
    turn: TurnBudget,
}

/// Where the shim goes when the tree has gone.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) nursery: Arc<Nursery>,
    pub(crate) guard: Option<Arc<File>>,
}

impl Home {
    pub(crate) fn take_back(&self, control: &mut Control) {
        if let Some(stream) = control.give_back() {
            self.nursery.keep(stream, self.guard.clone());
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    status: Status,
    stopped: bool,
    killed: bool,
}

#[derive(Clone, Debug)]
struct Gone {
    left_behind: Vec<String>,
    survived: Vec<Survivor>,
}

/// The time and the bytes that the streams have left.
#[derive(Clone, Copy, Debug)]
struct Drain {
    until: Instant,
    bytes: usize,
}

impl Process {
    pub(crate) fn new(
        leader: i32,
        marks: Vec<String>,
        control: Control,
        home: Home,
        streams: Streams,
        stdin: Option<JoinHandle<()>>,
    ) -> Self {
        Self {
            leader,
            marks,
            control,
            home,
            streams,
            stdin,
            asked: AtomicU8::new(0),
            ended: None,
            gone: None,
            drain: None,
            leaked: false,
            exit: None,
            turn: TurnBudget::default(),
        }
    }

    /// The leader's pid, which is its group's and session's id too; `None` once it is known to have
    /// ended.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        let ended = self.ended.is_some() || self.drain.is_some();
        if ended { None } else { u32::try_from(self.leader).ok() }
    }

    /// The next piece of output, from whichever stream has one.
    ///
    /// `None` when both streams ended, or when the tree is gone and somebody outside it holds a stream
    /// open for 200 ms more ([`Exit::leaked`]); what the tree itself printed has been returned by then.
    /// Both may come before or after the leader's end. Whoever does not call it slows the tree down:
    /// nothing is read ahead. Nothing is lost when the future is dropped. However much there is to
    /// read, other futures of the task get their turn.
    pub async fn next(&mut self) -> Option<Chunk> {
        self.turn.give_way().await;
        while !self.streams.ended() {
            let drain = self.drain;
            if drain.is_some_and(|d| d.bytes == 0) {
                return self.leak();
            }
            tokio::select! {
                // Reports are few, so the streams get their turn; what can be read goes before the
                // clock, which a slow reader must not lose output to.
                biased;
                report = self.control.next(), if drain.is_none() => self.note(report),
                chunk = self.streams.next() => {
                    let length = chunk.as_ref().map_or(0, |chunk| chunk.bytes.len());
                    if let Some(drain) = &mut self.drain {
                        drain.bytes = drain.bytes.saturating_sub(length);
                    }
                    self.turn.count(length);
                    return chunk;
                }
                () = until(drain), if drain.is_some() => return self.leak(),
            }
        }
        None
    }

    /// The next piece of output or, when there is no more, the end of the tree. Nothing is lost when
    /// the future is dropped.
    pub async fn step(&mut self) -> Step {
        match self.next().await {
            Some(chunk) => Step::Printed(chunk),
            None => Step::Gone(self.wait().await),
        }
    }

    fn leak(&mut self) -> Option<Chunk> {
        self.streams.close();
        self.leaked = true;
        None
    }

    fn note(&mut self, report: Option<Report>) {
        match report {
            Some(Report::LeaderEnded { status, stopped, killed }) => {
                self.ended = Some(Ended { status, stopped, killed });
            }
            Some(Report::Gone { left_behind, survived }) => {
                self.gone = Some(Gone { left_behind, survived });
                self.drain = Some(Drain { until: Instant::now() + DRAIN, bytes: DRAIN_BYTES });
            }
            // These come before there is a `Process`.
            Some(Report::Started { .. } | Report::SpawnFailed { .. } | Report::Broken { .. }) => {}
            None => {
                self.drain = Some(Drain { until: Instant::now() + DRAIN, bytes: DRAIN_BYTES });
                // Whoever keeps the streams open would be waited for.
                kill_session(self.leader);
            }
        }
    }

    /// Ends the tree, without waiting for it. The same again, or a weaker one, does nothing; a
    /// stronger one goes to its step at once.
    pub fn stop(&self, how: Stop) {
        let rank = match how {
            Stop::Gracefully => 1,
            Stop::Terminate => 2,
            Stop::Kill => 3,
        };
        if self.asked.fetch_max(rank, Ordering::Relaxed) < rank {
            debug!(pid = self.leader, ?how, "process tree is told to end");
            self.control.order(how);
        }
    }

    /// Waits until no process of the tree is left. Output that [`next`](Self::next) has not returned
    /// yet is read and thrown away, since the tree might wait for that. May be called again, and gives
    /// the same. Nothing is lost when the future is dropped.
    pub async fn wait(&mut self) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        while self.next().await.is_some() {}
        while self.drain.is_none() {
            let report = self.control.next().await;
            self.note(report);
        }
        let exit = match self.gone.take() {
            Some(gone) => {
                // A shim that could not end its tree stays with it.
                if gone.survived.is_empty() {
                    self.home.take_back(&mut self.control);
                }
                self.exit_of(gone)
            }
            None => self.lost().await,
        };
        self.say(&exit);
        self.exit = Some(exit.clone());
        exit
    }

    fn say(&self, exit: &Exit) {
        let (pid, left_behind) = (self.leader, exit.left_behind.len());
        debug!(pid, ending = %exit.ending, left_behind, killed = exit.killed, "process tree is gone");
        if matches!(exit.ending, Ending::Lost) {
            warn!(pid, "the process that watched over a process tree was killed");
        }
        if !exit.survived.is_empty() {
            warn!(pid, survived = ?exit.survived, "processes could not be ended");
        }
    }

    fn exit_of(&self, gone: Gone) -> Exit {
        let ending = self.ended.map_or(Ending::Lost, |ended| match ended.status {
            Status::Exited(code) => Ending::Exited(code),
            Status::Signaled { signal, core } => Ending::Signaled { signal, core },
        });
        let asked = self.asked.load(Ordering::Relaxed) > 0;
        Exit {
            ending,
            left_behind: gone.left_behind,
            survived: gone.survived,
            leaked: self.leaked,
            stopped: self.ended.map_or(asked, |ended| ended.stopped),
            killed: self.ended.map_or(asked, |ended| ended.killed),
        }
    }

    /// The shim was killed, and the leader by that. The nursery has ended the rest; but if it was
    /// killed as well, those that are left are known by the leader's session and by the environment
    /// that they were started with.
    async fn lost(&self) -> Exit {
        let (leader, marks) = (self.leader, self.marks.clone());
        // It looks at all processes, more than once.
        let found = spawn_blocking(move || end_tree(leader, &marks)).await;
        let Remains { ended, survived } = found.unwrap_or_default();
        Exit {
            ending: Ending::Lost,
            left_behind: ended,
            survived,
            leaked: self.leaked,
            stopped: self.asked.load(Ordering::Relaxed) > 0,
            killed: false,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(stdin) = &self.stdin {
            stdin.abort();
        }
        // The rest is the control socket's: its end is the shim's order to end the tree.
    }
}

async fn until(drain: Option<Drain>) {
    if let Some(drain) = drain {
        sleep_until(drain.until).await;
    }
}
