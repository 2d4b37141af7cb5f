//! The completion detectors that come with ralph-orchestrator.
//!
//! [`promise`] looks for a tag in the agent's final message, [`marker`] for a line in the prompt
//! file. Both read their text as Markdown, because both texts speak *about* claims as often as they
//! make one: an example in a code block, a quoted instruction. Where in doubt they see a claim: a
//! missed claim costs an iteration, a false one only a validation.

pub mod marker;
pub mod promise;

mod structure;
mod text;
mod word;

/// Near misses told at one look; more would bury what the agent has to read.
const MAX_NEAR_MISSES: usize = 8;
