//! The workspace as each iteration of a trial left it, so that it can be verified after the trial.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_engine::{RepositoryLocation, RunRepository, StoredWork, VersionControl};
use ralph_orchestrator_safe_fs::copy_sparse;

/// The bytes of one copy: what is larger is left out, since it would be there once for each iteration.
const MAX_BYTES: u64 = 2 << 30;
/// The levels of folders of one copy: each takes space on the stack.
const MAX_DEPTH: usize = 128;

/// Stores a copy of the workspace after each iteration, where the engine would make a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    /// The folder in which each iteration gets a folder of its own, in that of its run.
    pub folder: PathBuf,
}

/// The snapshots of one run.
struct RunSnapshots {
    folder: PathBuf,
    workspace: PathBuf,
}

impl Snapshots {
    /// Returns the folder with the work of an iteration of a run.
    pub(crate) fn iteration(&self, run: &str, iteration: u64) -> PathBuf {
        self.folder.join(run).join(iteration.to_string())
    }
}

impl VersionControl for Snapshots {
    fn open(&self, location: RepositoryLocation) -> Result<Arc<dyn RunRepository>, String> {
        let workspace = location.workspace;
        Ok(Arc::new(RunSnapshots { folder: self.folder.join(location.run), workspace }))
    }

    fn recent_subjects(
        &self,
        _location: RepositoryLocation,
        _most: u32,
    ) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

impl RunRepository for RunSnapshots {
    fn begin_iteration(&self, _iteration: u64) -> Result<(), String> {
        Ok(())
    }

    fn record_ignored(&self) -> Result<(), String> {
        Ok(())
    }

    fn checkpoint(&self, iteration: u64) -> Result<StoredWork, String> {
        let name = iteration.to_string();
        let (whole, part) = (self.folder.join(&name), self.folder.join(format!("{name}.part")));
        if iteration == 0 || whole.exists() {
            return Ok(StoredWork::default());
        }
        let store = || -> io::Result<()> {
            if part.exists() {
                fs::remove_dir_all(&part)?;
            }
            fs::create_dir_all(&self.folder)?;
            copy_tree(&self.workspace, &part, MAX_DEPTH, &mut { MAX_BYTES })?;
            fs::rename(&part, &whole)
        };
        store().map_err(|error| format!("cannot store a copy of the workspace: {error}"))?;
        Ok(StoredWork { id: Some(name), ..StoredWork::default() })
    }

    fn commit(&self, _iteration: u64, _message: &str) -> Result<StoredWork, String> {
        Ok(StoredWork::default())
    }
}

/// Copies a folder that an agent has written to: links stay the links that they are, and what is neither file, folder
/// nor link is left out. `depth` are the levels of folders, `left` the bytes that may be copied.
pub(super) fn copy_tree(from: &Path, to: &Path, depth: usize, left: &mut u64) -> io::Result<()> {
    let too_deep = || io::Error::other(format!("it has more than {MAX_DEPTH} levels of folders"));
    let below = depth.checked_sub(1).ok_or_else(too_deep)?;
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            copy_tree(&from, &to, below, left)?;
        } else if kind.is_file() {
            let len = entry.metadata()?.len();
            let too_large = || io::Error::other(format!("it has more than {MAX_BYTES} bytes"));
            *left = left.checked_sub(len).ok_or_else(too_large)?;
            copy_file(&from, &to, len)?;
        }
    }
    let mode = fs::symlink_metadata(from)?.mode() & 0o7777;
    fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

/// Copies a file with its holes, of which an agent can leave many for nothing.
fn copy_file(from: &Path, to: &Path, len: u64) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::create(to)?);
    copy_sparse(&from, &to, len)?;
    to.set_permissions(from.metadata()?.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_deeper_than_the_stack_are_refused() {
        let dir = std::env::temp_dir().join(format!("ralph-snapshots-{}", std::process::id()));
        let from = dir.join("from");
        let deep = (0..MAX_DEPTH).fold(from.clone(), |path, _| path.join("d"));
        fs::create_dir_all(&deep).unwrap();
        let error = copy_tree(&from, &dir.join("to"), MAX_DEPTH, &mut { MAX_BYTES }).unwrap_err();
        assert!(error.to_string().contains("levels of folders"), "{error}");
        fs::remove_dir(&deep).unwrap();
        copy_tree(&from, &dir.join("again"), MAX_DEPTH, &mut { MAX_BYTES }).unwrap();
        assert!(dir.join("again/d/d").is_dir());
        fs::remove_dir_all(&dir).unwrap();
    }
}
