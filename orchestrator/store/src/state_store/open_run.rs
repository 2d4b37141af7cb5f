//! The run that a held state directory writes.

use jiff::Timestamp;

use crate::atomic_files::NewFile;
use crate::background_sync::PendingSync;
use crate::disk::{Disk, File};
use crate::error::StateError;
use crate::guarded_file::GuardedFile;
use crate::journal::Journal;
use crate::latch::LatchFile;
use crate::layout::Layout;

#[derive(Debug)]
pub(super) struct OpenRun {
    pub(super) run: String,
    pub(super) journal: Journal,
    /// When its last record was written, if that was here.
    pub(super) last_time: Option<Timestamp>,
    /// As it is on disk; `None` while that is still the one of the run before.
    pub(super) latch: Option<GuardedFile>,
    /// The first latch of this run, written but not in its place.
    pub(super) first_latch: Option<(LatchFile, NewFile)>,
    /// What the run began with, and what a resume needs.
    pub(super) files: Vec<GuardedFile>,
    /// New files in the folder of a run that has no record yet: they and the folder are safe from the first
    /// barrier on.
    pub(super) unsynced: Option<Vec<File>>,
    /// What is being made safe; the next barrier waits for it.
    pub(super) pending_syncs: Vec<PendingSync>,
    /// It is resumed after another one, which is that of the directory until the next record.
    pub(super) is_earlier: bool,
}

impl OpenRun {
    /// Starts to make new files and the folder of the run safe, if nobody has.
    pub(super) fn start_sync(&mut self, disk: &Disk, layout: &Layout) -> Result<(), StateError> {
        let Some(files) = self.unsynced.take() else { return Ok(()) };
        let folder = layout.run(&self.run);
        let sync = PendingSync::start(disk, layout.root(), files, &[&folder])?;
        self.pending_syncs.push(sync);
        Ok(())
    }

    /// Waits until everything is safe that is being made so.
    pub(super) fn finish_syncs(&mut self) -> Result<(), StateError> {
        std::mem::take(&mut self.pending_syncs).into_iter().try_for_each(PendingSync::wait)
    }
}
