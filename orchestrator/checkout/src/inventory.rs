//! What is in a folder at one time: every entry, with what tells its state from another.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{
    self as safe_fs, DirLister, DirVisitor, FileFingerprint, SkipReason, Subfolder, escape,
    unescape, walk,
};
use rustix::fd::BorrowedFd;
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::CheckoutError;

/// Folders nested deeper than this are not looked into.
const MAX_DEPTH: usize = 1024;

/// What tells the state of an entry from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// Of a folder nothing else counts.
    mode: u32,
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i64,
    changed_ns: i64,
}

impl Stamp {
    fn new(found: &FileFingerprint) -> Self {
        let ns = |time: i128| i64::try_from(time).unwrap_or(i64::MAX);
        if found.file_type() == FileType::Directory {
            let nothing = Self {
                mode: found.mode,
                device: 0,
                inode: 0,
                size: 0,
                modified_ns: 0,
                changed_ns: 0,
            };
            return nothing;
        }
        Self {
            mode: found.mode,
            device: found.dev,
            inode: found.ino,
            size: found.size,
            modified_ns: ns(found.mtime),
            changed_ns: ns(found.ctime),
        }
    }

    pub(crate) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Whether both are of the same kind, with the same permissions and size.
    pub(crate) const fn has_kind_and_size_of(&self, other: &Self) -> bool {
        self.mode == other.mode && self.size == other.size
    }

    /// Reads what is at a path and has this state before and after.
    pub(crate) fn read_unchanged<T>(
        &self,
        path: &Path,
        read: impl FnOnce(&Path) -> Option<T>,
    ) -> Option<T> {
        let is_unchanged = || {
            let found = FileFingerprint::from_path_nofollow(path);
            found.is_ok_and(|found| Self::new(&found) == *self)
        };
        let found = is_unchanged().then(|| read(path)).flatten();
        found.filter(|_| is_unchanged())
    }

    /// Whether it is a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// Whether both are of the same state. That of a folder is that there is one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self.is_folder(), other.is_folder()) {
            (true, true) => true,
            _ => self == other,
        }
    }

    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    pub(crate) const fn modified_ns(&self) -> i64 {
        self.modified_ns
    }
}

/// What is in a folder at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<(String, Stamp)>", try_from = "Vec<(String, Stamp)>")]
pub struct Inventory {
    /// By path relative to the folder.
    pub(crate) entries: BTreeMap<PathBuf, Stamp>,
}

impl Inventory {
    /// Records what is in a folder, but for what lies at or beneath one of these paths, which are relative to it.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn take(folder: &Path, is_left_out: &dyn Fn(&Path) -> bool) -> Result<Self, CheckoutError> {
        let top = safe_fs::open_no_symlinks(folder, safe_fs::list_flags())
            .map_err(CheckoutError::errno("read", folder))?;
        let mut taker =
            Taker { is_left_out, lister: DirLister::default(), entries: BTreeMap::new() };
        walk(top, &mut taker, &(), MAX_DEPTH).map_err(|Failed(path, error)| {
            CheckoutError::errno("read", &folder.join(path))(error)
        })?;
        Ok(Self { entries: taker.entries })
    }

    /// Returns what is at or beneath a path.
    pub(crate) fn beneath(&self, path: &str) -> BTreeMap<&Path, &Stamp> {
        let beneath = self.entries.iter().filter(|(found, _)| found.starts_with(path));
        beneath.map(|(found, stamp)| (found.as_path(), stamp)).collect()
    }

    /// Returns how many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the paths, relative to the folder.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.entries.keys().map(PathBuf::as_path)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl From<Inventory> for Vec<(String, Stamp)> {
    fn from(inventory: Inventory) -> Self {
        inventory.entries.iter().map(|(path, stamp)| (escape(path), *stamp)).collect()
    }
}

impl TryFrom<Vec<(String, Stamp)>> for Inventory {
    type Error = String;

    fn try_from(entries: Vec<(String, Stamp)>) -> Result<Self, String> {
        let read = |(path, stamp): (String, Stamp)| match unescape(&path) {
            Some(path) => Ok((path, stamp)),
            None => Err(format!("{path:?} is no path")),
        };
        Ok(Self { entries: entries.into_iter().map(read).collect::<Result<_, _>>()? })
    }
}

/// Why a walk ended early: where, and what the system said.
struct Failed(PathBuf, Errno);

struct Taker<'a> {
    is_left_out: &'a dyn Fn(&Path) -> bool,
    lister: DirLister,
    entries: BTreeMap<PathBuf, Stamp>,
}

impl DirVisitor for Taker<'_> {
    type State = ();
    type Stop = Failed;

    fn visit(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        _state: &(),
    ) -> Result<Vec<Subfolder<()>>, Failed> {
        let here = Path::new(OsStr::from_bytes(path));
        let listed = self.lister.list(folder, usize::MAX);
        let (names, _) = listed.map_err(|error| Failed(here.to_owned(), error))?;
        let mut subfolders = Vec::new();
        for name in names {
            let entry = here.join(OsStr::from_bytes(&name.bytes));
            if (self.is_left_out)(&entry) {
                continue;
            }
            // It may have vanished since the folder was listed.
            let Ok(found) = FileFingerprint::from_name(folder, &name.bytes) else { continue };
            let stamp = Stamp::new(&found);
            if stamp.is_folder() {
                subfolders.push((name.bytes, ()));
            }
            self.entries.insert(entry, stamp);
        }
        Ok(subfolders)
    }

    fn skip(&mut self, _path: &[u8], _why: SkipReason, _fingerprint: Option<FileFingerprint>) {}
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn take(folder: &Path) -> Inventory {
        Inventory::take(folder, &|path| path == Path::new("out")).unwrap()
    }

    #[test]
    fn it_is_the_same_after_it_was_written_and_another_after_any_change() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(root.join("out")).unwrap();
        fs::write(root.join("out/x"), "").unwrap();
        let odd = OsStr::from_bytes(b"odd \xff\n\"");
        fs::write(root.join("a").join(odd), "x").unwrap();
        symlink("a", root.join("link")).unwrap();
        let before = take(&root);
        assert_eq!(before.len(), 4);
        let text = serde_json::to_string(&before).unwrap();
        assert_eq!(serde_json::from_str::<Inventory>(&text).unwrap(), before);
        // A new entry changes its folder's times, and nothing else of that.
        fs::write(root.join("a/new"), "").unwrap();
        let after = take(&root);
        let is_same = |path: &str| {
            let path = Path::new(path);
            after.entries[path].is_same(&before.entries[path])
        };
        assert!(is_same("a") && is_same("link") && after.len() == 5);
        fs::remove_file(root.join("link")).unwrap();
        symlink("a", root.join("link")).unwrap();
        let again = take(&root);
        assert!(!again.entries[Path::new("link")].is_same(&before.entries[Path::new("link")]));
    }
}
