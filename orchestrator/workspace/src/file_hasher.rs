//! The digest of a file's content, read only when it may have changed: its BLAKE3, unless it is
//! [large](super::large_file).

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::large_file::{self, LARGE};
use super::line_digests::{LARGEST_TEXT, LineCounter, LineDigests};

/// How often a file that changes under the reader is read before it is called unstable.
const ATTEMPTS: usize = 4;
/// Bytes read at a time.
const CHUNK: usize = 128 * 1024;
/// How long before it was read a file must have changed for its fingerprint to stand for its content, in
/// nanoseconds. Two writes in the same tick of the file system's clock leave the same fingerprint; no
/// local file system ticks slower than this.
const LOCAL_MARGIN: i128 = 2_000_000_000;
/// The same where a server, whose clock may be behind, sets the times.
const REMOTE_MARGIN: i128 = 600_000_000_000;
/// The wall clock may be put back by this much without notice, in nanoseconds.
const CLOCK_SLACK: i128 = 100_000_000;

/// `f_type` of file systems that keep an honest `ctime` by this machine's clock: ext, XFS, Btrfs,
/// tmpfs, overlay, ZFS, F2FS, bcachefs, ramfs.
const LOCAL_FILE_SYSTEMS: [u32; 9] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0x0102_1994,
    0x794C_7630,
    0x2FC1_2FC1,
    0xF2F5_2010,
    0xCA45_1A4E,
    0x8584_58F6,
];
/// `f_type` of those that keep one by another machine's clock: NFS, 9p. Any other may present as
/// `ctime` what a program can set (sshfs: the modification time), so its files are always read.
const REMOTE_FILE_SYSTEMS: [u32; 2] = [0x6969, 0x0102_1997];

/// What came of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Its content and the fingerprint it had before and after.
    Hash { hash: blake3::Hash, fingerprint: FileFingerprint },
    /// It is no longer there, or no longer a regular file.
    Gone,
    /// It may not be read.
    Unreadable,
    /// It changed again and again.
    Unstable,
    /// The caller wants no more.
    Cancelled,
}

/// One name of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    dev: u64,
    ino: u64,
    /// Of the path, since not every file system's inode numbers are unique. As good as random, and not
    /// to be guessed by who names the files.
    path: u64,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.path ^ self.ino.wrapping_mul(SPREAD) ^ self.dev.rotate_left(32));
    }
}

/// An odd number with ones all over it.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Passes on what is as good as random already: to hash it once more took as long as to look it up.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(SPREAD);
        // The table looks at the highest bits and at the lowest.
        self.0 ^= self.0 >> 32;
    }
}

/// A content, and the fingerprint that stands for it.
#[derive(Debug)]
struct Known {
    fingerprint: FileFingerprint,
    hash: blake3::Hash,
    /// The pass that last met it.
    pass: u64,
}

/// Reads and hashes files, and keeps what it found for as long as a fingerprint can prove it.
#[derive(Debug)]
pub(super) struct FileHasher {
    known: HashMap<Key, Known, BuildHasherDefault<KeyHasher>>,
    /// The number of this pass.
    pass: u64,
    /// How many of those known were met in this pass.
    met: usize,
    /// Nothing was known when this pass began.
    knows_nothing: bool,
    /// Wall clock minus boot clock when last looked at.
    offset: Option<i128>,
    /// How old a change on a local file system has to be, in nanoseconds.
    pub(super) local_margin: i128,
    /// How old a change has to be, by device; `None` if no fingerprint there is to be trusted.
    margins: HashMap<u64, Option<i128>>,
    /// Empty until something is read.
    buffer: Vec<u8>,
    cancel: Arc<AtomicBool>,
    /// Whether the lines of texts are of interest.
    pub(super) counts_lines: bool,
    /// The lines of the file that was read last, if it is a text.
    lines: Option<LineDigests>,
    /// Files read since [`FileHasher::begin`].
    pub(super) reads: u64,
}

impl FileHasher {
    pub(super) fn new(cancel: Arc<AtomicBool>) -> Self {
        Self {
            known: HashMap::default(),
            pass: 0,
            met: 0,
            knows_nothing: true,
            offset: None,
            local_margin: LOCAL_MARGIN,
            margins: HashMap::new(),
            buffer: Vec::new(),
            cancel,
            counts_lines: false,
            lines: None,
            reads: 0,
        }
    }

    /// Makes room for so many files.
    pub(super) fn reserve(&mut self, files: usize) {
        self.known.reserve(files);
    }

    /// Returns a hasher for another thread in this pass, which knows nothing yet.
    pub(super) fn sibling(&self) -> Self {
        let mut sibling = Self::new(Arc::clone(&self.cancel));
        sibling.pass = self.pass;
        sibling.local_margin = self.local_margin;
        sibling.counts_lines = self.counts_lines;
        sibling
    }

    /// Takes over what a sibling has found.
    pub(super) fn absorb(&mut self, sibling: Self) {
        self.reads += sibling.reads;
        for (key, known) in sibling.known {
            if self.known.insert(key, known).is_none_or(|before| before.pass != self.pass) {
                self.met += 1;
            }
        }
    }

    /// Starts a pass over the files beneath `root`. What a pass that was cancelled has found is still
    /// true.
    pub(super) fn begin(&mut self, root: BorrowedFd<'_>) {
        self.reads = 0;
        self.pass += 1;
        self.met = 0;
        // A number may mean another device by now.
        self.margins.clear();
        if let Ok(fingerprint) = FileFingerprint::from_fd(root) {
            self.record_clock_margin(fingerprint.dev, root);
        }
        let offset = safe_fs::wall_clock() - safe_fs::boot_clock();
        if self.offset.is_some_and(|before| offset < before - CLOCK_SLACK) {
            // Once the clock was put back a new change can carry an old time.
            self.known.clear();
        }
        self.offset = Some(offset);
        self.knows_nothing = self.known.is_empty();
    }

    /// Whether nothing was known of any file when this pass began.
    pub(super) const fn knows_nothing(&self) -> bool {
        self.knows_nothing
    }

    /// Ends a complete pass: forgets the files that were not met in it.
    pub(super) fn finish(&mut self) {
        if self.met < self.known.len() {
            let pass = self.pass;
            self.known.retain(|_, known| known.pass == pass);
        }
    }

    /// Takes `flag` for the caller's sign to stop.
    pub(super) fn set_cancel(&mut self, flag: Arc<AtomicBool>) {
        self.cancel = flag;
    }

    /// Returns the lines of the file that was hashed last, if it was read for that and is a text.
    pub(super) const fn take_lines(&mut self) -> Option<LineDigests> {
        self.lines.take()
    }

    /// Whether the caller wants no more.
    pub(super) fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Returns the content of `name` in `folder`, which had `fingerprint` a moment ago; `path` is a number
    /// for its path.
    pub(super) fn hash(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: u64,
        fingerprint: FileFingerprint,
    ) -> Content {
        self.lines = None;
        let key = Key { dev: fingerprint.dev, ino: fingerprint.ino, path };
        if let Some(known) = self.known.get_mut(&key)
            && known.fingerprint == fingerprint
        {
            if std::mem::replace(&mut known.pass, self.pass) != self.pass {
                self.met += 1;
            }
            return Content::Hash { hash: known.hash, fingerprint };
        }
        self.read_new(folder, name, path)
    }

    /// Returns the content of `name` in `folder`, of which nothing is known; `path` is a number for its path.
    pub(super) fn read_new(&mut self, folder: BorrowedFd<'_>, name: &[u8], path: u64) -> Content {
        self.lines = None;
        self.reads += 1;
        for _ in 0..ATTEMPTS {
            let started = safe_fs::wall_clock();
            let fd = match safe_fs::open_file_at(folder, name) {
                Ok(fd) => fd,
                Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::NOTDIR) => {
                    return Content::Gone;
                }
                Err(_) => return Content::Unreadable,
            };
            match self.read(&fd) {
                Ok(Some((hash, fingerprint))) => {
                    self.record_clock_margin(fingerprint.dev, fd.as_fd());
                    if self.is_trusted(&fingerprint, started) {
                        let key = Key { dev: fingerprint.dev, ino: fingerprint.ino, path };
                        let known = Known { fingerprint, hash, pass: self.pass };
                        let before = self.known.insert(key, known);
                        if before.is_none_or(|before| before.pass != self.pass) {
                            self.met += 1;
                        }
                    }
                    return Content::Hash { hash, fingerprint };
                }
                Ok(None) if self.cancelled() => return Content::Cancelled,
                Ok(None) => {}
                Err(Errno::ISDIR) => return Content::Gone,
                Err(_) => return Content::Unreadable,
            }
        }
        Content::Unstable
    }

    /// Whether a change after the time `started` is bound to leave another fingerprint than this.
    pub(super) fn is_trusted(&self, fingerprint: &FileFingerprint, started: i128) -> bool {
        let margin = self.margins.get(&fingerprint.dev).copied().flatten();
        margin.is_some_and(|margin| fingerprint.ctime + margin <= started)
    }

    /// Finds out how old a change has to be on this device, on which `fd` is open.
    fn record_clock_margin(&mut self, dev: u64, fd: BorrowedFd<'_>) {
        let local_margin = self.local_margin;
        self.margins.entry(dev).or_insert_with(|| {
            let kind = i128::from(rustix::fs::fstatfs(fd).ok()?.f_type);
            let among = |list: &[u32]| list.iter().any(|magic| i128::from(*magic) == kind);
            if among(&LOCAL_FILE_SYSTEMS) {
                Some(local_margin)
            } else {
                among(&REMOTE_FILE_SYSTEMS).then_some(REMOTE_MARGIN)
            }
        });
    }

    /// Reads once; `None` if the file was not the same before and after, or on cancellation.
    fn read(&mut self, fd: &OwnedFd) -> Result<Option<(blake3::Hash, FileFingerprint)>, Errno> {
        let before = FileFingerprint::from_fd(fd)?;
        if before.file_type() != FileType::RegularFile {
            return Err(Errno::ISDIR);
        }
        if self.buffer.is_empty() {
            // Comes zeroed from the allocator; to fill it was a tenth of a short run without optimisation.
            self.buffer = vec![0; CHUNK];
        }
        if before.size > LARGE {
            let cancel = Arc::clone(&self.cancel);
            let cancelled = || cancel.load(Ordering::Relaxed);
            let hash = large_file::digest(fd, before.size, &mut self.buffer, cancelled)?;
            let same = FileFingerprint::from_fd(fd)? == before;
            return Ok(hash.filter(|_| same).map(|hash| (hash, before)));
        }
        let mut hasher = blake3::Hasher::new();
        let by_line = self.counts_lines && before.size <= LARGEST_TEXT;
        let mut lines = by_line.then(LineCounter::default);
        let mut total = 0_u64;
        loop {
            if self.cancelled() {
                return Ok(None);
            }
            let count = rustix::io::retry_on_intr(|| {
                rustix::io::read(fd.as_fd(), self.buffer.as_mut_slice())
            })?;
            let Some(part) = self.buffer.get(..count).filter(|part| !part.is_empty()) else {
                break;
            };
            hasher.update(part);
            if let Some(lines) = &mut lines {
                lines.take(part);
            }
            total = total.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            // A file that grows as fast as it is read has no end.
            if total > before.size {
                return Ok(None);
            }
            // That it has grown meanwhile shows in the fingerprint; to read its end took as long as a small file.
            if total == before.size {
                break;
            }
        }
        self.lines = lines.and_then(LineCounter::finish);
        let after = FileFingerprint::from_fd(fd)?;
        Ok((before == after && total == before.size).then(|| (hasher.finalize(), before)))
    }
}

/// Returns a value that no other call ever returns: the digest of what had no stable content.
pub(super) fn unique_digest() -> blake3::Hash {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&safe_fs::wall_clock().to_le_bytes());
    hasher.update(&safe_fs::boot_clock().to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    hasher.update(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    hasher.finalize()
}
