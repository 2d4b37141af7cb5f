//! Compares what a check ran now with what it ran on the base.

use ralph_orchestrator_text::{count, escape_line, len, truncate};

use crate::results::{TestNames, TestResults};

/// Names that a sentence shows.
const MAX_SHOWN: usize = 2;
/// Characters of a name that a sentence shows.
const MAX_NAME_CHARS: usize = 100;

/// A difference between two results that an honest change seldom makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultDifference {
    /// Fewer tests run; skipped ones do not count as run.
    Fewer {
        /// How many ran on the base.
        base: u64,
        /// How many ran now.
        now: u64,
        /// Tests that ran on the base only. Empty where the output does not name all tests.
        names_gone: Vec<String>,
    },
    /// The output has no number of tests any more, or a part of it is missing and what is there has fewer.
    Unreadable {
        /// How many ran on the base.
        base: u64,
    },
    /// The check accepts although tests failed.
    AcceptedThoughFailed {
        /// How many failed.
        failed: u64,
    },
    /// Not fewer tests run, but some of the base are no longer among them.
    OtherNames {
        /// Tests that ran on the base only.
        gone: Vec<String>,
        /// Tests that run now only. Empty where the base does not name all tests.
        added: Vec<String>,
    },
}

/// Compares two results; a check without numbers on the base cannot be compared.
///
/// Names are compared only where the output names all tests that ran.
#[must_use]
pub fn compare_test_results(
    base: Option<&TestResults>,
    now: Option<&TestResults>,
    is_accepted: bool,
) -> Vec<ResultDifference> {
    let mut differences = Vec::new();
    if let Some(base) = base {
        differences.extend(compare_runs(base, now));
    }
    let failed = now.map_or(0, |now| now.counts.failed);
    if is_accepted && failed > 0 {
        differences.push(ResultDifference::AcceptedThoughFailed { failed });
    }
    differences
}

fn compare_runs(base: &TestResults, now: Option<&TestResults>) -> Option<ResultDifference> {
    let base_ran = base.counts.ran();
    let unreadable = ResultDifference::Unreadable { base: base_ran };
    let Some(now) = now else { return Some(unreadable) };
    let now_ran = now.counts.ran();
    let names_gone =
        if now.has_all_names() { missing_names(&base.names, &now.names) } else { Vec::new() };
    if now_ran < base_ran {
        let fewer = ResultDifference::Fewer { base: base_ran, now: now_ran, names_gone };
        return Some(if now.is_cut { unreadable } else { fewer });
    }
    let added =
        if base.has_all_names() { missing_names(&now.names, &base.names) } else { Vec::new() };
    (!names_gone.is_empty()).then_some(ResultDifference::OtherNames { gone: names_gone, added })
}

/// Returns the tests that ran more often in one result than in the other.
fn missing_names(from: &TestNames, other: &TestNames) -> Vec<String> {
    let gone = from.iter().filter(|(name, counts)| counts.ran() > other.ran(name));
    gone.map(|(name, _)| name.to_owned()).collect()
}

impl ResultDifference {
    /// Describes the difference in a short sentence without a full stop.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Fewer { base, now, names_gone } if names_gone.is_empty() => {
                let gone = base.saturating_sub(*now);
                let number = count(gone, "test");
                format!("{number} no longer {}: {base} ran at the start, {now} now", run(gone))
            }
            // Tests of several packages may have one name.
            Self::Fewer { base, now, names_gone } => {
                describe_gone(names_gone, len(names_gone).max(base.saturating_sub(*now)))
            }
            Self::Unreadable { base } => {
                format!(
                    "the number of tests can no longer be read from the output: {base} ran at the start"
                )
            }
            Self::AcceptedThoughFailed { failed } => {
                format!("the check accepts although {} failed", count(*failed, "test"))
            }
            Self::OtherNames { gone, added } if added.is_empty() => describe_gone(gone, len(gone)),
            Self::OtherNames { gone, added } => {
                format!(
                    "{}; new: {}",
                    describe_gone(gone, len(gone)),
                    list_names(added, len(added))
                )
            }
        }
    }
}

fn describe_gone(names: &[String], number: u64) -> String {
    format!("{} no longer {}: {}", count(number, "test"), run(number), list_names(names, number))
}

fn run(number: u64) -> &'static str {
    if number == 1 { "runs" } else { "run" }
}

/// Lists the first names of so many tests; what they contain is text of the agent's.
fn list_names(names: &[String], number: u64) -> String {
    let shown = names.iter().take(MAX_SHOWN);
    let shown: Vec<String> =
        shown.map(|name| truncate(&escape_line(name), MAX_NAME_CHARS)).collect();
    match number.saturating_sub(len(&shown)) {
        0 => shown.join(", "),
        more => format!("{}, … and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_test_results;

    /// Results of a verbose run of pytest, one letter a test.
    fn run_of(tests: &[(&str, &str)]) -> TestResults {
        let mut output = "=== test session starts ===\n".to_owned();
        let mut counts = [0, 0, 0];
        for (name, outcome) in tests {
            output.push_str(&format!("t.py::{name} {outcome} [ 1%]\n"));
            let index = ["PASSED", "FAILED", "SKIPPED"].iter().position(|one| one == outcome);
            counts[index.unwrap()] += 1;
        }
        let [passed, failed, skipped] = counts;
        output.push_str(&format!(
            "=== {failed} failed, {passed} passed, {skipped} skipped in 0.01s ===\n"
        ));
        read_test_results(output.as_bytes()).unwrap()
    }

    fn sentences(base: Option<&TestResults>, now: Option<&TestResults>) -> Vec<String> {
        let differences = compare_test_results(base, now, true);
        differences.iter().map(ResultDifference::describe).collect()
    }

    #[test]
    fn a_difference_is_found_and_described() {
        let (pass, fail, skip) = ("PASSED", "FAILED", "SKIPPED");
        let base = run_of(&[("a", pass), ("b", fail), ("c", pass), ("d", skip)]);
        for (now, expected) in [
            (&[("a", pass), ("b", pass), ("c", pass), ("d", skip)][..], &[][..]),
            (&[("a", pass), ("b", pass), ("c", pass), ("d", pass), ("e", pass)], &[]),
            (&[("a", pass), ("b", pass), ("c", pass)], &[]),
            (&[("a", pass), ("b", pass), ("c", skip)], &["1 test no longer runs: t.py::c"]),
            (&[], &["3 tests no longer run: t.py::a, t.py::b, … and 1 more"]),
            (
                &[("a", pass), ("b", pass), ("e", pass)],
                &["1 test no longer runs: t.py::c; new: t.py::e"],
            ),
            (
                &[("a", pass), ("c", fail)],
                &["1 test no longer runs: t.py::b", "the check accepts although 1 test failed"],
            ),
        ] {
            assert_eq!(sentences(Some(&base), Some(&run_of(now))), expected, "{now:?}");
        }
        assert_eq!(
            sentences(Some(&base), None),
            ["the number of tests can no longer be read from the output: 3 ran at the start"]
        );
        assert!(sentences(None, Some(&run_of(&[("a", pass)]))).is_empty());
        assert!(sentences(None, None).is_empty());
    }

    #[test]
    fn names_are_not_compared_where_some_are_missing() {
        let base = run_of(&[("a", "PASSED"), ("b", "FAILED")]);
        let now = read_test_results(b"1 passed in 0.01s\n");
        assert_eq!(
            sentences(Some(&base), now.as_ref()),
            ["1 test no longer runs: 2 ran at the start, 1 now"]
        );
        assert!(
            sentences(Some(&base), read_test_results(b"2 passed in 0.01s").as_ref()).is_empty()
        );
    }

    #[test]
    fn a_cut_output_with_fewer_tests_is_unreadable() {
        let base = run_of(&[("a", "PASSED"), ("b", "PASSED")]);
        let mut now = run_of(&[("a", "PASSED")]);
        now.is_cut = true;
        let difference = compare_test_results(Some(&base), Some(&now), true);
        assert_eq!(difference, [ResultDifference::Unreadable { base: 2 }]);
    }
}
