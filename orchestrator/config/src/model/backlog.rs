//! `[backlog]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use ralph_orchestrator_contract::Usd;

use crate::model::units::CountOrAuto;
use crate::strict::strict_enum;

/// A list of items that is worked, each in a run of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacklogConfig {
    /// The format's name.
    pub kind: String,
    /// The file, relative to the workspace; `None` for a tracker.
    pub path: Option<PathBuf>,
    /// What a tracker's format is given; nothing for a file.
    pub tracker: BacklogTracker,
    /// Which item comes first; `None` is the order of the format.
    pub order: Option<BacklogOrder>,
    /// What becomes of an item that the agent itself marks as completed.
    pub agent_completions: AgentCompletions,
    /// Iterations that an item may use before it is blocked.
    pub max_item_iterations: CountOrAuto,
    /// Dollars that an item may cost before it is blocked.
    pub max_item_cost_usd: Option<Usd>,
    /// A check of each item: program and arguments, in which `{item}` is its id, and `{verify}` its command.
    pub check: Vec<String>,
}

/// Which issues of a tracker are items, and how their statuses are written there. What is `None` is for the format to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BacklogTracker {
    /// The repository.
    pub repository: Option<String>,
    /// The label of the issues that are items.
    pub label: Option<String>,
    /// The labels of their statuses.
    pub labels: Option<BacklogLabels>,
}

/// The labels that say how far an issue has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BacklogLabels {
    /// Of an issue that is worked on.
    pub in_progress: String,
    /// Of one that is complete.
    pub done: String,
    /// Of one that is set aside.
    pub blocked: String,
}

impl Default for BacklogLabels {
    fn default() -> Self {
        Self {
            in_progress: "ralph:in-progress".to_owned(),
            done: "ralph:done".to_owned(),
            blocked: "ralph:blocked".to_owned(),
        }
    }
}

/// What stands for the id of the item in its check.
pub(crate) const ITEM: &str = "{item}";
/// What stands for the command of the item in its check.
pub(crate) const VERIFY: &str = "{verify}";

impl BacklogConfig {
    /// Returns the check of an item with this id and command, which is empty if there is none: one that runs the item's command
    /// is none of an item without a command.
    #[must_use]
    pub fn check_of(&self, item: &str, verify: Option<&str>) -> Vec<String> {
        let needs_command = self.check.iter().any(|word| word.contains(VERIFY));
        if needs_command && verify.is_none() {
            return Vec::new();
        }
        let command = verify.unwrap_or_default();
        // A command may have braces of its own: each word is read once.
        let fill = |word: &String| {
            let parts: Vec<String> =
                word.split(VERIFY).map(|part| part.replace(ITEM, item)).collect();
            parts.join(command)
        };
        self.check.iter().map(fill).collect()
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
