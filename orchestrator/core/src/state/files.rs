//! Writing files so that they are whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::error::StateError;
use crate::contract::EvidenceFile;

const OWNER_ONLY: u32 = 0o600;
const OWNER_ONLY_DIR: u32 = 0o700;
const COPY_BUFFER: usize = 64 * 1024;

/// Creates a folder and those above it for their owner only.
pub(crate) fn create_dir(path: &Path) -> Result<(), StateError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(OWNER_ONLY_DIR)
        .create(path)
        .map_err(StateError::io("create", path))
}

/// Makes the entries of a folder safe.
pub(super) fn sync_dir(path: &Path) -> Result<(), StateError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(StateError::io("sync", path))
}

/// Writes a file for its owner only, whole and safely on disk, or not at all.
///
/// # Errors
/// The folder cannot be written; the old file is then as it was.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), StateError> {
    write_atomically(path, content, OWNER_ONLY)
}

/// Writes a file with this mode, whole and safely on disk, or not at all.
///
/// # Errors
/// The folder cannot be written; the old file is then as it was.
pub fn write_atomically(path: &Path, content: &[u8], mode: u32) -> Result<(), StateError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(name);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if let Err(error) = written {
        // The error that matters is the first one; a leftover is overwritten the next time.
        drop(fs::remove_file(&temporary));
        return Err(StateError::io("write", path)(error));
    }
    sync_dir(folder)
}

/// Opens a regular file for reading. Never waits: somebody may have put a pipe or a device in its place.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len <= limit) {
        Ok(bytes)
    } else {
        Err(io::Error::other(format!("it is larger than {limit} bytes")))
    }
}

/// Creates a folder of the state directory `root` again, whatever an agent has put in its place or in
/// that of a folder on the way. What lies above `root` is the user's and not touched.
pub(crate) fn restore_dir(root: &Path, path: &Path) -> Result<(), StateError> {
    if create_dir(path).is_ok() {
        return Ok(());
    }
    let ours: Vec<&Path> = path.ancestors().filter(|folder| folder.starts_with(root)).collect();
    for folder in ours.into_iter().rev() {
        clear(folder, fs::Metadata::is_dir)?;
    }
    create_dir(path)
}

/// Takes away what has the name of a file or folder of the state and is not what is wanted there.
pub(super) fn clear(path: &Path, wanted: fn(&fs::Metadata) -> bool) -> Result<(), StateError> {
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
    if wanted(&there) {
        return Ok(());
    }
    let removed = if there.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(StateError::io("remove", path))
}

/// Copies a piece of accepted evidence into `folder` under its digest.
///
/// # Errors
/// `Ok(false)` if the file no longer has that content; an error if it cannot be read or written.
pub fn keep_evidence(folder: &Path, evidence: &EvidenceFile) -> Result<bool, StateError> {
    create_dir(folder)?;
    let target = folder.join(&evidence.digest);
    let source = OpenOptions::new()
        .read(true)
        .custom_flags(
            (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed(),
        )
        .open(&evidence.path);
    let mut source = match source {
        Ok(file) => file.take(evidence.bytes.saturating_add(1)),
        Err(_) => return Ok(false),
    };
    let mut content = Vec::new();
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; COPY_BUFFER];
    loop {
        let read = match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(StateError::io("read", &evidence.path)(error)),
        };
        let piece = buffer.get(..read).unwrap_or_default();
        hasher.update(piece);
        content.extend_from_slice(piece);
    }
    if hasher.finalize().to_hex().as_str() != evidence.digest {
        return Ok(false);
    }
    write_private(&target, &content)?;
    Ok(true)
}
