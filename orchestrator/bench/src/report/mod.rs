//! Reports of a job, all from the same figures: those of [`JobSummary`](crate::summary::JobSummary).
//!
//! Names of tasks and agents, messages and paths may come from an agent. Each format shows them as text: control
//! characters are made visible, and what the format gives a meaning is escaped.

pub mod harbor;
pub mod html;
pub mod jsonl;
pub mod markdown;
pub mod text;

mod cells;
mod figures;
mod machines;
mod wording;

pub use figures::format_cost;
pub use wording::describe_comparison;

// The figures of samples are small.
#[cfg(test)]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_wrap)]
mod samples;
