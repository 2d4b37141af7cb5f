//! cargo nextest: `Summary [   0.056s] 7 tests run: 6 passed, 1 failed, 1 skipped`, and a line for each test.
//!
//! Until the summary, everything else is what the tests print, which has a summary of the harness for each of them. What
//! a filter leaves out counts as skipped here.

use std::sync::LazyLock;

use regex::Regex;

use super::reader::{RunnerReader, RunnerReport, split_count, split_number};
use crate::results::{RunNames, TestCounts, TestOutcome};

/// `PASS [   0.008s] (1/7) one::whole other_whole`
static TEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^ +(?:TRY \d+ )?(?<outcome>[A-Z][A-Z-]*) \[[ >0-9.]+s\] (?:\([ ─\d/]+\) )?(?<name>\S+ \S+)$")
        .ok()
});

#[derive(Default)]
pub(crate) struct Nextest {
    names: RunNames,
    is_running: bool,
}

impl RunnerReader for Nextest {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        if line.starts_with(" Nextest run ID ") {
            *self = Self { is_running: true, ..Self::default() };
        }
        let text = line.trim();
        if let Some(counts) = text.strip_prefix("Summary [").and_then(summary) {
            return Some(RunnerReport { counts, names: std::mem::take(self).names });
        }
        if self.is_running && line.contains("s] ") {
            self.read_name(line);
        }
        None
    }

    fn is_enclosing(&self) -> bool {
        self.is_running
    }
}

impl Nextest {
    fn read_name(&mut self, line: &str) {
        let Some(found) = TEST.as_ref().and_then(|test| test.captures(line)) else { return };
        let group = |name| found.name(name).map(|group| group.as_str());
        let outcome = match group("outcome") {
            Some("PASS" | "LEAK" | "FLAKY") => TestOutcome::Passed,
            Some("SLOW" | "START" | "SKIP" | "TERMINATING") | None => return,
            Some(_) => TestOutcome::Failed,
        };
        // The last try decides.
        self.names.replace(group("name").unwrap_or_default(), outcome);
    }
}

fn summary(text: &str) -> Option<TestCounts> {
    let (_, text) = text.split_once("s] ")?;
    // `3/7 tests run` when the rest was cancelled.
    let (run, rest) = split_number(text)?;
    let rest = rest.strip_prefix('/').map_or(Some(rest), |rest| Some(split_number(rest)?.1))?;
    let parts = rest.strip_prefix(" test run: ").or_else(|| rest.strip_prefix(" tests run: "))?;
    let skipped = parts.split(", ").filter_map(split_count).find(|(_, word)| *word == "skipped");
    let (passed, word) = split_count(parts.split(", ").next()?)?;
    let is_passed = word == "passed" || word.starts_with("passed (");
    let counts = TestCounts {
        passed,
        failed: run.checked_sub(passed)?,
        skipped: skipped.map_or(0, |(skipped, _)| skipped),
    };
    is_passed.then_some(counts)
}
