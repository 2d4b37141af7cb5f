//! What a guard is told, and what it found.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::item::{BacklogItem, BacklogSnapshot, ItemStatus};

/// An edit that did not come from the agent: the versions directly before and after it.
///
/// If the agent had not touched the file before it, the version after it is the new base. Else its
/// items are merged: added, removed and changed ones, but neither their order nor the fields
/// beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedEdit {
    /// The bytes of the version before.
    pub before: Vec<u8>,
    /// The bytes of the version after.
    pub after: Vec<u8>,
}

/// What an agent may change beside statuses and notes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct GuardRules {
    /// What becomes of a status that the agent set to `completed`.
    pub completions: AgentCompletions,
}

/// What becomes of a status that the agent set to `completed`. It is reported in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentCompletions {
    /// The item gets its former status back.
    #[default]
    Revert,
    /// The item stays completed.
    Keep,
}

/// One difference between the version before a session and the version after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "finding")]
pub enum GuardFinding {
    /// The file was missing, unsafe to open, or no valid backlog; the whole base was restored.
    Corrupted {
        /// What is wrong with it.
        problem: String,
    },
    /// An item was removed; restored.
    Removed {
        /// The item.
        id: String,
    },
    /// A protected field of an item was changed; restored.
    Edited {
        /// The item.
        id: String,
        /// The field, as the file names it.
        field: String,
        /// The value before; `None` if the field was added.
        before: Option<Value>,
        /// The value after; `None` if the field was removed.
        after: Option<Value>,
    },
    /// A field beside the items was changed; restored.
    FrameEdited {
        /// The field, as the file names it.
        field: String,
        /// The value before; `None` if the field was added.
        before: Option<Value>,
        /// The value after; `None` if the field was removed.
        after: Option<Value>,
    },
    /// Items were reordered; restored.
    Reordered {
        /// The first item that is not at its place.
        id: String,
    },
    /// An item was added. It was taken out of the file; a caller can add it.
    Proposed {
        /// The item as the agent wrote it.
        item: BacklogItem,
        /// Its source in the file; empty where the format does not tell.
        source: String,
    },
    /// The agent set an item's status to `completed`.
    CompletedByAgent {
        /// The item.
        id: String,
        /// The status before.
        before: ItemStatus,
        /// Whether that status was restored.
        is_reverted: bool,
    },
    /// The agent set another status; kept, unless the item was blocked.
    StatusChanged {
        /// The item.
        id: String,
        /// The status before.
        before: ItemStatus,
        /// The status after.
        after: ItemStatus,
        /// Whether the status before was restored.
        #[serde(default)]
        is_reverted: bool,
    },
    /// The agent changed an item's notes; kept.
    NotesChanged {
        /// The item.
        id: String,
    },
}

impl GuardFinding {
    /// Returns whether the file was changed because of this finding.
    #[must_use]
    pub const fn is_reverted(&self) -> bool {
        match self {
            Self::Corrupted { .. }
            | Self::Removed { .. }
            | Self::Edited { .. }
            | Self::FrameEdited { .. }
            | Self::Reordered { .. }
            | Self::Proposed { .. } => true,
            Self::CompletedByAgent { is_reverted, .. }
            | Self::StatusChanged { is_reverted, .. } => *is_reverted,
            Self::NotesChanged { .. } => false,
        }
    }
}

/// What a guard found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardReport {
    /// All differences.
    pub findings: Vec<GuardFinding>,
    /// Whether anything was restored.
    pub is_restored: bool,
    /// The agent's version, if it was replaced and could be read.
    pub replaced: Option<Vec<u8>>,
    /// The version that the file has now; the base of the next session.
    pub current: BacklogSnapshot,
}

impl GuardReport {
    /// Returns the ids of the items that the agent set to `completed`.
    pub fn completed_by_agent(&self) -> impl Iterator<Item = &str> {
        self.findings.iter().filter_map(|finding| match finding {
            GuardFinding::CompletedByAgent { id, .. } => Some(id.as_str()),
            _ => None,
        })
    }
}
