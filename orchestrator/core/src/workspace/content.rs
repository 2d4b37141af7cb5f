//! The digest of a file's content, read only when it may have changed: its BLAKE3, unless it is
//! [large](super::large).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::at::{self, Stamp};
use super::large::{self, LARGE};
use super::lines::{LARGEST_TEXT, LineCounter, LineDigests};

/// How often a file that changes under the reader is read before it is called unstable.
const ATTEMPTS: usize = 4;
/// Bytes read at a time.
const CHUNK: usize = 128 * 1024;
/// How long before it was read a file must have changed for its stamp to stand for its content, in
/// nanoseconds. Two writes in the same tick of the file system's clock leave the same stamp; no
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
    /// Its content and the stamp it had before and after.
    Hash { hash: blake3::Hash, stamp: Stamp },
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

/// A content, and the stamp that stands for it.
#[derive(Debug)]
struct Known {
    stamp: Stamp,
    hash: blake3::Hash,
    /// The pass that last met it.
    pass: u64,
}

/// Reads and hashes files, and keeps what it found for as long as a stamp can prove it.
#[derive(Debug)]
pub(super) struct FileHasher {
    known: HashMap<Key, Known, BuildHasherDefault<KeyHasher>>,
    /// The number of this pass.
    pass: u64,
    /// How many of those known were met in this pass.
    met: usize,
    /// Wall clock minus boot clock when last looked at.
    offset: Option<i128>,
    /// How old a change on a local file system has to be, in nanoseconds.
    pub(super) local_margin: i128,
    /// How old a change has to be, by device; `None` if no stamp there is to be trusted.
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

    /// Starts a pass over the files beneath `root`. What a pass that was cancelled has found is still
    /// true.
    pub(super) fn begin(&mut self, root: BorrowedFd<'_>) {
        self.reads = 0;
        self.pass += 1;
        self.met = 0;
        // A number may mean another device by now.
        self.margins.clear();
        if let Ok(stamp) = Stamp::of(root) {
            self.learn_margin(stamp.dev, root);
        }
        let offset = at::wall_clock() - at::boot_clock();
        if self.offset.is_some_and(|before| offset < before - CLOCK_SLACK) {
            // Once the clock was put back a new change can carry an old time.
            self.known.clear();
        }
        self.offset = Some(offset);
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

    /// The lines of the file that was hashed last, if it was read for that and is a text.
    pub(super) const fn take_lines(&mut self) -> Option<LineDigests> {
        self.lines.take()
    }

    /// Whether the caller wants no more.
    pub(super) fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// The content of `name` in `folder`, which had `stamp` a moment ago; `path` is a number for its
    /// path.
    pub(super) fn hash(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: u64,
        stamp: Stamp,
    ) -> Content {
        self.lines = None;
        let key = Key { dev: stamp.dev, ino: stamp.ino, path };
        if let Some(known) = self.known.get_mut(&key)
            && known.stamp == stamp
        {
            if std::mem::replace(&mut known.pass, self.pass) != self.pass {
                self.met += 1;
            }
            return Content::Hash { hash: known.hash, stamp };
        }
        self.reads += 1;
        for _ in 0..ATTEMPTS {
            let started = at::wall_clock();
            let fd = match at::open_file(folder, name) {
                Ok(fd) => fd,
                Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::NOTDIR) => {
                    return Content::Gone;
                }
                Err(_) => return Content::Unreadable,
            };
            match self.read(&fd) {
                Ok(Some((hash, stamp))) => {
                    self.learn_margin(stamp.dev, fd.as_fd());
                    if self.settled(&stamp, started) {
                        let key = Key { dev: stamp.dev, ino: stamp.ino, path };
                        let known = Known { stamp, hash, pass: self.pass };
                        let before = self.known.insert(key, known);
                        if before.is_none_or(|before| before.pass != self.pass) {
                            self.met += 1;
                        }
                    }
                    return Content::Hash { hash, stamp };
                }
                Ok(None) if self.cancelled() => return Content::Cancelled,
                Ok(None) => {}
                Err(Errno::ISDIR) => return Content::Gone,
                Err(_) => return Content::Unreadable,
            }
        }
        Content::Unstable
    }

    /// Whether a change after the time `started` is bound to leave another stamp than this.
    pub(super) fn settled(&self, stamp: &Stamp, started: i128) -> bool {
        let margin = self.margins.get(&stamp.dev).copied().flatten();
        margin.is_some_and(|margin| stamp.ctime + margin <= started)
    }

    /// Finds out how old a change has to be on this device, on which `fd` is open.
    fn learn_margin(&mut self, dev: u64, fd: BorrowedFd<'_>) {
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
    fn read(&mut self, fd: &OwnedFd) -> Result<Option<(blake3::Hash, Stamp)>, Errno> {
        let before = Stamp::of(fd)?;
        if before.kind() != FileType::RegularFile {
            return Err(Errno::ISDIR);
        }
        self.buffer.resize(CHUNK, 0);
        if before.size > LARGE {
            let cancel = Arc::clone(&self.cancel);
            let cancelled = || cancel.load(Ordering::Relaxed);
            let hash = large::digest(fd, before.size, &mut self.buffer, cancelled)?;
            let same = Stamp::of(fd)? == before;
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
            // That it has grown meanwhile shows in the stamp; to read its end took as long as a small file.
            if total == before.size {
                break;
            }
        }
        self.lines = lines.and_then(LineCounter::finish);
        let after = Stamp::of(fd)?;
        Ok((before == after && total == before.size).then(|| (hasher.finalize(), before)))
    }
}

/// A value that no other call ever returns: the digest of what had no stable content.
pub(super) fn never_again() -> blake3::Hash {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&at::wall_clock().to_le_bytes());
    hasher.update(&at::boot_clock().to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    hasher.update(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a file `f`, and its stamp.
    fn file(content: &[u8]) -> (tempfile::TempDir, OwnedFd, Stamp) {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("f"), content).unwrap();
        let folder = at::open_folder(temp.path()).unwrap();
        let stamp = Stamp::at(folder.as_fd(), b"f").unwrap();
        (temp, folder, stamp)
    }

    /// A hasher that takes every stamp for settled, so that caching shows at once.
    fn trusting(folder: &OwnedFd) -> FileHasher {
        let mut hasher = FileHasher::new(Arc::default());
        hasher.local_margin = i128::MIN / 4;
        hasher.begin(folder.as_fd());
        let dev = Stamp::of(folder).unwrap().dev;
        assert_eq!(hasher.margins[&dev], Some(hasher.local_margin), "tests need a local disk");
        hasher
    }

    #[test]
    fn a_stamp_is_trusted_only_once_it_is_old() {
        let (_temp, folder, stamp) = file(b"x");
        let mut hasher = FileHasher::new(Arc::default());
        hasher.begin(folder.as_fd());
        let margin = hasher.margins[&stamp.dev].unwrap();
        assert!(!hasher.settled(&stamp, stamp.ctime));
        assert!(!hasher.settled(&stamp, stamp.ctime + margin - 1));
        assert!(hasher.settled(&stamp, stamp.ctime + margin));
        // Set by a clock that runs ahead.
        let ahead = Stamp { ctime: stamp.ctime + 3_600_000_000_000, ..stamp };
        assert!(!hasher.settled(&ahead, stamp.ctime + margin));
        // On a file system whose times mean nothing, or of which nothing is known.
        let elsewhere = Stamp { dev: stamp.dev + 1, ..stamp };
        assert!(!hasher.settled(&elsewhere, i128::MAX / 4));
        hasher.margins.insert(elsewhere.dev, None);
        assert!(!hasher.settled(&elsewhere, i128::MAX / 4));
    }

    #[test]
    fn a_file_just_written_is_read_every_time() {
        let (_temp, folder, stamp) = file(b"x");
        let mut hasher = FileHasher::new(Arc::default());
        for _ in 0..2 {
            hasher.begin(folder.as_fd());
            assert!(matches!(
                hasher.hash(folder.as_fd(), b"f", 0, stamp),
                Content::Hash { hash, .. } if hash == blake3::hash(b"x")
            ));
            hasher.finish();
            assert_eq!(hasher.reads, 1);
        }
    }

    #[test]
    fn what_is_known_is_not_read_again_until_the_clock_is_put_back() {
        let (_temp, folder, stamp) = file(b"x");
        let mut hasher = trusting(&folder);
        hasher.hash(folder.as_fd(), b"f", 0, stamp);
        hasher.finish();
        hasher.begin(folder.as_fd());
        hasher.hash(folder.as_fd(), b"f", 0, stamp);
        assert_eq!(hasher.reads, 0);
        // Another path with the same inode number is not taken for the same file.
        hasher.hash(folder.as_fd(), b"f", 1, stamp);
        assert_eq!(hasher.reads, 1);
        hasher.finish();
        hasher.offset = hasher.offset.map(|offset| offset + 1_000_000_000);
        hasher.begin(folder.as_fd());
        hasher.hash(folder.as_fd(), b"f", 0, stamp);
        assert_eq!(hasher.reads, 1);
    }

    #[test]
    fn what_a_whole_pass_did_not_meet_is_forgotten() {
        let (_temp, folder, stamp) = file(b"x");
        let mut hasher = trusting(&folder);
        let pass = |hasher: &mut FileHasher, paths: &[u64]| {
            for path in paths {
                hasher.hash(folder.as_fd(), b"f", *path, stamp);
            }
        };
        pass(&mut hasher, &[0, 1, 2]);
        hasher.finish();
        hasher.begin(folder.as_fd());
        // Met twice in one pass, with a new one: as many as are known, and yet not the same.
        pass(&mut hasher, &[0, 0, 3]);
        hasher.finish();
        let known = |hasher: &FileHasher| {
            let mut paths: Vec<_> = hasher.known.keys().map(|key| key.path).collect();
            paths.sort_unstable();
            paths
        };
        assert_eq!(known(&hasher), [0, 3]);
        // A pass that was cut short forgets nothing.
        hasher.begin(folder.as_fd());
        pass(&mut hasher, &[0]);
        hasher.begin(folder.as_fd());
        assert_eq!(known(&hasher), [0, 3]);
    }

    #[test]
    fn each_part_of_the_stamp_counts() {
        let (_temp, folder, stamp) = file(b"x");
        let mut hasher = trusting(&folder);
        hasher.hash(folder.as_fd(), b"f", 0, stamp);
        hasher.finish();
        let others = [
            Stamp { mode: stamp.mode ^ 0o100, ..stamp },
            Stamp { size: stamp.size + 1, ..stamp },
            Stamp { mtime: stamp.mtime + 1, ..stamp },
            Stamp { ctime: stamp.ctime + 1, ..stamp },
            Stamp { ino: stamp.ino + 1, ..stamp },
            Stamp { dev: stamp.dev + 1, ..stamp },
        ];
        for other in others {
            let before = hasher.reads;
            hasher.hash(folder.as_fd(), b"f", 0, other);
            assert_eq!(hasher.reads, before + 1, "{other:?}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        let (temp, folder, stamp) = file(b"x");
        let mut hasher = FileHasher::new(Arc::default());
        std::fs::remove_file(temp.path().join("f")).unwrap();
        assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, stamp), Content::Gone);
        rustix::fs::mkfifoat(&folder, "f", rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, stamp), Content::Gone);
        std::fs::remove_file(temp.path().join("f")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", temp.path().join("f")).unwrap();
        assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, stamp), Content::Gone);
    }

    #[test]
    fn what_holds_more_than_it_says_is_unstable() {
        let folder = at::open_folder(std::path::Path::new("/proc/self")).unwrap();
        let stamp = Stamp::at(folder.as_fd(), b"status").unwrap();
        let mut hasher = FileHasher::new(Arc::default());
        assert_eq!(hasher.hash(folder.as_fd(), b"status", 0, stamp), Content::Unstable);
    }

    #[test]
    fn only_known_file_systems_are_trusted() {
        let mut hasher = FileHasher::new(Arc::default());
        let proc = at::open_folder(std::path::Path::new("/proc")).unwrap();
        hasher.begin(proc.as_fd());
        assert_eq!(hasher.margins[&Stamp::of(&proc).unwrap().dev], None);
    }

    #[test]
    fn nothing_is_read_once_cancelled() {
        let (_temp, folder, stamp) = file(b"x");
        let flag = Arc::new(AtomicBool::new(true));
        let mut hasher = FileHasher::new(flag);
        assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, stamp), Content::Cancelled);
    }

    #[test]
    fn only_a_large_file_has_another_digest_than_its_blake3() {
        let temp = tempfile::tempdir().unwrap();
        let folder = at::open_folder(temp.path()).unwrap();
        for (size, plain) in [(LARGE, true), (LARGE + 1, false), (1 << 43, false)] {
            let file = std::fs::File::create(temp.path().join("f")).unwrap();
            file.set_len(size).unwrap();
            let stamp = Stamp::at(folder.as_fd(), b"f").unwrap();
            let mut hasher = FileHasher::new(Arc::default());
            let Content::Hash { hash, .. } = hasher.hash(folder.as_fd(), b"f", 0, stamp) else {
                panic!("{size}");
            };
            if plain {
                let zeros = vec![0; usize::try_from(size).unwrap()];
                assert_eq!(hash, blake3::hash(&zeros));
            }
            let mut hasher = FileHasher::new(Arc::new(AtomicBool::new(true)));
            assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, stamp), Content::Cancelled);
        }
    }

    #[test]
    fn never_again_never_repeats() {
        let all: std::collections::HashSet<_> = (0..1000).map(|_| never_again()).collect();
        assert_eq!(all.len(), 1000);
    }
}
