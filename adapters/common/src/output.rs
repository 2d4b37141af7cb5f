//! What a program's standard output means.

use ralph_orchestrator_contract::{AgentError, CancelReason, ErrorClass, Event, Leftovers, Report};
use ralph_orchestrator_supervisor::lines::LineSplitter;

/// Longest line of a structured agent, in bytes. What is longer is no message, but costs no memory.
const LINE_MAX: usize = 4 * 1024 * 1024;

/// How the process ended, as far as its output does not say.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// For people, such as `exit 7`.
    pub exit: String,
    /// What may explain it.
    pub hint: Option<&'static str>,
    /// With status 0, or by the orchestrator after it had said all.
    pub well: bool,
    /// The orchestrator asked for the end, for this reason.
    pub cancelled: Option<CancelReason>,
    /// What was left of its processes.
    pub leftovers: Leftovers,
    /// The end of its standard error.
    pub stderr: String,
}

/// Reads standard output.
pub trait Output: Send {
    /// The events behind the next bytes.
    fn push(&mut self, bytes: &[u8]) -> Vec<Event>;

    /// Whether all was said: the process should end by itself now.
    fn done(&self) -> bool {
        false
    }

    /// The events behind what the agent tells elsewhere. Asked for about once a second while it runs.
    fn glance(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// The events behind what is left, and what the whole came to.
    fn finish(self: Box<Self>, ended: Ended) -> (Vec<Event>, Result<Report, AgentError>);
}

/// Reads the messages of one kind of structured agent.
pub trait LineParser: Send {
    /// The events behind a line.
    fn line(&mut self, line: &str) -> Vec<Event>;

    /// Whether all was said: the process should end by itself now.
    fn done(&self) -> bool;

    /// The events behind what the agent tells elsewhere. Asked for about once a second while it runs,
    /// and when it has ended.
    fn glance(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// What it came to, if the process ended well.
    ///
    /// # Errors
    /// The agent's own account of a failure, or that it gave none.
    fn finish(self: Box<Self>, exit: &str) -> Result<Report, AgentError>;
}

/// Messages, one a line.
pub struct Lines {
    splitter: LineSplitter,
    parser: Box<dyn LineParser>,
}

impl Lines {
    /// With the one that knows what the lines mean.
    #[must_use]
    pub fn new(parser: Box<dyn LineParser>) -> Self {
        Self { splitter: LineSplitter::new(LINE_MAX), parser }
    }
}

impl Output for Lines {
    fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let (mut events, parser) = (Vec::new(), self.parser.as_mut());
        self.splitter.push(bytes, |line| message(parser, &line.text, line.dropped, &mut events));
        events
    }

    fn done(&self) -> bool {
        self.parser.done()
    }

    fn glance(&mut self) -> Vec<Event> {
        self.parser.glance()
    }

    fn finish(self: Box<Self>, ended: Ended) -> (Vec<Event>, Result<Report, AgentError>) {
        let Self { mut splitter, mut parser } = *self;
        let mut events = Vec::new();
        splitter.finish(|line| message(parser.as_mut(), &line.text, line.dropped, &mut events));
        events.extend(parser.glance());
        (events, conclude(parser.finish(&ended.exit), ended))
    }
}

fn message(parser: &mut dyn LineParser, line: &str, dropped: u64, events: &mut Vec<Event>) {
    events.push(Event::Raw { line: line.to_owned() });
    if dropped == 0 {
        events.extend(parser.line(line));
    } else {
        let length = dropped.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        let message = format!("the agent printed a line of {length} bytes, too long to be read");
        events.push(Event::Warning { message });
    }
}

/// Joins what was said with how the process ended. Whatever was said, a claim needs a good ending.
///
/// # Errors
/// What was said is one, or the process ended badly.
pub fn conclude(result: Result<Report, AgentError>, ended: Ended) -> Result<Report, AgentError> {
    let (failure, mut report) = match result {
        Ok(report) => (None, report),
        Err(AgentError { class, message, report }) => (Some((class, message)), *report),
    };
    let failure = if let Some(reason) = ended.cancelled {
        let message = "the agent was ended because the orchestrator asked for it";
        Some((ErrorClass::Cancelled, format!("{message}: {}", reason.because())))
    } else if !ended.well {
        Some(match failure {
            None => (ErrorClass::Crashed, format!("the agent ended with {}", ended.exit)),
            Some((class, message)) if message.contains(&ended.exit) => (class, message),
            Some((class, message)) => (class, format!("{message} ({})", ended.exit)),
        })
    } else {
        failure
    };
    report.exit = Some(ended.exit);
    report.add_leftovers(ended.leftovers);
    let Some((class, mut message)) = failure else { return Ok(report) };
    if let Some(hint) = ended.hint {
        message.push_str(": ");
        message.push_str(hint);
    }
    let stderr = ended.stderr.trim();
    if !stderr.is_empty() && class != ErrorClass::Cancelled {
        message.push_str("; its standard error: ");
        message.push_str(stderr);
    }
    report.final_text = None;
    Err(AgentError::new(class, message).with_report(report))
}
