//! Statuses and notes of items in the backlog's file, as far as its format can hold them.

use ralph_orchestrator_backlog::{Backlog, BacklogError, ItemStatus};

use crate::error::DriverError;

/// Sets an item that is not completed to blocked, or one that is blocked to pending. Where the format cannot hold that
/// an item is blocked, it is pending. An item that is not there stays away.
pub(crate) fn write_status(
    backlog: &dyn Backlog,
    item: &str,
    status: ItemStatus,
) -> Result<(), DriverError> {
    let snapshot = backlog.load()?;
    let Some(found) = snapshot.find(item) else { return Ok(()) };
    let can_block = snapshot.storable.contains(&ItemStatus::Blocked);
    let status = if can_block { status } else { ItemStatus::Pending };
    let is_due = match (found.status, status) {
        (ItemStatus::Completed, _) => false,
        (found, ItemStatus::Blocked) => found != ItemStatus::Blocked,
        (found, _) => {
            found == ItemStatus::Blocked || (!can_block && found == ItemStatus::InProgress)
        }
    };
    if is_due {
        backlog.set_status(item, status)?;
    }
    Ok(())
}

/// Leaves a note with a mark at an item, once. Returns what there is to say to people.
pub(crate) fn leave_note(
    backlog: &dyn Backlog,
    item: &str,
    mark: &str,
    text: &str,
) -> Result<Option<String>, DriverError> {
    let snapshot = backlog.load()?;
    let Some(found) = snapshot.find(item) else { return Ok(None) };
    if found.notes.iter().any(|known| known.contains(mark)) {
        return Ok(None);
    }
    match backlog.append_note(item, &format!("{text} {mark}")) {
        // A format without notes has nothing to lose.
        Ok(_) | Err(BacklogError::NotStorable { .. }) => Ok(None),
        // Somebody else edits the file, or its format fails; the run has the note all the same.
        Err(
            error @ (BacklogError::Busy { .. }
            | BacklogError::EditNotIsolated { .. }
            | BacklogError::FormatFailed { .. }),
        ) => {
            Ok(Some(format!("backlog: item `{item}` has no note of what happened to it: {error}")))
        }
        Err(error) => Err(error.into()),
    }
}
