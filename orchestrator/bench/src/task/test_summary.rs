//! Reads the reward of tests from the summary that pytest prints with `-rA`, by the rule of Terminal-Bench 1.

use std::collections::BTreeMap;

use super::reward::RewardError;

const HEADING: &str = "short test summary info";

/// Returns 1 if the summary names tests and each of them passed, was skipped or failed as expected; else 0. What is printed
/// after the summary's first heading counts, and of a test that is named twice the last result.
///
/// # Errors
/// There is no summary, or no result in it.
pub fn read_pytest_summary(output: &str) -> Result<f64, RewardError> {
    let mut lines = output.lines().map(str::trim_end);
    lines.by_ref().find(|line| is_heading(line)).ok_or(RewardError::NoSummary)?;
    let results: BTreeMap<&str, bool> = lines.filter_map(read_result).collect();
    if results.is_empty() {
        return Err(RewardError::NoSummary);
    }
    Ok(f64::from(u8::from(results.into_values().all(|passed| passed))))
}

fn is_heading(line: &str) -> bool {
    let inner = line.trim_start_matches('=').trim_end_matches('=').trim();
    line.starts_with('=') && line.ends_with('=') && inner.eq_ignore_ascii_case(HEADING)
}

/// Returns the test that a line is about, and whether it is no failure.
fn read_result(line: &str) -> Option<(&str, bool)> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    let passed = match word.trim_end_matches(':') {
        "PASSED" | "SKIPPED" | "XFAIL" => true,
        "FAILED" | "ERROR" | "XPASS" => false,
        _ => return None,
    };
    let test = match rest.rsplit_once(" - ") {
        Some((test, _)) if word == "FAILED" => test,
        _ => rest,
    };
    Some((test.trim(), passed)).filter(|(test, _)| !test.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_that_is_named_has_to_pass() {
        let heading = "=========== short test summary info ============\n";
        for (results, expected) in [
            ("PASSED ../tests/t.py::a\nSKIPPED [1] t.py:3: no net\nXFAIL t.py::b\n", Some(1.0)),
            ("PASSED t.py::a\nFAILED t.py::b - assert 1 - 1\n", Some(0.0)),
            ("PASSED t.py::a\nERROR t.py::b\n", Some(0.0)),
            ("XPASS t.py::b\n", Some(0.0)),
            // A test that is run again.
            ("FAILED t.py::a - x\nPASSED t.py::a\n", Some(1.0)),
            ("===== 0 passed in 0.1s =====\n", None),
            ("", None),
        ] {
            let output = format!("PASSED before::it - no result\n{heading}{results}");
            assert_eq!(read_pytest_summary(&output).ok(), expected, "{results}");
        }
        assert!(read_pytest_summary("PASSED t.py::a\n").is_err(), "without a summary");
        // What the work prints as a summary takes away no result of the real one.
        let faked = format!("{heading}PASSED fake::x\n{heading}FAILED t.py::a - x\n");
        assert_eq!(read_pytest_summary(&faked).unwrap(), 0.0);
    }
}
