//! The digests of the contents of evidence folders.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::BuildHasher as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ralph_orchestrator_safe_fs::{self as safe_fs, DirLister, FileFingerprint};
use ralph_orchestrator_safe_fs::{DirVisitor, SkipReason, Subfolder, walk};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::file_hasher::{Content, FileHasher};

/// The most files that are looked at, in all folders together.
const MAX_FILES: usize = 2_000;
/// The largest file that is looked at, in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How deep folders may be nested.
const MAX_DEPTH: usize = 8;
/// The most names that are looked at in one folder.
const MAX_NAMES: usize = 20_000;
/// The most folders that are entered, in all evidence folders together.
const MAX_FOLDERS: usize = 2_000;
/// Hexadecimal digits of a fingerprint.
const STAMP_DIGITS: usize = 16;
/// How many notes are kept.
const MAX_NOTES: usize = 50;

/// What lies in the evidence folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvidenceDigests {
    /// The regular files that were read: BLAKE3 of the content, in hexadecimal, by a short digest of
    /// inode, size, and times of modification and change. Written anew, a file has another one, whatever
    /// date it is given.
    pub contents: BTreeMap<String, String>,
    /// Files were left out that a later call may list: there were too many, or they could not be read.
    pub overflowed: bool,
    /// Files were left out for their size, as every call will.
    pub skipped_large: bool,
    /// What was not looked at and why, for people; bounded.
    pub notes: Vec<String>,
}

/// Returns the contents of the regular files beneath these folders (absolute paths).
///
/// No link is followed: neither beneath the folders, nor if a folder is one itself. Looked at are
/// 2,000 files of at most 64 MiB, in at most 2,000 folders nested at most 8 deep; what is beyond is
/// left out, with a note. A folder that does not exist holds nothing.
#[must_use]
pub fn evidence_digests(dirs: &[PathBuf]) -> EvidenceDigests {
    evidence_digests_until(dirs, Arc::default()).unwrap_or_default()
}

/// Returns the same; `None` soon after `flag` becomes true.
#[must_use]
pub fn evidence_digests_until(dirs: &[PathBuf], flag: Arc<AtomicBool>) -> Option<EvidenceDigests> {
    EvidenceHasher::default().digests_until(dirs, flag)
}

/// Finds the contents of evidence folders, again and again, reading only what may have changed: see
/// [`TreeHasher`](super::TreeHasher).
#[derive(Debug)]
pub struct EvidenceHasher {
    hasher: FileHasher,
    lister: DirLister,
    numbers: RandomState,
}

impl Default for EvidenceHasher {
    fn default() -> Self {
        Self {
            hasher: FileHasher::new(Arc::default()),
            lister: DirLister::default(),
            numbers: RandomState::new(),
        }
    }
}

impl EvidenceHasher {
    /// Does the same as [`evidence_digests_until`].
    pub fn digests_until(
        &mut self,
        dirs: &[PathBuf],
        flag: Arc<AtomicBool>,
    ) -> Option<EvidenceDigests> {
        self.hasher.set_cancel(flag);
        let mut walker = EvidenceWalker {
            hasher: &mut self.hasher,
            lister: &mut self.lister,
            numbers: &self.numbers,
            dir: PathBuf::new(),
            files: 0,
            folders: 0,
            full: false,
            found: EvidenceDigests::default(),
        };
        let mut begun = false;
        for dir in dirs {
            walker.dir.clone_from(dir);
            match safe_fs::open_folder_nofollow(dir) {
                Ok(top) => {
                    if !std::mem::replace(&mut begun, true) {
                        walker.hasher.begin(top.as_fd());
                    }
                    walk(top, &mut walker, &(), MAX_DEPTH).ok()?;
                }
                Err(Errno::NOENT) => {}
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    walker.skip(b"", "is not looked into, since it is no folder or a link");
                }
                Err(error) => walker.leave_out(b"", &format!("cannot be read: {error}")),
            }
        }
        let found = walker.found;
        if begun {
            self.hasher.finish();
        }
        Some(found)
    }
}

fn short_digest(fingerprint: &FileFingerprint) -> String {
    let FileFingerprint { ino, size, mtime, ctime, .. } = *fingerprint;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&ino.to_le_bytes()).update(&size.to_le_bytes());
    hasher.update(&mtime.to_le_bytes()).update(&ctime.to_le_bytes());
    hasher.finalize().to_hex().chars().take(STAMP_DIGITS).collect()
}

/// The caller wants no more.
struct Cancelled;

struct EvidenceWalker<'a> {
    hasher: &'a mut FileHasher,
    lister: &'a mut DirLister,
    numbers: &'a RandomState,
    /// The evidence folder at hand.
    dir: PathBuf,
    files: usize,
    folders: usize,
    /// A limit on the whole was met and told.
    full: bool,
    found: EvidenceDigests,
}

impl EvidenceWalker<'_> {
    fn skip(&mut self, path: &[u8], why: &str) {
        if self.found.notes.len() < MAX_NOTES {
            let path = self.dir.join(Path::new(OsStr::from_bytes(path)));
            self.found.notes.push(format!("{}: {why}", path.display()));
        }
    }

    /// Notes what a later call may list.
    fn leave_out(&mut self, path: &[u8], why: &str) {
        self.found.overflowed = true;
        self.skip(path, why);
    }

    fn fill(&mut self, path: &[u8], what: &str) {
        if !self.full {
            self.full = true;
            self.leave_out(path, &format!("and what follows is not looked at: more than {what}"));
        }
    }

    fn file(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        fingerprint: FileFingerprint,
    ) {
        if self.files >= MAX_FILES {
            self.fill(path, "2,000 files");
            return;
        }
        self.files += 1;
        if fingerprint.size > MAX_BYTES {
            self.found.skipped_large = true;
            self.skip(path, "is not looked at: larger than 64 MiB");
            return;
        }
        let number = self.numbers.hash_one((&self.dir, path));
        match self.hasher.hash(folder, name, number, fingerprint) {
            Content::Hash { hash, fingerprint } => {
                self.found.contents.insert(short_digest(&fingerprint), hash.to_hex().to_string());
            }
            Content::Gone => {}
            Content::Unreadable => self.leave_out(path, "cannot be read"),
            Content::Unstable | Content::Cancelled => self.skip(path, "kept changing"),
        }
    }
}

impl DirVisitor for EvidenceWalker<'_> {
    type State = ();
    type Stop = Cancelled;

    fn visit(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        (): &(),
    ) -> Result<Vec<Subfolder<()>>, Self::Stop> {
        self.folders += 1;
        if self.folders > MAX_FOLDERS {
            self.fill(path, "2,000 folders");
            return Ok(Vec::new());
        }
        let names = match self.lister.list(folder, MAX_NAMES) {
            Ok((names, more)) => {
                if more {
                    self.leave_out(
                        path,
                        "holds more than 20,000 names; the others are not looked at",
                    );
                }
                names
            }
            Err(error) => {
                self.leave_out(path, &format!("cannot be read: {error}"));
                Vec::new()
            }
        };
        let mut subfolders = Vec::new();
        for name in names {
            if self.hasher.cancelled() {
                return Err(Cancelled);
            }
            let whole = [path, &name.bytes].concat();
            let Ok(fingerprint) = FileFingerprint::from_name(folder, &name.bytes) else { continue };
            match fingerprint.file_type() {
                FileType::RegularFile => self.file(folder, &name.bytes, &whole, fingerprint),
                FileType::Directory => subfolders.push((name.bytes, ())),
                _ => {}
            }
        }
        Ok(subfolders)
    }

    fn skip(&mut self, path: &[u8], why: SkipReason, _stamp: Option<FileFingerprint>) {
        match why {
            SkipReason::Gone => {}
            SkipReason::Unreadable => self.leave_out(path, "cannot be read"),
            SkipReason::TooDeep => {
                self.leave_out(path, "is not looked into: more than 8 folders deep");
            }
        }
    }
}
