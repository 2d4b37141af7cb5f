//! What was read of a tracker last, as it is stored: what commands that only look show, and from where a run that goes on
//! has the text of its item.

use ralph_orchestrator_backlog::{BacklogItem, BacklogPlace};

use crate::driver::BacklogDriver;
use crate::error::DriverError;
use crate::executor::Executor;

/// The file with the version that was read last.
pub(crate) const TRACKED: &str = "tracked";

impl<E: Executor> BacklogDriver<E> {
    /// Reads a tracker anew before the next item is chosen. The item of a run that goes on stays as that run has it.
    pub(crate) fn refresh(&self) -> Result<(), DriverError> {
        if self.setup.backlog.place() == BacklogPlace::File {
            return Ok(());
        }
        let held = self.held_item()?;
        self.setup.backlog.refresh(held.as_ref())?;
        self.store_tracked()
    }

    /// Returns the item of the run that goes on, as it was read when that run began.
    fn held_item(&self) -> Result<Option<BacklogItem>, DriverError> {
        let state = self.work.state();
        let unfinished = state.ledger.unfinished().filter(|_| !self.begins);
        let (Some(entry), Some((_, files))) = (unfinished, &state.series) else { return Ok(None) };
        let Some(bytes) = files.read(TRACKED)? else { return Ok(None) };
        Ok(self.setup.backlog.parse(&bytes)?.find(&entry.item).cloned())
    }

    /// Stores what is known of a tracker, once there is a state directory.
    pub(crate) fn store_tracked(&self) -> Result<(), DriverError> {
        if self.setup.backlog.place() == BacklogPlace::File || self.setup.dry {
            return Ok(());
        }
        let snapshot = self.setup.backlog.load()?;
        if let Some((_, files)) = &self.work.state().series {
            files.write_sealed(TRACKED, &snapshot.bytes)?;
        }
        Ok(())
    }
}
