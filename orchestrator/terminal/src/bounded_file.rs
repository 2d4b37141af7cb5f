//! A file of a run's state that is appended to for as long as the run lasts, and stays small.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file that is larger is renamed, in place of the one before.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A file and, of what was written before, as much again.
#[derive(Debug)]
pub struct BoundedFile {
    path: PathBuf,
    /// What it is called once it is full.
    full: PathBuf,
    file: File,
    written: u64,
}

impl BoundedFile {
    /// Opens a file to go on with it: a file of its own, never what a link leads to. `full` is the name
    /// of what was written before.
    ///
    /// # Errors
    /// It cannot be opened, or is no regular file.
    pub fn open(path: &Path, full: &str) -> io::Result<Self> {
        let (file, written) = open(path)?;
        Ok(Self { path: path.to_owned(), full: path.with_file_name(full), file, written })
    }

    /// Appends these bytes. Whether it is another file now.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let is_full = self.written > LARGEST;
        if is_full {
            std::fs::rename(&self.path, &self.full)?;
            (self.file, self.written) = open(&self.path)?;
        }
        self.file.write_all(bytes)?;
        self.written = self.written.saturating_add(u64::try_from(bytes.len()).unwrap_or(0));
        Ok(is_full)
    }

    /// The open file.
    pub const fn file(&self) -> &File {
        &self.file
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("no regular file"));
    }
    Ok((file, meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_small_and_keeps_what_came_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output.log");
        let mut file = BoundedFile::open(&path, "output.1.log").unwrap();
        let line = [b'x'; 64 * 1024];
        let renamed = (0..400).filter(|_| file.append(&line).unwrap()).count();
        assert!(renamed > 2, "{renamed}");
        file.append(b"last\n").unwrap();
        assert!(std::fs::read(&path).unwrap().ends_with(b"last\n"));
        let most = LARGEST + 2 * u64::try_from(line.len()).unwrap();
        let sizes: Vec<u64> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert!(sizes.len() == 2 && sizes.iter().all(|size| *size <= most), "{sizes:?}");
        // It is gone on with, wherever it ends.
        drop(file);
        BoundedFile::open(&path, "output.1.log").unwrap().append(b"more\n").unwrap();
        assert!(std::fs::read(&path).unwrap().ends_with(b"last\nmore\n"));
    }

    #[test]
    fn is_not_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, precious) = (folder.path().join("output.log"), folder.path().join("precious"));
        std::fs::write(&precious, "mine").unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        assert!(BoundedFile::open(&path, "output.1.log").is_err());
        assert_eq!(std::fs::read(&precious).unwrap(), b"mine");
    }
}
