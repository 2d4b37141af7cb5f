//! When an iteration is handed off to the next.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::units;

/// When an iteration is ended in good order, so that the next one continues with a fresh context. Never
/// by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Handoff {
    /// The share of the context of the last turn, such as 0.7, for agents that report their context;
    /// claude-sdk hands off by itself, at its own `handoff_at`. "none" is never.
    #[serde(deserialize_with = "units::share_or_none")]
    #[schemars(schema_with = "units::share_or_none_schema")]
    pub at: Option<f64>,
    /// How long an iteration may take until then, for agents that do not report their context. "none" is
    /// no bound.
    #[serde(with = "units::duration_or_none")]
    #[schemars(schema_with = "units::duration_or_none_schema")]
    pub after: Option<Duration>,
}

impl Handoff {
    /// Returns the share in thousandths; `None` if it is never.
    #[must_use]
    pub fn per_mille(&self) -> Option<u64> {
        let at = self.at?;
        // What is less than the smallest step is meant, too.
        let share = (1_u16..1000).rev().find(|share| f64::from(*share) <= at * 1000.0 + 1e-9);
        Some(share.map_or(1, u64::from))
    }
}
