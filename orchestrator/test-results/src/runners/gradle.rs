//! Gradle, with `testLogging` of passed tests: `ATest > works PASSED`.
//!
//! Without that setting it prints numbers only if something failed, which are not read: a repaired project would lose
//! them.

use super::reader::{RunnerReader, RunnerReport};
use crate::results::{RunNames, TestCounts, TestOutcome};

#[derive(Default)]
pub(crate) struct Gradle {
    counts: TestCounts,
    names: RunNames,
}

impl RunnerReader for Gradle {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        if line.starts_with("BUILD SUCCESSFUL in ") || line.starts_with("BUILD FAILED in ") {
            return self.finish();
        }
        let (name, word) = line.trim_end().rsplit_once(' ')?;
        let outcome = match word {
            "PASSED" => TestOutcome::Passed,
            "FAILED" => TestOutcome::Failed,
            "SKIPPED" => TestOutcome::Skipped,
            _ => return None,
        };
        if name.contains(" > ") && !name.starts_with([' ', '>']) {
            self.counts.add(outcome.into());
            self.names.count(name, outcome);
        }
        None
    }

    fn finish(&mut self) -> Option<RunnerReport> {
        let ended = std::mem::take(self);
        let has_passed = ended.counts.passed > 0;
        has_passed.then_some(RunnerReport { counts: ended.counts, names: ended.names })
    }
}
