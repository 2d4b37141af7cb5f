//! The tests that a check runs, read from what it prints.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use ralph_orchestrator_contract::{CheckOutput, Verdict};
use ralph_orchestrator_test_results::{
    OutputStream, StartFailure, StartFailureReader, TestResults, TestResultsReader,
};

/// How much is kept of the end of the output, in bytes.
const LONGEST_TAIL: usize = 8 * 1024;

/// Reads the output of one execution of a check.
#[derive(Default)]
pub(super) struct CheckTestsReader {
    readers: Mutex<(TestResultsReader, StartFailureReader)>,
    /// The end of its output.
    tail: Mutex<Vec<u8>>,
}

/// What the output of one execution says of its tests.
#[derive(Debug, Default)]
pub(super) struct CheckTests {
    /// The tests that ran; `None` if their number cannot be read.
    pub(super) results: Option<TestResults>,
    /// Why none could run.
    pub(super) start_failure: Option<StartFailure>,
    /// The end of the output.
    pub(super) tail: String,
}

impl CheckTestsReader {
    /// Returns what the output says, which is nothing where the check came to no verdict: it may have been ended.
    pub(super) fn finish(self, verdict: &Verdict) -> CheckTests {
        let (results, failure) = self.readers.into_inner().unwrap_or_else(PoisonError::into_inner);
        let results = results.finish();
        // Why there is no verdict, that says itself.
        let is_rejected = matches!(verdict, Verdict::Rejected { .. });
        let start_failure = failure.finish(results.as_ref()).filter(|_| is_rejected);
        let is_checked = !matches!(verdict, Verdict::Error { .. });
        let tail = self.tail.into_inner().unwrap_or_else(PoisonError::into_inner);
        let begin = tail.len().saturating_sub(LONGEST_TAIL);
        let tail = String::from_utf8_lossy(tail.get(begin..).unwrap_or_default()).into_owned();
        CheckTests { results: results.filter(|_| is_checked), start_failure, tail }
    }

    fn read(&self, stream: OutputStream, bytes: &[u8]) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.0.push(stream, bytes);
        readers.1.push(stream, bytes);
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(
            bytes.get(bytes.len().saturating_sub(LONGEST_TAIL)..).unwrap_or(bytes),
        );
        // Not at each piece: to move it all costs more than to keep it.
        if tail.len() > LONGEST_TAIL.saturating_mul(2) {
            let excess = tail.len().saturating_sub(LONGEST_TAIL);
            tail.drain(..excess);
        }
    }
}

impl CheckOutput for CheckTestsReader {
    fn read_stdout(&self, bytes: &[u8]) {
        self.read(OutputStream::Stdout, bytes);
    }

    fn read_stderr(&self, bytes: &[u8]) {
        self.read(OutputStream::Stderr, bytes);
    }
}

impl fmt::Debug for CheckTestsReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckTestsReader").finish_non_exhaustive()
    }
}
