//! The files that may steer checks, as a file of the run: what they were when it began.

use ralph_orchestrator_store::Layout;
use ralph_orchestrator_workspace::TreeSnapshot;

use super::error::EngineError;
use super::session::Session;
use super::steering_files::SteeringFiles;
use super::stored_object::{read_object, store_object};

impl Session {
    /// Stores what steers the checks when the run begins.
    pub(super) fn keep_steering_files(&mut self, work: &TreeSnapshot) -> Result<(), EngineError> {
        let files = SteeringFiles::read(&self.context.workspace, work);
        let (store, redactor) = (&mut self.journal.store, &self.context.redactor);
        store_object(store, redactor, Layout::STEERING, &files)
    }

    /// Returns what steered the checks when the run began; `None` in a run of an earlier version.
    pub(super) fn steering_files(&self) -> Result<Option<SteeringFiles>, EngineError> {
        Ok(read_object(&self.journal.store, Layout::STEERING)?)
    }
}
