//! go test: `--- PASS: TestOne (0.00s)` with `-v`, and the events of `-json`.
//!
//! Without either a package has one line, `ok example.org/m 0.003s`, and only failed tests are named: there is no number.
//! A result counts if `=== RUN` has named its test before. Subtests count, and so do the tests that they belong to.
//! `[no tests to run]` is zero.

use std::collections::BTreeSet;

use serde_json::Value;

use super::reader::{RunnerReader, RunnerReport};
use crate::results::{RunNames, TestCounts, TestOutcome};

/// Tests of a package that may have begun and not ended, of more the end is not read; names that are kept of those
/// that have.
const MAX_RUNNING: usize = 20_000;

#[derive(Default)]
pub(crate) struct GoTest {
    /// Tests of the current package that have begun.
    running: BTreeSet<String>,
    counts: TestCounts,
    /// Names of those that have ended.
    ended: Vec<(String, TestOutcome)>,
}

impl RunnerReader for GoTest {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let line = line.trim_end();
        if line.starts_with('{') {
            return read_event(line);
        }
        if let Some(name) = line.strip_prefix("=== RUN ") {
            if self.running.len() < MAX_RUNNING {
                self.running.insert(name.trim().to_owned());
            }
        } else if let Some(package) = package(line) {
            let ended = std::mem::take(self);
            if ended.counts.total() > 0 || line.ends_with("[no tests to run]") {
                return Some(report(package, ended.counts, ended.ended));
            }
        } else if let Some((name, outcome)) = result(line)
            && self.running.remove(name)
        {
            self.counts.add(outcome.into());
            if self.ended.len() < MAX_RUNNING {
                self.ended.push((name.to_owned(), outcome));
            }
        }
        None
    }

    fn finish(&mut self) -> Option<RunnerReport> {
        let ended = std::mem::take(self);
        (ended.counts.total() > 0).then(|| report("", ended.counts, ended.ended))
    }
}

fn report(
    package: &str,
    counts: TestCounts,
    ended: impl IntoIterator<Item = (String, TestOutcome)>,
) -> RunnerReport {
    let mut names = RunNames::default();
    for (name, outcome) in ended {
        names.count(whole_name(package, &name), outcome);
    }
    RunnerReport { counts, names }
}

fn whole_name(package: &str, test: &str) -> String {
    if package.is_empty() { test.to_owned() } else { format!("{package}.{test}") }
}

/// Reads the line that ends a package.
fn package(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("ok  \t").or_else(|| line.strip_prefix("FAIL\t"))?;
    rest.split(['\t', ' ']).next()
}

/// Reads a test's result; what it printed without a line end may stand before it.
fn result(line: &str) -> Option<(&str, TestOutcome)> {
    let (_, rest) = line.rsplit_once("--- ")?;
    let (word, rest) = rest.split_once(": ")?;
    let outcome = match word {
        "PASS" => TestOutcome::Passed,
        "FAIL" => TestOutcome::Failed,
        "SKIP" => TestOutcome::Skipped,
        _ => return None,
    };
    let (name, time) = rest.rsplit_once(" (")?;
    time.ends_with("s)").then_some((name, outcome))
}

fn read_event(line: &str) -> Option<RunnerReport> {
    if !line.contains("\"Action\"") {
        return None;
    }
    let event: Value = serde_json::from_str(line).ok()?;
    let field = |name: &str| event.get(name).and_then(Value::as_str);
    let package = field("Package").unwrap_or_default();
    let outcome = match field("Action")? {
        "pass" => TestOutcome::Passed,
        "fail" => TestOutcome::Failed,
        "skip" => TestOutcome::Skipped,
        "output" if field("Output")?.ends_with("[no tests to run]\n") => {
            return Some(report(package, TestCounts::default(), []));
        }
        _ => return None,
    };
    Some(report(package, outcome.into(), [(field("Test")?.to_owned(), outcome)]))
}
