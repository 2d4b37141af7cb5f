//! The prompt that `init` writes.

use ralph_orchestrator_assembly::placeholder::PLACEHOLDER;

const TEMPLATE: &str = include_str!("../templates/PROMPT.md");

/// The prompt for a goal, or the one that is still to be edited.
pub(crate) fn text(goal: Option<&str>) -> String {
    goal.map_or_else(|| TEMPLATE.to_owned(), |goal| TEMPLATE.replace(PLACEHOLDER, goal.trim()))
}
