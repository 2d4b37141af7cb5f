//! Reviews: an agent reads the work, and a validator takes its answer for a verdict.

use super::Verdict;

/// What an agent that reviews is given of the work. All of it is data: the agent whose work it is has written it, or had it
/// printed.
#[derive(Clone, Copy, Debug)]
pub struct ReviewMaterial<'a> {
    /// What the work is to do.
    pub task: &'a str,
    /// What differs from the start of the run, in the form of a patch.
    pub difference: &'a str,
    /// What the other validators say, and what their checks printed.
    pub checks: &'a str,
    /// Letters and digits that nobody can know before: what stands between two lines with them is data.
    pub boundary: &'a str,
}

/// Has the work reviewed by an agent, which only reads it.
pub trait Reviewer: Send + Sync {
    /// Returns the agent's name in `[agents]`.
    fn agent(&self) -> &str;

    /// Returns what the agent is asked.
    fn prompt(&self, material: &ReviewMaterial<'_>) -> String;

    /// Returns the verdict in the agent's final message; an error if there is none. Nothing else that the agent says or reads
    /// counts.
    fn read_verdict(&self, answer: &str) -> Verdict;
}
