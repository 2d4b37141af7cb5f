//! `[backlog]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::strict::StrictEnum;

/// A list of items that is worked, each in a run of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacklogConfig {
    /// The format's name.
    pub kind: String,
    /// The file, relative to the workspace.
    pub path: PathBuf,
    /// Which item comes first; `None` is the order of the format.
    pub order: Option<BacklogOrder>,
    /// What becomes of an item that the agent itself marks as completed.
    pub agent_completions: AgentCompletions,
}

/// The order in which items are worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BacklogOrder {
    /// Items in progress, then the highest priority.
    InProgressThenHighest,
    /// The lowest priority, then the lowest id.
    LowestThenId,
    /// The lowest priority.
    Lowest,
    /// As the file has them.
    File,
}

impl StrictEnum for BacklogOrder {
    const WORDS: &'static [&'static str] =
        &["in_progress_then_highest", "lowest_then_id", "lowest", "file"];
    const VALUES: &'static [Self] =
        &[Self::InProgressThenHighest, Self::LowestThenId, Self::Lowest, Self::File];
}

/// What becomes of an item that the agent itself marks as completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentCompletions {
    /// It gets its former status back.
    #[default]
    Revert,
    /// It stays completed.
    Keep,
}

impl StrictEnum for AgentCompletions {
    const WORDS: &'static [&'static str] = &["revert", "keep"];
    const VALUES: &'static [Self] = &[Self::Revert, Self::Keep];
}
