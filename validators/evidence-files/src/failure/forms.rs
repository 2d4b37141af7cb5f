//! The lines with which well-known tools report that something failed.

use std::sync::LazyLock;

use regex::RegexSet;

/// How much a line says about what failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// It sums up, or names what failed.
    Telling,
    /// It says no more than that something failed.
    Bare,
}

/// What a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// This tool reports a failure.
    Failure(&'static str, Rank),
    /// As [`Failure`](Self::Failure), in the list that follows [`Summary`](Self::Summary).
    Listed(&'static str),
    /// pytest's list of failures begins.
    Summary,
    /// As [`Failure`](Self::Failure), after [`Passing`](Self::Passing).
    Failing(&'static str),
    /// mocha says how many tests passed.
    Passing,
    /// A test of the Test Anything Protocol failed, if there is a plan.
    NotOk,
    /// Its plan.
    Plan,
    /// unittest says how many tests ran.
    Ran,
    /// unittest says that they passed, after [`Ran`](Self::Ran).
    Ok,
    /// All tests passed, whatever they printed.
    AllPassed,
}

use Meaning::{AllPassed, Failing, Failure, Listed, NotOk, Ok, Passing, Plan, Ran, Summary};
use Rank::{Bare, Telling};

/// `1 failed, 2 passed in 1.20s (0:01:02)`, with a count that fulfils `$count` among the others.
macro_rules! pytest_counts {
    ($count:literal) => {
        concat!(
            r"^(?:=+ )?(?:\d+ [a-z ]+, )*",
            $count,
            r"(?:, \d+ [a-z ]+)* in \d+(?:\.\d+)?(?:s| seconds)(?: \([^()]*\))?(?: =+)?$"
        )
    };
}

/// Each form with what it means. All are whole lines without trailing white space.
const FORMS: &[(&str, Meaning)] = &[
    // pytest
    (pytest_counts!(r"[1-9]\d* (?:failed|errors?)"), Failure("pytest", Telling)),
    (pytest_counts!(r"[1-9]\d* passed"), AllPassed),
    (r"^=+ (?:FAILURES|ERRORS) =+$", Failure("pytest", Bare)),
    (r"^!+ Interrupted: \d+ errors? during collection !+$", Failure("pytest", Telling)),
    (r"^=+ short test summary info =+$", Summary),
    (r"^(?:FAILED|ERROR) \S+(?: - .*)?$", Listed("pytest")),
    // unittest
    (
        r"^FAILED \((?:[a-z ]+=\d+, )*(?:failures|errors|unexpected successes)=[1-9]\d*(?:, [a-z ]+=\d+)*\)$",
        Failure("unittest", Telling),
    ),
    (r"^Ran \d+ tests? in \d+\.\d+s$", Ran),
    (r"^OK(?: \([a-z ]+=\d+(?:, [a-z ]+=\d+)*\))?$", Ok),
    // cargo test, cargo-nextest
    (r"^test result: FAILED\. \d+ passed; \d+ failed; ", Failure("cargo test", Telling)),
    (r"^test result: ok\. [1-9]\d* passed; 0 failed; ", AllPassed),
    (
        r"^ +Summary \[ *\d+\.\d+s\] \d+(?:/\d+)? tests? run: .*\b[1-9]\d* (?:failed|timed out)\b",
        Failure("cargo-nextest", Telling),
    ),
    (r"^thread '.+'(?: \(\d+\))? panicked at .+:\d+:\d+:?$", Failure("Rust panic", Bare)),
    // go test
    (r"^--- FAIL: \S+ \(\d+\.\d+s\)$", Failure("go test", Telling)),
    (r"^FAIL\t\S+(?:\t\d+\.\d+s| \[[a-z ]+\])?$", Failure("go test", Telling)),
    (r"^FAIL$", Failure("go test", Bare)),
    // jest, vitest, mocha, node --test
    (
        r"^(?:Tests|Test Suites|Snapshots): +(?:\d+ [a-z]+, )*[1-9]\d* failed(?:, \d+ [a-z]+)*, \d+ total$",
        Failure("jest", Telling),
    ),
    (
        r"^ *(?:Tests|Test Files)  (?:\d+ [a-z ]+ \| )*[1-9]\d* failed(?: \| \d+ [a-z ]+)* \(\d+\)$",
        Failure("vitest", Telling),
    ),
    (r"^ +Errors  [1-9]\d* errors?$", Failure("vitest", Telling)),
    (r"^  \d+ passing \([^()]*\)$", Passing),
    (r"^  [1-9]\d* failing$", Failing("mocha")),
    (r"^ℹ (?:fail|cancelled) [1-9]\d*$", Failure("node --test", Telling)),
    // Test Anything Protocol
    (r"^1\.\.\d+(?: #.*)?$", Plan),
    (r"^not ok\b", NotOk),
    (r"^Bail out!", NotOk),
    // HTTP, as `curl -i` and `curl -v` print it
    (r"^(?:< )?HTTP/\d(?:\.\d)? 5\d\d(?: .*)?$", Failure("HTTP status", Telling)),
    // scripts
    (r"^FAILED: [1-9]\d* tests? failed\.?$", Failure("test script", Telling)),
];

static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    // Each is compiled by a test below.
    RegexSet::new(FORMS.iter().map(|(form, _)| form)).unwrap_or_default()
});

/// Everything that a line without colours and trailing white space means.
pub(super) fn meanings(line: &str) -> impl Iterator<Item = Meaning> {
    // Every form begins with one of these: most lines of a log need no further look.
    let may_match = line.starts_with(|first: char| {
        matches!(first, ' ' | '=' | '!' | '<' | '-' | 'ℹ' | '0'..='9' | 'A'..='Z' | 'n' | 't')
    });
    let found = may_match.then(|| SET.matches(line));
    found.into_iter().flatten().filter_map(|index| FORMS.get(index).map(|(_, meaning)| *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_compile() {
        assert_eq!(SET.len(), FORMS.len());
    }

    #[test]
    fn the_quick_look_lets_every_form_through() {
        for (form, _) in FORMS {
            let bare = form.trim_start_matches("^(?:=+ )?(?:").trim_start_matches("^(?:");
            let first = bare.trim_start_matches('^').chars().next().unwrap();
            let first = if first == '\\' { '0' } else { first };
            assert!(
                matches!(first, ' ' | '=' | '!' | '<' | '-' | 'ℹ' | '0'..='9' | 'A'..='Z' | 'n' | 't'),
                "{form}"
            );
        }
    }
}
