//! What the run is doing at the moment, so that a signal can be answered with what really happens.

use std::sync::atomic::{AtomicU8, Ordering};

use ralph_orchestrator_core::engine::Notice;

/// What goes on in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Between everything else, such as while the workspace is scanned.
    Between = 0,
    /// The agent works.
    Agent = 1,
    /// Validators work, and no agent does.
    Validators = 2,
    /// Nothing runs: a pause, or a wait for the provider.
    Waiting = 3,
}

static NOW: AtomicU8 = AtomicU8::new(0);

impl Activity {
    /// What goes on now.
    pub(crate) fn now() -> Self {
        match NOW.load(Ordering::Relaxed) {
            1 => Self::Agent,
            2 => Self::Validators,
            3 => Self::Waiting,
            _ => Self::Between,
        }
    }

    /// Takes in what happened in the run.
    pub(crate) fn follow(notice: &Notice) {
        if let Some(next) = Self::now().after(notice) {
            NOW.store(next as u8, Ordering::Relaxed);
        }
    }

    const fn after(self, notice: &Notice) -> Option<Self> {
        match notice {
            Notice::IterationStarted { .. } => Some(Self::Agent),
            // An agent that asks for a preview goes on meanwhile, and so does one that waits itself.
            Notice::Validating { .. } if !matches!(self, Self::Agent) => Some(Self::Validators),
            Notice::Paused { .. } | Notice::Waiting { .. } if !matches!(self, Self::Agent) => {
                Some(Self::Waiting)
            }
            Notice::IterationFinished { .. }
            | Notice::Verdict { .. }
            | Notice::Baseline { .. }
            | Notice::Changes { .. }
            | Notice::RunFinished { .. } => Some(Self::Between),
            _ => None,
        }
    }

    /// What the first request to stop leads to.
    pub(crate) const fn stopping(self) -> &'static str {
        match self {
            Self::Between => "stopping as soon as the workspace is scanned",
            Self::Agent => "stopping: the agent is asked to end",
            Self::Validators => "stopping: the validators are ended, their verdict does not count",
            Self::Waiting => "stopping: the wait is broken off",
        }
    }

    /// What the second one leads to.
    pub(crate) const fn killing(self) -> &'static str {
        match self {
            Self::Between | Self::Waiting => "stopping at once",
            Self::Agent => "killing the agent at once",
            Self::Validators => "killing the validators at once",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validating() -> Notice {
        Notice::Validating { iteration: 1, validators: Vec::new() }
    }

    #[test]
    fn validators_count_only_while_no_agent_works() {
        assert_eq!(Activity::Between.after(&validating()), Some(Activity::Validators));
        assert_eq!(Activity::Agent.after(&validating()), None);
        let waiting = Notice::Paused { iteration: 1, ms: 1 };
        assert_eq!(Activity::Between.after(&waiting), Some(Activity::Waiting));
        assert_eq!(Activity::Agent.after(&waiting), None);
    }
}
