//! mocha, and Cypress, which uses it: `5 passing (7ms)` after an empty line, below it `2 pending` and `1 failing`; the
//! reporter `spec` has a tree of names. Names are without the groups that they are in, because an indented line that a test
//! prints looks like one. `json` has no such lines.

use super::headings::{split_indent, strip_time};
use super::reader::{RunnerReader, RunnerReport, split_count, split_number};
use crate::results::{RunNames, TestCounts, TestOutcome};

#[derive(Default)]
pub(crate) struct Mocha {
    names: RunNames,
    /// The summary, while its lines come.
    counts: Option<TestCounts>,
    after_empty: bool,
    /// Behind the summary the failed tests are repeated.
    is_repeating: bool,
}

impl RunnerReader for Mocha {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let (indent, text) = split_indent(line);
        if let Some(counts) = &mut self.counts {
            match split_count(text) {
                Some((number, "pending")) => counts.skipped = number,
                Some((number, "failing")) => counts.failed = number,
                _ => {
                    let report = self.finish();
                    (self.is_repeating, self.after_empty) = (true, text.is_empty());
                    return report;
                }
            }
            return None;
        }
        if self.after_empty && indent == 2 {
            self.counts = passing(text);
        }
        self.after_empty = text.is_empty();
        if self.counts.is_none() {
            self.read_name(indent, text);
        }
        None
    }

    fn finish(&mut self) -> Option<RunnerReport> {
        let counts = self.counts.take()?;
        Some(RunnerReport { counts, names: std::mem::take(self).names })
    }

    fn end_listing(&mut self) {
        *self = Self::default();
    }
}

impl Mocha {
    fn read_name(&mut self, indent: usize, text: &str) {
        if indent < 2 {
            return;
        }
        let (mark, name) = text.split_once(' ').unwrap_or_default();
        let is_number = || split_number(mark).is_some_and(|(_, rest)| rest == ")");
        let outcome = match mark {
            "✔" | "✓" | "√" => TestOutcome::Passed,
            "-" => TestOutcome::Skipped,
            _ if is_number() => TestOutcome::Failed,
            _ => return,
        };
        if self.is_repeating && outcome != TestOutcome::Passed {
            return;
        }
        self.is_repeating = false;
        self.names.count(strip_time(name), outcome);
    }
}

fn passing(text: &str) -> Option<TestCounts> {
    let (passed, rest) = split_number(text)?;
    let has_time = rest.strip_prefix(" passing (").is_some_and(|rest| rest.ends_with(')'));
    has_time.then(|| TestCounts { passed, ..TestCounts::default() })
}
