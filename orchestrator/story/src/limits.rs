//! What a run has used of its limits.

use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_machine::{Limit, LimitValue, State};

/// The limits on what a run may use, in the order of the documentation.
pub const LIMITS: [Limit; 4] = [Limit::Iterations, Limit::Runtime, Limit::Cost, Limit::Tokens];

/// Returns what is used of a limit.
pub fn used(state: &State, runtime_ms: u64, limit: Limit) -> LimitValue {
    match limit {
        Limit::Runtime => LimitValue::Duration(runtime_ms),
        Limit::Cost => LimitValue::Money(state.cost()),
        Limit::Tokens => LimitValue::Count(state.tokens().total()),
        _ => LimitValue::Count(state.iterations),
    }
}

/// Whether the agent has not said how much of a limit it has used.
pub fn is_unreported(state: &State, limit: Limit) -> bool {
    let nothing = match limit {
        Limit::Cost => state.cost() == Usd::ZERO,
        Limit::Tokens => state.tokens().total() == 0,
        _ => false,
    };
    nothing && !state.budget.cost_reported
}
