//! The completion detectors that come with ralph-orchestrator.
//! Knows neither the engine nor any agent.
//!
//! [`promise`] finds a tag in the agent's final message, [`marker`] a line in the prompt file. Both parse
//! their text as Markdown, because the texts also mention claims without making them: an example in a
//! code block, a quoted instruction. Doubtful cases are claims: a missed claim costs an iteration, a
//! false one only a validation.

pub mod marker;
pub mod promise;

mod markdown;
mod text;
mod word;

/// The number of near misses reported per inspection; the agent has to read them.
const MAX_NEAR_MISSES: usize = 8;
