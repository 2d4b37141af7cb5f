//! What an agent did to the backlog, in words.

use ralph_orchestrator_backlog::GuardFinding;

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
