//! Takes back what an agent changed in a backlog and may not change.
//!
//! An agent may change statuses and notes. That an item is completed is decided by the
//! orchestrator, so by default a completion that the agent wrote is taken back and reported.

mod compare;
mod file;
mod format;
mod report;
mod text;

#[cfg(feature = "sqlite")]
pub(crate) use self::compare::{Comparison, GuardedItem, compare_items};
pub(crate) use self::file::{GuardOutcome, guard_file};
pub use self::report::{AgentCompletions, GuardFinding, GuardReport, GuardRules, TrustedEdit};
pub(crate) use self::text::guard_text;
