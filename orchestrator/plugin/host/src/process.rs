//! A plugin's process, which exchanges frames as lines over its standard streams.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ralph_orchestrator_plugin_protocol::MAX_FRAME;
use ralph_orchestrator_supervisor::lines::{Line, LineSplitter};
use ralph_orchestrator_supervisor::{
    Chunk, Ending, Exit, Input, Process, ProcessEvent, SpawnError, Spec, Stop, Stream, Supervisor,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::transport::{INBOUND_QUEUE, Inbound, Transport, TransportClosed};

/// The longest line of standard error, in bytes.
const MAX_STDERR_LINE: usize = 64 * 1024;
/// The time that a plugin has to exit after its session was closed.
const EXIT_GRACE: Duration = Duration::from_secs(5);

/// The signal of an invalid access to memory.
const SIGSEGV: i32 = 11;

/// How to end a plugin's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// Close its standard input; after [`EXIT_GRACE`] send SIGTERM.
    Graceful,
    /// Send SIGTERM.
    Terminate,
    /// Send SIGKILL.
    Kill,
}

/// A plugin's process. Dropping it ends its process tree without waiting.
pub(crate) struct PluginProcess {
    stdin: Arc<StdinTransport>,
    stop: watch::Sender<Option<Stop>>,
    reader: JoinHandle<Exit>,
}

impl Drop for PluginProcess {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Where frames for a plugin go.
pub(crate) enum FrameInput {
    /// The standard input of its process.
    Process(Input),
    /// The task that writes to its socket.
    Socket(mpsc::UnboundedSender<Vec<u8>>),
}

/// Writes frames as lines.
struct StdinTransport(Mutex<Option<FrameInput>>);

impl Transport for StdinTransport {
    fn send(&self, mut frame: Vec<u8>) -> Result<(), TransportClosed> {
        frame.push(b'\n');
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(FrameInput::Process(input)) => {
                input.send(frame).map_err(|error| TransportClosed(error.to_string()))
            }
            Some(FrameInput::Socket(frames)) => {
                let gone = |_| TransportClosed("its connection was closed".to_owned());
                frames.send(frame).map_err(gone)
            }
            None => Err(TransportClosed("its standard input was closed".to_owned())),
        }
    }
}

impl StdinTransport {
    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A plugin's process that was just started, and the channels to it.
pub(crate) struct Connection {
    pub(crate) process: PluginProcess,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) inbound: mpsc::Receiver<Inbound>,
}

impl PluginProcess {
    pub(crate) async fn start(
        supervisor: &Supervisor,
        spec: Spec,
    ) -> Result<Connection, SpawnError> {
        let (process, input) = supervisor.spawn_with_input(spec).await?;
        let (stop_tx, stop_rx) = watch::channel(None);
        let (inbound_tx, inbound) = mpsc::channel(INBOUND_QUEUE);
        let reader = OutputReader { process, stop_rx, inbound_tx: Some(inbound_tx) };
        let reader = tokio::spawn(reader.run());
        let (process, transport) = Self::new(FrameInput::Process(input), stop_tx, reader);
        Ok(Connection { process, transport, inbound })
    }

    /// Returns the process behind an input, and what sends frames to it.
    pub(crate) fn new(
        input: FrameInput,
        stop: watch::Sender<Option<Stop>>,
        reader: JoinHandle<Exit>,
    ) -> (Self, Arc<dyn Transport>) {
        let stdin = Arc::new(StdinTransport(Mutex::new(Some(input))));
        let transport: Arc<dyn Transport> = Arc::<StdinTransport>::clone(&stdin);
        (Self { stdin, stop, reader }, transport)
    }

    /// Ends the process and waits until no process of its tree is left.
    pub(crate) async fn end(mut self, shutdown: Shutdown) -> Exit {
        self.stdin.close();
        let stop = match shutdown {
            Shutdown::Graceful => match timeout(EXIT_GRACE, &mut self.reader).await {
                Ok(exit) => return exit.unwrap_or_else(|_| lost()),
                Err(_) => Stop::Terminate,
            },
            Shutdown::Terminate => Stop::Terminate,
            Shutdown::Kill => Stop::Kill,
        };
        self.stop.send_replace(Some(stop));
        (&mut self.reader).await.unwrap_or_else(|_| lost())
    }
}

/// Returns the exit of a reader that was aborted, which happens only when nobody waits for it.
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

/// Reads the output of the process.
struct OutputReader {
    process: Process,
    stop_rx: watch::Receiver<Option<Stop>>,
    /// `None` once output is discarded.
    inbound_tx: Option<mpsc::Sender<Inbound>>,
}

impl OutputReader {
    async fn run(mut self) -> Exit {
        let mut stdout = FrameSplitter::default();
        let mut stderr = LineSplitter::new(MAX_STDERR_LINE);
        loop {
            let step = tokio::select! {
                biased;
                stop = next_stop(&mut self.stop_rx) => {
                    self.stop(stop);
                    continue;
                }
                step = self.process.next_event() => step,
            };
            let mut messages = Vec::new();
            match step {
                ProcessEvent::Output(Chunk { stream: Stream::Stdout, bytes }) => {
                    stdout.push(&bytes, &mut messages);
                }
                ProcessEvent::Output(Chunk { stream: Stream::Stderr, bytes }) => {
                    stderr.push(&bytes, |line| {
                        messages.push(Inbound::Stderr(line.text.into_owned()));
                    });
                }
                ProcessEvent::Exited(exit) => {
                    stdout.finish(&mut messages);
                    stderr.finish(|line| messages.push(Inbound::Stderr(line.text.into_owned())));
                    messages.push(Inbound::Ended(describe_end(&exit)));
                    self.forward(messages).await;
                    return exit;
                }
            }
            self.forward(messages).await;
        }
    }

    /// Forwards messages. Output is discarded once the process has to end.
    async fn forward(&mut self, messages: Vec<Inbound>) {
        if let Some(stop) = forward(messages, &mut self.inbound_tx, &mut self.stop_rx).await {
            self.stop(stop);
        }
    }

    fn stop(&mut self, stop: Stop) {
        self.process.stop(stop);
        self.inbound_tx = None;
    }
}

/// Describes how the process ended.
fn describe_end(exit: &Exit) -> String {
    let hint = match exit.ending {
        Ending::Signaled { signal: SIGSEGV, .. } => " (a stack overflow looks the same)",
        _ => "",
    };
    format!("its process ended with {exit}{hint}")
}

/// Forwards messages and waits for room, which slows the plugin down; a stop ends that. Output is discarded once the
/// receiver is gone.
pub(crate) async fn forward(
    messages: Vec<Inbound>,
    inbound_tx: &mut Option<mpsc::Sender<Inbound>>,
    stop_rx: &mut watch::Receiver<Option<Stop>>,
) -> Option<Stop> {
    for message in messages {
        let sender = inbound_tx.clone()?;
        tokio::select! {
            biased;
            sent = sender.send(message) => {
                if sent.is_err() {
                    *inbound_tx = None;
                }
            }
            stop = next_stop(stop_rx) => return Some(stop),
        }
    }
    None
}

/// Waits for the next stop.
pub(crate) async fn next_stop(stop_rx: &mut watch::Receiver<Option<Stop>>) -> Stop {
    while stop_rx.changed().await.is_ok() {
        if let Some(stop) = *stop_rx.borrow_and_update() {
            return stop;
        }
    }
    // The sender is gone.
    std::future::pending().await
}

/// Splits the output into frames.
pub(crate) struct FrameSplitter {
    lines: LineSplitter,
    /// A frame was too long: nothing after it counts.
    is_over: bool,
}

impl Default for FrameSplitter {
    fn default() -> Self {
        Self { lines: LineSplitter::new(MAX_FRAME), is_over: false }
    }
}

impl FrameSplitter {
    /// Takes the next piece. A frame that gets too long is noticed at once: its end may never come.
    pub(crate) fn push(&mut self, bytes: &[u8], messages: &mut Vec<Inbound>) {
        if self.is_over {
            return;
        }
        self.lines.push(bytes, |line| messages.extend(parse_line(line)));
        if let Some(bytes) = self.lines.overlong() {
            self.is_over = true;
            messages.push(Inbound::TooLong { bytes });
        }
    }

    /// Takes the end of the stream.
    pub(crate) fn finish(&mut self, messages: &mut Vec<Inbound>) {
        if !self.is_over {
            self.lines.finish(|line| messages.extend(parse_line(line)));
        }
    }
}

/// Converts a line to a frame. Blank lines are ignored.
fn parse_line(line: Line<'_>) -> Option<Inbound> {
    if line.dropped > 0 {
        let kept = u64::try_from(line.text.len()).unwrap_or(u64::MAX);
        return Some(Inbound::TooLong { bytes: line.dropped.saturating_add(kept) });
    }
    let blank = line.text.trim().is_empty();
    (!blank).then(|| Inbound::Frame(line.text.into_owned().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_an_end_is_noticed_once_when_it_gets_too_long() {
        let (mut frames, mut messages) = (FrameSplitter::default(), Vec::new());
        frames.push(b"{}\n", &mut messages);
        let piece = vec![b'x'; MAX_FRAME / 4];
        for _ in 0..4 {
            frames.push(&piece, &mut messages);
        }
        assert_eq!(messages, [Inbound::Frame(b"{}".to_vec())], "it may still end");
        for _ in 0..4 {
            frames.push(&piece, &mut messages);
        }
        frames.push(b"\n{}\n", &mut messages);
        frames.finish(&mut messages);
        let bytes = u64::try_from(MAX_FRAME / 4 * 5).unwrap();
        assert_eq!(messages.split_off(1), [Inbound::TooLong { bytes }]);
    }
}
