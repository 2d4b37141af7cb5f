//! The backlog as it counts while an agent may be changing it, and after a kill in an iteration.

use ralph_orchestrator_backlog::{
    AgentCompletions, Backlog, BacklogError, BacklogItem, BacklogPlace, BacklogSnapshot,
    GuardRules, ItemStatus,
};
use ralph_orchestrator_store::{Disk, Layout, SeriesFiles};

use crate::error::DriverError;
use crate::iteration_base::read_base;
use crate::ledger::read_ledger;
use crate::tracked::TRACKED;

/// Reads the backlog without what an agent changed in an iteration that has not ended and may not
/// change: that will be taken back, so it is not shown either. Items that are blocked or skipped are set aside. Changes
/// nothing.
///
/// # Errors
/// The backlog or the version before the iteration cannot be read.
pub fn read_proved(
    backlog: &dyn Backlog,
    layout: &Layout,
    rules: GuardRules,
) -> Result<BacklogSnapshot, DriverError> {
    let files = SeriesFiles::open(&Disk::default(), layout)?;
    let mut snapshot = match backlog.place() {
        BacklogPlace::Tracker => read_last(backlog, files.as_ref())?,
        BacklogPlace::File => match files.as_ref().map(read_base).transpose()?.flatten() {
            Some((_, bytes)) => take_permitted(backlog, backlog.parse(&bytes)?, rules),
            None => backlog.load()?,
        },
    };
    read_ledger(layout)?.unwrap_or_default().apply_to(&mut snapshot, false);
    Ok(snapshot)
}

/// Returns what a driver read of a tracker last.
fn read_last(
    backlog: &dyn Backlog,
    files: Option<&SeriesFiles>,
) -> Result<BacklogSnapshot, DriverError> {
    let stored = files.map(|files| files.read(TRACKED)).transpose()?.flatten();
    let not_read = || BacklogError::NotRead { path: backlog.path().to_owned() };
    Ok(backlog.parse(&stored.ok_or_else(not_read)?)?)
}

/// Takes what an agent may have changed since a version of the backlog.
fn take_permitted(
    backlog: &dyn Backlog,
    mut base: BacklogSnapshot,
    rules: GuardRules,
) -> BacklogSnapshot {
    // What cannot be read now will be restored.
    let Ok(now) = backlog.load() else { return base };
    for item in &mut base.items {
        if let Some(now) = now.find(&item.id) {
            take_from_item(item, now, rules);
        }
    }
    base
}

/// Takes what an agent may change from another version of an item.
fn take_from_item(item: &mut BacklogItem, now: &BacklogItem, rules: GuardRules) {
    let is_kept = match now.status {
        _ if item.status == ItemStatus::Blocked => false,
        ItemStatus::Completed => rules.completions == AgentCompletions::Keep,
        ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Blocked => true,
    };
    if is_kept {
        item.status = now.status;
    }
    item.notes.clone_from(&now.notes);
}
