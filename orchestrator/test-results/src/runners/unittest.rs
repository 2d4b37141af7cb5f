//! unittest of Python, and what prints like it (Django, nose2): `Ran 10 tests in 0.002s` below a row of dashes, and the
//! verdict two lines on, `FAILED (failures=1, errors=1, skipped=2, expected failures=1)`.
//!
//! A test that is expected to fail counts as skipped. Names are there with `-v`. Python 3.12.1
//! leaves skipped tests out of the first number; without names they are then subtracted once too often, always.

use super::reader::{RunnerReader, RunnerReport, split_number};
use crate::results::{RunNames, TestCounts, TestOutcome};

/// How the name begins by which a file that could not be loaded is reported as a failed test.
const NOT_LOADED: &str = "unittest.loader._FailedTest";

#[derive(Default)]
pub(crate) struct Unittest {
    names: RunNames,
    /// The test that a verbose run has begun.
    begun: Option<String>,
    after_dashes: bool,
    /// What `Ran` says, with the number of lines in which the verdict may still come.
    ran: Option<(u64, u8)>,
}

impl RunnerReader for Unittest {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let line = line.trim_end();
        if let Some((ran, lines)) = self.ran.take() {
            if let Some(counts) = verdict(line, ran, self.names.total()) {
                let mut names = std::mem::take(self).names;
                names.retain(|name| !name.starts_with(NOT_LOADED));
                return Some(RunnerReport { counts, names });
            }
            self.ran = (lines > 0 && line.is_empty()).then(|| (ran, lines - 1));
        }
        if self.after_dashes {
            self.ran = ran_line(line).map(|ran| (ran, 2));
        }
        self.after_dashes = line.len() == 70 && line.bytes().all(|byte| byte == b'-');
        self.read_name(line);
        None
    }
}

impl Unittest {
    fn read_name(&mut self, line: &str) {
        if let Some(name) = name(line) {
            self.begun = Some(name);
        }
        let end = line.rsplit(" ... ").next().unwrap_or(line);
        let Some(outcome) = outcome(end).filter(|_| self.begun.is_some()) else { return };
        if let Some(name) = self.begun.take() {
            self.names.add(name, outcome);
        }
    }
}

/// Returns the name of `test_one (module.Class.test_one) ... `; before Python 3.11 the method is not repeated.
fn name(line: &str) -> Option<String> {
    let (method, rest) = line.split_once(" (")?;
    let (class, rest) = rest.split_once(')')?;
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
    };
    let is_test = is_name(method) && is_name(class) && (rest.is_empty() || rest.starts_with(' '));
    let has_method = class.rsplit('.').next() == Some(method);
    let name = if has_method { class.to_owned() } else { format!("{class}.{method}") };
    is_test.then_some(name)
}

fn outcome(text: &str) -> Option<TestOutcome> {
    match text {
        "ok" => Some(TestOutcome::Passed),
        "FAIL" | "ERROR" | "unexpected success" => Some(TestOutcome::Failed),
        "expected failure" => Some(TestOutcome::Skipped),
        _ => text.starts_with("skipped ").then_some(TestOutcome::Skipped),
    }
}

fn ran_line(line: &str) -> Option<u64> {
    let (ran, rest) = split_number(line.strip_prefix("Ran ")?)?;
    (rest.starts_with(" test in ") || rest.starts_with(" tests in ")).then_some(ran)
}

fn verdict(line: &str, ran: u64, named: u64) -> Option<TestCounts> {
    let (word, details) = match line.split_once(" (") {
        Some((word, details)) => (word, details.strip_suffix(')')?),
        None => (line, ""),
    };
    if !matches!(word, "OK" | "FAILED" | "NO TESTS RAN") {
        return None;
    }
    let (mut failed, mut skipped, mut expected) = (0_u64, 0_u64, 0_u64);
    for part in details.split(", ").filter(|part| !part.is_empty()) {
        let (word, number) = part.split_once('=')?;
        let number: u64 = number.parse().ok()?;
        match word {
            "failures" | "errors" | "unexpected successes" => {
                failed = failed.saturating_add(number);
            }
            "skipped" => skipped = number,
            "expected failures" => expected = number,
            _ => return None,
        }
    }
    // 3.12.1 does not count skipped tests among those that ran; only names tell.
    let total = ran.saturating_add(skipped);
    let skipped = skipped.saturating_add(expected);
    Some(TestCounts::from_total(if named == total { total } else { ran }, failed, skipped))
}
