//! What observers see of the work on a backlog.

use ralph_orchestrator_backlog::{ItemCounts, ItemPlacement, SetAside};
use ralph_orchestrator_machine::RunUsage;
use ralph_orchestrator_machine::StopReason;
use serde::Serialize;

/// Something that happened between runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum BacklogEvent {
    /// A run of an item begins or is resumed.
    ItemStarted {
        /// The item's id.
        item: String,
        /// Its title.
        title: String,
        /// Its run.
        run: String,
        /// Whether the run had begun before.
        resumed: bool,
        /// The items of the backlog.
        items: ItemCounts,
    },
    /// A run of an item ended, or ended for now.
    ItemFinished {
        /// The item's id.
        item: String,
        /// Its title.
        title: String,
        /// Its run.
        run: String,
        /// Why the run ended; the item is complete if this is `completed`.
        stop_reason: StopReason,
        /// What the run has used.
        usage: RunUsage,
        /// Why the item is not worked on from now on, if it is not.
        #[serde(skip_serializing_if = "Option::is_none")]
        set_aside: Option<SetAside>,
        /// The items of the backlog.
        items: ItemCounts,
    },
    /// The work on an item is on the run's branch, proved there.
    ItemMerged {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
        /// The merged commit.
        commit: String,
    },
    /// An item that was complete by itself is not, with what was merged meanwhile; a further run goes on with it.
    ItemSentBack {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
        /// Why.
        reason: String,
    },
    /// Something that people should know.
    BacklogWarning {
        /// What.
        message: String,
    },
    /// The work on the backlog ended, or ended for now.
    BacklogFinished {
        /// Why.
        stop_reason: StopReason,
        /// The same for people.
        message: String,
        /// The items of the backlog.
        items: ItemCounts,
        /// The items that wait, if nothing can be worked on, else those that are blocked.
        waiting: Vec<ItemPlacement>,
        /// What all runs have used.
        usage: RunUsage,
        /// Whether the only iteration of `run --once` ended well.
        #[serde(skip)]
        ended_well: bool,
    },
}

/// Observes the work on a backlog. Must not block for long.
pub trait BacklogObserver: Send + Sync {
    /// Something happened.
    fn on_backlog_event(&self, event: &BacklogEvent);
}
