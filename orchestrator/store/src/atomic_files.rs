//! Writes files so that they are complete or missing.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::EvidenceFile;

use super::disk::{Disk, File, private_open_flags};
use super::error::StateError;

const OWNER_ONLY: u32 = 0o600;
const COPY_BUFFER: usize = 64 * 1024;
/// The rights of all but the owner.
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;
/// What lies in a state directory.
const OWN: [&str; 16] = [
    "agents.lock",
    "deletion.json",
    "inbox",
    "key",
    "latch",
    "lock",
    "memory",
    "owner.json",
    "rollbacks.json",
    "runs",
    "series",
    "template.json",
    "tried-layers",
    "workspace",
    "worktree.lock",
    "worktrees",
];

impl Disk {
    /// Creates a folder and those above it for their owner only.
    pub fn create_dir(&self, path: &Path) -> Result<(), StateError> {
        self.make_dir(path).map_err(StateError::io("create", path))
    }

    /// Creates the state directory itself, safely, or makes sure of one that is there: nobody but its
    /// owner may enter it.
    pub(super) fn open_root(&self, root: &Path) -> Result<(), StateError> {
        let Ok(there) = fs::metadata(root) else { return self.create_root(root) };
        let mode = there.mode() & 0o7777;
        if !there.is_dir() || mode & OTHERS == 0 {
            return self.create_dir(root);
        }
        let exposed = |problem: &str| {
            let (path, problem) = (root.to_owned(), problem.to_owned());
            StateError::Exposed { path, mode, problem }
        };
        if mode & STICKY != 0 {
            return Err(exposed("it is meant for all users"));
        }
        if !is_own(root).map_err(StateError::io("list", root))? {
            return Err(exposed("something that is no part of a state lies in it"));
        }
        self.set_private(root).map_err(|error| exposed(&format!("it cannot be closed: {error}")))
    }

    fn create_root(&self, root: &Path) -> Result<(), StateError> {
        let missing = root.ancestors().take_while(|folder| fs::symlink_metadata(folder).is_err());
        let above: Vec<&Path> = missing.filter_map(Path::parent).collect();
        self.create_dir(root)?;
        // Each was made in the one above it.
        above.into_iter().filter(|folder| !folder.as_os_str().is_empty()).try_for_each(|folder| {
            self.sync_folder(folder).map_err(StateError::io("sync the folders above", root))
        })
    }

    /// Creates a folder of the state directory `root` again, whatever an agent has put in its place or
    /// in that of a folder on the way. What lies above `root` is the user's and not touched.
    pub fn restore_dir(&self, root: &Path, path: &Path) -> Result<(), StateError> {
        let ours: Vec<&Path> = path.ancestors().filter(|folder| folder.starts_with(root)).collect();
        // A link to a folder is none: what is written there would be somebody else's. The user may have made one of `root`.
        let is_folder = |folder: &&Path| match *folder == root {
            true => root.is_dir(),
            false => fs::symlink_metadata(folder).is_ok_and(|there| there.is_dir()),
        };
        if ours.iter().all(is_folder) {
            return Ok(());
        }
        for folder in ours.into_iter().rev().filter(|folder| !is_folder(folder)) {
            self.clear(folder, fs::Metadata::is_dir)?;
        }
        self.create_dir(path)
    }

    /// Removes what has the name of a file or folder of the state and is not what is wanted there.
    pub fn clear(&self, path: &Path, wanted: fn(&fs::Metadata) -> bool) -> Result<(), StateError> {
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
    pub fn write_new(&self, path: &Path, content: &[u8]) -> Result<File, StateError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(OWNER_ONLY).custom_flags(private_open_flags());
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
        self.replace(path, content, mode, true)
    }

    /// Writes a file for its owner only, whole or not at all. After a power failure it may be the old one,
    /// or gone.
    ///
    /// # Errors
    /// The folder cannot be written; the old file is then as it was.
    pub fn write_unsynced(&self, path: &Path, content: &[u8]) -> Result<(), StateError> {
        self.replace(path, content, OWNER_ONLY, false)
    }

    fn replace(
        &self,
        path: &Path,
        content: &[u8],
        mode: u32,
        sync: bool,
    ) -> Result<(), StateError> {
        let (new, file) = self.write_beside(path, content, mode, "tmp")?;
        if sync {
            file.sync_all().map_err(StateError::io("write", path))?;
        }
        new.put_in_place()?;
        if sync { self.sync_dir(folder_of(path)) } else { Ok(()) }
    }

    /// Writes a file for its owner only, beside its place. It may be put there once it is synced, whatever is
    /// written there meanwhile.
    pub(super) fn write_aside(
        &self,
        path: &Path,
        content: &[u8],
    ) -> Result<(NewFile, File), StateError> {
        self.write_beside(path, content, OWNER_ONLY, "next")
    }

    fn write_beside(
        &self,
        path: &Path,
        content: &[u8],
        mode: u32,
        suffix: &str,
    ) -> Result<(NewFile, File), StateError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.{suffix}", std::process::id()));
        let temporary = folder_of(path).join(name);
        // What a killed process of the same number left, or somebody who guessed it put there.
        self.clear(&temporary, fs::Metadata::is_file)?;
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .custom_flags(private_open_flags());
        let new =
            NewFile { temporary, path: path.to_owned(), disk: self.clone(), is_in_place: false };
        let mut file =
            self.open(&new.temporary, &options).map_err(StateError::io("write", path))?;
        file.write_all(content).map_err(StateError::io("write", path))?;
        Ok((new, file))
    }
}

/// A file that was written beside its place. It is removed unless it is put there.
#[derive(Debug)]
pub(super) struct NewFile {
    temporary: PathBuf,
    path: PathBuf,
    disk: Disk,
    is_in_place: bool,
}

impl NewFile {
    /// Takes the place of what is there.
    pub(super) fn put_in_place(mut self) -> Result<(), StateError> {
        self.disk
            .rename(&self.temporary, &self.path)
            .map_err(StateError::io("write", &self.path))?;
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_in_place {
            // A leftover is overwritten the next time.
            drop(self.disk.remove_file(&self.temporary));
        }
    }
}

/// Returns the folder that a file lies in.
fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

impl Disk {
    /// Removes a file of the state, if it is there.
    pub fn remove_private(&self, path: &Path) -> Result<(), StateError> {
        match self.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StateError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Whether nothing lies in a folder but what belongs to a state.
fn is_own(root: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !OWN.iter().any(|own| name == *own || name.starts_with(&format!("{own}."))) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies a piece of accepted evidence into `folder` under its digest.
///
/// # Errors
/// `Ok(false)` if the file no longer has that content; an error if it cannot be read or written.
pub fn store_evidence(
    disk: &Disk,
    folder: &Path,
    evidence: &EvidenceFile,
) -> Result<bool, StateError> {
    disk.create_dir(folder)?;
    let target = folder.join(&evidence.digest);
    // A folder on the way may have become a link. Whatever is read, only what was accepted is kept.
    let source =
        OpenOptions::new().read(true).custom_flags(private_open_flags()).open(&evidence.path);
    let is_file = |file: &fs::File| file.metadata().is_ok_and(|file| file.is_file());
    let mut source = match source {
        Ok(file) if is_file(&file) => file.take(evidence.bytes.saturating_add(1)),
        _ => return Ok(false),
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_folder_gives_way_and_one_of_the_user_does_not() {
        let temp = tempfile::tempdir().unwrap();
        let (real, root, theirs) =
            (temp.path().join("real"), temp.path().join("state"), temp.path().join("theirs"));
        fs::create_dir_all(real.join("runs")).unwrap();
        fs::create_dir_all(theirs.join("0001")).unwrap();
        symlink(&real, &root).unwrap();
        symlink(&theirs, real.join("runs/iterations")).unwrap();
        let wanted = root.join("runs/iterations/0001");
        Disk::default().restore_dir(&root, &wanted).unwrap();
        assert!(fs::symlink_metadata(real.join("runs/iterations")).unwrap().is_dir());
        assert!(wanted.is_dir());
        assert!(fs::symlink_metadata(&root).unwrap().is_symlink());
        assert!(theirs.join("0001").is_dir());
    }
}
