//! Any program's JSON lines, read by the rules of `[agent.config.stream]`.
//!
//! A rule says which lines it is for (`when`, `has`, `each`) and which of their values mean what. [`Rules`] read
//! one line and know nothing of the others; [`StreamParser`] follows the stream.

mod finding;
mod keys;
mod parser;
mod path;
mod rules;
#[cfg(test)]
mod tests;
mod units;

pub(crate) use finding::{Finding, Found};
pub(crate) use keys::StreamKeys;
pub(crate) use parser::StreamParser;
pub(crate) use rules::Rules;
