//! The numbers and names of the tests that a check ran.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Names that are stored of one result; more are only counted.
const MAX_NAMES: usize = 20_000;
/// A longer name is not stored: cut, it could be taken for another one.
const MAX_NAME_BYTES: usize = 512;

/// Counts tests by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestCounts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed, and errors outside of tests that the runner counts.
    pub failed: u64,
    /// Tests that were not executed, are still to be written, or are expected to fail: those prove nothing.
    pub skipped: u64,
}

impl TestCounts {
    /// Returns how many tests ran: a skipped test did not.
    #[must_use]
    pub fn ran(self) -> u64 {
        self.passed.saturating_add(self.failed)
    }

    pub(crate) fn total(self) -> u64 {
        self.ran().saturating_add(self.skipped)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
    }

    /// Splits a total that includes what failed and was skipped.
    pub(crate) fn from_total(total: u64, failed: u64, skipped: u64) -> Self {
        Self { passed: total.saturating_sub(failed).saturating_sub(skipped), failed, skipped }
    }
}

impl fmt::Display for TestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = *self;
        let parts = [(passed, "passed"), (failed, "failed"), (skipped, "skipped")];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let parts: Vec<String> = parts.map(|(number, word)| format!("{number} {word}")).collect();
        if parts.is_empty() { f.write_str("no tests ran") } else { f.write_str(&parts.join(", ")) }
    }
}

/// How one test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestOutcome {
    Skipped,
    Passed,
    Failed,
}

impl From<TestOutcome> for TestCounts {
    fn from(outcome: TestOutcome) -> Self {
        let mut counts = Self::default();
        match outcome {
            TestOutcome::Skipped => counts.skipped = 1,
            TestOutcome::Passed => counts.passed = 1,
            TestOutcome::Failed => counts.failed = 1,
        }
        counts
    }
}

/// The names of tests with how often each ended in which way; the same name may occur in several packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestNames {
    tests: BTreeMap<String, TestCounts>,
    left_out: u64,
}

impl TestNames {
    /// Returns each name with its counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, TestCounts)> {
        self.tests.iter().map(|(name, counts)| (name.as_str(), *counts))
    }

    /// Returns how often the test of this name ran.
    #[must_use]
    pub fn ran(&self, name: &str) -> u64 {
        self.tests.get(name).map_or(0, |counts| counts.ran())
    }

    /// Returns how many tests had a name that is not stored, because there were too many or it was too long.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn add(&mut self, name: String, counts: TestCounts) {
        if let Some(known) = self.tests.get_mut(&name) {
            known.add(counts);
        } else if self.tests.len() < MAX_NAMES {
            self.tests.insert(name, counts);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }
}

/// The names of one run of a runner.
#[derive(Debug, Default)]
pub(crate) struct RunNames {
    tests: BTreeMap<String, TestCounts>,
    left_out: u64,
}

impl RunNames {
    /// Adds a test whose name nothing else has; where the output repeats it, the worse outcome counts.
    pub(crate) fn add(&mut self, name: impl Into<String>, outcome: TestOutcome) {
        let keep_worse = |known: &mut TestCounts| {
            let is_worse = match outcome {
                TestOutcome::Failed => true,
                TestOutcome::Passed => known.failed == 0,
                TestOutcome::Skipped => false,
            };
            if is_worse {
                *known = outcome.into();
            }
        };
        self.change(name.into(), outcome, keep_worse);
    }

    /// Adds a test, or the outcome of its last try.
    pub(crate) fn replace(&mut self, name: impl Into<String>, outcome: TestOutcome) {
        self.change(name.into(), outcome, |known| *known = outcome.into());
    }

    /// Adds a test that may have the same name as another one.
    pub(crate) fn count(&mut self, name: impl Into<String>, outcome: TestOutcome) {
        self.change(name.into(), outcome, |known| known.add(outcome.into()));
    }

    fn change(
        &mut self,
        name: String,
        outcome: TestOutcome,
        change_known: impl FnOnce(&mut TestCounts),
    ) {
        if let Some(known) = self.tests.get_mut(&name) {
            change_known(known);
        } else if self.tests.len() < MAX_NAMES && name.len() <= MAX_NAME_BYTES {
            self.tests.insert(name, outcome.into());
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    /// Forgets the names of what is no test, such as a file that could not be loaded.
    pub(crate) fn retain(&mut self, is_test: impl Fn(&str) -> bool) {
        self.tests.retain(|name, _| is_test(name));
    }

    /// Returns how many tests are named.
    pub(crate) fn total(&self) -> u64 {
        self.tests.values().fold(0, |sum, counts| sum.saturating_add(counts.total()))
    }
}

/// What a check's output says about its tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestResults {
    /// The sum over all runners and packages.
    pub counts: TestCounts,
    /// The tests whose names the output has; often only those that failed.
    pub names: TestNames,
    /// Whether a part of the output was missing: the numbers may be too low.
    pub is_cut: bool,
}

impl TestResults {
    /// Returns whether each test that ran is named.
    #[must_use]
    pub fn has_all_names(&self) -> bool {
        let mut named = TestCounts::default();
        for counts in self.names.tests.values() {
            named.add(*counts);
        }
        self.names.left_out == 0 && !self.is_cut && named.ran() == self.counts.ran()
    }

    /// Adds one run of a runner.
    pub(crate) fn add_run(&mut self, counts: TestCounts, names: RunNames) {
        self.counts.add(counts);
        self.names.left_out = self.names.left_out.saturating_add(names.left_out);
        for (name, counts) in names.tests {
            self.names.add(name, counts);
        }
    }
}

impl From<TestCounts> for TestResults {
    fn from(counts: TestCounts) -> Self {
        Self { counts, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_in_words() {
        let counts = |passed, failed, skipped| TestCounts { passed, failed, skipped }.to_string();
        assert_eq!(counts(3, 1, 2), "3 passed, 1 failed, 2 skipped");
        assert_eq!(counts(0, 0, 2), "2 skipped");
        assert_eq!(counts(0, 0, 0), "no tests ran");
    }

    #[test]
    fn names_are_bounded_and_the_result_says_so() {
        let mut names = RunNames::default();
        for number in 0..MAX_NAMES + 5 {
            names.add(number.to_string(), TestOutcome::Passed);
        }
        names.add("x".repeat(MAX_NAME_BYTES + 1), TestOutcome::Passed);
        let mut results = TestResults::default();
        results.add_run(TestCounts { passed: 20_006, ..TestCounts::default() }, names);
        assert_eq!(results.names.left_out(), 6);
        assert_eq!(results.names.iter().count(), MAX_NAMES);
        assert!(!results.has_all_names());
    }

    #[test]
    fn a_name_of_several_packages_counts_each_time() {
        let mut results = TestResults::default();
        for outcome in [TestOutcome::Passed, TestOutcome::Failed, TestOutcome::Skipped] {
            let mut names = RunNames::default();
            names.add("works", outcome);
            results.add_run(outcome.into(), names);
        }
        assert_eq!(results.names.ran("works"), 2);
        assert_eq!(results.counts, TestCounts { passed: 1, failed: 1, skipped: 1 });
        assert!(results.has_all_names());
    }
}
