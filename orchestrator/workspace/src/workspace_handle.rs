//! The workspace's folder, held open: what has its path must be this very folder.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::file_id::FileId;

/// What has the workspace's path is not the workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// It is gone.
    #[error("workspace {path}: is gone")]
    Gone {
        /// Its path.
        path: PathBuf,
    },
    /// It was moved.
    #[error(
        "workspace {from}: was moved to {to} while the run worked in it; `run` there goes on with it"
    )]
    Moved {
        /// Its path when the run began.
        from: PathBuf,
        /// Its path now.
        to: PathBuf,
    },
    /// Something else has its path.
    #[error(
        "workspace {path}: {found} has taken the place of the folder in which this run began; `run` where that is \
         now goes on; here, if the exchange is meant, `run --restart` begins a new run"
    )]
    Replaced {
        /// Its path.
        path: PathBuf,
        /// What has the path now.
        found: String,
    },
    /// A link that an agent could have made is in the path.
    #[error(
        "workspace {path}: leads over the link {link} to {target}, which an agent could have made; \
         if it is yours, `ralph-orchestrator trust {link}` accepts it"
    )]
    Link {
        /// Its path.
        path: PathBuf,
        /// The link.
        link: PathBuf,
        /// Where it leads, as it is written.
        target: PathBuf,
    },
    /// A run is to go on in another folder than the one in which it began.
    #[error(
        "workspace {path}: another folder has taken the place of the folder in which this run began. If it is a \
         copy of that, such as from a backup or a new clone, `ralph-orchestrator trust` accepts it, and `run` goes \
         on in it; if that was moved, `run` there goes on; `run --restart` begins a new run"
    )]
    Other {
        /// The path.
        path: PathBuf,
    },
    /// A run was completed in another folder than the one that is there.
    #[error(
        "workspace {path}: another folder has taken the place of the folder in which run {run} was completed, so \
         what was completed need not be in it. `run --restart` begins a new run; if it is a copy with the work in it, \
         `ralph-orchestrator trust` accepts it as complete"
    )]
    OtherCompleted {
        /// The path.
        path: PathBuf,
        /// The run.
        run: String,
    },
    /// A person has accepted another folder as the one in which the run goes on.
    #[error(
        "workspace {path}: {there} was accepted in its place as the workspace of run {run}, and `run` there goes on. \
         `ralph-orchestrator trust` here takes the run back; `run --restart` begins a new run"
    )]
    Succeeded {
        /// The path.
        path: PathBuf,
        /// The run.
        run: String,
        /// The other folder, where it was last.
        there: PathBuf,
    },
    /// The system refused.
    #[error("workspace {path}: {source}; it has to be a folder that can be read")]
    Io {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// The workspace of a run as long as the orchestrator lives: it stays the same folder, wherever it is
/// moved and whatever is put in its place.
#[derive(Clone, Debug)]
pub struct WorkspaceHandle {
    path: PathBuf,
    folder: Arc<File>,
    id: FileId,
}

impl WorkspaceHandle {
    /// Opens the folder with this path, which is absolute and without links.
    ///
    /// # Errors
    /// It is no folder, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, WorkspaceError> {
        let failed = |source| WorkspaceError::Io { path: path.to_owned(), source };
        let folder = safe_fs::open_no_symlinks(path, safe_fs::list_flags())
            .map_err(|error| unexpected_error(path, error))?;
        let folder = File::from(folder);
        let id = FileId::from_file(&folder).map_err(failed)?;
        Ok(Self { path: path.to_owned(), folder: Arc::new(folder), id })
    }

    /// Makes the folder anew after it was deleted, empty. Nothing is made through a link.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn recreate(&self) -> Result<Self, WorkspaceError> {
        safe_fs::create_folders(&self.path, None)
            .map_err(|error| unexpected_error(&self.path, error))?;
        Self::open(&self.path)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what tells it from other folders.
    #[must_use]
    pub const fn id(&self) -> FileId {
        self.id
    }

    /// Returns the open folder.
    #[must_use]
    pub fn folder(&self) -> Arc<File> {
        Arc::clone(&self.folder)
    }

    /// Makes sure that its path still leads to it, over no link.
    ///
    /// # Errors
    /// It is gone, or something else has its path.
    pub fn verify(&self) -> Result<(), WorkspaceError> {
        let there = safe_fs::open_no_symlinks(&self.path, safe_fs::path_flags())
            .and_then(FileFingerprint::from_fd)
            .map_err(|error| self.explain_missing(unexpected_error(&self.path, error)))?;
        if FileId::from_fingerprint(&there) == self.id {
            return Ok(());
        }
        Err(self.replaced())
    }

    /// Returns where the folder is now, if it was moved and not deleted.
    fn moved_to(&self) -> Option<PathBuf> {
        let is_there = self.folder.metadata().is_ok_and(|found| found.nlink() > 0);
        let link = format!("/proc/self/fd/{}", self.folder.as_raw_fd());
        let path = std::fs::read_link(link).ok().filter(|path| is_there && *path != self.path)?;
        // The kernel names a deleted folder by what is no path.
        FileId::from_file(&File::open(&path).ok()?).ok().filter(|id| *id == self.id).map(|_| path)
    }

    /// Tells a folder that was moved from one that was deleted.
    fn explain_missing(&self, error: WorkspaceError) -> WorkspaceError {
        let is_gone = matches!(error, WorkspaceError::Gone { .. });
        match self.moved_to().filter(|_| is_gone) {
            Some(to) => WorkspaceError::Moved { from: self.path.clone(), to },
            None => error,
        }
    }

    fn replaced(&self) -> WorkspaceError {
        WorkspaceError::Replaced { path: self.path.clone(), found: "another folder".into() }
    }
}

/// Returns the error for a path that does not lead to a folder.
fn unexpected_error(path: &Path, error: Errno) -> WorkspaceError {
    let path_is_gone = std::fs::symlink_metadata(path).is_err();
    let found = match error {
        Errno::LOOP => match std::fs::read_link(path) {
            Ok(target) => format!("a link to {}", target.display()),
            Err(_) => "something beneath a link".to_owned(),
        },
        Errno::NOTDIR if !path_is_gone => match FileFingerprint::from_path_nofollow(path)
            .map(|fingerprint| fingerprint.file_type())
        {
            Ok(FileType::RegularFile) => "a file".to_owned(),
            _ => "something that is no folder".to_owned(),
        },
        Errno::NOENT | Errno::NOTDIR => return WorkspaceError::Gone { path: path.to_owned() },
        other => return WorkspaceError::Io { path: path.to_owned(), source: other.into() },
    };
    WorkspaceError::Replaced { path: path.to_owned(), found }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_the_folder_that_is_held_is_the_workspace() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (ws, other) = (root.join("ws"), root.join("other"));
        let held = {
            fs::create_dir(&ws).unwrap();
            fs::create_dir(&other).unwrap();
            WorkspaceHandle::open(&ws).unwrap()
        };
        held.verify().unwrap();
        fs::rename(&ws, root.join("away")).unwrap();
        assert!(
            matches!(held.verify(), Err(WorkspaceError::Moved { to, .. }) if to == root.join("away"))
        );
        symlink(&other, &ws).unwrap();
        let error = held.verify().unwrap_err().to_string();
        assert!(error.contains("a link to") && error.contains("--restart"), "{error}");
        assert!(held.recreate().is_err(), "a link is nobody's to remove");
        fs::remove_file(&ws).unwrap();
        fs::write(&ws, "").unwrap();
        assert!(held.verify().unwrap_err().to_string().contains("a file"));
        fs::remove_file(&ws).unwrap();
        fs::rename(&other, &ws).unwrap();
        assert!(held.verify().unwrap_err().to_string().contains("another folder"));
        fs::rename(&ws, &other).unwrap();
        // A link anywhere on the way is one too.
        symlink(&root, root.join("root")).unwrap();
        assert!(WorkspaceHandle::open(&root.join("root/away")).is_err());
        fs::rename(root.join("away"), &ws).unwrap();
        held.verify().unwrap();
        fs::remove_dir(&ws).unwrap();
        let again = held.recreate().unwrap();
        again.verify().unwrap();
        assert_ne!(again.id(), held.id(), "held, its number is given to no other");
        assert!(held.verify().is_err());
    }
}
