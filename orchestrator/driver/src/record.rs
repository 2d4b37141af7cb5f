//! What the driver records beside the runs. Its state is the fold of these.

use ralph_orchestrator_backlog::{GuardFinding, ItemStatus};
use ralph_orchestrator_machine::RunUsage;
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_machine::{HookCommand, HookEvent};
use ralph_orchestrator_store::JournalRecord;
use serde::{Deserialize, Serialize};

use crate::lane::{Lane, LaneMerge, LaneTrunk};

/// One fact about the work on a backlog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SeriesRecord {
    /// The work on the backlog begins, or begins anew. What was used before counts no more.
    SeriesStarted {
        /// Version of the format.
        version: u32,
        /// The format of the backlog.
        format: String,
        /// Its file, relative to the workspace.
        path: String,
    },
    /// Items are worked on at once, in lanes that are merged onto this branch.
    LanesStarted {
        /// Onto which branch.
        trunk: LaneTrunk,
    },
    /// An item gets a lane, which is made after this.
    LaneOpened {
        /// The item's id.
        item: String,
        /// Its lane.
        lane: Lane,
    },
    /// The work on an item is complete in its lane, and is to be merged: the merge is an object and on no branch.
    MergeBegun {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
        /// The merge.
        merge: LaneMerge,
    },
    /// The checks accepted the merged tree; the run's branch moves to it after this.
    MergeProved {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
        /// The merged commit.
        commit: String,
    },
    /// The item is sent back: its next run begins with the merge in its lane.
    MergeRejected {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
        /// Why, for the agent.
        reason: String,
    },
    /// The run's branch has the item's work. The item's status follows from this.
    ItemMerged {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
        /// The merged commit.
        commit: String,
    },
    /// The lane of an item is removed.
    LaneClosed {
        /// The item's id.
        item: String,
    },
    /// A run was opened for the initializer, which makes the backlog; no agent was started before this.
    InitializerStarted {
        /// The run.
        run: String,
    },
    /// The run of the initializer ended, or ended for now. The backlog is there if the reason is `initialized`.
    InitializerStopped {
        /// The run.
        run: String,
        /// Why it stopped.
        reason: StopReason,
        /// The same for people.
        message: String,
        /// What the run has used since it began.
        usage: RunUsage,
    },
    /// A run was opened for an item; no agent was started before this.
    ItemStarted {
        /// The item's id.
        item: String,
        /// Its title.
        title: String,
        /// Its run.
        run: String,
    },
    /// A run in a lane goes on after it had stopped; no agent was started before this.
    ItemResumed {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
    },
    /// The run of an item stopped without completion, or the work on it was given up.
    ItemStopped {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
        /// Why it stopped.
        reason: StopReason,
        /// The same for people.
        message: String,
        /// What the run has used since it began.
        usage: RunUsage,
        /// Why the item is blocked from now on, if it is; the others go on, and the run is not resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocked: Option<String>,
    },
    /// A person wants an item left out.
    ItemSkipped {
        /// The item's id.
        item: String,
    },
    /// A person wants an item worked on again that was blocked or skipped.
    ItemRetried {
        /// The item's id.
        item: String,
    },
    /// The run of an item is complete, as its latch says. The item's status follows from this, or in a lane from its merge.
    ItemFinished {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
        /// Whether validators accepted the work.
        validated: bool,
        /// Whether they had accepted the workspace before any work on the item.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        accepted_before: bool,
        /// What the run has used since it began.
        usage: RunUsage,
    },
    /// The status that followed from how a run ended is in the backlog, as far as its format can hold it.
    StatusWritten {
        /// The item's id.
        item: String,
        /// Its run.
        run: String,
        /// The status.
        status: ItemStatus,
    },
    /// What an agent did to the backlog in an iteration.
    #[serde(rename = "guarded")]
    IterationGuarded {
        /// The item that was worked on.
        item: String,
        /// Its run.
        run: String,
        /// The iteration.
        iteration: u64,
        /// All differences.
        findings: Vec<GuardFinding>,
    },
    /// An item that a person added while an agent worked is in the backlog.
    ItemAdded {
        /// Identifies the request.
        addition: String,
        /// The item's id; `None` if the backlog refused it.
        item: Option<String>,
        /// Why it was refused.
        problem: Option<String>,
    },
    /// The work on the backlog ended, or ended for now.
    SeriesStopped {
        /// Why.
        reason: StopReason,
        /// The same for people.
        message: String,
        /// The events whose commands are run now.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hooks: Vec<HookEvent>,
    },
    /// The user's commands for an event of the end have ended.
    HookFinished {
        /// The event.
        event: HookEvent,
        /// Those that were run, in order.
        commands: Vec<HookCommand>,
    },
}

/// Version of the format, in the first record.
pub(crate) const FORMAT_VERSION: u32 = 1;

impl JournalRecord for SeriesRecord {
    /// All are: there are few, and something outside follows from nearly each of them.
    fn is_barrier(&self) -> bool {
        true
    }
}
