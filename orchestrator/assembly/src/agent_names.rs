//! Names of agents that a benchmark knows by itself.

/// The agent that performs a task's own solution.
pub const ORACLE: &str = "oracle";

/// The agent that does nothing.
pub const NOP: &str = "nop";

/// The name of the agent of `[agent]`.
pub const MAIN_AGENT: &str = "agent";

/// Whether nothing is asked of a model.
pub fn is_reserved(agent: &str) -> bool {
    agent == ORACLE || agent == NOP
}
