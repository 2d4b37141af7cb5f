//! vitest: `Tests  1 failed | 6 passed | 1 skipped (8)` below `Test Files`; with `--reporter=verbose` a line for each test,
//! `✓ a.test.js > group > works 2ms`. The default reporter names only what failed.

use super::headings::strip_time;
use super::reader::{RunnerReader, RunnerReport, split_count, split_number};
use crate::results::{RunNames, TestCounts, TestOutcome};

#[derive(Default)]
pub(crate) struct Vitest {
    names: RunNames,
    after_files: bool,
}

impl RunnerReader for Vitest {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let text = line.trim();
        let tests = text.strip_prefix("Tests  ").filter(|_| self.after_files);
        if let Some(counts) = tests.and_then(totals) {
            return Some(RunnerReport { counts, names: std::mem::take(self).names });
        }
        self.after_files = line.starts_with(' ') && text.starts_with("Test Files  ");
        self.read_name(line, text);
        None
    }

    fn end_listing(&mut self) {
        *self = Self::default();
    }
}

impl Vitest {
    fn read_name(&mut self, line: &str, text: &str) {
        let Some((mark, name)) = text.split_once(' ') else { return };
        let outcome = match mark {
            "✓" => TestOutcome::Passed,
            "×" => TestOutcome::Failed,
            "↓" | "□" => TestOutcome::Skipped,
            _ => return,
        };
        if line.starts_with(' ') && name.contains(" > ") {
            self.names.count(strip_time(name), outcome);
        }
    }
}

fn totals(text: &str) -> Option<TestCounts> {
    let text = text.trim();
    if text == "no tests" {
        return Some(TestCounts::default());
    }
    let (parts, total) = text.rsplit_once(" (")?;
    let (total, _) = split_number(total)?;
    let mut counts = TestCounts::default();
    for part in parts.split(" | ") {
        let (number, word) = split_count(part)?;
        let mut more = TestCounts::default();
        match word {
            "passed" => more.passed = number,
            "failed" => more.failed = number,
            "skipped" | "todo" | "expected fail" => more.skipped = number,
            _ => return None,
        }
        counts.add(more);
    }
    (total == counts.total()).then_some(counts)
}
