//! One execution of the command.

use std::time::Duration;

use ralph_orchestrator_contract::{CancelReason, CancelSignal, CheckOutput};
use ralph_orchestrator_supervisor::lines::LineSplitter;
use ralph_orchestrator_supervisor::{Exit, Process, ProcessEvent, Stop, Stream};
use tokio::time::Instant;

use crate::display::Tail;
use crate::patterns::{PatternMatcher, Rules};

/// Longest part of a line that expressions see, in bytes.
const MAX_LINE: usize = 1024 * 1024;

/// How the command ran and ended.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) exit: Exit,
    pub(crate) took: Duration,
    /// How its output breaks the rules.
    pub(crate) complaints: Vec<String>,
    /// The end of its output, for people and agents.
    pub(crate) output: String,
    /// Why it was cancelled.
    pub(crate) cancelled: Option<CancelReason>,
}

/// Watches a command to its end; afterwards all of its processes are gone. `receiver` takes what it prints.
pub(crate) async fn run_to_end(
    mut process: Process,
    rules: &Rules,
    receiver: Option<&dyn CheckOutput>,
    cancel: &dyn CancelSignal,
) -> Execution {
    let started = Instant::now();
    let mut cancel = cancel.cancelled();
    let mut output = OutputMatcher::new(rules);
    let mut cancelled = None;
    let exit = loop {
        tokio::select! {
            biased;
            reason = &mut cancel, if cancelled.is_none() => {
                cancelled = Some(reason);
                process.stop(Stop::Gracefully);
            }
            step = process.next_event() => match step {
                ProcessEvent::Output(chunk) => {
                    match (receiver, chunk.stream) {
                        (None, _) => {}
                        (Some(to), Stream::Stdout) => to.read_stdout(&chunk.bytes),
                        (Some(to), Stream::Stderr) => to.read_stderr(&chunk.bytes),
                    }
                    output.bytes(chunk.stream, &chunk.bytes);
                }
                ProcessEvent::Exited(exit) => break exit,
            },
        }
    };
    let (complaints, tail) = output.finish();
    Execution { exit, took: started.elapsed(), complaints, output: tail.show(), cancelled }
}

/// Matches the output while it is printed, and keeps its end.
struct OutputMatcher<'a> {
    patterns: PatternMatcher<'a>,
    tail: Tail,
    stdout: LineSplitter,
    stderr: LineSplitter,
    /// The stream in the middle of whose line the output is.
    unfinished: Option<Stream>,
}

impl<'a> OutputMatcher<'a> {
    fn new(rules: &'a Rules) -> Self {
        Self {
            patterns: PatternMatcher::new(rules),
            tail: Tail::new(),
            stdout: LineSplitter::new(MAX_LINE),
            stderr: LineSplitter::new(MAX_LINE),
            unfinished: None,
        }
    }

    fn bytes(&mut self, stream: Stream, bytes: &[u8]) {
        let Self { patterns, tail, stdout, stderr, unfinished } = self;
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
        splitter.push(bytes, |line| patterns.line(&line.text, line.dropped));
    }

    fn finish(mut self) -> (Vec<String>, Tail) {
        let Self { patterns, stdout, stderr, .. } = &mut self;
        for splitter in [stdout, stderr] {
            splitter.finish(|line| patterns.line(&line.text, line.dropped));
        }
        (self.patterns.complaints(), self.tail)
    }
}
