//! What the readers of all runners have in common.

use crate::results::{RunNames, TestCounts};

/// One run of a runner, as its output reports it.
#[derive(Debug)]
pub(crate) struct RunnerReport {
    pub(crate) counts: TestCounts,
    pub(crate) names: RunNames,
}

/// Reads the output of one runner.
pub(crate) trait RunnerReader: Send {
    /// Reads a line, and returns the run that it completes.
    fn read_line(&mut self, line: &str) -> Option<RunnerReport>;

    /// Reads what is no line: the further parts of a very long one.
    fn read_other(&mut self, _text: &str) -> Option<RunnerReport> {
        None
    }

    /// Returns the run that the end of the output completes.
    fn finish(&mut self) -> Option<RunnerReport> {
        None
    }

    /// Notes that another runner has completed a run: tests that are listed so far were its.
    fn end_listing(&mut self) {}

    /// Notes that output is missing.
    fn mark_cut(&mut self) {}

    /// Returns whether what comes now is printed by the tests, or by runners that they start. Nobody else reads it.
    fn is_enclosing(&self) -> bool {
        false
    }
}

/// Returns the leading number and what follows it. A number beyond `u64` is none.
pub(crate) fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// Returns a count and its word, of a text such as `3 passed`.
pub(crate) fn split_count(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = split_number(text.trim())?;
    let word = rest.strip_prefix(' ')?.trim();
    Some((number, word)).filter(|_| !word.is_empty())
}
