//! What a [`ProcessRun`](crate::ProcessRun) needs to know about one kind of agent.

use std::future::{Future, pending, ready};
use std::time::Duration;

use ralph_orchestrator_contract::{AgentError, CancelReason, ErrorClass, Event, Leftovers, Report};
use ralph_orchestrator_supervisor::Stop;
use tokio::time::Instant;

/// How long an agent may take to exit after it has reported its result. Some never do.
pub const EXIT_GRACE: Duration = Duration::from_secs(10);

/// What a handler asks of the run that calls it; carried out after each call.
#[derive(Debug, Default)]
pub struct Actions {
    events: Vec<Event>,
    pub(crate) stop: Option<Stop>,
    deadline: Option<Instant>,
}

impl Actions {
    /// Hands an event to the orchestrator.
    pub fn emit(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Hands events to the orchestrator.
    pub fn emit_all(&mut self, events: impl IntoIterator<Item = Event>) {
        self.events.extend(events);
    }

    /// Removes and returns the events emitted so far.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Stops the process. Its deadline is void from then on.
    pub fn stop(&mut self, how: Stop) {
        self.stop = self.stop.max(Some(how));
    }

    /// Returns when [`ProcessHandler::deadline_passed`] will be called.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Sets or clears when [`ProcessHandler::deadline_passed`] is called.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.deadline = timeout.map(|timeout| Instant::now() + timeout);
    }

    /// Lets the agent, once it is done, exit within a grace. It may begin another turn instead.
    pub fn limit_exit(&mut self, grace: Option<Duration>) {
        if grace.is_none() || self.deadline.is_none() {
            self.set_timeout(grace);
        }
    }
}

/// Reads what one kind of agent prints and decides how its process is ended.
///
/// All methods but two are synchronous: what they want done goes into their [`Actions`], so that neither
/// a full sink nor a slow agent holds up a cancellation.
pub trait ProcessHandler: Send {
    /// Whether standard output is read by [`read_line`](Self::read_line), otherwise by
    /// [`read_bytes`](Self::read_bytes). Actions are performed after each line, so that a burst of short
    /// lines does not pile up what is sent in return.
    const READS_LINES: bool = true;

    /// Returns what is to be done; the run takes it after each call of another method.
    fn actions(&mut self) -> &mut Actions;

    /// Begins the session, before anything is read.
    fn start(&mut self) {}

    /// Reads a line of standard output, without its end. One that is too long is reported by the run.
    fn read_line(&mut self, _line: String) {}

    /// Reads a piece of standard output as it came.
    fn read_bytes(&mut self, _bytes: &[u8]) {}

    /// Handles the end of standard output, after its last line.
    fn end_of_output(&mut self) {}

    /// Waits for something other than the process, and handles it. Nothing may be lost when the future is
    /// dropped.
    fn wait(&mut self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Returns whether the agent has reported its result: no later cancellation undoes it.
    fn is_done(&self) -> bool {
        false
    }

    /// Ends the agent because the orchestrator asked for it.
    fn cancel(&mut self, _reason: CancelReason) {
        // An interrupted turn still reports what it has cost; after the result there is nothing to report.
        let how = if self.is_done() { Stop::Terminate } else { Stop::Gracefully };
        self.actions().stop(how);
    }

    /// Ends what took longer than the timeout that was set.
    fn deadline_passed(&mut self) {
        self.actions().stop(Stop::Gracefully);
    }

    /// Handles the end of the process, after its output.
    fn exited(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Returns what the run came to.
    ///
    /// # Errors
    /// The agent failed by its own account, or its process ended badly.
    fn finish(self, end: ProcessEnd) -> Result<Report, AgentError>;
}

/// How a process ended, as far as its output does not show it.
#[derive(Clone, Debug, Default)]
pub struct ProcessEnd {
    /// The exit status for people, such as `exit 7`.
    pub exit: String,
    /// What may explain the exit status.
    pub hint: Option<&'static str>,
    /// Whether it exited with status 0, or was stopped after the agent had reported its result.
    pub success: bool,
    /// Whether its exit status is that by which shells and `env` report a program that is missing or cannot be executed.
    pub is_missing_program: bool,
    /// Why the orchestrator ended it before the agent had reported its result.
    pub cancelled: Option<CancelReason>,
    /// Processes that it left behind.
    pub leftovers: Leftovers,
    /// The end of its standard error.
    pub stderr: String,
}

impl ProcessEnd {
    /// Joins the agent's own account with how its process ended. Whatever the agent reported, a claim needs
    /// a good ending.
    ///
    /// # Errors
    /// The account is an error, or the process ended badly.
    pub fn conclude(self, account: Result<Report, AgentError>) -> Result<Report, AgentError> {
        let (failure, mut report) = match account {
            Ok(report) => (None, report),
            Err(AgentError { class, message, report }) => (Some((class, message)), *report),
        };
        let failure = if let Some(reason) = self.cancelled {
            let message = "the agent was ended because the orchestrator asked for it";
            Some((ErrorClass::Cancelled, format!("{message}: {}", reason.because())))
        } else if !self.success {
            let (class, message) = match failure {
                None => (ErrorClass::Crashed, format!("the agent ended with {}", self.exit)),
                Some((class, message)) if message.contains(&self.exit) => (class, message),
                Some((class, message)) => (class, format!("{message} ({})", self.exit)),
            };
            // A wrapper of the agent ran, the agent did not: the next iteration would only meet the same.
            let is_missing = self.is_missing_program && class == ErrorClass::Crashed;
            Some((if is_missing { ErrorClass::Unavailable } else { class }, message))
        } else {
            failure
        };
        report.exit = Some(self.exit);
        report.add_leftovers(self.leftovers);
        let Some((class, mut message)) = failure else { return Ok(report) };
        if let Some(hint) = self.hint {
            message.push_str(": ");
            message.push_str(hint);
        }
        let stderr = self.stderr.trim();
        if !stderr.is_empty() && class != ErrorClass::Cancelled {
            message.push_str("; its standard error: ");
            message.push_str(stderr);
        }
        report.final_text = None;
        Err(AgentError::new(class, message).with_report(report))
    }
}
