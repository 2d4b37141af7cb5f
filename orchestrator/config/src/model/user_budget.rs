//! `[budget]` of the user's own configuration.

use ralph_orchestrator_contract::Usd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::units;
use crate::strict;

/// What all runs of this user together may use, whatever their workspace. A day begins at midnight of local time, a week on Monday.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UserBudget {
    /// US dollars that all runs together may cost.
    #[serde(deserialize_with = "strict::table")]
    pub max_cost_usd: CostBudget,
    /// Tokens of all kinds that all runs together may use.
    #[serde(deserialize_with = "strict::table")]
    pub max_tokens: TokenBudget,
    /// Whether trials of benchmarks count, and are held up, too.
    pub benchmarks: bool,
}

impl UserBudget {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.max_cost_usd == CostBudget::default() && self.max_tokens == TokenBudget::default()
    }
}

/// US dollars for each period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CostBudget {
    /// In a day. "none" is no limit.
    #[serde(deserialize_with = "units::usd_or_none")]
    #[schemars(schema_with = "units::usd_or_none_schema")]
    pub day: Option<Usd>,
    /// In a week. "none" is no limit.
    #[serde(deserialize_with = "units::usd_or_none")]
    #[schemars(schema_with = "units::usd_or_none_schema")]
    pub week: Option<Usd>,
    /// In a month. "none" is no limit.
    #[serde(deserialize_with = "units::usd_or_none")]
    #[schemars(schema_with = "units::usd_or_none_schema")]
    pub month: Option<Usd>,
}

/// Tokens for each period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenBudget {
    /// In a day. "none" is no limit.
    #[serde(deserialize_with = "units::count_or_none")]
    #[schemars(schema_with = "units::count_or_none_schema")]
    pub day: Option<u64>,
    /// In a week. "none" is no limit.
    #[serde(deserialize_with = "units::count_or_none")]
    #[schemars(schema_with = "units::count_or_none_schema")]
    pub week: Option<u64>,
    /// In a month. "none" is no limit.
    #[serde(deserialize_with = "units::count_or_none")]
    #[schemars(schema_with = "units::count_or_none_schema")]
    pub month: Option<u64>,
}
