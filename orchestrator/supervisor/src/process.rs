//! A running process tree.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::adoption::Adoption;
use crate::control::Control;
use crate::exit::{Ending, Exit};
use crate::fork_server::IdleShims;
use crate::orphans::{OrphanCleanup, end_tree, kill_session};
use crate::patience::Patience;
use crate::spec::{Grace, Stop};
use crate::streams::{Chunk, Streams};
use crate::survivor::Survivor;
use crate::turn::TurnBudget;
use crate::wire::{Report, Status};
use crate::wrapper::Lease;

/// The time that the streams may stay open when the tree is gone; then a process outside of it holds them.
const DRAIN: Duration = Duration::from_millis(200);
/// The output that the tree itself may have left in the streams: twice the size of the largest pipe.
const DRAIN_BYTES: usize = 2 * 1024 * 1024;

/// An event of a process tree.
#[derive(Debug)]
pub enum ProcessEvent {
    /// It printed something.
    Output(Chunk),
    /// It is gone.
    Exited(Exit),
}

/// A running process tree. Dropping it ends the tree as by [`Stop::Terminate`], without waiting.
#[derive(Debug)]
pub struct Process {
    tree: Tree,
    control: Control,
    patience: Patience,
    shim_return: ShimReturn,
    streams: Streams,
    stdin: Option<JoinHandle<()>>,
    /// The rank of the strongest stop so far; 0 for none.
    stop_rank: AtomicU8,
    leader_exit: Option<LeaderExit>,
    tree_end: Option<TreeEnd>,
    /// Set when the tree has gone.
    drain: Option<Drain>,
    leaked: bool,
    exit: Option<Exit>,
    turn: TurnBudget,
    /// What it started elsewhere.
    lease: Lease,
}

impl From<Status> for Ending {
    fn from(status: Status) -> Self {
        match status {
            Status::Exited(code) => Self::Exited(code),
            Status::Signaled { signal, core } => Self::Signaled { signal, core },
        }
    }
}

/// What was started.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) leader: i32,
    /// Variables of its environment that identify its processes, as `NAME=value`.
    pub(crate) marks: Vec<String>,
    pub(crate) grace: Grace,
    /// It was not started before, in clock ticks since boot.
    pub(crate) since: u64,
}

/// Keeps a shim for the next job when its tree is gone.
#[derive(Debug)]
pub(crate) struct ShimReturn {
    pub(crate) idle: Arc<IdleShims>,
    pub(crate) guard: Option<Arc<File>>,
}

impl ShimReturn {
    pub(crate) fn recycle(&self, control: &mut Control) {
        if let Some(shim) = control.release(self.guard.clone()) {
            self.idle.recycle(shim);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct LeaderExit {
    status: Status,
    stopped: bool,
    killed: bool,
}

#[derive(Clone, Debug)]
struct TreeEnd {
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
        tree: Tree,
        control: Control,
        shim_return: ShimReturn,
        streams: Streams,
        stdin: Option<JoinHandle<()>>,
    ) -> Self {
        Self {
            patience: Patience::new(tree.grace, Instant::now()),
            tree,
            control,
            shim_return,
            streams,
            stdin,
            stop_rank: AtomicU8::new(0),
            leader_exit: None,
            tree_end: None,
            drain: None,
            leaked: false,
            exit: None,
            turn: TurnBudget::default(),
            lease: Lease::default(),
        }
    }

    /// Sets what the process started elsewhere, which is released at its end.
    pub(crate) fn with_lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// The leader's pid, which is its group's and session's id too; `None` once it is known to have
    /// ended.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        let ended = self.leader_exit.is_some() || self.drain.is_some();
        if ended { None } else { u32::try_from(self.tree.leader).ok() }
    }

    /// Returns the next piece of output, from either stream.
    ///
    /// `None` when both streams ended, or when the tree is gone and somebody outside it holds a stream
    /// open for 200 ms more ([`Exit::leaked`]); what the tree itself printed has been returned by then.
    /// Both may come before or after the leader's end. Whoever does not call it slows the tree down:
    /// nothing is read ahead. Nothing is lost when the future is dropped. However much there is to
    /// read, other futures of the task get their turn.
    pub async fn next(&mut self) -> Option<Chunk> {
        self.turn.give_way().await;
        while !self.streams.ended() {
            // Also during a flood of output.
            self.check_if_due();
            let (drain, check) = (self.drain, self.patience.next_check());
            if drain.is_some_and(|d| d.bytes == 0) {
                return self.leak();
            }
            tokio::select! {
                // Reports are few, so the streams get their turn; what can be read goes before the
                // clock, which a slow reader must not lose output to.
                biased;
                report = self.control.next(), if drain.is_none() => self.handle_report(report),
                chunk = self.streams.next() => {
                    let length = chunk.as_ref().map_or(0, |chunk| chunk.bytes.len());
                    if let Some(drain) = &mut self.drain {
                        drain.bytes = drain.bytes.saturating_sub(length);
                    }
                    self.turn.count(length);
                    return chunk;
                }
                () = until(drain), if drain.is_some() => return self.leak(),
                () = sleep_until(check), if drain.is_none() => {}
            }
        }
        None
    }

    /// Returns the next piece of output or, when there is none, the exit of the tree. Cancel safe.
    pub async fn next_event(&mut self) -> ProcessEvent {
        match self.next().await {
            Some(chunk) => ProcessEvent::Output(chunk),
            None => ProcessEvent::Exited(self.wait().await),
        }
    }

    fn leak(&mut self) -> Option<Chunk> {
        self.streams.close();
        self.leaked = true;
        None
    }

    /// Checks those who supervise the tree, from time to time: while one of them is stopped, nobody would end it.
    fn check_if_due(&mut self) {
        let now = Instant::now();
        if self.drain.is_some() || !self.patience.is_due(now) {
            return;
        }
        if let Some(keepers) = self.control.keepers() {
            if self.patience.is_exhausted(now) {
                keepers.kill();
            }
            keepers.check();
        }
    }

    fn handle_report(&mut self, report: Option<Report>) {
        match report {
            Some(Report::LeaderEnded { status, stopped, killed }) => {
                self.leader_exit = Some(LeaderExit { status, stopped, killed });
                self.patience.leader_ended(Instant::now());
            }
            Some(Report::Gone { left_behind, survived }) => {
                self.tree_end = Some(TreeEnd { left_behind, survived });
                self.drain = Some(Drain { until: Instant::now() + DRAIN, bytes: DRAIN_BYTES });
            }
            // These come before there is a `Process`.
            Some(
                Report::Started { .. }
                | Report::SpawnFailed { .. }
                | Report::ProgramFailed { .. }
                | Report::SetUpFailed { .. }
                | Report::SandboxFailed { .. }
                | Report::Broken { .. },
            ) => {}
            None => {
                self.drain = Some(Drain { until: Instant::now() + DRAIN, bytes: DRAIN_BYTES });
                // Processes that keep the streams open would be waited for.
                kill_session(self.tree.leader);
            }
        }
    }

    /// Stops the tree, without waiting. A repeated or weaker stop does nothing; a stronger one takes effect at
    /// once.
    pub fn stop(&self, how: Stop) {
        let rank = match how {
            Stop::Gracefully => 1,
            Stop::Terminate => 2,
            Stop::Kill => 3,
        };
        if self.stop_rank.fetch_max(rank, Ordering::Relaxed) < rank {
            debug!(pid = self.tree.leader, ?how, "stopping process tree");
            self.lease.stop();
            self.control.order(how);
            if self.leader_exit.is_none() {
                self.patience.stopped(how, Instant::now());
            }
            if let Some(keepers) = self.control.keepers() {
                keepers.wake();
            }
        }
    }

    /// Waits until no process of the tree is left. Pending output is read and discarded, since the tree might
    /// wait for that. May be called again, with the same result. Cancel safe.
    pub async fn wait(&mut self) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        while self.next().await.is_some() {}
        while self.drain.is_none() {
            self.check_if_due();
            tokio::select! {
                report = self.control.next() => self.handle_report(report),
                () = sleep_until(self.patience.next_check()) => {}
            }
        }
        let ended = self.leader_exit.map_or(Ending::Lost, |ended| Ending::from(ended.status));
        self.lease.release(ended).await;
        let exit = match self.tree_end.take() {
            Some(end) => {
                // A shim with survivors is not reused: it is ended when this is dropped.
                if end.survived.is_empty() {
                    self.shim_return.recycle(&mut self.control);
                }
                self.exit_of(end)
            }
            None => self.lost().await,
        };
        self.log_exit(&exit);
        self.exit = Some(exit.clone());
        exit
    }

    fn log_exit(&self, exit: &Exit) {
        let (pid, left_behind) = (self.tree.leader, exit.left_behind.len());
        debug!(pid, ending = %exit.ending, left_behind, killed = exit.killed, "process tree is gone");
        if matches!(exit.ending, Ending::Lost) {
            warn!(pid, "the shim of a process tree was killed");
        }
        if !exit.survived.is_empty() {
            warn!(pid, survived = ?exit.survived, "processes survived SIGKILL");
        }
    }

    fn exit_of(&self, end: TreeEnd) -> Exit {
        let ending = self.leader_exit.map_or(Ending::Lost, |ended| Ending::from(ended.status));
        let asked = self.stop_rank.load(Ordering::Relaxed) > 0;
        Exit {
            ending,
            left_behind: end.left_behind,
            survived: end.survived,
            leaked: self.leaked,
            stopped: self.leader_exit.map_or(asked, |ended| ended.stopped),
            killed: self.leader_exit.map_or(asked, |ended| ended.killed),
        }
    }

    /// Returns the exit after the shim was killed, and with it the leader. The fork server ends the orphans;
    /// if it was killed as well, they are this process's children.
    async fn lost(&self) -> Exit {
        let (leader, marks) = (Some(self.tree.leader), self.tree.marks.clone());
        if let Some(keepers) = self.control.keepers() {
            keepers.wake();
        }
        let adoption = Adoption::new(self.control.keepers(), self.tree.since);
        // It scans all processes, repeatedly.
        let found = spawn_blocking(move || end_tree(leader, &marks, &adoption)).await;
        let OrphanCleanup { ended, survived } = found.unwrap_or_default();
        Exit {
            ending: Ending::Lost,
            left_behind: ended,
            survived,
            leaked: self.leaked,
            stopped: self.stop_rank.load(Ordering::Relaxed) > 0,
            killed: false,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(stdin) = &self.stdin {
            stdin.abort();
        }
        // Closing the control socket makes the shim end the tree, and the lease ends what is elsewhere.
    }
}

async fn until(drain: Option<Drain>) {
    if let Some(drain) = drain {
        sleep_until(drain.until).await;
    }
}
