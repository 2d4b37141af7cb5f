//! jest: `Tests:       1 failed, 1 skipped, 6 passed, 8 total` below `Test Suites:`; with `--verbose`, and for a single
//! file, a tree of names.

use super::headings::{Headings, split_indent, strip_time};
use super::reader::{RunnerReader, RunnerReport, split_count};
use crate::results::{RunNames, TestCounts, TestOutcome};

#[derive(Default)]
pub(crate) struct Jest {
    names: RunNames,
    headings: Headings,
    is_in_tree: bool,
    after_suites: bool,
}

impl RunnerReader for Jest {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let counts = line.strip_prefix("Tests: ").filter(|_| self.after_suites).and_then(totals);
        if let Some(counts) = counts {
            return Some(RunnerReport { counts, names: std::mem::take(self).names });
        }
        self.after_suites = line.starts_with("Test Suites: ");
        // In colours the word has a space before it, too.
        let word = line.strip_prefix(' ').unwrap_or(line);
        let file = word.strip_prefix("PASS ").or_else(|| word.strip_prefix("FAIL "));
        if let Some(file) = file {
            self.is_in_tree = true;
            self.headings.open(0, strip_time(file.trim()));
        } else if self.is_in_tree {
            self.read_name(line);
        }
        None
    }

    fn end_listing(&mut self) {
        *self = Self::default();
    }
}

impl Jest {
    fn read_name(&mut self, line: &str) {
        let (indent, text) = split_indent(line);
        let depth = indent / 2;
        if depth == 0 || text.starts_with('●') {
            self.is_in_tree = false;
            return;
        }
        let (mark, name) = text.split_once(' ').unwrap_or_default();
        let (outcome, name) = match mark {
            "✓" | "√" => (TestOutcome::Passed, name),
            "✕" | "×" => (TestOutcome::Failed, name),
            "○" => (TestOutcome::Skipped, name.strip_prefix("skipped ").unwrap_or(name)),
            "✎" => (TestOutcome::Skipped, name.strip_prefix("todo ").unwrap_or(name)),
            _ => return self.headings.open(depth, text),
        };
        self.names.count(self.headings.name(depth, strip_time(name)), outcome);
    }
}

fn totals(text: &str) -> Option<TestCounts> {
    let (mut counts, mut total) = (TestCounts::default(), None);
    for part in text.split(", ") {
        let (number, word) = split_count(part)?;
        let mut more = TestCounts::default();
        match word {
            "passed" => more.passed = number,
            "failed" => more.failed = number,
            "skipped" | "todo" | "pending" => more.skipped = number,
            "total" => total = Some(number),
            _ => return None,
        }
        counts.add(more);
    }
    (total == Some(counts.total())).then_some(counts)
}
