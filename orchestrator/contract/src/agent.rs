//! Agents.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{AgentError, EventSink, Report, Usd};

/// Who an agent is and what it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Description {
    /// The adapter's name, as in `[agent] adapter`.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// The agent's program, resolved, if there is one.
    pub program: Option<PathBuf>,
    /// The model that is asked for, if one is configured: prices are looked up by it.
    pub model: Option<String>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Environment variables it wants from the orchestrator's own environment in a clean one.
    pub wants_env: Vec<String>,
    /// Prefixes of environment variables that it must not inherit, unless they are passed by name.
    pub strips_env: Vec<String>,
}

/// What an agent reports and understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools)]
pub struct Capabilities {
    /// Reports cost in dollars.
    pub cost: bool,
    /// Reports tokens.
    pub tokens: bool,
    /// Reports how full its context is.
    pub context: bool,
    /// Reports how much of its provider's rate windows is used.
    pub rate_windows: bool,
    /// Reports the tools it calls.
    pub tool_calls: bool,
    /// Can be interrupted without being killed.
    pub interrupt: bool,
    /// Ends its session in good order, with notes for the next, when its context gets full.
    pub handoff: bool,
    /// Has its claims validated while its session goes on.
    pub in_session_validation: bool,
    /// Can continue an earlier session.
    pub resume: bool,
    /// Costs nothing.
    pub free: bool,
}

/// What is left to spend; `None` is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Money.
    pub cost: Option<Usd>,
    /// Tokens of all kinds together.
    pub tokens: Option<u64>,
    /// Wall time.
    pub time: Option<Duration>,
}

/// The task of one iteration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Iteration {
    /// The run's id.
    pub run: String,
    /// Its number, from 1.
    pub number: u64,
    /// The prompt, byte for byte what the agent shall read.
    pub prompt: Vec<u8>,
    /// Where the agent works: absolute, without links.
    pub workspace: PathBuf,
    /// The complete environment for the agent's process.
    pub env: BTreeMap<String, String>,
    /// What it may spend; the orchestrator watches too.
    pub budget: Budget,
    /// A private folder for this iteration, outside the workspace, which exists.
    pub scratch: PathBuf,
}

/// What an agent's process is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Launch {
    /// The program, resolved.
    pub program: Option<PathBuf>,
    /// Its arguments. The prompt stands as `{prompt}` in them, and what is left of the run's budget as
    /// `{budget}`, and the iteration's private folder as `{scratch}`: they differ by their nature.
    pub argv: Vec<String>,
    /// Its whole environment; none if it is the task's own.
    pub env: BTreeMap<String, String>,
}

impl Launch {
    /// What stands for the prompt among the arguments.
    pub const PROMPT: &'static str = "{prompt}";
    /// What stands for the iteration's private folder among the arguments.
    pub const SCRATCH: &'static str = "{scratch}";
    /// What stands for the rest of a budget among the arguments.
    pub const BUDGET: &'static str = "{budget}";
}

/// Drives one kind of agent.
///
/// When [`run`](Agent::run) returns, every process that the agent started is gone, whatever the
/// outcome; one that could not be ended is named in [`Report::survived`]. When the returned future is
/// dropped, they are ended too.
#[async_trait]
pub trait Agent: Send + Sync {
    /// Name, program, capabilities. Cheap, and always the same.
    fn describe(&self) -> Description;

    /// Looks whether the agent is there and would start, without spending anything. `env` is the
    /// environment that an iteration would get. Says what was found, such as a version.
    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError>;

    /// What [`run`](Agent::run) would start for this task, from the same source; `None` if that is not
    /// known or nothing is started. Does nothing.
    fn launch(&self, _task: &Iteration) -> Option<Launch> {
        None
    }

    /// Runs one iteration with a fresh session.
    ///
    /// # Errors
    /// Any ending but a good one, with its class. Once `events.cancelled()` resolves, the agent has
    /// to be ended and the error's class is [`Cancelled`](super::ErrorClass::Cancelled).
    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError>;
}

/// An agent whose kind was chosen when it was built.
#[async_trait]
impl<A: Agent + ?Sized> Agent for Box<A> {
    fn describe(&self) -> Description {
        (**self).describe()
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        (**self).check(env).await
    }

    fn launch(&self, task: &Iteration) -> Option<Launch> {
        (**self).launch(task)
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        (**self).run(task, events).await
    }
}
