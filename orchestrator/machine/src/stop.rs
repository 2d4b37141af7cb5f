//! Why a run stops: one table, from which everything else that knows of stop reasons reads.

use serde::{Deserialize, Serialize};

use super::limits::Limit;
use super::resume_blocker::ResumeBlocker;
use super::state::State;

/// Why a run stopped, for good or until it is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The completion was claimed, validated and latched.
    Completed,
    /// `limits.max_iterations`.
    MaxIterations,
    /// `limits.max_runtime`.
    MaxRuntime,
    /// `limits.max_cost_usd`.
    MaxCost,
    /// `limits.max_tokens`.
    MaxTokens,
    /// `limits.max_failures`.
    Failures,
    /// `limits.max_stagnant`.
    Stagnation,
    /// `limits.max_rejections`.
    Thrashing,
    /// `initializer.max_attempts`.
    InitFailed,
    /// The initializer's products are there, and the run was for nothing else: the backlog is worked next.
    Initialized,
    /// Asked for, or blocked: not logged in, out of credit, a wait longer than allowed.
    NeedsHuman,
    /// The agent cannot be started.
    AgentUnavailable,
    /// A check accepts the unchanged workspace, which `completion.baseline` does not allow.
    Baseline,
    /// A signal or `stop`; the run can be resumed.
    Interrupted,
    /// `run --once`: its one iteration is over.
    Once,
}

/// The meaning of a stop for the caller: it decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// What was to be done is done.
    Done,
    /// The iteration that was asked for is over, however it ended.
    Once,
    /// A limit is reached, or the work leads nowhere.
    Limit,
    /// A person is needed.
    Human,
    /// The configuration does not allow the run.
    Refused,
    /// The agent cannot be started.
    Unavailable,
    /// It was asked to stop.
    Interrupted,
}

/// A row of the table of stop reasons.
struct StopRow {
    /// The stable word, as in the journal and every output.
    word: &'static str,
    kind: StopKind,
    /// What keeps a run that stopped for it from being resumed.
    blocker: fn(&State) -> ResumeBlocker,
}

impl StopReason {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Completed,
        Self::MaxIterations,
        Self::MaxRuntime,
        Self::MaxCost,
        Self::MaxTokens,
        Self::Failures,
        Self::Stagnation,
        Self::Thrashing,
        Self::InitFailed,
        Self::Initialized,
        Self::NeedsHuman,
        Self::AgentUnavailable,
        Self::Baseline,
        Self::Interrupted,
        Self::Once,
    ];

    /// Returns its row of the table.
    const fn row(self) -> StopRow {
        let (word, kind, blocker): (_, _, fn(&State) -> ResumeBlocker) = match self {
            Self::Completed => ("completed", StopKind::Done, |_| ResumeBlocker::Nothing),
            Self::MaxIterations => {
                ("max_iterations", StopKind::Limit, |state| state.budget_blocker(Limit::Iterations))
            }
            Self::MaxRuntime => {
                ("max_runtime", StopKind::Limit, |state| state.budget_blocker(Limit::Runtime))
            }
            Self::MaxCost => {
                ("max_cost", StopKind::Limit, |state| state.budget_blocker(Limit::Cost))
            }
            Self::MaxTokens => {
                ("max_tokens", StopKind::Limit, |state| state.budget_blocker(Limit::Tokens))
            }
            Self::Failures => ("failures", StopKind::Limit, |_| ResumeBlocker::Failures),
            Self::Stagnation => ("stagnation", StopKind::Limit, |_| ResumeBlocker::Stagnation),
            Self::Thrashing => ("thrashing", StopKind::Limit, State::thrashing_blocker),
            Self::InitFailed => ("init_failed", StopKind::Limit, |state| {
                ResumeBlocker::Products(state.initializer.missing.clone())
            }),
            Self::Initialized => ("initialized", StopKind::Done, |_| ResumeBlocker::Nothing),
            Self::NeedsHuman => ("needs_human", StopKind::Human, State::human_blocker),
            Self::AgentUnavailable => {
                ("agent_unavailable", StopKind::Unavailable, State::unavailable_blocker)
            }
            Self::Baseline => ("baseline", StopKind::Refused, |_| ResumeBlocker::Baseline),
            Self::Interrupted => ("interrupted", StopKind::Interrupted, |_| ResumeBlocker::Nothing),
            Self::Once => ("once", StopKind::Once, |_| ResumeBlocker::Nothing),
        };
        StopRow { word, kind, blocker }
    }

    /// Returns the stable word, as in the journal and every output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        self.row().word
    }

    /// Returns what it means for the caller.
    #[must_use]
    pub const fn kind(self) -> StopKind {
        self.row().kind
    }

    /// Returns the limit on what the run may use that is used up.
    #[must_use]
    pub fn budget(self) -> Option<Limit> {
        Limit::budgets().map(|(limit, _)| limit).find(|limit| limit.stop_reason() == self)
    }

    /// Returns what keeps a run in this state, which stopped for it, from being resumed.
    pub(super) fn blocker(self, state: &State) -> ResumeBlocker {
        (self.row().blocker)(state)
    }
}

/// Why and how the run stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// For people.
    pub message: String,
}

impl Stop {
    pub(super) fn new(reason: StopReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of the journal are made from the names of the variants.
    #[test]
    fn the_table_has_every_reason_and_its_word_in_the_journal() {
        let unknown = serde_json::from_str::<StopReason>("\"?\"").unwrap_err().to_string();
        let known: Vec<&str> = unknown.split('`').skip(3).step_by(2).collect();
        assert_eq!(StopReason::ALL.map(StopReason::word).to_vec(), known);
    }
}
