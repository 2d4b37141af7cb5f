//! `[backlog]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use ralph_orchestrator_contract::Usd;

use crate::model::units::CountOrAuto;
use crate::strict::strict_enum;

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
    /// Iterations that an item may use before it is blocked.
    pub max_item_iterations: CountOrAuto,
    /// Dollars that an item may cost before it is blocked.
    pub max_item_cost_usd: Option<Usd>,
    /// A check of each item: program and arguments, in which `{item}` is its id.
    pub check: Vec<String>,
}

/// What stands for the id of the item in its check.
pub(crate) const ITEM: &str = "{item}";

impl BacklogConfig {
    /// Returns the check of an item, which is empty if there is none.
    #[must_use]
    pub fn check_of(&self, item: &str) -> Vec<String> {
        self.check.iter().map(|word| word.replace(ITEM, item)).collect()
    }
}

strict_enum! {
    /// The order in which items are worked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum BacklogOrder {
        /// Items in progress, then the highest priority.
        InProgressThenHighest = "in_progress_then_highest",
        /// The lowest priority, then the lowest id.
        LowestThenId = "lowest_then_id",
        /// The lowest priority.
        Lowest = "lowest",
        /// As the file has them.
        File = "file",
    }
}

strict_enum! {
    /// What becomes of an item that the agent itself marks as completed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum AgentCompletions {
        /// It gets its former status back.
        #[default]
        Revert = "revert",
        /// It stays completed.
        Keep = "keep",
    }
}
