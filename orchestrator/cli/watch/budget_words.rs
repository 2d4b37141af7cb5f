//! What is left of the budget of all runs, in a few words.

use std::time::{Duration, Instant};

use ralph_orchestrator_assembly::user_budget::read_user_budget;

/// How often the ledger is read, which may be long.
const EVERY: Duration = Duration::from_secs(5);

/// The words, and when they were found.
#[derive(Default)]
pub(super) struct BudgetWords {
    words: Option<String>,
    read: Option<Instant>,
}

impl BudgetWords {
    /// Returns these words and what is left of the budget, if there is one.
    pub(super) fn add_to(&mut self, words: String) -> String {
        if self.read.is_none_or(|read| read.elapsed() >= EVERY) {
            self.read = Some(Instant::now());
            self.words = match read_user_budget() {
                Ok(budget) => budget.and_then(|budget| budget.shares()),
                Err(_) => Some("the budget cannot be read: see `budget`".to_owned()),
            };
        }
        match &self.words {
            Some(more) => format!("{words}  {more}"),
            None => words,
        }
    }
}
