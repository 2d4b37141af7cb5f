//! Reads from verdicts what the checks said about a variant.

use std::collections::BTreeSet;

use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_explain::VariantOutcome;
use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_test_results::{OutputStream, TestResults, TestResultsReader};

/// How a reason begins a quote of the output, whole or only its end; the lines of the quote are indented.
const WHOLE: &str = "Its output:";
const END: &str = "The end of its output:";
const INDENT: &str = "    ";
/// What compilers, interpreters and runners print of work that cannot be loaded.
const LOAD_ERRORS: &[&str] = &[
    "ImportError",
    "ModuleNotFoundError",
    "SyntaxError",
    "IndentationError",
    "ERROR collecting",
    "could not compile",
    "Cannot find module",
    "[build failed]",
    "COMPILATION ERROR",
    "Compilation failed",
    "error TS",
    "fatal error:",
];

/// Returns what the required checks said, the first that did not accept; `None` if none ran or that could not.
pub(super) fn read_outcome(verdicts: &[ValidatorVerdict]) -> Option<VariantOutcome> {
    let mut required = verdicts.iter().filter(|named| named.required).peekable();
    required.peek()?;
    match required.map(|named| &named.verdict).find(|verdict| !verdict.is_accepted()) {
        None => Some(VariantOutcome::Green),
        Some(Verdict::Rejected { reasons }) => Some(read_rejection(reasons)),
        Some(_) => None,
    }
}

/// Returns what a rejection says: which tests failed, and whether any could.
pub(super) fn read_rejection(reasons: &[String]) -> VariantOutcome {
    let results: Vec<TestResults> =
        reasons.iter().filter_map(|reason| read_tests(reason)).collect();
    let names = results.iter().flat_map(|results| results.names.iter());
    let failed = names.filter(|(_, counts)| counts.failed > 0).map(|(name, _)| name.to_owned());
    let failed: BTreeSet<String> = failed.collect();
    let has_error = |text: &&str| reasons.iter().any(|reason| reason.contains(*text));
    let has_run = results.is_empty() || results.iter().any(|results| results.counts.ran() > 0);
    let is_built = has_run && !LOAD_ERRORS.iter().any(has_error);
    VariantOutcome::Red { failed, is_built }
}

/// Reads the tests from the output that a reason quotes.
fn read_tests(reason: &str) -> Option<TestResults> {
    let mut reader = TestResultsReader::default();
    let mut lines = reason.lines();
    let head = lines.find(|line| line.ends_with(WHOLE) || line.ends_with(END))?;
    if head.ends_with(END) {
        reader.mark_cut();
    }
    for line in lines.map_while(|line| line.strip_prefix(INDENT)) {
        reader.push(OutputStream::Stdout, line.as_bytes());
        reader.push(OutputStream::Stdout, b"\n");
    }
    reader.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "`python3 -m unittest` failed: ended with exit 1, expected exit 0.\nIts output:\n    \
         test_net (tests.test_tax.Tax.test_net) ... ok\n    test_tax (tests.test_tax.Tax.test_tax) ... FAIL\n    \
         ======================================================================\n    \
         FAIL: test_tax (tests.test_tax.Tax.test_tax)\n    \
         ----------------------------------------------------------------------\n    \
         Traceback (most recent call last):\n    AssertionError: 1 != 2\n    \n    \
         ----------------------------------------------------------------------\n    \
         Ran 2 tests in 0.000s\n    \n    FAILED (failures=1)";

    fn red(failed: &[&str], is_built: bool) -> VariantOutcome {
        let failed = failed.iter().map(|name| (*name).to_owned()).collect();
        VariantOutcome::Red { failed, is_built }
    }

    #[test]
    fn a_rejection_names_the_tests_that_failed_or_says_that_none_could_run() {
        let unloaded = FAILED.replace("AssertionError: 1 != 2", "ImportError: no name `tax`");
        let rows = [
            (FAILED.to_owned(), red(&["tests.test_tax.Tax.test_tax"], true)),
            (unloaded, red(&["tests.test_tax.Tax.test_tax"], false)),
            (
                "`sh check.sh` failed: ended with exit 1.\nIt printed nothing.".to_owned(),
                red(&[], true),
            ),
            (
                "x failed.\nIts output:\n    error: could not compile `a`".to_owned(),
                red(&[], false),
            ),
            ("protected paths changed".to_owned(), red(&[], true)),
        ];
        for (reason, expected) in rows {
            assert_eq!(read_rejection(std::slice::from_ref(&reason)), expected, "{reason}");
        }
    }

    #[test]
    fn the_first_check_that_did_not_accept_counts() {
        let named = |required: bool, verdict: Verdict| ValidatorVerdict {
            validator: "v".to_owned(),
            required,
            duration_ms: 1,
            verdict,
            tests: None,
        };
        let accepted = || Verdict::Accepted { summary: String::new(), evidence: Vec::new() };
        let error = || Verdict::Error { message: String::new() };
        let rows = [
            (vec![], None),
            (vec![named(false, accepted())], None),
            (vec![named(true, accepted()), named(false, error())], Some(VariantOutcome::Green)),
            (vec![named(true, accepted()), named(true, error())], None),
            (
                vec![named(true, accepted()), named(true, Verdict::rejected(FAILED))],
                Some(red(&["tests.test_tax.Tax.test_tax"], true)),
            ),
        ];
        for (verdicts, expected) in rows {
            assert_eq!(read_outcome(&verdicts), expected, "{verdicts:?}");
        }
    }
}
