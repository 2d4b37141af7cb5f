//! The cache of private copies of libraries, named by their digests.
//!
//! A library is never loaded from its build folder: rebuilding it while it is mapped would crash the
//! process, the dynamic linker identifies libraries by path, and nothing may change between check and
//! use. So the checked bytes are written to a folder that only this user may write to, and loaded from
//! there. The folder is a cache: when it is emptied, by an agent for instance, copies in use are written
//! again.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
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
    content: Vec<u8>,
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
    let (_, content) = read(path, true).map_err(failed)?;
    let digest = digest_of(&content);
    if let Some(pinned) = pinned
        && pinned != digest
    {
        return Err(failed(LibraryErrorKind::DigestMismatch { found: digest, pinned }));
    }
    let header = inspect(&content).map_err(|defects| failed(defects.into()))?;
    Ok(CheckedLibrary { path: path.to_owned(), digest, header, content })
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

    /// Writes the checked bytes to `folder`, which is created if needed, unless a copy exists. A modified
    /// copy is replaced; other copies that were not used for 30 days are removed.
    ///
    /// # Errors
    /// The folder cannot be created or written, or others may write to it.
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
        let file = match read_verified(&path, &self.digest) {
            Ok((file, _)) => file,
            Err(_) => {
                write_atomically(&self.content, &self.digest, &path).map_err(failed)?;
                read_verified(&path, &self.digest).map_err(error_of)?.0
            }
        };
        // Failures only keep an unused file, or remove one that is created again.
        drop(file.set_modified(SystemTime::now()));
        drop(remove_unused(&folder));
        let (digest, header) = (self.digest.clone(), self.header.clone());
        Ok(PrivateCopy { path, digest, header, file: Arc::new(file) })
    }
}

/// Creates the folder if needed, and returns its real path.
fn create_private_folder(folder: &Path) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    folder.canonicalize()
}

/// Writes a copy atomically: other processes may do the same.
fn write_atomically(content: &[u8], digest: &str, path: &Path) -> io::Result<()> {
    let written = path.with_file_name(format!(".{digest}.{}", unique_suffix()));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&written)?;
    let done = file
        .write_all(content)
        .and_then(|()| file.set_permissions(Permissions::from_mode(0o500)))
        .and_then(|()| fs::rename(&written, path));
    if done.is_err() {
        // A left-over temporary file is never read; the first error matters.
        let _ = fs::remove_file(&written);
    }
    done
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
        let (file, content) = read_verified(&path, &digest).map_err(error_of)?;
        let header = inspect(&content).map_err(|defects| error_of(defects.into()))?;
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
        let size = self
            .file
            .metadata()
            .map_err(|error| error_of(LibraryErrorKind::Unreadable(error)))?
            .len();
        let mut content = vec![0; usize::try_from(size).unwrap_or(0)];
        // Positioned: other threads may read from the same file.
        let read = self.file.read_exact_at(&mut content, 0);
        read.map_err(|error| error_of(LibraryErrorKind::Unreadable(error)))?;
        check_digest(&content, &self.digest).map_err(error_of)?;
        let folder = self.path.parent().unwrap_or(&self.path);
        let written = create_private_folder(folder)
            .and_then(|_| write_atomically(&content, &self.digest, &self.path));
        written.map_err(|error| {
            error_of(LibraryErrorKind::CopyFailed { folder: folder.to_owned(), error })
        })
    }
}

/// Reads the copy at `path`, and checks its digest.
fn read_verified(path: &Path, digest: &str) -> Result<(File, Vec<u8>), LibraryErrorKind> {
    let (file, content) = read(path, false)?;
    check_digest(&content, digest)?;
    Ok((file, content))
}

fn check_digest(content: &[u8], digest: &str) -> Result<(), LibraryErrorKind> {
    let found = digest_of(content);
    if found == digest { Ok(()) } else { Err(LibraryErrorKind::CopyModified { found }) }
}

/// Opens and reads a file that is not world-writable.
fn read(path: &Path, check_folder: bool) -> Result<(File, Vec<u8>), LibraryErrorKind> {
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
    let content = read_bounded(&file, found)?;
    Ok((file, content))
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

/// Reads the content, bounded even if the file grows meanwhile.
fn read_bounded(file: &File, size: u64) -> Result<Vec<u8>, LibraryErrorKind> {
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(MAX_SIZE + 1).read_to_end(&mut content).map_err(LibraryErrorKind::Unreadable)?;
    let found = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if found > MAX_SIZE {
        return Err(LibraryErrorKind::TooLarge { found, most: MAX_SIZE });
    }
    Ok(content)
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

fn digest_of(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
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
