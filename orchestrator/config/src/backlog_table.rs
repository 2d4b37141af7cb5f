//! `[backlog]`, as the file has it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use ralph_orchestrator_contract::Usd;

use crate::model::units::{self, CountOrAuto};
use crate::model::{AgentCompletions, BacklogConfig, BacklogLabels, BacklogOrder};
use crate::strict;

/// The list of items that is worked, each in a run of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Backlog")]
pub(crate) struct BacklogTable {
    /// The format: "json" (feature-list.json, prd.json, feature_list.json), "sqlite" (features.db) or
    /// "plan-md" (checkboxes of plan.md, IMPLEMENTATION_PLAN.md, fix_plan.md), or the name of a plugin; or the tracker
    /// "github" or "gitlab", whose issues are read and written by the programs `gh` and `glab`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) kind: Option<String>,
    /// The file, relative to the workspace and inside it. A tracker has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", extend("minLength" = 1))]
    pub(crate) path: Option<PathBuf>,
    /// Of a tracker: the repository, such as "acme/widgets", "host/acme/widgets" or its address. Without it, the one that
    /// the tracker's program finds in the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) repository: Option<String>,
    /// Of a tracker: open issues with this label are items. "ralph" by default. Whoever can give an issue this label
    /// decides what the agent is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) label: Option<String>,
    /// Of a tracker: the labels of the statuses, which are created if they are missing.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional")]
    #[schemars(with = "BacklogLabels")]
    pub(crate) labels: Option<BacklogLabels>,
    /// Which item comes first. Without it, the order of the format: "in_progress_then_highest" (items in
    /// progress, then the highest priority), "lowest_then_id", "lowest" (the lowest priority) or "file". Issues come by their
    /// number.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional")]
    #[schemars(with = "BacklogOrder")]
    pub(crate) order: Option<BacklogOrder>,
    /// What becomes of an item that the agent itself marks as completed: "revert" restores its status, so
    /// that only validated work is completed; "keep" takes the agent's word for it.
    pub(crate) agent_completions: AgentCompletions,
    /// Iterations that an item may use. One that is not complete by then is blocked, and the work goes on with
    /// the others. "auto" is a tenth of `limits.max_iterations`, at least 10, and at most half of what is left, as
    /// long as another item can be worked on. "none" is no limit but that of all items together.
    #[schemars(schema_with = "units::count_or_auto_schema")]
    pub(crate) max_item_iterations: CountOrAuto,
    /// US dollars that an item may cost; then it is blocked. "none" is no limit but that of all items together.
    #[serde(deserialize_with = "units::usd_or_none")]
    #[schemars(schema_with = "units::usd_or_none_schema")]
    pub(crate) max_item_cost_usd: Option<Usd>,
    /// A further check that every item has to pass: a program and its arguments, in which `{item}` is the item's id, and
    /// `{verify}` its own command line, such as `["sh", "-c", "{verify}"]`; an item without one has no such check.
    /// Files of the workspace that it names are protected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub(crate) check: Vec<String>,
}

impl BacklogTable {
    /// Returns whether the file says nothing of a backlog.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&BacklogConfig> for BacklogTable {
    fn from(config: &BacklogConfig) -> Self {
        Self {
            kind: Some(config.kind.clone()),
            path: config.path.clone(),
            repository: config.tracker.repository.clone(),
            label: config.tracker.label.clone(),
            labels: config.tracker.labels.clone(),
            order: config.order,
            agent_completions: config.agent_completions,
            max_item_iterations: config.max_item_iterations,
            max_item_cost_usd: config.max_item_cost_usd,
            check: config.check.clone(),
        }
    }
}
