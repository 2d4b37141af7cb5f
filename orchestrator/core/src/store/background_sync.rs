//! Syncs files and folders on another thread.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::disk::{Disk, FaultAction, File, FileOperation};
use super::error::StateError;

/// Syncs in progress. Waiting for each in turn would take longer than the rest of a start.
#[derive(Debug)]
pub(super) struct PendingSync {
    /// The folder that everything lies in.
    root: PathBuf,
    thread: JoinHandle<Result<(), StateError>>,
}

/// One sync, of which it is decided already whether it may succeed: the order of all file operations
/// does not depend on the thread.
struct Sync {
    path: PathBuf,
    /// `None` for a folder.
    file: Option<fs::File>,
    action: FaultAction,
}

impl Sync {
    fn perform(self) -> Result<(), StateError> {
        let Self { path, file, action } = self;
        let work = || file.map_or_else(|| fs::File::open(&path), Ok)?.sync_all();
        action.decide(work).map_err(StateError::io("sync", &path))
    }
}

impl PendingSync {
    /// Starts to sync these files, and then these folders, of the folder `root`.
    pub(super) fn start(
        disk: &Disk,
        root: &Path,
        files: Vec<File>,
        folders: &[&Path],
    ) -> Result<Self, StateError> {
        let files = files.into_iter().map(|file| {
            let (path, file) = file.into_parts();
            (path, Some(file))
        });
        let folders = folders.iter().map(|path| ((*path).to_owned(), None));
        let syncs: Vec<Sync> = files
            .chain(folders)
            .map(|(path, file)| Sync {
                action: disk.fault_action(FileOperation::Sync, &path),
                path,
                file,
            })
            .collect();
        let thread = std::thread::Builder::new()
            .name("background-sync".to_owned())
            .spawn(|| syncs.into_iter().try_for_each(Sync::perform))
            .map_err(StateError::io("sync", root))?;
        Ok(Self { root: root.to_owned(), thread })
    }

    /// Waits until all are synced.
    pub(super) fn wait(self) -> Result<(), StateError> {
        self.thread.join().unwrap_or_else(|_| {
            Err(StateError::io("sync", &self.root)(std::io::Error::other("its thread panicked")))
        })
    }
}
