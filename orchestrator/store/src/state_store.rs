//! A state directory as a whole.

mod open_run;
mod reset;
mod signed_files;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use ralph_orchestrator_machine::{Latch, Record, State};

use super::background_sync::PendingSync;
use super::bundle::bundle;
use super::disk::{Disk, File};
use super::error::StateError;
use super::guarded_file::GuardedFile;
use super::heartbeat::Heartbeat;
use super::journal::{self, Journal, JournalEntry};
use super::journal_fold::JournalFold;
use super::key::Key;
use super::latch::LatchFile;
use super::layout::Layout;
use super::lock::{Lock, is_being_deleted};
use super::orphans::OrphanReport;
use super::owner::Owner;
use super::signed_line;
use super::stored_run::StoredRun;
use crate::holder::Work;

use open_run::OpenRun;

pub use reset::reset;

/// The number of the first record of a run.
const FIRST_SEQ: u64 = 1;

/// A state directory held by this process.
#[derive(Debug)]
pub struct Store {
    disk: Disk,
    layout: Layout,
    key: Key,
    key_file: GuardedFile,
    /// Whose it is, once that is recorded.
    owner_file: Option<GuardedFile>,
    lock: Lock,
    current: Option<OpenRun>,
}

impl Store {
    /// Takes the lock of a state directory, creating the directory if there is none.
    ///
    /// # Errors
    /// It is held by another process, damaged, or cannot be written.
    pub fn open(layout: Layout) -> Result<Self, StateError> {
        Self::open_for(Disk::default(), layout, Work::Run)
    }

    /// Does the same to record a control in a run that nobody works on.
    ///
    /// # Errors
    /// It is held by another process, damaged, or cannot be written.
    pub fn open_for_control(layout: Layout) -> Result<Self, StateError> {
        Self::open_for(Disk::default(), layout, Work::Control)
    }

    /// Does the same as [`open`](Self::open), with file operations going to `disk`.
    ///
    /// # Errors
    /// It is held by another process, damaged, or cannot be written.
    pub fn open_with_disk(disk: Disk, layout: Layout) -> Result<Self, StateError> {
        Self::open_for(disk, layout, Work::Run)
    }

    fn open_for(disk: Disk, layout: Layout, work: Work) -> Result<Self, StateError> {
        disk.open_root(layout.root())?;
        let lock = Lock::take(&disk, &layout, work)?;
        let key = match Key::read(&disk, &layout.key())? {
            Some(key) => key,
            None if is_empty(&disk, &layout)? => Key::create(&disk, &layout.key())?,
            None => {
                return Err(StateError::damaged(&layout.key(), "the key of this state is gone"));
            }
        };
        let key_file = key.kept(&disk, layout.key())?;
        Ok(Self { disk, layout, key, key_file, owner_file: None, lock, current: None })
    }

    /// Returns where it lies.
    pub const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Returns the paths.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Records the owner of this directory.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_owner(&mut self, owner: &Owner) -> Result<(), StateError> {
        self.owner_file = Some(owner.keep(&self.disk, &self.layout)?);
        Ok(())
    }

    /// Returns what has to stay open in every process that watches over agents: see [`Lock::agents`]; and the
    /// lock of the workspace.
    ///
    /// # Errors
    /// The system refuses.
    pub fn agents_guard(&self, workspace: &fs::File) -> Result<Arc<fs::File>, StateError> {
        bundle(&self.lock.agents(), workspace)
            .map(Arc::new)
            .map_err(StateError::io("hand down the lock of", self.layout.root()))
    }

    /// Has `end` end what a killed start has left, if there was one: so says the lock; or the journal of
    /// the run that was `found`, which then does not tell how its last start ended. The sign of a killed
    /// start stays until nothing is left of it.
    pub fn end_orphans(
        &mut self,
        found: Option<&StoredRun>,
        end: &dyn Fn(&str) -> OrphanReport,
    ) -> OrphanReport {
        let latch = LatchFile::read(&self.disk, &self.key, &self.layout.latch());
        let run = match &latch {
            // Nobody knows whose it would be.
            Err(_) => return OrphanReport::default(),
            Ok(None) => None,
            Ok(Some(latch)) if matches!(latch.latch, Latch::Completed(_)) => None,
            Ok(Some(latch)) if self.lock.was_killed() => Some(latch.run.as_str()),
            Ok(Some(_)) => {
                found.filter(|found| ends_midway(&found.state)).map(|found| found.run.as_str())
            }
        };
        let report = run.map(end).unwrap_or_default();
        if report.survived.is_empty() {
            self.lock.set_clean();
        }
        report
    }

    /// Returns the code of a line that is signed with this state's key.
    pub(super) fn verify_line<'a>(&self, line: &'a str) -> Option<&'a str> {
        signed_line::verify(&self.key, line)
    }

    /// Returns the key that signs the records.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Returns a digest keyed by this state's key, in hexadecimal.
    #[must_use]
    pub fn keyed_digest(&self, bytes: &[u8]) -> String {
        self.key.code(bytes).to_hex().to_string()
    }

    /// Returns the run of this directory, opened to go on with it; `None` if there is none.
    ///
    /// # Errors
    /// It is damaged or cannot be read.
    pub fn resume(&mut self) -> Result<Option<StoredRun>, StateError> {
        let Some(latch) = read_latch(&self.disk, &self.layout, &self.key)? else { return Ok(None) };
        let found = self.open_run(&latch)?;
        let kept = latch.kept(&self.disk, &self.key, self.layout.latch())?;
        if let Some(open) = &mut self.current {
            open.latch = Some(kept);
        }
        Ok(Some(found))
    }

    /// Returns an earlier run of this directory, opened to go on with it. The run before it is the one of this
    /// directory until the first record is appended.
    ///
    /// # Errors
    /// It is damaged or cannot be read.
    pub fn resume_earlier(&mut self, run: &str) -> Result<StoredRun, StateError> {
        let latch = LatchFile::new(run, 0, Latch::Open);
        let found = self.open_run(&latch)?;
        if let Some(open) = &mut self.current {
            open.is_earlier = true;
        }
        Ok(found)
    }

    /// Opens the run that a latch names, and compares both.
    fn open_run(&mut self, latch: &LatchFile) -> Result<StoredRun, StateError> {
        let path = self.layout.journal(&latch.run);
        let mut fold = JournalFold::default();
        let (journal, torn) =
            Journal::open(&self.disk, &path, &self.key, |entry| fold.take(&entry))
                .map_err(|error| gone(error, &path))?;
        fold.check(&path, latch)?;
        let mut found = fold.into_stored_run(&latch.run, torn);
        Heartbeat::new(&self.layout, &latch.run, &self.key).charge(&mut found);
        let folder = self.layout.run(&latch.run);
        let files = [Layout::CONFIG, Layout::SEALED_CONFIG, Layout::BASELINE, Layout::INPUTS]
            .map(|name| folder.join(name));
        let files: Vec<Option<GuardedFile>> = files
            .into_iter()
            .map(|path| GuardedFile::read(&self.disk, path))
            .collect::<Result<_, _>>()?;
        self.current = Some(OpenRun {
            run: latch.run.clone(),
            journal,
            last_time: None,
            latch: None,
            first_latch: None,
            files: files.into_iter().flatten().collect(),
            unsynced: None,
            pending_syncs: Vec::new(),
            is_earlier: false,
        });
        Ok(found)
    }

    /// Makes an earlier run that is resumed the one of this directory.
    fn take_over(&mut self) -> Result<(), StateError> {
        let Some(open) = self.current.as_mut().filter(|open| open.is_earlier) else {
            return Ok(());
        };
        let latch = LatchFile::new(&open.run, open.journal.seq(), Latch::Open);
        latch.write(&self.disk, &self.key, &self.layout.latch())?;
        open.latch = Some(latch.kept(&self.disk, &self.key, self.layout.latch())?);
        open.is_earlier = false;
        Ok(())
    }

    /// Begins a new run, with these files in its folder; the run before it is kept, and is the run of
    /// this directory until [`latch`](Self::latch) is called. It is safe on disk from the first record
    /// on that is a barrier.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn begin(&mut self, run: &str, files: &[(&str, &[u8])]) -> Result<(), StateError> {
        let path = self.layout.latch();
        let latch = if fs::exists(&path).map_err(StateError::io("look at", &path))? {
            None
        } else {
            // First the latch: a crash in between leaves a run that has not begun, not a journal that
            // nobody knows.
            let latch = LatchFile::new(run, 0, Latch::Open);
            latch.write(&self.disk, &self.key, &path)?;
            Some(latch.kept(&self.disk, &self.key, path.clone())?)
        };
        let folder = self.layout.run(run);
        self.disk.create_dir(&folder)?;
        let kept = files
            .iter()
            .map(|(name, content)| GuardedFile::new(&self.disk, folder.join(name), content))
            .collect::<Result<_, _>>()?;
        let mut files = files
            .iter()
            .map(|(name, content)| self.disk.write_new(&folder.join(name), content))
            .collect::<Result<Vec<File>, _>>()?;
        let journal = Journal::create(&self.disk, &self.layout.journal(run), &self.key)?;
        // As it will be when the run has its first record.
        let first_latch = LatchFile::new(run, FIRST_SEQ, Latch::Open);
        let (new_latch, file) = first_latch.write_aside(&self.disk, &self.key, &path)?;
        files.push(file);
        let folders = [self.layout.runs()];
        let sync = PendingSync::start(&self.disk, self.layout.root(), files, &folders)?;
        self.current = Some(OpenRun {
            run: run.to_owned(),
            journal,
            last_time: None,
            latch,
            first_latch: Some((first_latch, new_latch)),
            files: kept,
            unsynced: Some(Vec::new()),
            pending_syncs: vec![sync],
            is_earlier: false,
        });
        Ok(())
    }

    /// Appends a record to the journal of the open run. Returns whether any file had been changed
    /// from outside and was written again.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(&mut self, record: &Record) -> Result<bool, StateError> {
        self.take_over()?;
        let barrier = record.is_barrier();
        let Some(open) = &mut self.current else { return Ok(false) };
        let mut restored = open.journal.restore_if_changed()?;
        if barrier {
            // Beside the sync of the journal.
            open.start_sync(&self.disk, &self.layout)?;
        }
        let time = Timestamp::now();
        open.journal.append(time, record)?;
        open.last_time = Some(time);
        if barrier {
            open.finish_syncs()?;
            restored |= self.restore_if_changed()?;
        }
        Ok(restored)
    }

    /// Returns the number and the time of the record that was written last here.
    #[must_use]
    pub fn last_record(&self) -> Option<(u64, Timestamp)> {
        let open = self.current.as_ref()?;
        Some((open.journal.seq(), open.last_time?))
    }

    /// Returns what writes the signs of life of the open run.
    pub fn heartbeat(&self) -> Option<Heartbeat> {
        let open = self.current.as_ref()?;
        Some(Heartbeat::new(&self.layout, &open.run, &self.key))
    }

    /// Brings the latch file up to date. The first one of a run is safe from the next barrier on: until then
    /// a crash leaves the run before it, and nothing depends on this one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn latch(&mut self, latch: &Latch) -> Result<(), StateError> {
        let Some(open) = &mut self.current else { return Ok(()) };
        open.start_sync(&self.disk, &self.layout)?;
        open.finish_syncs()?;
        let latch = LatchFile::new(&open.run, open.journal.seq(), latch.clone());
        match open.first_latch.take() {
            Some((first, file)) if first == latch => {
                file.put_in_place()?;
                let root = self.layout.root();
                open.pending_syncs.push(PendingSync::start(&self.disk, root, vec![], &[root])?);
            }
            _ => latch.write(&self.disk, &self.key, &self.layout.latch())?,
        }
        open.latch = Some(latch.kept(&self.disk, &self.key, self.layout.latch())?);
        Ok(())
    }

    /// Makes sure that all that a resume needs is as it was written.
    fn restore_if_changed(&mut self) -> Result<bool, StateError> {
        let root = self.layout.root();
        self.disk.restore_dir(root, root)?;
        let mut restored = !self.lock.verify_held()?;
        restored |= self.key_file.restore_if_changed(&self.disk, root)?;
        if let Some(owner) = &mut self.owner_file {
            restored |= owner.restore_if_changed(&self.disk, root)?;
        }
        if let Some(open) = &mut self.current {
            for file in open.latch.iter_mut().chain(&mut open.files) {
                restored |= file.restore_if_changed(&self.disk, root)?;
            }
        }
        Ok(restored)
    }
}

/// Returns the run of a state directory as it is now, without waiting for the lock or changing anything, unless a
/// killed process has left a deletion to be finished.
///
/// # Errors
/// It is damaged or cannot be read.
pub fn read_current_run(
    layout: &Layout,
    mut each: impl FnMut(&JournalEntry),
) -> Result<Option<StoredRun>, StateError> {
    if is_being_deleted(layout) {
        return Ok(None);
    }
    let disk = &Disk::default();
    let Some(key) = Key::read(disk, &layout.key())? else {
        return if is_empty(disk, layout)? {
            Ok(None)
        } else {
            Err(StateError::damaged(&layout.key(), "the key of this state is gone"))
        };
    };
    let Some(latch) = read_latch(disk, layout, &key)? else { return Ok(None) };
    let path = layout.journal(&latch.run);
    let mut fold = JournalFold::default();
    let torn = journal::read_journal(disk, &path, &key, |entry| {
        fold.take(&entry);
        each(&entry);
    })
    .map_err(|error| gone(error, &path))?;
    fold.check(&path, &latch)?;
    let mut found = fold.into_stored_run(&latch.run, torn);
    Heartbeat::new(layout, &latch.run, &key).charge_if_ended(layout, &mut found);
    Ok(Some(found))
}

/// Returns the run of a state directory if it is complete, without taking the lock or changing anything.
///
/// # Errors
/// It is damaged or cannot be read.
pub fn read_completed_run(layout: &Layout) -> Result<Option<StoredRun>, StateError> {
    if is_being_deleted(layout) {
        return Ok(None);
    }
    let disk = &Disk::default();
    let Some(key) = Key::read(disk, &layout.key())? else { return Ok(None) };
    let latch = LatchFile::read(disk, &key, &layout.latch())?;
    match latch.map(|latch| latch.latch) {
        Some(Latch::Completed(_)) => read_current_run(layout, |_| {}),
        _ => Ok(None),
    }
}

/// Whether an agent was started, and it is not known how that start of the orchestrator ended.
const fn ends_midway(state: &State) -> bool {
    state.iterations > 0 && state.stop.is_none()
}

/// Whether no run was ever begun. What cannot be looked at is not taken for empty.
pub(super) fn is_empty(disk: &Disk, layout: &Layout) -> Result<bool, StateError> {
    let (runs, latch) = (layout.runs(), layout.latch());
    let no_runs = disk.is_empty_dir(&runs).map_err(StateError::io("list", &runs))?;
    Ok(no_runs && !fs::exists(&latch).map_err(StateError::io("look at", &latch))?)
}

/// Returns the latch, if a run has begun.
pub(super) fn read_latch(
    disk: &Disk,
    layout: &Layout,
    key: &Key,
) -> Result<Option<LatchFile>, StateError> {
    let path = layout.latch();
    match LatchFile::read(disk, key, &path)? {
        None if is_empty(disk, layout)? => Ok(None),
        None => Err(StateError::damaged(&path, "the latch is gone, but not the runs")),
        // A crash came between naming the run and its first record.
        Some(latch) if latch.seq == 0 && has_not_begun(disk, &layout.journal(&latch.run))? => {
            Ok(None)
        }
        Some(latch) => Ok(Some(latch)),
    }
}

/// A journal that cannot be read may have begun: nothing is decided then.
fn has_not_begun(disk: &Disk, journal: &Path) -> Result<bool, StateError> {
    match disk.read(journal) {
        Ok(content) => Ok(!content.contains(&b'\n')),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(StateError::io("read", journal)(error)),
    }
}

pub(super) fn gone(error: StateError, path: &Path) -> StateError {
    match error {
        StateError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            StateError::damaged(path, "the journal that the latch names is gone")
        }
        other => other,
    }
}
