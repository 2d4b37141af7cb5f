//! What an agent did to the backlog, and what of it is not read, in words.

use std::path::Path;

use ralph_orchestrator_backlog::{BacklogSnapshot, GuardFinding};

/// Returns a sentence about what was taken back, or what the agent has no right to decide; `None` for
/// what agents may do.
pub(crate) fn describe(finding: &GuardFinding) -> Option<String> {
    Some(match finding {
        GuardFinding::Corrupted { problem } => {
            format!("the backlog could not be read and was restored: {problem}")
        }
        GuardFinding::Removed { id } => format!("item `{id}` was removed; it was restored"),
        GuardFinding::Edited { id, field, .. } => {
            format!("`{field}` of item `{id}` was edited; it was restored")
        }
        GuardFinding::FrameEdited { field, .. } => {
            format!("`{field}` beside the items was edited; it was restored")
        }
        GuardFinding::Reordered { id } => {
            format!("items were reordered, first `{id}`; their order was restored")
        }
        GuardFinding::Proposed { item, .. } => {
            format!("item `{}` was added; it was taken out, add it with `add`", item.id)
        }
        GuardFinding::CompletedByAgent { id, is_reverted: true, .. } => {
            format!(
                "item `{id}` was set to completed; its status was restored, only the validators complete it"
            )
        }
        GuardFinding::CompletedByAgent { id, .. } => {
            format!("item `{id}` was set to completed by the agent, WITHOUT validation")
        }
        GuardFinding::StatusChanged { id, after, is_reverted: true, .. } => {
            format!(
                "item `{id}` was set from blocked to {after}; its status was restored, only people unblock it, by `retry`"
            )
        }
        GuardFinding::StatusChanged { .. } | GuardFinding::NotesChanged { .. } => return None,
    })
}

/// The most lines that are named.
const MOST_NAMED: usize = 5;

/// Returns a sentence about the lines that look like open items and are none; `None` if there are none.
#[must_use]
pub fn describe_unread(path: &Path, snapshot: &BacklogSnapshot) -> Option<String> {
    let unread = &snapshot.unread;
    let path = path.display();
    let named = unread.iter().take(MOST_NAMED);
    let named = named.map(|line| format!("{path}:{} {:?}", line.line, line.text));
    let mut named = named.collect::<Vec<_>>().join(", ");
    if let Some(more) = unread.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        named.push_str(&format!(" and {more} more"));
    }
    (!unread.is_empty()).then(|| {
        format!(
            "not read as an item, though it looks like one: {named}; an item is `- [ ] TITLE` in a list that is not indented"
        )
    })
}
