//! How an iteration ended.

use ralph_orchestrator_contract::{CancelReason, ErrorClass};
use serde::{Deserialize, Serialize};

/// How an iteration ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum IterationOutcome {
    /// The agent ended well.
    Succeeded,
    /// The agent failed.
    Failed {
        /// The class of the failure.
        #[serde(flatten)]
        class: ErrorClass,
        /// For people.
        message: String,
    },
    /// The provider refuses requests for now: the iteration will be tried again.
    Deferred {
        /// The class of the failure; says until when, if the provider did.
        #[serde(flatten)]
        class: ErrorClass,
        /// For people.
        message: String,
    },
    /// The orchestrator stopped it.
    StoppedEarly {
        /// Why.
        reason: CancelReason,
    },
    /// The agent's own limit on turns or budget ended it.
    AgentLimit {
        /// For people.
        message: String,
    },
    /// The orchestrator died before the end was known.
    Interrupted,
}

impl IterationOutcome {
    /// Returns the outcome of an iteration that ended with an error.
    #[must_use]
    pub const fn from_error(class: ErrorClass, message: String) -> Self {
        match class {
            ErrorClass::RateLimited { .. } | ErrorClass::Overloaded => {
                Self::Deferred { class, message }
            }
            ErrorClass::AgentLimit => Self::AgentLimit { message },
            ErrorClass::Unauthenticated
            | ErrorClass::Billing
            | ErrorClass::InvalidRequest
            | ErrorClass::NotFound
            | ErrorClass::ContextExceeded
            | ErrorClass::Crashed
            | ErrorClass::TimedOut
            | ErrorClass::Cancelled
            | ErrorClass::Unavailable => Self::Failed { class, message },
        }
    }

    /// Returns the error class of a failed or deferred iteration.
    #[must_use]
    pub const fn error_class(&self) -> Option<&ErrorClass> {
        match self {
            Self::Failed { class, .. } | Self::Deferred { class, .. } => Some(class),
            _ => None,
        }
    }

    /// Returns why the orchestrator stopped the iteration early, if it did.
    #[must_use]
    pub const fn cancel_reason(&self) -> Option<CancelReason> {
        match self {
            Self::StoppedEarly { reason } => Some(*reason),
            _ => None,
        }
    }

    /// Returns when a deferred iteration may be tried again, in milliseconds since the Unix epoch, if
    /// the provider said so.
    #[must_use]
    pub const fn retry_at_ms(&self) -> Option<u64> {
        match self {
            Self::Deferred { class: ErrorClass::RateLimited { until_ms }, .. } => *until_ms,
            _ => None,
        }
    }

    /// Returns what the provider said that refuses requests for now, if it does.
    #[must_use]
    pub fn deferral(&self) -> Option<&str> {
        match self {
            Self::Deferred { message, .. } => Some(message),
            _ => None,
        }
    }

    /// Whether the agent worked on its prompt until an end of its own.
    pub(super) const fn is_regular(&self) -> bool {
        matches!(self, Self::Succeeded | Self::AgentLimit { .. })
    }
}
