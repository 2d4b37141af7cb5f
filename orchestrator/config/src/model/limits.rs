//! `[limits]`.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::max_wait::MaxWait;
use crate::model::units;
use ralph_orchestrator_contract::Usd;

/// The bounds of a run. Durations are written as text such as `2h 30m`, a limit that is off as
/// "none", in JSON as null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Iterations of the run. "none" is no limit, allowed only with `max_runtime` or `max_cost_usd`.
    #[serde(deserialize_with = "units::count_or_none")]
    #[schemars(schema_with = "units::count_or_none_schema")]
    pub max_iterations: Option<u64>,
    /// Wall time of the run, restarts included, without the time it was down, suspended, paused or waiting for the
    /// provider. "none" is no limit.
    #[serde(with = "units::duration_or_none")]
    #[schemars(schema_with = "units::duration_or_none_schema")]
    pub max_runtime: Option<Duration>,
    /// US dollars that the run may cost. "none" is no limit.
    #[serde(deserialize_with = "units::usd_or_none")]
    #[schemars(schema_with = "units::usd_or_none_schema")]
    pub max_cost_usd: Option<Usd>,
    /// Tokens of all kinds together that the run may use. "none" is no limit.
    #[serde(deserialize_with = "units::count_or_none")]
    #[schemars(schema_with = "units::count_or_none_schema")]
    pub max_tokens: Option<u64>,
    /// Wall time of one iteration. "none" is no limit.
    #[serde(with = "units::duration_or_longest")]
    #[schemars(schema_with = "units::duration_or_none_schema")]
    pub iteration_timeout: Duration,
    /// Time in an iteration without any output or event; twice that while the agent's processes use the
    /// processor or have a network connection open. "none" is no limit.
    #[serde(with = "units::duration_or_longest")]
    #[schemars(schema_with = "units::duration_or_none_schema")]
    pub idle_timeout: Duration,
    /// Failed iterations in a row. "none" is no limit.
    #[serde(deserialize_with = "units::small_count_or_none")]
    #[schemars(schema_with = "units::count_or_none_schema")]
    pub max_failures: Option<u32>,
    /// Iterations in a row without any progress. "none" is no limit.
    #[serde(deserialize_with = "units::small_count_or_none")]
    #[schemars(schema_with = "units::count_or_none_schema")]
    pub max_stagnant: Option<u32>,
    /// Rejections of one and the same workspace tree. "none" is no limit.
    #[serde(deserialize_with = "units::small_count_or_none")]
    #[schemars(schema_with = "units::count_or_none_schema")]
    pub max_rejections: Option<u32>,
    /// How long the run waits for its provider, without a session that worked between the waits. Waits are no iterations,
    /// no failures and no runtime. "until reset" waits as long as the provider says, where it says so; "none" is no limit.
    pub max_wait: MaxWait,
    /// For each rate window of the provider, by its name, the percentage at which no further iteration begins: the run waits
    /// until the window is reset, within `max_wait`. An agent names its windows in `status`: `five_hour`, `weekly` and others.
    pub max_window: BTreeMap<String, u8>,
}

impl Default for Limits {
    fn default() -> Self {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        Self {
            max_iterations: Some(100),
            max_runtime: Some(Duration::from_secs(4 * HOUR)),
            max_cost_usd: Some(Usd::from_nanos(50_000_000_000)),
            max_tokens: None,
            iteration_timeout: Duration::from_secs(30 * MINUTE),
            idle_timeout: Duration::from_secs(15 * MINUTE),
            max_failures: Some(5),
            max_stagnant: Some(10),
            max_rejections: Some(3),
            max_wait: MaxWait::default(),
            max_window: BTreeMap::new(),
        }
    }
}
