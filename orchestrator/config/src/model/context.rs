//! `[context]`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{size, units};

/// A command whose output is part of what each iteration's agent is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextCommand {
    /// The program and its arguments, run before each attempt at an iteration, as a command of `[hooks]` is. What it prints on
    /// standard output is given to the agent before the prompt. If it fails, no iteration begins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The longest that it may take.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema")]
    pub timeout: Duration,
    /// The most of its output that the agent is given; what is longer is cut at its end. At most "1 MiB".
    #[serde(with = "size")]
    #[schemars(schema_with = "size::schema")]
    pub max_bytes: u64,
}

impl ContextCommand {
    /// The most that `max_bytes` can be.
    pub const LARGEST: u64 = 1 << 20;
}

impl Default for ContextCommand {
    fn default() -> Self {
        Self { command: Vec::new(), timeout: Duration::from_secs(60), max_bytes: 16 << 10 }
    }
}
