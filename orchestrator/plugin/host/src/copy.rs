//! The private copy of a library, named by its content.
//!
//! A library is never loaded from where its author builds it: whoever builds it anew while it is
//! loaded would pull the ground from under this process, and the dynamic linker takes a second file at
//! the same path for the first. And nothing may change between the check and the use. So the bytes that
//! were checked are written to a folder that belongs to this user alone, and loaded from there. It is a
//! cache: whoever empties it, an agent for instance, does no harm to a run that needs what was in it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{LibraryError, Refusal};
use crate::inspect::{Header, inspect};

/// The largest library that is read, in bytes.
const LARGEST: u64 = 512 * 1024 * 1024;
/// A copy that nobody wanted for so long is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Others may write.
const OTHERS: u32 = 0o002;
/// The group or others may write.
const GROUP_OR_OTHERS: u32 = 0o022;
/// Only the owner of a file in the folder may replace it.
const STICKY: u32 = 0o1000;

/// A library that was read and found good. Nothing of it was loaded.
#[derive(Debug)]
pub struct Checked {
    path: PathBuf,
    digest: String,
    header: Header,
    content: Vec<u8>,
}

/// A private copy of a library.
#[derive(Clone, Debug)]
pub struct PrivateCopy {
    path: PathBuf,
    digest: String,
    header: Header,
    /// Its content, also when nothing is at its path any more.
    file: Arc<File>,
}

/// Reads the library at `path` and says what is wrong with it. None of its code runs. If `pinned` is
/// given, its content must have this BLAKE3 digest, in hexadecimal.
///
/// # Errors
/// Everything that is wrong with its content, or the one thing that keeps it from being read.
pub fn check(path: &Path, pinned: Option<&str>) -> Result<Checked, LibraryError> {
    let refused = |reason| LibraryError::new(path, reason);
    let pinned = pinned.map(read_digest).transpose().map_err(refused)?;
    let (_, content) = read(path, true).map_err(refused)?;
    let digest = digest_of(&content);
    if let Some(pinned) = pinned
        && pinned != digest
    {
        return Err(refused(Refusal::OtherDigest { found: digest, pinned }));
    }
    let header = inspect(&content).map_err(|flaws| refused(flaws.into()))?;
    Ok(Checked { path: path.to_owned(), digest, header, content })
}

impl Checked {
    /// The file that was read.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// BLAKE3 of its content, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What it says of itself.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Writes the bytes that were checked to `folder`, which is made if need be, unless they are there
    /// already. What somebody has changed there is made anew; other copies there that were not wanted
    /// for 30 days are removed.
    ///
    /// # Errors
    /// The folder cannot be made or written, or others may write to it.
    pub fn copy_to(&self, folder: &Path) -> Result<PrivateCopy, LibraryError> {
        let refused = |reason| LibraryError::new(&self.path, reason);
        let failed = |error| refused(Refusal::NoCopy { folder: folder.to_owned(), error });
        let folder = private(folder).map_err(failed)?;
        let mode = fs::metadata(&folder).map_err(failed)?.mode();
        if mode & GROUP_OR_OTHERS != 0 {
            return Err(refused(Refusal::CopiesOpen { folder, mode: mode & 0o7777 }));
        }
        let path = folder.join(format!("{}.so", self.digest));
        let file = match verified(&path, &self.digest) {
            Ok((file, _)) => file,
            Err(_) => {
                write(&self.content, &self.digest, &path).map_err(failed)?;
                verified(&path, &self.digest).map_err(refused)?.0
            }
        };
        // If neither can be done, a file stays that is of no use, or one goes that is made again.
        drop(file.set_modified(SystemTime::now()));
        drop(remove_unused(&folder));
        let (digest, header) = (self.digest.clone(), self.header.clone());
        Ok(PrivateCopy { path, digest, header, file: Arc::new(file) })
    }
}

/// The folder, made if need be.
fn private(folder: &Path) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    folder.canonicalize()
}

/// Writes a copy, under another name first: others may be doing the same, and a copy that is there is
/// whole.
fn write(content: &[u8], digest: &str, path: &Path) -> io::Result<()> {
    let written = path.with_file_name(format!(".{digest}.{}", unique()));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&written)?;
    let done = file
        .write_all(content)
        .and_then(|()| file.set_permissions(Permissions::from_mode(0o500)))
        .and_then(|()| fs::rename(&written, path));
    if done.is_err() {
        // What is left has no name that anybody looks for; the first error says more.
        let _ = fs::remove_file(&written);
    }
    done
}

/// Removes the copies, whole ones and others, that nobody wanted for long.
fn remove_unused(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let digest = name.strip_suffix(".so").or_else(|| name.strip_prefix('.')?.split('.').next());
        let is_ours = digest.is_some_and(|digest| read_digest(digest).is_ok());
        let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
        if is_ours && age > UNUSED {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl PrivateCopy {
    /// Where it is: absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// BLAKE3 of its content, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What it says of itself.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// A copy that another process has made, by its path. It is read and checked.
    ///
    /// # Errors
    /// It is not named like a private copy, or its content is not what its name says.
    pub fn at(path: &Path) -> Result<Self, LibraryError> {
        let refused = |reason| LibraryError::new(path, reason);
        let name = path.file_name().and_then(|name| name.to_str());
        let digest = name
            .and_then(|name| name.strip_suffix(".so"))
            .and_then(|digest| read_digest(digest).ok())
            .ok_or_else(|| refused(Refusal::NoCopyName))?;
        let path =
            std::path::absolute(path).map_err(|error| refused(Refusal::Unreadable(error)))?;
        let (file, content) = verified(&path, &digest).map_err(refused)?;
        let header = inspect(&content).map_err(|flaws| refused(flaws.into()))?;
        Ok(Self { path, digest, header, file: Arc::new(file) })
    }

    /// Writes it again if nothing is at its path any more. What is there is not looked at.
    ///
    /// # Errors
    /// It cannot be written, or somebody had changed it before it was removed.
    pub fn restore(&self) -> Result<(), LibraryError> {
        let refused = |reason| LibraryError::new(&self.path, reason);
        if fs::symlink_metadata(&self.path).is_ok() {
            return Ok(());
        }
        let size = self.file.metadata().map_err(|error| refused(Refusal::Unreadable(error)))?.len();
        let mut content = vec![0; usize::try_from(size).unwrap_or(0)];
        // At its place: others may read from the same file.
        let read = self.file.read_exact_at(&mut content, 0);
        read.map_err(|error| refused(Refusal::Unreadable(error)))?;
        unchanged(&content, &self.digest).map_err(refused)?;
        let folder = self.path.parent().unwrap_or(&self.path);
        let written = private(folder).and_then(|_| write(&content, &self.digest, &self.path));
        written.map_err(|error| refused(Refusal::NoCopy { folder: folder.to_owned(), error }))
    }

    /// Whether it is still what it was when it was made.
    ///
    /// # Errors
    /// It is gone, or somebody has changed it.
    pub fn verify(&self) -> Result<(), LibraryError> {
        verified(&self.path, &self.digest)
            .map(drop)
            .map_err(|reason| LibraryError::new(&self.path, reason))
    }
}

/// The copy at `path`, and its content, if that is what it was.
fn verified(path: &Path, digest: &str) -> Result<(File, Vec<u8>), Refusal> {
    let (file, content) = read(path, false)?;
    unchanged(&content, digest)?;
    Ok((file, content))
}

fn unchanged(content: &[u8], digest: &str) -> Result<(), Refusal> {
    let found = digest_of(content);
    if found == digest { Ok(()) } else { Err(Refusal::Changed { found }) }
}

/// A file that not everybody can change, and its content.
fn read(path: &Path, folder_too: bool) -> Result<(File, Vec<u8>), Refusal> {
    // Without waiting: opening a named pipe would never end.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Refusal::Missing,
        _ => not_a_file(path).unwrap_or(Refusal::Unreadable(error)),
    })?;
    let metadata = file.metadata().map_err(Refusal::Unreadable)?;
    if let Some(what) = other_than_file(metadata.file_type()) {
        return Err(Refusal::NotAFile { what });
    }
    if metadata.mode() & OTHERS != 0 {
        return Err(Refusal::OpenToAll { what: "it", mode: metadata.mode() & 0o7777 });
    }
    if folder_too {
        folder_of(path)?;
    }
    let found = metadata.size();
    if found > LARGEST {
        return Err(Refusal::TooLarge { found, most: LARGEST });
    }
    let content = content(&file, found)?;
    Ok((file, content))
}

/// Whoever may write to the folder can put another file in its place.
fn folder_of(path: &Path) -> Result<(), Refusal> {
    let real = path.canonicalize().map_err(Refusal::Unreadable)?;
    let Some(folder) = real.parent() else { return Ok(()) };
    let mode = fs::metadata(folder).map_err(Refusal::Unreadable)?.mode();
    if mode & OTHERS != 0 && mode & STICKY == 0 {
        return Err(Refusal::OpenToAll { what: "its folder", mode: mode & 0o7777 });
    }
    Ok(())
}

/// It may grow while it is read; what is read stays bounded.
fn content(file: &File, size: u64) -> Result<Vec<u8>, Refusal> {
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(LARGEST + 1).read_to_end(&mut content).map_err(Refusal::Unreadable)?;
    let found = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if found > LARGEST {
        return Err(Refusal::TooLarge { found, most: LARGEST });
    }
    Ok(content)
}

/// A socket, for instance, cannot even be opened.
fn not_a_file(path: &Path) -> Option<Refusal> {
    let what = other_than_file(fs::metadata(path).ok()?.file_type())?;
    Some(Refusal::NotAFile { what })
}

fn other_than_file(kind: fs::FileType) -> Option<&'static str> {
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

fn read_digest(text: &str) -> Result<String, Refusal> {
    match blake3::Hash::from_hex(text) {
        Ok(hash) => Ok(hash.to_hex().to_string()),
        Err(_) => Err(Refusal::NoDigest { pinned: crate::manifest::escaped(text) }),
    }
}

/// Different for every call of every process that is there at the same time.
fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
