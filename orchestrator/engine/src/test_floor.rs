//! The tests that ran before any agent worked: those of the base. Where fewer run at the validation of a claim, it is
//! rejected.
//!
//! The numbers are read from what a check prints, and the code under test can print, too: a fallen number is a reason to
//! reject, one that has not fallen proves nothing.

use std::collections::BTreeMap;
use std::iter;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_test_results::{
    ResultDifference, StartFailure, TestResults, compare_test_results,
};
use serde::{Deserialize, Serialize};

use super::check_tests::CheckTests;
use super::validation_policy::ConfiguredValidator;

/// What the checks of a run ran before any agent worked, by validator.
#[derive(Debug, Default)]
pub(super) struct TestFloor {
    checks: Mutex<BTreeMap<String, BaseTests>>,
    /// Why checks could not run a test there.
    start_failures: Mutex<BTreeMap<String, StartFailure>>,
}

/// What one check ran on the base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BaseTests {
    results: TestResults,
    /// It accepted although tests failed: so it is meant to.
    tolerates_failures: bool,
}

impl TestFloor {
    /// Takes the numbers alone, where nothing else is known.
    pub(super) fn from_verdicts(verdicts: &[ValidatorVerdict]) -> Self {
        let counted = verdicts.iter().filter_map(|named| Some((&named.validator, named.tests?)));
        let checks = counted.filter(|(_, counts)| counts.ran() > 0).map(|(name, counts)| {
            let base = BaseTests { results: counts.into(), tolerates_failures: false };
            (name.clone(), base)
        });
        Self::new(checks.collect())
    }

    /// Takes what was stored.
    pub(super) fn new(checks: BTreeMap<String, BaseTests>) -> Self {
        Self { checks: Mutex::new(checks), start_failures: Mutex::default() }
    }

    /// Returns what is to be said of checks that could not run a test, before an agent is paid.
    pub(super) fn warnings(&self) -> Vec<String> {
        let failures = self.start_failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().map(|(name, failure)| describe_start_failure(name, failure)).collect()
    }

    /// Returns which checks cannot run because a program is missing, each with what says so.
    pub(super) fn missing_tools(&self) -> Vec<String> {
        let failures = self.start_failures.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = failures.iter().filter(|(_, failure)| failure.is_missing_tool());
        missing.map(|(name, failure)| format!("`{name}`: {}", failure.describe())).collect()
    }

    /// Records what a check ran on the base. One that ran nothing there, or that could not begin, is compared with nothing.
    pub(super) fn record(&self, validator: &str, verdict: &Verdict, tests: CheckTests) {
        let mut failures = self.start_failures.lock().unwrap_or_else(PoisonError::into_inner);
        let mut checks = self.lock();
        failures.remove(validator);
        checks.remove(validator);
        if let Some(failure) = tests.start_failure {
            failures.insert(validator.to_owned(), failure);
        } else if let Some(results) = tests.results.filter(|results| results.counts.ran() > 0) {
            let tolerates_failures = verdict.is_accepted() && results.counts.failed > 0;
            checks.insert(validator.to_owned(), BaseTests { results, tolerates_failures });
        }
    }

    /// Takes what ran before, where now fewer do; that none could run now says nothing.
    pub(super) fn carry(&self, before: BTreeMap<String, BaseTests>) {
        self.start_failures.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut checks = self.lock();
        for (name, base) in before {
            let ran = |base: &BaseTests| base.results.counts.ran();
            if checks.get(&name).is_none_or(|now| ran(now) < ran(&base)) {
                checks.insert(name, base);
            }
        }
    }

    /// Rejects what a required check accepts although it no longer runs the tests of the base, or although tests failed.
    pub(super) fn apply(
        &self,
        check: &ConfiguredValidator,
        verdict: Verdict,
        now: Option<&TestResults>,
    ) -> Verdict {
        let Verdict::Accepted { summary, evidence } = verdict else { return verdict };
        let accepted = |summary| Verdict::Accepted { summary, evidence };
        if !check.info.required {
            return accepted(summary);
        }
        let base = self.lock().get(&check.info.name).cloned();
        let results = base.as_ref().map(|base| &base.results);
        let (mut reasons, mut allowed) = (Vec::new(), Vec::new());
        for difference in compare_test_results(results, now, true) {
            let advice = match &difference {
                ResultDifference::AcceptedThoughFailed { .. }
                    if base.as_ref().is_some_and(|base| base.tolerates_failures) =>
                {
                    continue;
                }
                ResultDifference::Fewer { .. } if check.validator.allows_fewer_tests() => {
                    allowed.push(difference.describe());
                    continue;
                }
                ResultDifference::OtherNames { .. } => {
                    allowed.push(difference.describe());
                    continue;
                }
                ResultDifference::Fewer { .. } => {
                    "Have them run again. Only a person can do without them: `tests_may_fall = true`"
                }
                ResultDifference::Unreadable { .. } => {
                    "Have the check print it as it did. Only a person can do without it: `count_tests = false`"
                }
                ResultDifference::AcceptedThoughFailed { .. } => {
                    "Make them pass. Only a person can do without it: `count_tests = false`"
                }
            };
            let what = difference.describe();
            reasons.push(format!("{summary}, but {what}. {advice} at {}", check.place));
        }
        if !reasons.is_empty() {
            return Verdict::Rejected { reasons };
        }
        accepted(iter::once(summary).chain(allowed).collect::<Vec<_>>().join("; "))
    }

    /// Returns what is to be stored.
    pub(super) fn checks(&self) -> BTreeMap<String, BaseTests> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BaseTests>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says of a check that fails before it runs a test that an agent cannot prove anything by it.
fn describe_start_failure(validator: &str, failure: &StartFailure) -> String {
    format!(
        "the check `{validator}` fails before it runs a test: {}; unless the task is to mend that, the agent would be paid \
         for work that this check can never accept",
        failure.describe()
    )
}
