//! Why a run stops.

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

impl StopReason {
    /// Returns the stable word, as in the journal and every output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxIterations => "max_iterations",
            Self::MaxRuntime => "max_runtime",
            Self::MaxCost => "max_cost",
            Self::MaxTokens => "max_tokens",
            Self::Failures => "failures",
            Self::Stagnation => "stagnation",
            Self::Thrashing => "thrashing",
            Self::InitFailed => "init_failed",
            Self::Initialized => "initialized",
            Self::NeedsHuman => "needs_human",
            Self::AgentUnavailable => "agent_unavailable",
            Self::Baseline => "baseline",
            Self::Interrupted => "interrupted",
            Self::Once => "once",
        }
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
