//! The budget of all runs of this user, as far as it is used.

use std::collections::BTreeMap;

use ralph_orchestrator_config::{Sources, load_user_budget};
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_store::SpendingLedger;
use ralph_orchestrator_story::user_budget::UserBudgetView;

use crate::error::CommandError;
use crate::user_folders::{state_home, user_file, variables};

/// Reads the budget and the ledger; `None` if there is neither.
///
/// # Errors
/// One of them is damaged or cannot be read.
pub fn read_user_budget() -> Result<Option<UserBudgetView>, CommandError> {
    let vars = variables();
    let file = user_file(&vars);
    let limits = load_user_budget(&Sources {
        user_file: Some(file.clone()),
        without_file: Some(std::env::current_dir()?),
        vars: budget_variables(&vars),
        ..Sources::default()
    });
    let limits = limits.ok_or_else(|| {
        CommandError::user(format!("[budget] in {} cannot be read", file.display()))
            .hinted("`ralph-orchestrator config show` says what is wrong with it")
    })?;
    let spending = SpendingLedger::read(&states_dir(&state_home(&vars)))?;
    if limits.is_unlimited() && spending.is_none() {
        return Ok(None);
    }
    let view = UserBudgetView::new(&limits, &spending.unwrap_or_default());
    view.map(Some).map_err(CommandError::internal)
}

/// Returns what is left of the budget, a line for each limit; why that is not known, where it is not.
#[must_use]
pub fn describe_user_budget() -> Vec<String> {
    match read_user_budget() {
        Ok(budget) => budget.iter().flat_map(UserBudgetView::describe).collect(),
        Err(error) => vec![error.detail()],
    }
}

/// What is set by variables, beside which no other mistake matters.
fn budget_variables(vars: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let of_budget = vars.iter().filter(|(name, _)| name.starts_with("RALPH_BUDGET__"));
    of_budget.map(|(name, value)| (name.clone(), value.clone())).collect()
}
