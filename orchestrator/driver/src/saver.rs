//! What stores the backlog's file, such as in git, and brings complete work to where others find it.

use async_trait::async_trait;

use ralph_orchestrator_backlog::{Backlog, BacklogItem};

use crate::ledger::ItemRun;

/// Stores the backlog's file.
#[async_trait(?Send)]
pub trait BacklogSaver {
    /// Stores the file after the status of a completed item was written. Does nothing if it is stored already.
    ///
    /// # Errors
    /// Why it is not stored, for people.
    async fn save(&self, completed: &ItemRun) -> Result<(), String>;
}

/// Brings work to where others find it, such as the branch at its remote.
#[async_trait(?Send)]
pub trait WorkPublisher {
    /// Publishes what is complete, before a tracker says that it is. Does nothing if it is published already.
    ///
    /// # Errors
    /// Why it is not published, and what to do, for people.
    async fn publish(&self) -> Result<(), String>;
}

/// Returns whether two versions of a backlog differ in statuses and notes only, which the orchestrator and
/// its agents write. What cannot be read differs in more.
#[must_use]
pub fn differ_in_records_only(backlog: &dyn Backlog, before: &[u8], after: &[u8]) -> bool {
    let (Ok(before), Ok(after)) = (backlog.parse(before), backlog.parse(after)) else {
        return false;
    };
    before.items.len() == after.items.len()
        && before.items.iter().zip(after.items).all(|(before, after)| {
            let BacklogItem { status, notes, location, .. } = before.clone();
            *before == BacklogItem { status, notes, location, ..after }
        })
}
