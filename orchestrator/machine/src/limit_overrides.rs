//! Limits that people set while a run is under way. They replace those of the configuration until they are
//! cleared.

use ralph_orchestrator_contract::Usd;
use serde::{Deserialize, Deserializer, Serialize};

use super::control::ControlOrigin;
use super::limits::{Limit, RunLimits};

/// Changes of limits. What is missing stays as it is; `null` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitChanges {
    /// First return to the limits of the configuration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clear: bool,
    /// Iterations.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<Option<u64>>,
    /// Wall time in milliseconds.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_runtime_ms: Option<Option<u64>>,
    /// Money.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<Option<Usd>>,
    /// Tokens of all kinds.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<Option<u64>>,
}

/// Reads a value that is there, `null` included.
fn given<'de, T, D>(value: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(value).map(Some)
}

impl LimitChanges {
    /// Whether nothing would change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A limit that replaces that of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitOverride<T> {
    /// The limit; `None` is no limit.
    pub value: Option<T>,
    /// Who set it.
    pub origin: ControlOrigin,
}

/// The limits that replace those of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitOverrides {
    max_iterations: Option<LimitOverride<u64>>,
    max_runtime_ms: Option<LimitOverride<u64>>,
    max_cost_usd: Option<LimitOverride<Usd>>,
    max_tokens: Option<LimitOverride<u64>>,
}

impl LimitOverrides {
    /// Returns who set this limit; `None` if it is that of the configuration.
    #[must_use]
    pub fn origin(&self, limit: Limit) -> Option<&ControlOrigin> {
        match limit {
            Limit::Iterations => self.max_iterations.as_ref().map(|set| &set.origin),
            Limit::Runtime => self.max_runtime_ms.as_ref().map(|set| &set.origin),
            Limit::Cost => self.max_cost_usd.as_ref().map(|set| &set.origin),
            Limit::Tokens => self.max_tokens.as_ref().map(|set| &set.origin),
            Limit::Failures | Limit::Stagnant | Limit::Rejections | Limit::Wait => None,
        }
    }

    pub(super) fn apply(&mut self, changes: &LimitChanges, origin: &ControlOrigin) {
        if changes.clear {
            *self = Self::default();
        }
        set(&mut self.max_iterations, changes.max_iterations, origin);
        set(&mut self.max_runtime_ms, changes.max_runtime_ms, origin);
        set(&mut self.max_cost_usd, changes.max_cost_usd, origin);
        set(&mut self.max_tokens, changes.max_tokens, origin);
    }

    /// Returns the limits in force, given those of the configuration.
    pub(super) fn over(&self, configured: &RunLimits) -> RunLimits {
        RunLimits {
            max_iterations: value(self.max_iterations.as_ref(), configured.max_iterations),
            max_runtime_ms: value(self.max_runtime_ms.as_ref(), configured.max_runtime_ms),
            max_cost_usd: value(self.max_cost_usd.as_ref(), configured.max_cost_usd),
            max_tokens: value(self.max_tokens.as_ref(), configured.max_tokens),
            ..configured.clone()
        }
    }
}

fn set<T>(place: &mut Option<LimitOverride<T>>, change: Option<Option<T>>, origin: &ControlOrigin) {
    if let Some(value) = change {
        *place = Some(LimitOverride { value, origin: origin.clone() });
    }
}

fn value<T: Copy>(set: Option<&LimitOverride<T>>, configured: Option<T>) -> Option<T> {
    set.map_or(configured, |set| set.value)
}
