//! `escalate_after` and `start` of an agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::strict::strict_enum;

/// What makes a stronger agent take over, whichever is reached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EscalateAfter {
    /// Validations that rejected this agent's work. Those without a verdict do not count.
    #[schemars(range(min = 1))]
    pub rejections: u32,
    /// Iterations in a row without progress, counted as for `limits.max_stagnant`.
    #[schemars(range(min = 1))]
    pub stagnant: u32,
    /// Failed iterations in a row.
    #[schemars(range(min = 1))]
    pub failures: u32,
}

impl EscalateAfter {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for EscalateAfter {
    fn default() -> Self {
        Self { rejections: 2, stagnant: 3, failures: 2 }
    }
}

strict_enum! {
    /// With which agent a new run begins.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum EscalateStart {
        /// The first one.
        Cheapest = "cheapest",
        /// The one that worked last in the run before.
        Last = "last",
    }
}

impl EscalateStart {
    // The signature is serde's.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) const fn is_default(&self) -> bool {
        matches!(self, Self::Cheapest)
    }
}
