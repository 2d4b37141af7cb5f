//! node --test with its reporter `spec`: lines from `ℹ tests 12` to `ℹ duration_ms 313.5`, and a tree of names.
//!
//! Its reporter `tap` is read as TAP. `dot` has no numbers. A test that does not match a pattern counts as skipped, as
//! node counts it; a cancelled one as failed.

use super::headings::{Headings, split_indent, strip_time};
use super::reader::{RunnerReader, RunnerReport, split_number};
use crate::results::{RunNames, TestCounts, TestOutcome};

/// Groups of one run; more of them are not named.
const MAX_GROUPS: usize = 1000;

#[derive(Default)]
pub(crate) struct NodeSpec {
    names: RunNames,
    headings: Headings,
    /// Groups whose tests came before them: suites, or tests with tests of their own.
    groups: Vec<(String, TestOutcome)>,
    suites: u64,
    /// Figures so far, with what `tests` said.
    figures: Option<(u64, TestCounts)>,
    /// Behind the figures the failed tests are repeated.
    is_repeating: bool,
}

impl RunnerReader for NodeSpec {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        if let Some((word, number)) = line.strip_prefix("ℹ ").and_then(|rest| rest.split_once(' '))
        {
            return self.read_figure(word, number.trim_end());
        }
        self.figures = None;
        self.read_name(line);
        None
    }

    fn end_listing(&mut self) {
        *self = Self::default();
    }
}

impl NodeSpec {
    fn read_figure(&mut self, word: &str, number: &str) -> Option<RunnerReport> {
        let (number, _) = split_number(number)?;
        if word == "tests" {
            self.figures = Some((number, TestCounts::default()));
            return None;
        }
        let (tests, mut counts) = self.figures.take()?;
        let mut more = TestCounts::default();
        match word {
            "suites" => self.suites = number,
            "pass" => more.passed = number,
            "fail" | "cancelled" => more.failed = number,
            "skipped" | "todo" => more.skipped = number,
            "duration_ms" if counts.total() == tests => {
                return Some(self.end(counts));
            }
            _ => return None,
        }
        counts.add(more);
        self.figures = Some((tests, counts));
        None
    }

    /// Ends a run. Only suites are not counted as tests, and only their number says which of the groups those are.
    fn end(&mut self, counts: TestCounts) -> RunnerReport {
        let mut ended = std::mem::take(self);
        self.is_repeating = true;
        if ended.suites == 0 {
            for (name, outcome) in ended.groups {
                ended.names.count(name, outcome);
            }
        }
        RunnerReport { counts, names: ended.names }
    }

    fn read_name(&mut self, line: &str) {
        let (indent, text) = split_indent(line);
        let Some((mark, name)) = text.split_once(' ') else { return };
        let depth = indent / 2;
        if mark == "▶" {
            // With a time it is the end of a group, in versions before 20.
            if strip_time(name) == name {
                self.is_repeating = false;
                self.headings.open(depth, name);
            }
            return;
        }
        let outcome = match mark {
            "✔" | "✅" => TestOutcome::Passed,
            "✖" | "❌" => TestOutcome::Failed,
            "﹣" => TestOutcome::Skipped,
            _ => return,
        };
        self.is_repeating &= outcome == TestOutcome::Failed;
        if self.is_repeating {
            return;
        }
        self.add(depth, name, outcome);
    }

    /// Adds a test by what follows its mark: its name, its time, and perhaps `# SKIP`, `# TODO` or another reason.
    fn add(&mut self, depth: usize, name: &str, outcome: TestOutcome) {
        let ends = name.match_indices(") # ").map(|(at, _)| at + 1);
        let of_time = ends.filter_map(|end| Some((name.get(..end)?, name.get(end..)?)));
        let (timed, reason) = of_time
            .into_iter()
            .find(|(timed, _)| strip_time(timed) != *timed)
            .unwrap_or((name, ""));
        let name = strip_time(timed);
        if name == timed {
            return;
        }
        let outcome = if reason.starts_with(" # TODO") { TestOutcome::Skipped } else { outcome };
        let name = self.headings.name(depth, name);
        if !self.headings.close(depth, &name) {
            self.names.count(name, outcome);
        } else if self.groups.len() < MAX_GROUPS {
            self.groups.push((name, outcome));
        }
    }
}
