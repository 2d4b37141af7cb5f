//! A copy of what was written, out of the reach of agents.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::disk::{Disk, File};
use super::error::StateError;

/// Most bytes that are kept in memory: all of a short run, for which no file is made, and the end of a
/// longer one, so that not every record is written twice.
const SMALL: usize = 64 * 1024;

/// The bytes of a file that is only appended to: in memory, and when they are too many in a file
/// without a name.
#[derive(Debug, Default)]
pub(super) struct FileMirror {
    file: Option<File>,
    /// What follows those in the file.
    bytes: Vec<u8>,
}

impl FileMirror {
    /// Appends what can be read from `from`.
    pub(super) fn copy_from(
        &mut self,
        disk: &Disk,
        path: &Path,
        from: &File,
    ) -> Result<(), StateError> {
        let mut piece = vec![0; SMALL];
        let mut from = from;
        loop {
            match from.read(&mut piece).map_err(StateError::io("read", path))? {
                0 => return Ok(()),
                read => self.append(disk, path, piece.get(..read).unwrap_or_default())?,
            }
        }
    }

    /// Appends to the copy of the file at `path`.
    pub(super) fn append(
        &mut self,
        disk: &Disk,
        path: &Path,
        bytes: &[u8],
    ) -> Result<(), StateError> {
        if self.bytes.len().saturating_add(bytes.len()) <= SMALL {
            self.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => unnamed(disk, path)?,
        };
        let written = file.write_all(&self.bytes).and_then(|()| file.write_all(bytes));
        self.file = Some(file);
        self.bytes.clear();
        written.map_err(StateError::io("write a copy of", path))
    }

    /// Returns all of it.
    pub(super) fn content(&self, path: &Path) -> Result<Cow<'_, [u8]>, StateError> {
        let Some(file) = &self.file else { return Ok(Cow::Borrowed(&self.bytes)) };
        let mut content = Vec::new();
        let mut reader = file;
        file.inner()
            .seek(SeekFrom::Start(0))
            .and_then(|_| reader.read_to_end(&mut content))
            .map_err(StateError::io("read the copy of", path))?;
        content.extend_from_slice(&self.bytes);
        Ok(Cow::Owned(content))
    }
}

/// Creates a file without a name in the folder of `path`.
fn unnamed(disk: &Disk, path: &Path) -> Result<File, StateError> {
    use rustix::fs::{Mode, OFlags};
    let folder = path.parent().unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let at_once = disk
        .open_with(path, || Ok(rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?.into()));
    if let Ok(file) = at_once {
        return Ok(file);
    }
    // A file system that cannot do it at once can do it in two steps.
    let name = folder.join(format!(".copy-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(0o600);
    let file = disk.open(&name, &options).map_err(StateError::io("create", &name))?;
    disk.remove_file(&name).map_err(StateError::io("remove", &name))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_all_that_was_appended_however_much_and_whenever_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let disk = Disk::default();
        for size in [1, SMALL / 2 - 1, SMALL / 2, SMALL / 2 + 1, SMALL, 3 * SMALL] {
            let mut copy = FileMirror::default();
            let mut expected = Vec::new();
            for fill in 0..4 {
                let piece = vec![fill; size];
                copy.append(&disk, &path, &piece).unwrap();
                expected.extend_from_slice(&piece);
                assert!(copy.content(&path).unwrap() == expected, "{fill} times {size}");
            }
            std::fs::write(&path, &expected).unwrap();
            let mut again = FileMirror::default();
            let from = disk.open(&path, OpenOptions::new().read(true)).unwrap();
            again.copy_from(&disk, &path, &from).unwrap();
            again.append(&disk, &path, b"end").unwrap();
            expected.extend_from_slice(b"end");
            assert!(again.content(&path).unwrap() == expected, "{size}");
            std::fs::remove_file(&path).unwrap();
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
