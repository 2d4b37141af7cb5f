//! The tests that a check runs, read from what it prints.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use ralph_orchestrator_contract::{CheckOutput, Verdict};
use ralph_orchestrator_test_results::{
    OutputStream, StartFailure, StartFailureReader, TestResults, TestResultsReader,
};

/// Reads the output of one execution of a check.
#[derive(Default)]
pub(super) struct CheckTestsReader {
    readers: Mutex<(TestResultsReader, StartFailureReader)>,
}

/// What the output of one execution says of its tests.
#[derive(Debug, Default)]
pub(super) struct CheckTests {
    /// The tests that ran; `None` if their number cannot be read.
    pub(super) results: Option<TestResults>,
    /// Why none could run.
    pub(super) start_failure: Option<StartFailure>,
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
        CheckTests { results: results.filter(|_| is_checked), start_failure }
    }

    fn read(&self, stream: OutputStream, bytes: &[u8]) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.0.push(stream, bytes);
        readers.1.push(stream, bytes);
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
