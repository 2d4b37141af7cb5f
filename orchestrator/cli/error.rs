//! The one place where kinds of errors become exit statuses and hints.

use std::error::Error;
use std::io;

use ralph_orchestrator_config::ConfigErrors;
use ralph_orchestrator_core::engine::EngineError;
use ralph_orchestrator_core::machine::StopReason;
use ralph_orchestrator_core::store::StateError;
use ralph_orchestrator_core::workspace::PromptError;

use crate::render::config_errors;
use crate::render::text::escape;

/// Exit statuses, as documented.
pub(crate) mod exit {
    pub(crate) const OK: u8 = 0;
    pub(crate) const LIMIT: u8 = 1;
    pub(crate) const HUMAN: u8 = 2;
    pub(crate) const USAGE: u8 = 64;
    pub(crate) const DAMAGED: u8 = 65;
    pub(crate) const UNAVAILABLE: u8 = 69;
    pub(crate) const INTERNAL: u8 = 70;
    pub(crate) const BUSY: u8 = 75;
    pub(crate) const CONFIG: u8 = 78;
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// The exit status of a run that ended for this reason; `interrupted` is that of the signal.
pub(crate) const fn of_stop(reason: StopReason, ended_well: bool, interrupted: u8) -> u8 {
    match reason {
        StopReason::Completed => exit::OK,
        StopReason::Once if ended_well => exit::OK,
        StopReason::Once
        | StopReason::MaxIterations
        | StopReason::MaxRuntime
        | StopReason::MaxCost
        | StopReason::MaxTokens
        | StopReason::Failures
        | StopReason::Stagnation
        | StopReason::Thrashing => exit::LIMIT,
        StopReason::NeedsHuman => exit::HUMAN,
        StopReason::AgentUnavailable => exit::UNAVAILABLE,
        StopReason::Interrupted => interrupted,
    }
}

/// What kind of problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Usage,
    Config,
    Damaged,
    Busy,
    Unavailable,
    Internal,
}

/// A command failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: Kind,
    error: Box<dyn Error + Send + Sync>,
    hints: Vec<String>,
}

impl CommandError {
    fn new(kind: Kind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, error: error.into(), hints: Vec::new() }
    }

    /// The user asked for something that cannot be done.
    pub(crate) fn user(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message.into())
    }

    /// Something in the configuration cannot be.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Kind::Config, message.into())
    }

    /// Something that a run needs is not there.
    pub(crate) fn unavailable(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Kind::Unavailable, error)
    }

    /// Something is wrong that should not be.
    pub(crate) fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Kind::Internal, error)
    }

    pub(crate) fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) const fn code(&self) -> u8 {
        match self.kind {
            Kind::Usage => exit::USAGE,
            Kind::Config => exit::CONFIG,
            Kind::Damaged => exit::DAMAGED,
            Kind::Busy => exit::BUSY,
            Kind::Unavailable => exit::UNAVAILABLE,
            Kind::Internal => exit::INTERNAL,
        }
    }

    /// The message, for a terminal or not.
    pub(crate) fn render(&self, colour: bool) -> String {
        let mut text = match self.error.downcast_ref::<ConfigErrors>() {
            Some(errors) => config_errors::render(errors, colour),
            // Programs have their say in it.
            None => format!("error: {}", escape(&self.error.to_string())),
        };
        for hint in &self.hints {
            text = format!("{}\nhint: {hint}", text.trim_end());
        }
        text.trim_end().to_owned()
    }
}

impl From<ConfigErrors> for CommandError {
    fn from(error: ConfigErrors) -> Self {
        Self::new(Kind::Config, error)
    }
}

impl From<StateError> for CommandError {
    fn from(error: StateError) -> Self {
        let (kind, hint) = match &error {
            StateError::Busy { .. } => {
                (Kind::Busy, "wait for it, or end it with `ralph-orchestrator stop`")
            }
            StateError::Nested { .. } => (
                Kind::Busy,
                "an agent cannot start a run in the workspace that it works in; another one can be",
            ),
            StateError::AgentsLeft { .. } | StateError::OrphansLeft { .. } => {
                (Kind::Busy, "look for its processes and end them")
            }
            StateError::Exposed { .. } => (Kind::Config, "nothing was started"),
            StateError::Foreign { .. } => (
                Kind::Config,
                "name another folder in `state.dir`; if the configuration or the workspace was moved, \
                 put it back",
            ),
            StateError::Elsewhere { .. } => {
                (Kind::Config, "put it back to resume that run; `run --restart` begins a new one")
            }
            StateError::Damaged { .. } => (
                Kind::Damaged,
                "nothing was started; `ralph-orchestrator reset` deletes the run state",
            ),
            StateError::Io { .. } => (
                Kind::Internal,
                "free disk space or fix permissions, then run again: nothing that was recorded is lost",
            ),
        };
        Self::new(kind, error).hinted(hint)
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Config(errors) => errors.into(),
            EngineError::State(error) => error.into(),
            EngineError::Agent { .. } => Self::new(Kind::Unavailable, error)
                .hinted("`ralph-orchestrator doctor` checks everything that a run needs"),
            EngineError::Exchanged(_) => {
                Self::new(Kind::Damaged, error).hinted("nothing was started in it")
            }
            EngineError::Prompt(PromptError::Link { .. } | PromptError::HardLink { .. }) => {
                Self::new(Kind::Damaged, error).hinted(
                    "nothing was read through it; put the file itself back, or, if the exchange is \
                     meant, begin a new run with `run --restart`",
                )
            }
            EngineError::Prompt(_) | EngineError::Workspace(_) => Self::new(Kind::Config, error),
            EngineError::Tree(_) | EngineError::Internal(_) => Self::new(Kind::Internal, error),
        }
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::new(Kind::Internal, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_reason_has_the_documented_status() {
        let of = |reason| of_stop(reason, true, 143);
        assert_eq!(of(StopReason::Completed), 0);
        assert_eq!(of(StopReason::Once), 0);
        assert_eq!(of_stop(StopReason::Once, false, 130), 1);
        for reason in [
            StopReason::MaxIterations,
            StopReason::MaxRuntime,
            StopReason::MaxCost,
            StopReason::MaxTokens,
            StopReason::Failures,
            StopReason::Stagnation,
            StopReason::Thrashing,
        ] {
            assert_eq!(of(reason), 1, "{}", reason.word());
        }
        assert_eq!(of(StopReason::NeedsHuman), 2);
        assert_eq!(of(StopReason::AgentUnavailable), 69);
        assert_eq!(of(StopReason::Interrupted), 143);
    }
}
