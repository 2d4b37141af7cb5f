//! pytest: the last line of a session, and the names of `-v`, `-rA`, xdist and the short summary.
//!
//! `==== 1 failed, 7 passed, 1 skipped in 0.08s ====`, with `-q` without the signs. With `-qq` there are no numbers. A test
//! that is expected to fail counts as skipped, one that passes nevertheless as passed. What the tests of a session
//! print may look like its last line, so only the last such line counts until another session begins.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::reader::{RunnerReader, RunnerReport, split_count};
use crate::results::{RunNames, TestCounts, TestOutcome};

static LAST_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(=+ )?(no tests ran|\d+ [a-z ]+(?:, \d+ [a-z ]+)*) in [0-9.]+s(?: \([0-9:]+\)| \([^)]*day[^)]*\))?( =+)?$")
        .ok()
});
/// `tests/test_a.py::test_one PASSED [ 8%]`
static VERBOSE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?<name>[^\s\[]\S*?::.*?) (?<outcome>PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)(?: \(.*\))?(?:\s+\[[ \d/%]+\])?$")
        .ok()
});
/// `[gw0] [ 8%] PASSED tests/test_a.py::test_one`, as pytest-xdist has it.
static OF_WORKER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\[gw\d+\] \[[ \d/%]+\] (?<outcome>[A-Z]+) (?<name>\S*::.*?)\s*$").ok()
});
/// `FAILED tests/test_a.py::test_one - assert 1 == 2`, in the short summary.
static REPORTED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?<outcome>PASSED|FAILED|ERROR|XFAIL|XPASS) (?<name>[^\s\[]\S*?::[^\[]*?(?:\[.*\])?)(?: - .*)?$")
        .ok()
});

#[derive(Default)]
pub(crate) struct Pytest {
    names: RunNames,
    /// What the last line may be, until the session has ended.
    last: Option<TestCounts>,
    has_header: bool,
    /// Among what the session repeats of failed tests, with what they have printed.
    is_in_details: bool,
    is_in_summary: bool,
}

impl RunnerReader for Pytest {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let title = title(line);
        if title == Some("test session starts") {
            let report = self.finish();
            self.has_header = true;
            return report;
        }
        if !self.has_header && self.last.is_some() && line.ends_with("[100%]") {
            return self.finish();
        }
        match title {
            Some("FAILURES" | "ERRORS" | "PASSES" | "XFAILURES" | "XPASSES") => {
                self.is_in_details = true;
            }
            Some("short test summary info") => {
                (self.is_in_details, self.is_in_summary) = (false, true);
            }
            _ => {}
        }
        if let Some(counts) = last_line(line) {
            self.last = Some(counts);
        } else if !self.is_in_details {
            self.read_name(line);
        }
        None
    }

    fn finish(&mut self) -> Option<RunnerReport> {
        let ended = std::mem::take(self);
        ended.last.map(|counts| RunnerReport { counts, names: ended.names })
    }

    fn is_enclosing(&self) -> bool {
        self.is_in_details && self.last.is_none()
    }
}

impl Pytest {
    fn read_name(&mut self, line: &str) {
        let patterns: &[_] =
            if self.is_in_summary { &[&REPORTED] } else { &[&VERBOSE, &OF_WORKER] };
        if !line.contains("::") {
            return;
        }
        let found = patterns.iter().find_map(|pattern| pattern.as_ref()?.captures(line));
        if let Some((name, outcome)) = found.as_ref().and_then(named_test) {
            self.names.add(name, outcome);
        }
    }
}

/// Returns the words between two rows of `=`.
fn title(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('=')?.trim_start_matches('=');
    Some(inner.strip_prefix(' ')?.trim_end_matches('=').trim())
}

fn named_test<'a>(found: &'a Captures<'_>) -> Option<(&'a str, TestOutcome)> {
    let outcome = match found.name("outcome")?.as_str() {
        "PASSED" | "XPASS" => TestOutcome::Passed,
        "FAILED" | "ERROR" => TestOutcome::Failed,
        "SKIPPED" | "XFAIL" => TestOutcome::Skipped,
        _ => return None,
    };
    Some((found.name("name")?.as_str(), outcome))
}

fn last_line(line: &str) -> Option<TestCounts> {
    let line = line.trim_end();
    let may_be = line.contains(" in ")
        && line.starts_with(|c: char| c == '=' || c == 'n' || c.is_ascii_digit());
    let found = LAST_LINE.as_ref().filter(|_| may_be)?.captures(line)?;
    if found.get(1).is_some() != found.get(3).is_some() {
        return None;
    }
    let mut counts = TestCounts::default();
    let words = found.get(2)?.as_str();
    if words == "no tests ran" {
        return Some(counts);
    }
    let mut has_tests = false;
    for part in words.split(", ") {
        let (number, word) = split_count(part)?;
        let mut more = TestCounts::default();
        match word {
            "passed" | "xpassed" => more.passed = number,
            "failed" | "error" | "errors" => more.failed = number,
            "skipped" | "xfailed" => more.skipped = number,
            "deselected" => {}
            "warning" | "warnings" | "rerun" | "subtests passed" | "subtests failed"
            | "subtests skipped" => continue,
            _ => return None,
        }
        has_tests = true;
        counts.add(more);
    }
    has_tests.then_some(counts)
}
