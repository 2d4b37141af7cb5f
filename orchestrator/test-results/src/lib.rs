//! Reads which tests ran from what a check prints, compares two such results, finds why none could run, and changed
//! settings that steer checks.
//! Must not know runs, processes, files or the engine: bytes in, facts out.
//!
//! [`TestResultsReader`] takes the output as it comes. Each test runner has a reader of its own, a file in
//! `runners`; all see every line, and their results are added up, because one check may run several.
//!
//! **What can be forged.** Everything here is read from text that the code under test may print, too. Where a runner
//! makes it possible, a summary counts only in its place: after the line that comes before it, with a sum that fits, or
//! outside of what the runner shows of its tests' output. A test that prints a whole run as its runner prints it, or
//! ends the process after it, is believed. So a fallen number of tests is a reason to reject, and a number that has not
//! fallen proves nothing.

mod comparison;
mod lines;
mod reader;
mod results;
mod runners;
mod start_failure;
mod steering;

pub use comparison::{ResultDifference, compare_test_results};
pub use reader::{OutputStream, TestResultsReader, read_test_results};
pub use results::{TestCounts, TestNames, TestResults};
pub use start_failure::{StartFailure, StartFailureReader};
pub use steering::{SteeringChange, find_steering_changes, is_steering_file};
