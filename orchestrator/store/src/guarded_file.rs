//! Keeps a file of the state as it was written.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{FileFingerprint, wall_clock};

use super::disk::Disk;
use super::error::StateError;
use super::mirror::FileMirror;

/// A small file, its content out of reach, and what it looked like when it was read last.
#[derive(Debug)]
pub(super) struct GuardedFile {
    path: PathBuf,
    content: FileMirror,
    len: usize,
    /// As it was when its content was right and it had been left alone for long enough.
    trusted: Option<FileFingerprint>,
}

impl GuardedFile {
    /// Guards a file with this content.
    pub(super) fn new(disk: &Disk, path: PathBuf, content: &[u8]) -> Result<Self, StateError> {
        let mut copy = FileMirror::default();
        copy.append(disk, &path, content)?;
        Ok(Self { path, content: copy, len: content.len(), trusted: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Guards a file as it is on disk; `None` if there is none.
    pub(super) fn read(disk: &Disk, path: PathBuf) -> Result<Option<Self>, StateError> {
        let content = disk.read_if_exists(&path, usize::MAX)?;
        content.map(|content| Self::new(disk, path, &content)).transpose()
    }

    /// Writes it again if it was changed. Returns whether it was.
    pub(super) fn restore_if_changed(
        &mut self,
        disk: &Disk,
        root: &Path,
    ) -> Result<bool, StateError> {
        let started = wall_clock();
        let there = fs::symlink_metadata(&self.path).ok();
        let fingerprint = there.as_ref().map(FileFingerprint::from_metadata);
        if fingerprint.is_some() && fingerprint == self.trusted {
            return Ok(false);
        }
        let content = self.content.content(&self.path)?;
        let is_right = there.is_some_and(|there| there.is_file())
            && disk.read_at_most(&self.path, self.len).is_ok_and(|bytes| *bytes == *content);
        if is_right {
            self.trusted = fingerprint.filter(|fingerprint| fingerprint.is_trusted(started));
            return Ok(false);
        }
        self.trusted = None;
        if let Some(folder) = self.path.parent() {
            disk.restore_dir(root, folder)?;
        }
        disk.clear(&self.path, fs::Metadata::is_file)?;
        disk.write_private(&self.path, &content)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_done_to_it_it_comes_back() {
        let temp = tempfile::tempdir().unwrap();
        let (root, disk) = (temp.path(), Disk::default());
        let path = root.join("runs/r/config.toml");
        for size in [0, 10, 200_000] {
            let content = vec![b'x'; size];
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &content).unwrap();
            let mut kept = GuardedFile::read(&disk, path.clone()).unwrap().unwrap();
            assert!(!kept.restore_if_changed(&disk, root).unwrap());
            let sabotage: [&dyn Fn(); 6] = [
                &|| fs::remove_file(&path).unwrap(),
                &|| fs::remove_dir_all(root.join("runs")).unwrap(),
                &|| fs::write(&path, vec![b'y'; size + 1]).unwrap(),
                &|| {
                    fs::remove_file(&path).unwrap();
                    fs::create_dir_all(path.join("a")).unwrap();
                },
                &|| {
                    fs::remove_file(&path).unwrap();
                    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
                },
                &|| {
                    fs::remove_dir_all(root.join("runs")).unwrap();
                    fs::write(root.join("runs"), "").unwrap();
                },
            ];
            for (number, act) in sabotage.iter().enumerate() {
                act();
                assert!(kept.restore_if_changed(&disk, root).unwrap(), "{number}");
                assert!(!kept.restore_if_changed(&disk, root).unwrap(), "{number}");
                assert!(fs::read(&path).unwrap() == content, "{number}");
            }
            // The same length at once: no clock of a file system need have moved on.
            fs::write(&path, vec![b'z'; size]).unwrap();
            assert_eq!(kept.restore_if_changed(&disk, root).unwrap(), size > 0);
            assert!(fs::read(&path).unwrap() == content);
        }
        assert!(GuardedFile::read(&disk, root.join("none")).unwrap().is_none());
    }
}
