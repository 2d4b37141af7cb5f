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
    file: fs::File,
    action: FaultAction,
}

impl Sync {
    fn perform(self) -> Result<(), StateError> {
        let Self { path, file, action } = self;
        action.decide(|| file.sync_all()).map_err(StateError::io("sync", &path))
    }
}

impl PendingSync {
    /// Starts to sync these files, and then these folders, of the folder `root`.
    pub(super) fn start(
        disk: &Disk,
        root: &Path,
        files: Vec<File>,
        folders: &[impl AsRef<Path>],
    ) -> Result<Self, StateError> {
        let mut all: Vec<(PathBuf, fs::File)> = files.into_iter().map(File::into_parts).collect();
        for folder in folders {
            // Opened now, while nothing is run that might remove it.
            let folder = folder.as_ref();
            let file = fs::File::open(folder).map_err(StateError::io("sync", folder))?;
            all.push((folder.to_owned(), file));
        }
        let syncs: Vec<Sync> = all
            .into_iter()
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
