//! Agents that print a message a line and are told nothing after their prompt.

use std::time::Duration;

use ralph_orchestrator_contract::{AgentError, Event, Report};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::process_handler::{Actions, EXIT_GRACE, ProcessEnd, ProcessHandler};

/// How often a parser is asked what the agent reports elsewhere.
const POLL: Duration = Duration::from_secs(1);

/// Reads the messages of one kind of agent.
pub trait LineParser: Send {
    /// Returns the events of a line.
    fn line(&mut self, line: &str) -> Vec<Event>;

    /// Returns whether the agent has reported its result: its process should exit by itself now.
    fn is_done(&self) -> bool;

    /// Returns how long the process may take to exit once the agent is done. Some never do.
    fn exit_grace(&self) -> Duration {
        EXIT_GRACE
    }

    /// Returns the events of what the agent reports elsewhere, such as in files of its own. Called about
    /// once a second while it runs, and when it has ended.
    fn poll(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// Returns what the session came to, by the agent's own account. `exit` is for the message if it gave
    /// none.
    ///
    /// # Errors
    /// The agent failed, or gave no account.
    fn account(self, exit: &str) -> Result<Report, AgentError>;
}

/// Joins an agent's account with how its process ended.
type Conclude = fn(Result<Report, AgentError>, ProcessEnd) -> Result<Report, AgentError>;

/// Handles the process of an agent whose lines a [`LineParser`] reads.
pub struct LineHandler<P> {
    parser: P,
    conclude: Conclude,
    /// Created when it is first waited for, since it needs a runtime.
    polls: Option<Interval>,
    actions: Actions,
}

impl<P: LineParser> LineHandler<P> {
    /// Creates a handler with a parser that has read nothing yet.
    #[must_use]
    pub fn new(parser: P) -> Self {
        let conclude: Conclude = |account, end| end.conclude(account);
        Self { parser, conclude, polls: None, actions: Actions::default() }
    }

    /// Has `conclude` join the agent's account with how its process ended.
    #[must_use]
    pub fn concluded_by(self, conclude: Conclude) -> Self {
        Self { conclude, ..self }
    }

    fn limit_exit(&mut self) {
        let grace = self.parser.is_done().then(|| self.parser.exit_grace());
        self.actions.limit_exit(grace);
    }

    fn poll(&mut self) {
        let events = self.parser.poll();
        self.actions.emit_all(events);
        self.limit_exit();
    }
}

impl<P: LineParser> ProcessHandler for LineHandler<P> {
    fn actions(&mut self) -> &mut Actions {
        &mut self.actions
    }

    fn read_line(&mut self, line: String) {
        let events = self.parser.line(&line);
        self.actions.emit(Event::Raw { line });
        self.actions.emit_all(events);
        self.limit_exit();
    }

    fn end_of_output(&mut self) {
        self.poll();
    }

    async fn wait(&mut self) {
        let polls = self.polls.get_or_insert_with(|| {
            let mut polls = interval(POLL);
            polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
            polls
        });
        polls.tick().await;
        self.poll();
    }

    fn is_done(&self) -> bool {
        self.parser.is_done()
    }

    fn finish(self, end: ProcessEnd) -> Result<Report, AgentError> {
        (self.conclude)(self.parser.account(&end.exit), end)
    }
}
