//! Reads files ahead of the first walk, on a second thread.
//!
//! The files are those that git tracks, which no rule ignores. The second thread reads them from the last one on, the walk
//! from the first, until they meet. What it has read counts only for a file in the very folder that the walk has opened
//! itself.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::BuildHasher as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_safe_fs::{FileFingerprint, list_flags, open_no_symlinks};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};

use crate::FileId;
use crate::file_hasher::{Content, FileHasher};
use crate::line_digests::LineDigests;

/// With fewer files the second thread costs more than it saves.
const LEAST_FILES: usize = 256;
/// Most files that it reads: what it keeps for the walk is about 4 MiB.
const MOST_FILES: usize = 32 * 1024;

/// Who reads a file.
const NOBODY: u8 = 0;
const WALK: u8 = 1;
const SECOND: u8 = 2;

/// What was read of a file, and its lines.
pub(super) type FileRead = (Content, Option<LineDigests>);

/// Files that two threads share.
pub(super) struct ReadAhead<'a> {
    top: &'a Path,
    /// Relative to the workspace, sorted.
    files: Vec<&'a [u8]>,
    /// Who reads each of them.
    readers: Vec<AtomicU8>,
    /// What the second thread has read, and where; `None` where it could not.
    reads: Mutex<HashMap<usize, Option<(FileId, FileRead)>>>,
    arrived: Condvar,
    /// Where the walk has found the last file: mostly it comes to the next one then.
    last: AtomicUsize,
    is_ended: AtomicBool,
}

impl<'a> ReadAhead<'a> {
    /// Returns what a first walk of `top` can use, where git tracks these files.
    pub(super) fn new(top: &'a Path, files: Vec<&'a [u8]>) -> Option<Self> {
        (files.len() >= LEAST_FILES).then(|| Self {
            top,
            readers: files.iter().map(|_| AtomicU8::new(NOBODY)).collect(),
            files,
            reads: Mutex::default(),
            arrived: Condvar::new(),
            last: AtomicUsize::new(0),
            is_ended: AtomicBool::new(false),
        })
    }

    /// Reads the files that the walk has not come to.
    pub(super) fn run(&self, hasher: &mut FileHasher, numbers: &RandomState) {
        let mut folder = None;
        for (position, path) in self.files.iter().enumerate().rev().take(MOST_FILES) {
            if self.is_ended.load(Ordering::Relaxed) || hasher.cancelled() {
                return;
            }
            if self.claim(position, SECOND) == NOBODY {
                let read = self.read(hasher, &mut folder, path, numbers.hash_one(path));
                self.lock().insert(position, read);
                self.arrived.notify_one();
            }
        }
    }

    /// Ends [`run`](Self::run) soon.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }

    /// Returns what the second thread has read of this file in this folder. Otherwise the walk has to read it.
    pub(super) fn take(&self, folder: BorrowedFd<'_>, path: &[u8]) -> Option<FileRead> {
        let next = self.last.load(Ordering::Relaxed) + 1;
        let is_next = self.files.get(next).is_some_and(|file| *file == path);
        let position = if is_next { next } else { self.files.binary_search(&path).ok()? };
        self.last.store(position, Ordering::Relaxed);
        if self.claim(position, WALK) != SECOND {
            return None;
        }
        let mut reads = self.lock();
        let read = loop {
            match reads.remove(&position) {
                Some(read) => break read,
                None => reads = self.arrived.wait(reads).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(reads);
        // Another look at this file is the walk's own.
        self.readers.get(position)?.store(WALK, Ordering::Relaxed);
        let (found_in, read) = read?;
        (found_in == folder_id(folder)?).then_some(read)
    }

    /// Claims a file, and returns who had claimed it before.
    fn claim(&self, position: usize, reader: u8) -> u8 {
        let state = self.readers.get(position);
        let change = |state: &AtomicU8| {
            state.compare_exchange(NOBODY, reader, Ordering::Relaxed, Ordering::Relaxed)
        };
        state.map_or(WALK, |state| change(state).unwrap_or_else(|before| before))
    }

    /// Reads a file; `open` is the folder of the one before.
    fn read(
        &self,
        hasher: &mut FileHasher,
        open: &mut Option<(&'a [u8], OwnedFd)>,
        path: &'a [u8],
        number: u64,
    ) -> Option<(FileId, FileRead)> {
        let split = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
        let (parent, name) = path.split_at(split);
        if open.as_ref().is_none_or(|(known, _)| *known != parent) {
            let parent_path = self.top.join(OsStr::from_bytes(parent));
            *open = Some((parent, open_no_symlinks(&parent_path, list_flags()).ok()?));
        }
        let folder = open.as_ref()?.1.as_fd();
        let content = hasher.read_new(folder, name, number);
        // What is no content is looked at by the walk.
        matches!(content, Content::Hash { .. }).then_some(())?;
        Some((folder_id(folder)?, (content, hasher.take_lines())))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Option<(FileId, FileRead)>>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn folder_id(folder: BorrowedFd<'_>) -> Option<FileId> {
    FileFingerprint::from_fd(folder).ok().map(|fingerprint| FileId::from_fingerprint(&fingerprint))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use ralph_orchestrator_safe_fs::open_folder;

    use super::*;

    /// Three hundred files in three folders and at the top.
    fn workspace() -> (tempfile::TempDir, Vec<String>) {
        let top = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for number in 0..300 {
            let path = match number % 4 {
                0 => format!("{number}"),
                folder => format!("folder{folder}/{number}"),
            };
            let whole = top.path().join(&path);
            fs::create_dir_all(whole.parent().unwrap()).unwrap();
            fs::write(whole, format!("line\n{number}\n")).unwrap();
            files.push(path);
        }
        files.sort();
        (top, files)
    }

    fn hasher() -> FileHasher {
        let mut hasher = FileHasher::new(Arc::default());
        hasher.counts_lines = true;
        hasher
    }

    fn ahead<'a>(top: &'a Path, files: &'a [String]) -> ReadAhead<'a> {
        ReadAhead::new(top, files.iter().map(String::as_bytes).collect()).unwrap()
    }

    fn take(ahead: &ReadAhead<'_>, top: &Path, path: &str) -> Option<FileRead> {
        let folder = open_folder(top.join(path).parent().unwrap()).unwrap();
        ahead.take(folder.as_fd(), path.as_bytes())
    }

    #[test]
    fn each_file_is_read_once_and_as_the_walk_would_read_it() {
        let (top, files) = workspace();
        let top = top.path().canonicalize().unwrap();
        let ahead = ahead(&top, &files);
        let few = ReadAhead::new(&top, ahead.files[..200].to_vec());
        assert!(few.is_none(), "too little to do");
        let (first, rest) = files.split_at(10);
        for path in first {
            assert!(take(&ahead, &top, path).is_none(), "the walk was there first");
        }
        let mut second = hasher();
        let numbers = RandomState::new();
        ahead.run(&mut second, &numbers);
        assert_eq!(second.reads, 290, "what the walk has read is left to it");
        let mut own = hasher();
        for path in rest {
            let (content, lines) = take(&ahead, &top, path).unwrap();
            let whole = top.join(path);
            let folder = open_folder(whole.parent().unwrap()).unwrap();
            let name = whole.file_name().unwrap().as_bytes();
            assert_eq!(own.read_new(folder.as_fd(), name, 0), content);
            assert_eq!(
                (own.take_lines(), lines.as_ref().map(|lines| lines.len())),
                (lines, Some(2))
            );
            assert!(take(&ahead, &top, path).is_none(), "once");
        }
        assert!(take(&ahead, &top, "folder1/other").is_none(), "not tracked");
    }

    #[test]
    fn two_threads_share_all_files_and_neither_waits_for_ever() {
        let (top, files) = workspace();
        let top = top.path().canonicalize().unwrap();
        for _ in 0..50 {
            let ahead = ahead(&top, &files);
            let mut second = hasher();
            let numbers = RandomState::new();
            let taken = std::thread::scope(|scope| {
                scope.spawn(|| ahead.run(&mut second, &numbers));
                let taken = files.iter().filter(|path| take(&ahead, &top, path).is_some()).count();
                ahead.end();
                taken
            });
            assert_eq!(u64::try_from(taken).unwrap(), second.reads);
        }
    }

    #[test]
    fn what_is_no_file_or_lies_elsewhere_by_now_is_left_to_the_walk() {
        let (top, files) = workspace();
        let top = top.path().canonicalize().unwrap();
        let [gone, link, folder] = ["folder1/1", "folder1/5", "folder1/9"];
        for path in [gone, link, folder] {
            fs::remove_file(top.join(path)).unwrap();
        }
        std::os::unix::fs::symlink("13", top.join(link)).unwrap();
        fs::create_dir(top.join(folder)).unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::rename(top.join("folder3"), outside.path().join("folder3")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("folder3"), top.join("folder3")).unwrap();
        let ahead = ahead(&top, &files);
        ahead.run(&mut hasher(), &RandomState::new());
        for path in [gone, link, folder] {
            assert!(take(&ahead, &top, path).is_none(), "{path}");
        }
        let folder = open_folder(&outside.path().join("folder3")).unwrap();
        assert!(ahead.take(folder.as_fd(), b"folder3/3").is_none(), "through a link");
        fs::rename(top.join("folder2"), top.join("away")).unwrap();
        fs::create_dir(top.join("folder2")).unwrap();
        assert!(take(&ahead, &top, "folder2/2").is_none(), "of another folder of that name");
    }

    #[test]
    fn ends_when_the_walk_has_ended_or_nobody_wants_more() {
        let (top, files) = workspace();
        let top = top.path().canonicalize().unwrap();
        let mut second = hasher();
        let ended = ahead(&top, &files);
        ended.end();
        ended.run(&mut second, &RandomState::new());
        let mut cancelled = FileHasher::new(Arc::new(AtomicBool::new(true)));
        ahead(&top, &files).run(&mut cancelled, &RandomState::new());
        assert_eq!((second.reads, cancelled.reads), (0, 0));
    }
}
