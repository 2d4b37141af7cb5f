//! cargo test, with the harness of Rust: `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out`.
//!
//! One such line for each program of tests and for the documentation's. Before it `running 4 tests` says how many there
//! are: a line with another sum was printed by a test. Tests of several packages may have the same name, because what
//! says which package it is goes to the other stream.

use super::reader::{RunnerReader, RunnerReport, split_count, split_number};
use crate::results::{RunNames, TestCounts, TestOutcome};

#[derive(Default)]
pub(crate) struct CargoTest {
    names: RunNames,
    running: Option<u64>,
    /// The test whose outcome comes on a later line, after what it has printed.
    begun: Option<String>,
    /// Behind the tests comes what the failed ones have printed.
    is_in_failures: bool,
    /// Whether `running` may be among what is missing.
    is_cut: bool,
}

impl RunnerReader for CargoTest {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let line = line.trim_end();
        if let Some(number) = running_line(line) {
            let is_cut = self.is_cut;
            *self = Self { running: Some(number), is_cut, ..Self::default() };
        } else if let Some(counts) = result_line(line) {
            let fits = self.running.map_or(self.is_cut, |running| running == counts.total());
            if fits {
                let names = std::mem::take(&mut self.names);
                self.running = None;
                return Some(RunnerReport { counts, names });
            }
        } else if line == "failures:" {
            self.is_in_failures = true;
        } else if !self.is_in_failures {
            self.read_name(line);
        }
        None
    }

    fn mark_cut(&mut self) {
        *self = Self { is_cut: true, ..Self::default() };
    }
}

impl CargoTest {
    fn read_name(&mut self, line: &str) {
        let begun = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        if let Some((name, end)) = begun {
            match outcome(end) {
                Some(outcome) => self.names.count(plain_name(name), outcome),
                None => self.begun = Some(plain_name(name)),
            }
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ..."))
        {
            self.begun = Some(plain_name(name));
        } else if let Some(outcome) = outcome(line)
            && let Some(name) = self.begun.take()
        {
            self.names.count(name, outcome);
        }
    }
}

/// Returns a name without notes, and a documentation test without its line, which every edit above it moves.
fn plain_name(name: &str) -> String {
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let name = name.strip_suffix(" - compile fail").unwrap_or(name);
    let name = name.strip_suffix(" - compile").unwrap_or(name);
    match name.rsplit_once(" (line ") {
        Some((name, _)) => name.strip_suffix(" -").unwrap_or(name).to_owned(),
        None => name.to_owned(),
    }
}

fn outcome(text: &str) -> Option<TestOutcome> {
    // With `--report-time` a time follows.
    match text.split(" <").next()? {
        "ok" => Some(TestOutcome::Passed),
        "FAILED" => Some(TestOutcome::Failed),
        text if text == "ignored" || text.starts_with("ignored, ") => Some(TestOutcome::Skipped),
        text if text.starts_with("bench: ") => Some(TestOutcome::Passed),
        _ => None,
    }
}

fn running_line(line: &str) -> Option<u64> {
    let (number, rest) = split_number(line.strip_prefix("running ")?)?;
    matches!(rest, " test" | " tests").then_some(number)
}

fn result_line(line: &str) -> Option<TestCounts> {
    let rest = line.strip_prefix("test result: ")?;
    let rest = rest.strip_prefix("ok. ").or_else(|| rest.strip_prefix("FAILED. "))?;
    let mut counts = TestCounts::default();
    for (part, word) in rest.split("; ").zip(["passed", "failed", "ignored", "measured"]) {
        let (number, found) = split_count(part)?;
        let mut more = TestCounts::default();
        match word {
            "failed" => more.failed = number,
            "ignored" => more.skipped = number,
            _ => more.passed = number,
        }
        counts.add(more);
        if found != word {
            return None;
        }
    }
    rest.contains(" filtered out").then_some(counts)
}
