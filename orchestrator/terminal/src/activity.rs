//! What the run is doing at the moment, so that a signal can be answered with what really happens.

use std::sync::atomic::{AtomicU8, Ordering};

use ralph_orchestrator_engine::RunEvent;

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Between everything else, such as while the workspace is scanned.
    Between = 0,
    /// The agent works.
    Agent = 1,
    /// Validators work, and no agent does.
    Validators = 2,
    /// Nothing runs: a pause, or a wait for the provider.
    Waiting = 3,
    /// The setup of the workspace runs.
    Setup = 4,
    /// The work is accepted, and validators show what made them accept it.
    Explaining = 5,
}

static NOW: AtomicU8 = AtomicU8::new(0);

impl Activity {
    /// Returns the current activity.
    pub fn now() -> Self {
        match NOW.load(Ordering::Relaxed) {
            1 => Self::Agent,
            2 => Self::Validators,
            3 => Self::Waiting,
            4 => Self::Setup,
            5 => Self::Explaining,
            _ => Self::Between,
        }
    }

    /// Makes this the current activity, where there is no run.
    pub fn begin(self) {
        NOW.store(self as u8, Ordering::Relaxed);
    }

    /// Updates the activity by an event of the run.
    pub fn update(notice: &RunEvent) {
        if let Some(next) = Self::now().after(notice) {
            NOW.store(next as u8, Ordering::Relaxed);
        }
    }

    const fn after(self, notice: &RunEvent) -> Option<Self> {
        match notice {
            RunEvent::IterationStarted { .. } => Some(Self::Agent),
            RunEvent::SetupStarted { .. } => Some(Self::Setup),
            RunEvent::Explaining { .. } => Some(Self::Explaining),
            // During an in-session validation, or its own wait, the agent stays active.
            RunEvent::Validating { .. } if !matches!(self, Self::Agent) => Some(Self::Validators),
            RunEvent::Paused { .. } | RunEvent::Waiting { .. } | RunEvent::PauseBegan { .. }
                if !matches!(self, Self::Agent) =>
            {
                Some(Self::Waiting)
            }
            RunEvent::IterationFinished { .. }
            | RunEvent::Verdict { .. }
            | RunEvent::Baseline { .. }
            | RunEvent::Explained { .. }
            | RunEvent::Changes { .. }
            | RunEvent::Saved { .. }
            | RunEvent::RunFinished { .. } => Some(Self::Between),
            _ => None,
        }
    }

    /// Returns the message on the first stop request.
    pub const fn stopping(self) -> &'static str {
        match self {
            Self::Between => "stopping as soon as the workspace is scanned",
            Self::Agent => "stopping: interrupting the agent",
            Self::Validators => "stopping: ending the validators, whose verdict is discarded",
            Self::Waiting => "stopping: the wait is cancelled",
            Self::Setup => "stopping: ending the setup of the workspace",
            Self::Explaining => {
                "stopping: the work is accepted, and what made the checks green is no longer looked for"
            }
        }
    }

    /// Returns the message on the second stop request.
    pub const fn killing(self) -> &'static str {
        match self {
            Self::Between | Self::Waiting => "stopping at once",
            Self::Agent => "killing the agent at once",
            Self::Setup => "killing the setup at once",
            Self::Validators | Self::Explaining => "killing the validators at once",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validating() -> RunEvent {
        RunEvent::Validating { iteration: 1, validators: Vec::new() }
    }

    #[test]
    fn validators_count_only_while_no_agent_works() {
        assert_eq!(Activity::Between.after(&validating()), Some(Activity::Validators));
        assert_eq!(Activity::Agent.after(&validating()), None);
        let waiting = RunEvent::Paused { iteration: 1, ms: 1 };
        assert_eq!(Activity::Between.after(&waiting), Some(Activity::Waiting));
        assert_eq!(Activity::Agent.after(&waiting), None);
    }
}
