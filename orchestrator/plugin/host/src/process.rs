//! The carrier `process`: a plugin that speaks lines over the standard streams of its process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plugin_protocol::MAX_FRAME;
use ralph_orchestrator_supervisor::lines::{Line, LineSplitter};
use ralph_orchestrator_supervisor::{
    Chunk, Ending, Exit, Input, Process, SpawnError, Spec, Step, Stop, Stream, Supervisor,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::carrier::{Carrier, Gone, Inbound, QUEUE};

/// Longest line of standard error, in bytes.
const STDERR_LINE: usize = 64 * 1024;
/// How long a plugin may take to exit when it was told that the conversation is over.
const LINGER: Duration = Duration::from_secs(5);

/// How a process comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, since its standard input ends; after [`LINGER`] by SIGTERM.
    Gently,
    /// By SIGTERM.
    Terminate,
    /// By SIGKILL.
    Kill,
}

/// A plugin's process. When it is dropped, its tree is ended, without anybody waiting for it.
pub(crate) struct PluginProcess {
    lines: Arc<Lines>,
    order: watch::Sender<Option<Stop>>,
    pump: JoinHandle<Exit>,
}

impl Drop for PluginProcess {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// Writes frames as lines.
struct Lines(Mutex<Option<Input>>);

impl Carrier for Lines {
    fn send(&self, mut frame: Vec<u8>) -> Result<(), Gone> {
        frame.push(b'\n');
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(input) => input.send(frame).map_err(|error| Gone(error.to_string())),
            None => Err(Gone("its standard input was closed".to_owned())),
        }
    }
}

impl Lines {
    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A process that was just started, and its frames.
pub(crate) type Started = (PluginProcess, Arc<dyn Carrier>, mpsc::Receiver<Inbound>);

impl PluginProcess {
    pub(crate) async fn start(supervisor: &Supervisor, spec: Spec) -> Result<Started, SpawnError> {
        let (process, input) = supervisor.spawn_with_input(spec).await?;
        let lines = Arc::new(Lines(Mutex::new(Some(input))));
        let (order, ordered) = watch::channel(None);
        let (to, inbound) = mpsc::channel(QUEUE);
        let pump = tokio::spawn(Pump { process, ordered, to: Some(to) }.run());
        let carrier: Arc<dyn Carrier> = Arc::<Lines>::clone(&lines);
        Ok((Self { lines, order, pump }, carrier, inbound))
    }

    /// Brings it to its end and waits until no process of its tree is left.
    pub(crate) async fn end(mut self, how: End) -> Exit {
        self.lines.close();
        let stop = match how {
            End::Gently => match timeout(LINGER, &mut self.pump).await {
                Ok(exit) => return exit.unwrap_or_else(|_| lost()),
                Err(_) => Stop::Terminate,
            },
            End::Terminate => Stop::Terminate,
            End::Kill => Stop::Kill,
        };
        self.order.send_replace(Some(stop));
        (&mut self.pump).await.unwrap_or_else(|_| lost())
    }
}

/// The pump is only aborted when nobody waits for it.
fn lost() -> Exit {
    Exit {
        ending: Ending::Lost,
        left_behind: Vec::new(),
        survived: Vec::new(),
        leaked: false,
        stopped: true,
        killed: false,
    }
}

/// Reads what the process prints.
struct Pump {
    process: Process,
    ordered: watch::Receiver<Option<Stop>>,
    /// Who listens, if anybody still does.
    to: Option<mpsc::Sender<Inbound>>,
}

impl Pump {
    async fn run(mut self) -> Exit {
        let mut stdout = LineSplitter::new(MAX_FRAME);
        let mut stderr = LineSplitter::new(STDERR_LINE);
        loop {
            let step = tokio::select! {
                biased;
                stop = ordered(&mut self.ordered) => {
                    self.obey(stop);
                    continue;
                }
                step = self.process.step() => step,
            };
            let mut news = Vec::new();
            match step {
                Step::Printed(Chunk { stream: Stream::Stdout, bytes }) => {
                    stdout.push(&bytes, |line| news.extend(frame(line)));
                }
                Step::Printed(Chunk { stream: Stream::Stderr, bytes }) => {
                    stderr.push(&bytes, |line| news.push(Inbound::Stderr(line.text.into_owned())));
                }
                Step::Gone(exit) => {
                    stdout.finish(|line| news.extend(frame(line)));
                    stderr.finish(|line| news.push(Inbound::Stderr(line.text.into_owned())));
                    news.push(Inbound::Ended(format!("its process ended with {exit}")));
                    self.pass_on(news).await;
                    return exit;
                }
            }
            self.pass_on(news).await;
        }
    }

    /// Waits until there is room, which slows the process down. Once it has to end, or nobody listens
    /// any more, what it prints is thrown away.
    async fn pass_on(&mut self, news: Vec<Inbound>) {
        for one in news {
            let Some(to) = self.to.clone() else { return };
            let stop = tokio::select! {
                biased;
                sent = to.send(one) => {
                    if sent.is_err() {
                        self.to = None;
                    }
                    continue;
                }
                stop = ordered(&mut self.ordered) => stop,
            };
            self.obey(stop);
        }
    }

    fn obey(&mut self, stop: Stop) {
        self.process.stop(stop);
        self.to = None;
    }
}

/// The next order.
async fn ordered(orders: &mut watch::Receiver<Option<Stop>>) -> Stop {
    while orders.changed().await.is_ok() {
        if let Some(stop) = *orders.borrow_and_update() {
            return stop;
        }
    }
    // Nobody is left who could give one.
    std::future::pending().await
}

/// A blank line is no frame, and no mistake either.
fn frame(line: Line<'_>) -> Option<Inbound> {
    if line.dropped > 0 {
        let kept = u64::try_from(line.text.len()).unwrap_or(u64::MAX);
        return Some(Inbound::TooLong { bytes: line.dropped.saturating_add(kept) });
    }
    let blank = line.text.trim().is_empty();
    (!blank).then(|| Inbound::Frame(line.text.into_owned().into_bytes()))
}
