//! Looks at folders ahead of the walk, on a second thread.
//!
//! The folders are those of the walk before. The second thread takes them from the last one on, the walk from the
//! first, until they meet. What it saw counts only for the very folder that the walk has opened itself.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

use ralph_orchestrator_safe_fs::{
    DirEntryName, DirLister, FileFingerprint, list_flags, open_no_symlinks,
};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::FileType;
use rustix::io::Errno;

/// With fewer entries the second thread costs more than it saves.
const LEAST_ENTRIES: u64 = 256;
/// Most names that it keeps for the walk: about 4 MiB.
const MOST_NAMES: usize = 32 * 1024;
/// How many folders that are gone the walk passes over to find the one that it is in.
const MOST_GONE: usize = 64;

/// A name in a folder, and its fingerprint if it was looked at.
pub(super) type SeenName = (DirEntryName, Option<FileFingerprint>);

/// What was seen in a folder.
struct FolderLook {
    /// The folder: device and inode.
    folder: (u64, u64),
    names: Vec<SeenName>,
}

/// The folders of the walk before, and what was seen in them ahead of the walk that goes on.
pub(super) struct Prefetch<'a> {
    top: &'a Path,
    folders: &'a [Box<[u8]>],
    /// The position of the next folder that the walk expects.
    front: AtomicUsize,
    looks: Mutex<HashMap<usize, FolderLook>>,
}

/// Walks, and has a second thread work ahead meanwhile, if there is something to do and a thread for it.
pub(super) fn beside<T>(
    ahead: Option<(impl FnOnce() + Send, impl FnOnce())>,
    walk: impl FnOnce() -> T,
) -> T {
    let Some((ahead, end)) = ahead else { return walk() };
    std::thread::scope(|scope| {
        let started = Builder::new().name("tree".into()).spawn_scoped(scope, ahead);
        let walked = walk();
        end();
        drop(started);
        walked
    })
}

impl<'a> Prefetch<'a> {
    /// Returns what a walk of `top` can use, after a walk with these folders and so many entries.
    pub(super) fn new(top: &'a Path, folders: &'a [Box<[u8]>], entries: u64) -> Option<Self> {
        let front = AtomicUsize::new(0);
        (entries >= LEAST_ENTRIES && folders.len() > 1).then(|| Self {
            top,
            folders,
            front,
            looks: Mutex::default(),
        })
    }

    /// Looks at the folders, until the walk has come to where this is.
    pub(super) fn run(&self) {
        let mut lister = DirLister::default();
        let mut names = 0;
        for (position, path) in self.folders.iter().enumerate().rev() {
            if position <= self.front.load(Ordering::Relaxed) || names > MOST_NAMES {
                return;
            }
            // What cannot be looked at is reported by the walk.
            if let Ok(look) = self.look(&mut lister, path) {
                names += look.names.len();
                self.looks.lock().unwrap_or_else(PoisonError::into_inner).insert(position, look);
            }
        }
    }

    /// Ends [`run`](Self::run) soon.
    pub(super) fn end(&self) {
        self.front.store(usize::MAX, Ordering::Relaxed);
    }

    /// Returns what was seen in the folder that the walk has come to, if anything was.
    pub(super) fn take(&self, folder: BorrowedFd<'_>, path: &[u8]) -> Option<Vec<SeenName>> {
        let front = self.front.load(Ordering::Relaxed);
        let ahead = self.folders.get(front..)?.iter().take(MOST_GONE);
        let position = front + ahead.into_iter().position(|known| **known == *path)?;
        self.front.store(position + 1, Ordering::Relaxed);
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let look = looks.remove(&position)?;
        drop(looks);
        let now = FileFingerprint::from_fd(folder).ok()?;
        (look.folder == (now.dev, now.ino)).then_some(look.names)
    }

    fn look(&self, lister: &mut DirLister, path: &[u8]) -> Result<FolderLook, Errno> {
        let path: PathBuf = self.top.join(OsStr::from_bytes(path));
        let folder = open_no_symlinks(&path, list_flags())?;
        let now = FileFingerprint::from_fd(&folder)?;
        let (names, _) = lister.list(folder.as_fd(), usize::MAX)?;
        let see = |name: DirEntryName| {
            // The walk enters folders anyway, and looks again at what it cannot tell.
            let is_file = !matches!(name.file_type, FileType::Directory | FileType::Unknown);
            let look = || FileFingerprint::from_name(folder.as_fd(), &name.bytes).ok();
            let fingerprint = is_file.then(look).flatten();
            (name, fingerprint)
        };
        Ok(FolderLook { folder: (now.dev, now.ino), names: names.into_iter().map(see).collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ralph_orchestrator_safe_fs::open_folder;

    use super::*;

    fn folders(paths: &[&str]) -> Vec<Box<[u8]>> {
        paths.iter().map(|path| path.as_bytes().into()).collect()
    }

    fn names(seen: Option<Vec<SeenName>>) -> Option<Vec<(String, bool)>> {
        let name = |(name, fingerprint): SeenName| {
            (String::from_utf8(name.bytes).unwrap(), fingerprint.is_some())
        };
        Some(seen?.into_iter().map(name).collect())
    }

    #[test]
    fn sees_the_last_folders_first_and_none_that_the_walk_has_reached() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        for name in ["a", "b", "c", "d"] {
            fs::create_dir_all(top.join(name).join("inner")).unwrap();
            fs::write(top.join(name).join("file"), name).unwrap();
        }
        let folders = folders(&["", "a/", "b/", "c/", "d/"]);
        assert!(Prefetch::new(&top, &folders, 1).is_none(), "too little to do");
        let prefetch = Prefetch::new(&top, &folders, LEAST_ENTRIES).unwrap();
        let take = |path: &str| {
            let folder = open_folder(&top.join(path)).unwrap();
            names(prefetch.take(folder.as_fd(), path.as_bytes()))
        };
        assert_eq!(take(""), None, "nothing was seen yet");
        assert_eq!(take("a/"), None);
        prefetch.run();
        let seen = [("file".to_owned(), true), ("inner".to_owned(), false)];
        assert_eq!(take("b/"), None, "the walk comes to it next");
        assert_eq!(take("c/").unwrap(), seen, "the walk enters folders itself");
        fs::create_dir(top.join("cc")).unwrap();
        assert_eq!(take("cc/"), None, "a folder that was not there before");
        assert_eq!(take("d/").unwrap(), seen);
        assert_eq!(take("d/"), None, "once");
    }

    #[test]
    fn what_was_seen_in_another_folder_of_that_name_does_not_count() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(top.join(name)).unwrap();
        }
        let folders = folders(&["", "a/", "b/"]);
        let prefetch = Prefetch::new(&top, &folders, LEAST_ENTRIES).unwrap();
        prefetch.run();
        fs::rename(top.join("b"), top.join("away")).unwrap();
        fs::create_dir(top.join("b")).unwrap();
        let folder = open_folder(&top.join("b")).unwrap();
        assert!(prefetch.take(folder.as_fd(), b"b/").is_none());
    }

    #[test]
    fn folders_that_are_gone_are_passed_over_and_links_are_not_followed() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        fs::create_dir(top.join("real")).unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        fs::create_dir(top.join("z")).unwrap();
        let folders = folders(&["", "gone/", "link/", "z/"]);
        let prefetch = Prefetch::new(&top, &folders, LEAST_ENTRIES).unwrap();
        prefetch.run();
        assert_eq!(prefetch.looks.lock().unwrap().len(), 1, "only the last one");
        let folder = open_folder(&top.join("z")).unwrap();
        assert!(prefetch.take(folder.as_fd(), b"z/").is_some());
    }

    #[test]
    fn ends_when_the_walk_has_ended() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        fs::create_dir(top.join("a")).unwrap();
        let folders = folders(&["", "a/"]);
        let prefetch = Prefetch::new(&top, &folders, LEAST_ENTRIES).unwrap();
        prefetch.end();
        prefetch.run();
        assert!(prefetch.looks.lock().unwrap().is_empty());
        let ahead = Some((|| prefetch.run(), || prefetch.end()));
        assert_eq!(beside(ahead, || 7), 7);
        assert_eq!(beside(None::<(fn(), fn())>, || 8), 8);
    }
}
