//! The files that may steer checks, as a file of the run: what they were when it began.

use ralph_orchestrator_store::{Layout, StateError};
use ralph_orchestrator_workspace::TreeSnapshot;

use super::error::EngineError;
use super::session::Session;
use super::steering_files::SteeringFiles;

impl Session {
    /// Stores what steers the checks when the run begins.
    pub(super) fn keep_steering_files(&mut self, work: &TreeSnapshot) -> Result<(), EngineError> {
        let files = SteeringFiles::read(&self.context.workspace, work);
        let object = serde_json::to_string(&files)
            .map_err(|error| EngineError::Internal(error.to_string()))?;
        let store = &mut self.journal.store;
        if self.context.redactor.bytes(object.as_bytes()) == object.as_bytes() {
            store.write_signed_file(Layout::STEERING, &object)?;
        } else {
            store.write_sealed_file(Layout::STEERING, &object)?;
        }
        Ok(())
    }

    /// Returns what steered the checks when the run began; `None` in a run of an earlier version.
    pub(super) fn steering_files(&self) -> Result<Option<SteeringFiles>, EngineError> {
        let Some(object) = self.journal.store.read_signed_file(Layout::STEERING)? else {
            return Ok(None);
        };
        let files = serde_json::from_str(&object).map_err(|error| StateError::Damaged {
            path: Layout::STEERING.into(),
            problem: error.to_string(),
        })?;
        Ok(Some(files))
    }
}
