//! The git repository a workspace belongs to, as far as its files tell. Git itself is not run.

mod attributes;
mod index;
mod settings;
#[cfg(test)]
pub(super) mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub(super) use attributes::Attributes;
pub use attributes::Conversion;
pub use index::IndexMark;
pub(super) use index::{IndexError, Tracked};
use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint, path_bytes};
pub use settings::GitEnvironment;

/// The most that a pointer file such as a worktree's `.git` may hold, in bytes.
const POINTER_LIMIT: usize = 64 * 1024;
/// The largest index that is read, in bytes.
const INDEX_LIMIT: usize = 256 * 1024 * 1024;

/// The largest file of packed references that is read, in bytes.
const REFS_LIMIT: usize = 64 * 1024 * 1024;

/// Returns whether a folder is in a git repository whose branch has a commit.
#[must_use]
pub fn has_commit(folder: &Path) -> bool {
    Repository::find(folder).is_some_and(|repository| repository.has_commit())
}

/// Returns the folder with what the repository of a folder (absolute, without links) shares among its worktrees; `None`
/// where there is none.
#[must_use]
pub fn common_git_folder(folder: &Path) -> Option<PathBuf> {
    Repository::find(folder)?.common.canonicalize().ok()
}

/// Where a repository keeps its things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// The top of its working tree.
    pub(super) top: PathBuf,
    /// What is its own: `.git`, or a worktree's folder in `.git/worktrees`.
    folder: PathBuf,
    /// What it shares with other worktrees.
    common: PathBuf,
}

impl Repository {
    /// Returns the repository that `workspace` (absolute, without links) is part of.
    pub(super) fn find(workspace: &Path) -> Option<Self> {
        workspace.ancestors().find_map(Self::at)
    }

    /// Returns the repository whose working tree has this top.
    pub(super) fn at(top: &Path) -> Option<Self> {
        let dot_git = top.join(".git");
        let folder =
            if dot_git.is_dir() { dot_git } else { top.join(pointer(&dot_git, b"gitdir:")?) };
        if !folder.join("HEAD").exists() && !folder.join("HEAD").is_symlink() {
            return None;
        }
        let common = pointer(&folder.join("commondir"), b"")
            .map_or_else(|| folder.clone(), |path| folder.join(path));
        Some(Self { top: top.to_owned(), folder, common })
    }

    /// Returns the file with the repository's own ignore rules.
    pub(super) fn exclude_file(&self) -> PathBuf {
        self.common.join("info").join("exclude")
    }

    /// Returns the fingerprint of the index file; `None` if there is none.
    pub(super) fn index_fingerprint(&self) -> Option<FileFingerprint> {
        FileFingerprint::from_path(&self.index_file()).ok()
    }

    /// Returns the paths git tracks, relative to the top; none if there is no index yet.
    pub(super) fn tracked(&self) -> Result<Tracked, IndexError> {
        let bytes = safe_fs::read_if_exists(&self.index_file(), INDEX_LIMIT)
            .map_err(|error| IndexError::Read(error.to_string()))?;
        bytes.map_or_else(|| Ok(Tracked::default()), |bytes| Tracked::parse(&bytes))
    }

    /// Returns whether the branch that is checked out has a commit.
    fn has_commit(&self) -> bool {
        let read = |path: PathBuf| safe_fs::read_if_exists(&path, REFS_LIMIT).ok().flatten();
        let Some(head) = read(self.folder.join("HEAD")) else { return false };
        let Some(branch) = head.strip_prefix(b"ref:").map(<[u8]>::trim_ascii) else {
            // It is the id of a commit.
            return !head.trim_ascii().is_empty();
        };
        if self.common.join("reftable").is_dir() {
            // Whose tables only git reads: it writes this file with the first commit.
            return read(self.folder.join("logs").join("HEAD")).is_some_and(|log| !log.is_empty());
        }
        let loose = read(self.common.join(OsStr::from_bytes(branch)));
        let packed = || read(self.common.join("packed-refs")).unwrap_or_default();
        loose.is_some_and(|id| !id.trim_ascii().is_empty())
            || packed()
                .split(|byte| *byte == b'\n')
                .any(|line| line.ends_with(&[b" ", branch].concat()))
    }

    fn index_file(&self) -> PathBuf {
        self.folder.join("index")
    }
}

/// Returns those of these paths, relative to the workspace, that are there and that git does not track.
#[must_use]
pub fn find_untracked(workspace: &Path, mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.retain(|path| workspace.join(path).symlink_metadata().is_ok());
    let Some(repository) = Repository::find(workspace) else { return paths };
    // What cannot be told may be tracked.
    let Ok(tracked) = repository.tracked() else { return Vec::new() };
    let inside = workspace.strip_prefix(&repository.top).unwrap_or(Path::new(""));
    paths.retain(|path| {
        let path = inside.join(path);
        let name = path_bytes(&path);
        !tracked.has(name) && !tracked.has_beneath(&[name, b"/"].concat())
    });
    paths
}

/// Returns the path in a file that holds `<prefix> <path>` on its first line.
fn pointer(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let bytes = safe_fs::read_if_exists(file, POINTER_LIMIT).ok()??;
    let line = bytes.strip_prefix(prefix)?.split(|byte| *byte == b'\n').next()?;
    let path = line.trim_ascii();
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
}
