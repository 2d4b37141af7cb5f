//! The git worktrees that were made for runs: recorded before they are made, so that a start after a crash
//! completes the one that was begun.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_safe_fs::{SymlinkPolicy, escape, read_file, unescape};
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::error::StateError;
use super::layout::Layout;
use super::lock::{AGENTS_WAIT, lock_within, open};

const VERSION: u32 = 1;
const FILE: &str = "worktree.json";
/// Larger than any such file, in bytes.
const LARGEST: usize = 1024 * 1024;

/// A worktree, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeRecord {
    version: u32,
    /// The id of the first run in it.
    pub run: String,
    folder: String,
    workspace: String,
    repository: String,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The commit at which the branch begins.
    pub base: String,
    /// A digest of the task in the user's workspace when it was made; empty if that was no file.
    #[serde(default)]
    pub task: String,
    /// It is complete, with everything that was copied into it.
    #[serde(default)]
    pub is_made: bool,
    /// Where runs worked in it before it was moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    /// The commit of the branch for which a pull request is open, as far as it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed: Option<String>,
    /// The title that this pull request was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_title: Option<String>,
    /// What its folder was called when it was made, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_name: Option<String>,
}

/// What a new record says of a worktree.
#[derive(Clone, Copy, Debug)]
pub struct WorktreePaths<'a> {
    /// Its top folder.
    pub folder: &'a Path,
    /// The folder in it in which the run works.
    pub workspace: &'a Path,
    /// The git directory that it shares with the user's.
    pub repository: &'a Path,
}

impl WorktreeRecord {
    /// Returns the record of a worktree that is to be made for a new run, which gets this id.
    #[must_use]
    pub fn new(paths: WorktreePaths<'_>, run: String, branch: String, base: String) -> Self {
        Self {
            version: VERSION,
            run,
            folder: escape(paths.folder),
            workspace: escape(paths.workspace),
            repository: escape(paths.repository),
            branch,
            base,
            task: String::new(),
            is_made: false,
            before: Vec::new(),
            proposed: None,
            proposed_title: None,
            first_name: None,
        }
    }

    /// Returns the record of the same worktree after its top folder was moved.
    #[must_use]
    pub fn moved_to(mut self, folder: &Path) -> Self {
        self.first_name = self.name().map(|name| escape(&name));
        let inside = self.workspace().strip_prefix(self.folder()).map(Path::to_owned);
        // An empty path would add a slash.
        let inside = inside.ok().filter(|inside| !inside.as_os_str().is_empty());
        let workspace = inside.map_or_else(|| folder.to_owned(), |inside| folder.join(inside));
        self.before.push(std::mem::replace(&mut self.workspace, escape(&workspace)));
        self.folder = escape(folder);
        self
    }

    /// Whether runs work, or have worked, in it at this path.
    #[must_use]
    pub fn is_at(&self, workspace: &Path) -> bool {
        let text = escape(workspace);
        self.workspace == text || self.before.contains(&text)
    }

    /// Returns its top folder.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        unescape(&self.folder).unwrap_or_default()
    }

    /// Returns what its folder was called when it was made, after which git names its own files for good.
    #[must_use]
    pub fn name(&self) -> Option<PathBuf> {
        match &self.first_name {
            Some(name) => unescape(name),
            None => self.folder().file_name().map(PathBuf::from),
        }
    }

    /// Returns the folder in it in which the run works.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        unescape(&self.workspace).unwrap_or_default()
    }

    /// Returns the git directory that it shares with the user's.
    #[must_use]
    pub fn repository(&self) -> PathBuf {
        unescape(&self.repository).unwrap_or_default()
    }

    /// Writes it, durably.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, disk: &Disk, layout: &Layout) -> Result<(), StateError> {
        let folder = layout.worktrees().join(&self.run);
        disk.restore_dir(layout.root(), &folder)?;
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        disk.write_private(&folder.join(FILE), &text)?;
        for folder in [layout.worktrees().as_path(), layout.root()] {
            disk.sync_folder(folder).map_err(StateError::io("sync", folder))?;
        }
        Ok(())
    }
}

/// Returns the worktrees of a state directory, the newest first. A record that cannot be read is none.
#[must_use]
pub fn list_worktrees(layout: &Layout) -> Vec<WorktreeRecord> {
    let entries = fs::read_dir(layout.worktrees()).into_iter().flatten().flatten();
    let read = |folder: PathBuf| {
        let bytes = read_file(&folder.join(FILE), LARGEST, SymlinkPolicy::Follow).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    let mut records: Vec<WorktreeRecord> = entries.filter_map(|entry| read(entry.path())).collect();
    records.retain(|record| record.version <= VERSION);
    // An id begins with the time at which it was made.
    records.sort_unstable_by(|one, other| other.run.cmp(&one.run));
    records
}

/// Held by whoever decides where the next run works. Processes that make a worktree inherit it.
#[derive(Clone, Debug)]
pub struct WorktreeLock {
    file: Arc<fs::File>,
}

impl WorktreeLock {
    /// Takes the lock; waits for whoever has it, and for processes that a killed start left.
    ///
    /// # Errors
    /// [`StateError::Busy`] if somebody has it for too long, or the system refuses.
    pub fn take(disk: &Disk, layout: &Layout) -> Result<Self, StateError> {
        disk.open_root(layout.root())?;
        let path = layout.worktree_lock();
        let file = open(disk, &path)?.into_inner();
        lock_within(AGENTS_WAIT, &file, &path)?;
        Ok(Self { file: Arc::new(file) })
    }

    /// Returns the file that is locked for as long as any process has it open.
    #[must_use]
    pub fn guard(&self) -> Arc<fs::File> {
        Arc::clone(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(run: &str) -> WorktreeRecord {
        let paths = WorktreePaths {
            folder: Path::new("/trees/a\n1"),
            workspace: Path::new("/trees/a\n1/sub"),
            repository: Path::new("/repo/.git"),
        };
        WorktreeRecord::new(paths, run.into(), format!("ralph/{run}"), "0".repeat(40))
    }

    #[test]
    fn the_newest_record_is_first_and_what_is_no_record_is_none() {
        let temp = tempfile::tempdir().unwrap();
        let layout = Layout::new(temp.path().join("state"));
        assert!(list_worktrees(&layout).is_empty());
        let _lock = WorktreeLock::take(&Disk::default(), &layout).unwrap();
        for run in ["0198-b", "0198-a"] {
            record(run).write(&Disk::default(), &layout).unwrap();
        }
        let other = layout.worktrees().join("0199");
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join(FILE), b"{\"version\":").unwrap();
        let found = list_worktrees(&layout);
        assert_eq!(found, [record("0198-b"), record("0198-a")]);
        let moved = found[0].clone().moved_to(Path::new("/moved"));
        assert_eq!(moved.workspace(), Path::new("/moved/sub"));
        let again = moved.clone().moved_to(Path::new("/again"));
        assert_eq!(again.name().as_deref(), Some(Path::new("a\n1")));
        let all = ["/trees/a\n1/sub", "/moved/sub", "/moved"].map(|at| moved.is_at(Path::new(at)));
        assert_eq!(all, [true, true, false]);
    }

    #[test]
    fn a_second_one_waits_for_the_lock() {
        let temp = tempfile::tempdir().unwrap();
        let layout = Layout::new(temp.path().join("state"));
        let held = WorktreeLock::take(&Disk::default(), &layout).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            let taken = WorktreeLock::take(&Disk::default(), &layout);
            sender.send(()).unwrap();
            taken.unwrap()
        });
        assert!(receiver.try_recv().is_err());
        drop(held);
        drop(waiting.join().unwrap());
        receiver.recv().unwrap();
    }
}
