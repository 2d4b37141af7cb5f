//! Writing files so that they are whole or not there.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::disk::{Disk, File};
use super::error::StateError;
use crate::contract::EvidenceFile;

const OWNER_ONLY: u32 = 0o600;
const COPY_BUFFER: usize = 64 * 1024;

impl Disk {
    /// Creates a folder and those above it for their owner only.
    pub(crate) fn create_dir(&self, path: &Path) -> Result<(), StateError> {
        self.make_dir(path).map_err(StateError::io("create", path))
    }

    /// Creates a folder of the state directory `root` again, whatever an agent has put in its place or
    /// in that of a folder on the way. What lies above `root` is the user's and not touched.
    pub(crate) fn restore_dir(&self, root: &Path, path: &Path) -> Result<(), StateError> {
        if self.make_dir(path).is_ok() {
            return Ok(());
        }
        let ours: Vec<&Path> = path.ancestors().filter(|folder| folder.starts_with(root)).collect();
        for folder in ours.into_iter().rev() {
            self.clear(folder, fs::Metadata::is_dir)?;
        }
        self.create_dir(path)
    }

    /// Takes away what has the name of a file or folder of the state and is not what is wanted there.
    pub(super) fn clear(
        &self,
        path: &Path,
        wanted: fn(&fs::Metadata) -> bool,
    ) -> Result<(), StateError> {
        let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
        if wanted(&there) {
            return Ok(());
        }
        let removed =
            if there.is_dir() { self.remove_dir_all(path) } else { self.remove_file(path) };
        removed.map_err(StateError::io("remove", path))
    }

    /// Makes the entries of a folder safe.
    pub(super) fn sync_dir(&self, path: &Path) -> Result<(), StateError> {
        self.sync_folder(path).map_err(StateError::io("sync", path))
    }

    /// Writes a file that is not there yet, for its owner only. It is safe once it and its folder are
    /// synced.
    pub(super) fn write_new(&self, path: &Path, content: &[u8]) -> Result<File, StateError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(OWNER_ONLY);
        self.open(path, &options)
            .and_then(|mut file| {
                file.write_all(content)?;
                Ok(file)
            })
            .map_err(StateError::io("write", path))
    }

    /// Writes a file for its owner only, whole and safely on disk, or not at all.
    ///
    /// # Errors
    /// The folder cannot be written; the old file is then as it was.
    pub fn write_private(&self, path: &Path, content: &[u8]) -> Result<(), StateError> {
        self.write_atomically(path, content, OWNER_ONLY)
    }

    /// Writes a file with this mode, whole and safely on disk, or not at all.
    ///
    /// # Errors
    /// The folder cannot be written; the old file is then as it was, unless only the folder could not
    /// be made safe: then it may be the new one.
    pub fn write_atomically(
        &self,
        path: &Path,
        content: &[u8],
        mode: u32,
    ) -> Result<(), StateError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = folder.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(mode);
        let written = (|| {
            let mut file = self.open(&temporary, &options)?;
            file.write_all(content)?;
            file.sync_all()?;
            self.rename(&temporary, path)
        })();
        if let Err(error) = written {
            // The error that matters is the first one; a leftover is overwritten the next time.
            drop(self.remove_file(&temporary));
            return Err(StateError::io("write", path)(error));
        }
        self.sync_dir(folder)
    }
}

/// Copies a piece of accepted evidence into `folder` under its digest.
///
/// # Errors
/// `Ok(false)` if the file no longer has that content; an error if it cannot be read or written.
pub fn keep_evidence(
    disk: &Disk,
    folder: &Path,
    evidence: &EvidenceFile,
) -> Result<bool, StateError> {
    disk.create_dir(folder)?;
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
    disk.write_private(&target, &content)?;
    Ok(true)
}
