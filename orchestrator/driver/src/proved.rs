//! The backlog as it counts while an agent may be changing it, and after a kill in an iteration.

use ralph_orchestrator_backlog::{
    AgentCompletions, Backlog, BacklogItem, BacklogSnapshot, GuardRules, ItemStatus,
};
use ralph_orchestrator_store::{Disk, Layout, SeriesFiles};

use crate::error::DriverError;
use crate::iteration_base::read_base;

/// Reads the backlog without what an agent changed in an iteration that has not ended and may not
/// change: that will be taken back, so it is not shown either. Changes nothing.
///
/// # Errors
/// The backlog or the version before the iteration cannot be read.
pub fn read_proved(
    backlog: &dyn Backlog,
    layout: &Layout,
    rules: GuardRules,
) -> Result<BacklogSnapshot, DriverError> {
    let base = match SeriesFiles::open(&Disk::default(), layout)? {
        Some(files) => read_base(&files)?,
        None => None,
    };
    let Some((_, bytes)) = base else { return Ok(backlog.load()?) };
    let mut base = backlog.parse(&bytes)?;
    // What cannot be read now will be restored.
    let Ok(now) = backlog.load() else { return Ok(base) };
    for item in &mut base.items {
        if let Some(now) = now.find(&item.id) {
            take_permitted(item, now, rules);
        }
    }
    Ok(base)
}

/// Takes what an agent may change from another version of an item.
fn take_permitted(item: &mut BacklogItem, now: &BacklogItem, rules: GuardRules) {
    let is_kept = match now.status {
        ItemStatus::Completed => rules.completions == AgentCompletions::Keep,
        ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Blocked => true,
    };
    if is_kept {
        item.status = now.status;
    }
    item.notes.clone_from(&now.notes);
}
