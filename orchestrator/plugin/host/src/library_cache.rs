//! The cache of private copies of libraries, named by their digests.
//!
//! A library is never loaded from its build folder: rebuilding it while it is mapped would crash the
//! process, the dynamic linker identifies libraries by path, and nothing may change between check and
//! use. So a copy of the checked bytes is written to a folder that only this user may write to, and loaded
//! from there. The folder is a cache: when it is emptied, by an agent for instance, copies in use are
//! written again. No whole file is held in memory: with debug information, a library is large.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{LibraryError, LibraryErrorKind};
use crate::inspect::{LibraryHeader, inspect};

/// The largest size of a library, in bytes.
const MAX_SIZE: u64 = 512 * 1024 * 1024;
/// Copies that were not used for so long are removed.
const MAX_UNUSED_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Writable by others.
const OTHER_WRITE: u32 = 0o002;
/// Writable by the group or others.
const GROUP_OR_OTHER_WRITE: u32 = 0o022;
/// The sticky bit: only the owner of a file in the folder may replace it.
const STICKY: u32 = 0o1000;

/// A library whose content was checked. Nothing of it is loaded.
#[derive(Debug)]
pub struct CheckedLibrary {
    path: PathBuf,
    digest: String,
    header: LibraryHeader,
    file: File,
}

/// A private copy of a library.
#[derive(Clone, Debug)]
pub struct PrivateCopy {
    path: PathBuf,
    digest: String,
    header: LibraryHeader,
    /// Its content, even if its path was removed.
    file: Arc<File>,
}

/// Reads and checks the library at `path`. None of its code runs. If `pinned` is given, its content must
/// have this BLAKE3 digest, in hexadecimal.
///
/// # Errors
/// All defects of its content, or why it cannot be read.
pub fn check(path: &Path, pinned: Option<&str>) -> Result<CheckedLibrary, LibraryError> {
    let failed = |kind| LibraryError::new(path, kind);
    let pinned = pinned.map(parse_digest).transpose().map_err(failed)?;
    let file = open(path, true).map_err(failed)?;
    let digest = digest_of(&file).map_err(failed)?;
    if let Some(pinned) = pinned
        && pinned != digest
    {
        return Err(failed(LibraryErrorKind::DigestMismatch { found: digest, pinned }));
    }
    let header = inspect(PositionedFile::new(&file)).map_err(|defects| failed(defects.into()))?;
    Ok(CheckedLibrary { path: path.to_owned(), digest, header, file })
}

impl CheckedLibrary {
    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the BLAKE3 digest of its content, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns its declaration and manifest.
    #[must_use]
    pub const fn header(&self) -> &LibraryHeader {
        &self.header
    }

    /// Copies the checked file to `folder`, which is created if needed, unless a copy exists. A modified
    /// copy is replaced; other copies that were not used for 30 days are removed.
    ///
    /// # Errors
    /// The folder cannot be created or written, or others may write to it; or the file was changed since it
    /// was checked.
    pub fn copy_to(&self, folder: &Path) -> Result<PrivateCopy, LibraryError> {
        let error_of = |kind| LibraryError::new(&self.path, kind);
        let failed =
            |error| error_of(LibraryErrorKind::CopyFailed { folder: folder.to_owned(), error });
        let folder = create_private_folder(folder).map_err(failed)?;
        let mode = fs::metadata(&folder).map_err(failed)?.mode();
        if mode & GROUP_OR_OTHER_WRITE != 0 {
            return Err(error_of(LibraryErrorKind::CacheNotPrivate {
                folder,
                mode: mode & 0o7777,
            }));
        }
        let path = folder.join(format!("{}.so", self.digest));
        let file = match open_verified(&path, &self.digest) {
            Ok(file) => file,
            Err(_) => {
                let copied = copy_atomically(&self.file, &self.digest, &path).map_err(failed)?;
                if !copied {
                    return Err(error_of(LibraryErrorKind::ChangedMeanwhile));
                }
                open_verified(&path, &self.digest).map_err(error_of)?
            }
        };
        // Of the copy: the file may have been another one between its digest and its inspection.
        let header =
            inspect(PositionedFile::new(&file)).map_err(|defects| error_of(defects.into()))?;
        // Failures only keep an unused file, or remove one that is created again.
        drop(file.set_modified(SystemTime::now()));
        drop(remove_unused(&folder));
        Ok(PrivateCopy { path, digest: self.digest.clone(), header, file: Arc::new(file) })
    }
}

/// Creates the folder if needed, and returns its real path.
fn create_private_folder(folder: &Path) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    folder.canonicalize()
}

/// Copies a file atomically: other processes may do the same. Returns false, and leaves nothing, if it does
/// not have this digest.
fn copy_atomically(from: &File, digest: &str, path: &Path) -> io::Result<bool> {
    let written = path.with_file_name(format!(".{digest}.{}", unique_suffix()));
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&written)?;
    let mut copy = HashingWriter { file, hasher: blake3::Hasher::new() };
    let done = io::copy(&mut PositionedFile::new(from).take(MAX_SIZE + 1), &mut copy)
        .and_then(|_| copy.file.set_permissions(Permissions::from_mode(0o500)))
        .and_then(|()| {
            let is_same = copy.hasher.finalize().to_hex().as_str() == digest;
            if is_same { fs::rename(&written, path).map(|()| true) } else { Ok(false) }
        });
    if !matches!(done, Ok(true)) {
        // A left-over temporary file is never read; the first error matters.
        let _ = fs::remove_file(&written);
    }
    done
}

/// Writes to a file, and computes the digest of what was written.
struct HashingWriter {
    file: File,
    hasher: blake3::Hasher,
}

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads a file by a position of its own: other threads may read from the same open file.
struct PositionedFile<'file> {
    file: &'file File,
    at: u64,
}

impl<'file> PositionedFile<'file> {
    const fn new(file: &'file File) -> Self {
        Self { file, at: 0 }
    }
}

impl Read for PositionedFile<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at = self.at.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}

impl Seek for PositionedFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Removes copies and temporary files that were not used for long.
fn remove_unused(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let digest = name.strip_suffix(".so").or_else(|| name.strip_prefix('.')?.split('.').next());
        let is_copy = digest.is_some_and(|digest| parse_digest(digest).is_ok());
        let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
        if is_copy && age > MAX_UNUSED_AGE {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl PrivateCopy {
    /// Returns its absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the BLAKE3 digest of its content, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns its declaration and manifest.
    #[must_use]
    pub const fn header(&self) -> &LibraryHeader {
        &self.header
    }

    /// Opens and checks a copy that another process has created.
    ///
    /// # Errors
    /// It is not named like a private copy, or its content does not match its name.
    pub fn open(path: &Path) -> Result<Self, LibraryError> {
        let error_of = |kind| LibraryError::new(path, kind);
        let name = path.file_name().and_then(|name| name.to_str());
        let digest = name
            .and_then(|name| name.strip_suffix(".so"))
            .and_then(|digest| parse_digest(digest).ok())
            .ok_or_else(|| error_of(LibraryErrorKind::NotAPrivateCopy))?;
        let path = std::path::absolute(path)
            .map_err(|error| error_of(LibraryErrorKind::Unreadable(error)))?;
        let file = open_verified(&path, &digest).map_err(error_of)?;
        let header =
            inspect(PositionedFile::new(&file)).map_err(|defects| error_of(defects.into()))?;
        Ok(Self { path, digest, header, file: Arc::new(file) })
    }

    /// Writes the copy again if its path was removed. An existing file is not checked.
    ///
    /// # Errors
    /// It cannot be written, or was modified before it was removed.
    pub fn restore(&self) -> Result<(), LibraryError> {
        let error_of = |kind| LibraryError::new(&self.path, kind);
        if fs::symlink_metadata(&self.path).is_ok() {
            return Ok(());
        }
        check_digest(&self.file, &self.digest).map_err(error_of)?;
        let folder = self.path.parent().unwrap_or(&self.path);
        let failed =
            |error| error_of(LibraryErrorKind::CopyFailed { folder: folder.to_owned(), error });
        create_private_folder(folder).map_err(failed)?;
        match copy_atomically(&self.file, &self.digest, &self.path).map_err(failed)? {
            true => Ok(()),
            false => Err(error_of(LibraryErrorKind::ChangedMeanwhile)),
        }
    }
}

/// Opens the copy at `path`, and checks its digest.
fn open_verified(path: &Path, digest: &str) -> Result<File, LibraryErrorKind> {
    let file = open(path, false)?;
    check_digest(&file, digest)?;
    Ok(file)
}

fn check_digest(file: &File, digest: &str) -> Result<(), LibraryErrorKind> {
    let found = digest_of(file)?;
    if found == digest { Ok(()) } else { Err(LibraryErrorKind::CopyModified { found }) }
}

/// Opens a file that is not world-writable.
fn open(path: &Path, check_folder: bool) -> Result<File, LibraryErrorKind> {
    // Non-blocking: opening a named pipe would wait for a writer.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => LibraryErrorKind::Missing,
        _ => not_a_file(path).unwrap_or(LibraryErrorKind::Unreadable(error)),
    })?;
    let metadata = file.metadata().map_err(LibraryErrorKind::Unreadable)?;
    if let Some(what) = special_file_name(metadata.file_type()) {
        return Err(LibraryErrorKind::NotAFile { what });
    }
    if metadata.mode() & OTHER_WRITE != 0 {
        return Err(LibraryErrorKind::WorldWritable { what: "it", mode: metadata.mode() & 0o7777 });
    }
    if check_folder {
        check_folder_of(path)?;
    }
    let found = metadata.size();
    if found > MAX_SIZE {
        return Err(LibraryErrorKind::TooLarge { found, most: MAX_SIZE });
    }
    Ok(file)
}

/// Checks the folder's permissions: who may write to it can replace the file.
fn check_folder_of(path: &Path) -> Result<(), LibraryErrorKind> {
    let real = path.canonicalize().map_err(LibraryErrorKind::Unreadable)?;
    let Some(folder) = real.parent() else { return Ok(()) };
    let mode = fs::metadata(folder).map_err(LibraryErrorKind::Unreadable)?.mode();
    if mode & OTHER_WRITE != 0 && mode & STICKY == 0 {
        return Err(LibraryErrorKind::WorldWritable { what: "its folder", mode: mode & 0o7777 });
    }
    Ok(())
}

/// Returns an error if the path is not a regular file. A socket, for instance, cannot be opened.
fn not_a_file(path: &Path) -> Option<LibraryErrorKind> {
    let what = special_file_name(fs::metadata(path).ok()?.file_type())?;
    Some(LibraryErrorKind::NotAFile { what })
}

fn special_file_name(kind: fs::FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a folder")
    } else if kind.is_fifo() {
        Some("a named pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

/// Computes the digest of a file's content, bounded even if the file grows meanwhile.
fn digest_of(file: &File) -> Result<String, LibraryErrorKind> {
    let mut hasher = blake3::Hasher::new();
    let found = io::copy(&mut PositionedFile::new(file).take(MAX_SIZE + 1), &mut hasher)
        .map_err(LibraryErrorKind::Unreadable)?;
    if found > MAX_SIZE {
        return Err(LibraryErrorKind::TooLarge { found, most: MAX_SIZE });
    }
    Ok(hasher.finalize().to_hex().to_string())
}

fn parse_digest(text: &str) -> Result<String, LibraryErrorKind> {
    match blake3::Hash::from_hex(text) {
        Ok(hash) => Ok(hash.to_hex().to_string()),
        Err(_) => Err(LibraryErrorKind::InvalidDigest { pinned: crate::manifest::escaped(text) }),
    }
}

/// Returns a suffix that is unique among running processes.
fn unique_suffix() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
