//! What one iteration of an attempt cost.

use ralph_orchestrator_contract::{Tokens, Usd};
use serde::{Deserialize, Serialize};

/// A line of the ledger: what one iteration of one attempt cost. The same line may come twice; the ledger is summed
/// as a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// The trial's name.
    pub trial: String,
    /// The agent's name.
    pub agent: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The iteration, from 1.
    pub iteration: u64,
    /// The engine's run.
    pub run: String,
    /// Tokens, if the agent reports them.
    pub tokens: Option<Tokens>,
    /// Cost in US dollars; none if it is not known.
    pub cost_usd: Option<Usd>,
    /// The cost was computed from tokens and a price table, or is what an iteration that was lost is charged with: what others
    /// of the agent cost, or what was reserved for it.
    pub estimated: bool,
}
