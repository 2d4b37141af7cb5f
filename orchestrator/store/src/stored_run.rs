//! A run as it is found on disk.

use jiff::Timestamp;
use ralph_orchestrator_machine::State;

use crate::journal::TornLine;

/// A run as found on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// Its id.
    pub run: String,
    /// The fold of its journal.
    pub state: State,
    /// A torn last line.
    pub torn: Option<TornLine>,
    /// When its first record was written.
    pub started: Option<Timestamp>,
    /// When its last record was written.
    pub ended: Option<Timestamp>,
    /// When code of its agent had last run.
    pub worked: Option<Timestamp>,
}
