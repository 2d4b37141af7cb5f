//! ctest: `50% tests passed, 3 tests failed out of 6`, and a line for each test.
//!
//! Tests that were skipped are among the passed ones of that line, disabled ones are not among all of them; the lines of
//! the tests tell. Between `Test project` and the summary, everything else is what the tests print. With `-Q` there is
//! nothing.

use std::sync::LazyLock;

use regex::Regex;

use super::reader::{RunnerReader, RunnerReport, split_number};
use crate::results::{RunNames, TestCounts, TestOutcome};

/// `3/7 Test #3: fails ....***Failed    0.00 sec`
static TEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^ *\d+/\d+ Test +#\d+: (?<name>.+?) \.*(?<outcome> +Passed|\*\*\*.+?) +[0-9.]+ sec",
    )
    .ok()
});

#[derive(Default)]
pub(crate) struct CTest {
    names: RunNames,
    /// Skipped tests that are among all, and disabled ones, which are not.
    skipped: u64,
    disabled: u64,
    is_running: bool,
}

impl RunnerReader for CTest {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        if line.starts_with("Test project ") {
            *self = Self { is_running: true, ..Self::default() };
            return None;
        }
        if !self.is_running {
            return None;
        }
        if line.trim_end() == "No tests were found!!!" {
            *self = Self::default();
            return Some(RunnerReport {
                counts: TestCounts::default(),
                names: RunNames::default(),
            });
        }
        if let Some((failed, total)) = summary(line) {
            let ended = std::mem::take(self);
            let mut counts = TestCounts::from_total(total, failed, ended.skipped);
            counts.skipped = counts.skipped.saturating_add(ended.disabled);
            // With another sum the line is of a test.
            if counts.total() == ended.names.total() {
                return Some(RunnerReport { counts, names: ended.names });
            }
            *self = ended;
        } else if let Some(found) = TEST.as_ref().and_then(|test| test.captures(line)) {
            let outcome = found.name("outcome")?.as_str().trim_start_matches(['*', ' ']);
            self.add(found.name("name")?.as_str(), outcome);
        }
        None
    }

    fn is_enclosing(&self) -> bool {
        self.is_running
    }
}

impl CTest {
    fn add(&mut self, name: &str, outcome: &str) {
        let outcome = match outcome {
            "Passed" => TestOutcome::Passed,
            "Skipped" => {
                self.skipped += 1;
                TestOutcome::Skipped
            }
            "Not Run (Disabled)" => {
                self.disabled += 1;
                TestOutcome::Skipped
            }
            _ => TestOutcome::Failed,
        };
        self.names.count(name.trim_end(), outcome);
    }
}

fn summary(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = split_number(line.trim_end())?;
    let (failed, rest) = split_number(rest.strip_prefix("% tests passed, ")?)?;
    let rest = rest.strip_prefix(" tests failed").or_else(|| rest.strip_prefix(" test failed"))?;
    let (total, rest) = split_number(rest.strip_prefix(" out of ")?)?;
    rest.is_empty().then_some((failed, total))
}
