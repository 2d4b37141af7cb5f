//! One execution of the command.

use std::time::Duration;

use ralph_orchestrator_contract::{CancelReason, CancelSignal};
use ralph_orchestrator_supervisor::lines::LineSplitter;
use ralph_orchestrator_supervisor::{Exit, Process, ProcessEvent, Stop, Stream};
use tokio::time::Instant;

use crate::display::Tail;
use crate::patterns::{Rules, Watch};

/// Longest part of a line that expressions see, in bytes.
const LINE_MAX: usize = 1024 * 1024;

/// What an execution came to.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) exit: Exit,
    pub(crate) took: Duration,
    /// What is wrong with its output.
    pub(crate) complaints: Vec<String>,
    /// The end of its output, for people and agents.
    pub(crate) output: String,
    /// Why it was ended early.
    pub(crate) cancelled: Option<CancelReason>,
}

/// Watches a command to its end; afterwards all of its processes are gone.
pub(crate) async fn watch(mut process: Process, rules: &Rules, cancel: &dyn CancelSignal) -> Trial {
    let started = Instant::now();
    let mut cancel = cancel.cancelled();
    let mut seen = Seen::new(rules);
    let mut cancelled = None;
    let exit = loop {
        tokio::select! {
            biased;
            reason = &mut cancel, if cancelled.is_none() => {
                cancelled = Some(reason);
                process.stop(Stop::Gracefully);
            }
            step = process.next_event() => match step {
                ProcessEvent::Output(chunk) => seen.bytes(chunk.stream, &chunk.bytes),
                ProcessEvent::Exited(exit) => break exit,
            },
        }
    };
    let (complaints, tail) = seen.finish();
    Trial { exit, took: started.elapsed(), complaints, output: tail.show(), cancelled }
}

/// The output as far as it was printed.
struct Seen<'a> {
    watch: Watch<'a>,
    tail: Tail,
    stdout: LineSplitter,
    stderr: LineSplitter,
    /// The stream in the middle of whose line the output is.
    unfinished: Option<Stream>,
}

impl<'a> Seen<'a> {
    fn new(rules: &'a Rules) -> Self {
        Self {
            watch: Watch::new(rules),
            tail: Tail::new(),
            stdout: LineSplitter::new(LINE_MAX),
            stderr: LineSplitter::new(LINE_MAX),
            unfinished: None,
        }
    }

    fn bytes(&mut self, stream: Stream, bytes: &[u8]) {
        let Self { watch, tail, stdout, stderr, unfinished } = self;
        let splitter = match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        };
        // Lines of the two streams shall not run into each other.
        if unfinished.is_some_and(|before| before != stream) {
            tail.push(b"\n");
        }
        tail.push(bytes);
        *unfinished = if bytes.ends_with(b"\n") { None } else { Some(stream) };
        splitter.push(bytes, |line| watch.line(&line.text, line.dropped));
    }

    fn finish(mut self) -> (Vec<String>, Tail) {
        let Self { watch, stdout, stderr, .. } = &mut self;
        for splitter in [stdout, stderr] {
            splitter.finish(|line| watch.line(&line.text, line.dropped));
        }
        (self.watch.complaints(), self.tail)
    }
}
