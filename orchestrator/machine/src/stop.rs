//! Why a run stops: one table, from which everything else that knows of stop reasons reads.

use serde::{Deserialize, Serialize};

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
    /// `[budget]`: what all runs of the user together may use, for longer than the run may wait.
    Budget,
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
    /// A limit is reached.
    Limit,
    /// The work leads nowhere.
    Stuck,
    /// A person is needed.
    Human,
    /// The configuration does not allow the run.
    Refused,
    /// The agent cannot be started.
    Unavailable,
    /// It was asked to stop.
    Interrupted,
}

impl StopReason {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Completed,
        Self::MaxIterations,
        Self::MaxRuntime,
        Self::MaxCost,
        Self::MaxTokens,
        Self::Budget,
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

    /// Returns its row of the table: the stable word, as in the journal and every output, and its meaning.
    const fn row(self) -> (&'static str, StopKind) {
        match self {
            Self::Completed => ("completed", StopKind::Done),
            Self::MaxIterations => ("max_iterations", StopKind::Limit),
            Self::MaxRuntime => ("max_runtime", StopKind::Limit),
            Self::MaxCost => ("max_cost", StopKind::Limit),
            Self::MaxTokens => ("max_tokens", StopKind::Limit),
            Self::Budget => ("budget", StopKind::Limit),
            Self::Failures => ("failures", StopKind::Limit),
            Self::Stagnation => ("stagnation", StopKind::Stuck),
            Self::Thrashing => ("thrashing", StopKind::Stuck),
            Self::InitFailed => ("init_failed", StopKind::Limit),
            Self::Initialized => ("initialized", StopKind::Done),
            Self::NeedsHuman => ("needs_human", StopKind::Human),
            Self::AgentUnavailable => ("agent_unavailable", StopKind::Unavailable),
            Self::Baseline => ("baseline", StopKind::Refused),
            Self::Interrupted => ("interrupted", StopKind::Interrupted),
            Self::Once => ("once", StopKind::Once),
        }
    }

    /// Returns the stable word, as in the journal and every output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        self.row().0
    }

    /// Returns what it means for the caller.
    #[must_use]
    pub const fn kind(self) -> StopKind {
        self.row().1
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
