//! Walks folders that others wrote: no link is followed, every size is bounded.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use ralph_orchestrator_safe_fs::{
    DirLister, DirVisitor, FileFingerprint, SkipReason, Subfolder, list_flags, open_file_at,
    open_no_symlinks, read_flags, read_link_at, walk,
};
use rustix::fd::BorrowedFd;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::problem::TreeError;

/// Files and folders of a tree.
pub(super) const MAX_ENTRIES: usize = 100_000;
/// Bytes of one file.
pub(super) const MAX_FILE: u64 = 1 << 30;
/// Bytes of all files.
pub(super) const MAX_TOTAL: u64 = 4 << 30;
/// Levels of folders.
const MAX_DEPTH: usize = 128;

/// What becomes of an entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// It is taken.
    Take,
    /// It is left out, with everything below it.
    Skip,
    /// It is left out, but something below it may be taken.
    Descend,
}

/// Receives the entries of a tree. Paths are relative to its top.
pub(super) trait TreeSink {
    /// Says what becomes of an entry.
    fn select(&mut self, _path: &Path, _is_folder: bool) -> Selection {
        Selection::Take
    }

    /// Receives a folder, before what is in it; the top itself is not reported.
    fn visit_folder(&mut self, path: &Path, mode: u32) -> Result<(), TreeError>;

    /// Receives an open regular file.
    fn visit_file(
        &mut self,
        path: &Path,
        file: File,
        found: &FileFingerprint,
    ) -> Result<(), TreeError>;

    /// Receives a link that stays within the tree.
    fn visit_link(&mut self, path: &Path, target: &Path) -> Result<(), TreeError>;

    /// Receives what is refused: an unsafe link, or what is neither file, folder nor link.
    ///
    /// # Errors
    /// Returns the error, unless the entry can be left out.
    fn refuse(&mut self, error: TreeError) -> Result<(), TreeError> {
        Err(error)
    }
}

/// Walks the folder at an absolute path of which no part is a link.
pub(super) fn walk_tree(root: &Path, sink: &mut dyn TreeSink) -> Result<(), TreeError> {
    let top = open_no_symlinks(root, list_flags()).map_err(|e| TreeError::from_io(root, e))?;
    let mut walker =
        Walker { root, sink, lister: DirLister::default(), entries: 0, bytes: 0, skipped: None };
    walk(top, &mut walker, &(), MAX_DEPTH)?;
    walker.skipped.map_or(Ok(()), Err)
}

/// Opens the file at an absolute path of which no part is a link.
pub(super) fn open_plain_file(path: &Path) -> Result<(File, FileFingerprint), TreeError> {
    let fd = open_no_symlinks(path, read_flags()).map_err(|e| TreeError::from_io(path, e))?;
    let found = FileFingerprint::from_fd(&fd).map_err(|e| TreeError::from_io(path, e))?;
    if found.file_type() != FileType::RegularFile {
        return Err(TreeError::SpecialFile { path: path.to_owned() });
    }
    check_file_size(path, found.size)?;
    Ok((fd.into(), found))
}

/// Returns the fingerprint of what is at an absolute path of which no part is a link; none if nothing is there.
pub(super) fn find_plain(path: &Path) -> Result<Option<FileFingerprint>, TreeError> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().map_or(&b"."[..], OsStr::as_bytes);
    let found = open_no_symlinks(parent, ralph_orchestrator_safe_fs::path_flags())
        .and_then(|folder| FileFingerprint::from_name(rustix::fd::AsFd::as_fd(&folder), name));
    match found {
        Ok(found) if found.file_type() == FileType::Symlink => {
            Err(TreeError::Link { path: path.to_owned() })
        }
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(TreeError::from_io(path, error)),
    }
}

/// Whether there is a folder at an absolute path of which no part is a link.
pub(super) fn is_plain_folder(path: &Path) -> Result<bool, TreeError> {
    let found = find_plain(path)?;
    Ok(found.is_some_and(|found| found.file_type() == FileType::Directory))
}

/// Whether there is a regular file at an absolute path of which no part is a link.
pub(super) fn is_plain_file(path: &Path) -> Result<bool, TreeError> {
    let found = find_plain(path)?;
    Ok(found.is_some_and(|found| found.file_type() == FileType::RegularFile))
}

/// Whether a link stays within its tree whatever other links the tree has: its target is relative, its `..` come
/// first, and there are no more of them than folders above the link.
pub(super) fn is_safe_link(link: &Path, target: &Path) -> bool {
    let mut levels = link.components().count().saturating_sub(1);
    let mut has_descended = false;
    for part in target.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if has_descended || levels == 0 => return false,
            Component::ParentDir => levels -= 1,
            Component::Normal(_) => has_descended = true,
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    !target.as_os_str().is_empty()
}

fn check_file_size(path: &Path, size: u64) -> Result<(), TreeError> {
    if size <= MAX_FILE {
        return Ok(());
    }
    let limit = format!("{} MiB a file", MAX_FILE >> 20);
    Err(TreeError::TooLarge { path: path.to_owned(), what: "the file is too large", limit })
}

struct Walker<'s> {
    root: &'s Path,
    sink: &'s mut dyn TreeSink,
    lister: DirLister,
    entries: usize,
    bytes: u64,
    skipped: Option<TreeError>,
}

impl Walker<'_> {
    fn count(&mut self, path: &Path, size: u64) -> Result<(), TreeError> {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(size);
        let too_large =
            |what, limit| Err(TreeError::TooLarge { path: path.to_owned(), what, limit });
        if self.entries > MAX_ENTRIES {
            return too_large(
                "there are too many files",
                format!("{MAX_ENTRIES} files and folders"),
            );
        }
        if self.bytes > MAX_TOTAL {
            let limit = format!("{} MiB in all", MAX_TOTAL >> 20);
            return too_large("the files are too large together", limit);
        }
        Ok(())
    }

    /// Receives an entry that is no folder.
    fn entry(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &Path,
        found: &FileFingerprint,
    ) -> Result<(), TreeError> {
        let absolute = self.root.join(path);
        let io = |error| TreeError::from_io(&absolute, error);
        match found.file_type() {
            FileType::RegularFile => {
                check_file_size(&absolute, found.size)?;
                self.count(&absolute, found.size)?;
                let file = open_file_at(folder, name).map_err(io)?;
                let opened = FileFingerprint::from_fd(&file).map_err(io)?;
                if opened.file_type() != FileType::RegularFile {
                    return self.sink.refuse(TreeError::SpecialFile { path: absolute });
                }
                check_file_size(&absolute, opened.size)?;
                self.sink.visit_file(path, file.into(), &opened)
            }
            FileType::Symlink => {
                self.count(&absolute, 0)?;
                let target = read_link_at(folder, name).map_err(io)?;
                let target = PathBuf::from(OsStr::from_bytes(&target));
                if is_safe_link(path, &target) {
                    return self.sink.visit_link(path, &target);
                }
                let target = target.display().to_string();
                self.sink.refuse(TreeError::UnsafeLink { path: absolute, target })
            }
            _ => self.sink.refuse(TreeError::SpecialFile { path: absolute }),
        }
    }
}

impl DirVisitor for Walker<'_> {
    type State = ();
    type Stop = TreeError;

    fn visit(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        (): &(),
    ) -> Result<Vec<Subfolder<()>>, TreeError> {
        let relative = PathBuf::from(OsStr::from_bytes(path));
        let here = self.root.join(&relative);
        let limit = MAX_ENTRIES.saturating_sub(self.entries);
        let (names, _) =
            self.lister.list(folder, limit + 1).map_err(|e| TreeError::from_io(&here, e))?;
        let mut subfolders = Vec::new();
        for name in names {
            let path = relative.join(OsStr::from_bytes(&name.bytes));
            let found = match FileFingerprint::from_name(folder, &name.bytes) {
                Ok(found) => found,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(TreeError::from_io(&self.root.join(&path), error)),
            };
            let is_folder = found.file_type() == FileType::Directory;
            match (self.sink.select(&path, is_folder), is_folder) {
                (Selection::Take, true) => {
                    self.count(&self.root.join(&path), 0)?;
                    self.sink.visit_folder(&path, found.mode & 0o777)?;
                    subfolders.push((name.bytes, ()));
                }
                (Selection::Descend, true) => subfolders.push((name.bytes, ())),
                (Selection::Take, false) => self.entry(folder, &name.bytes, &path, &found)?,
                (Selection::Skip | Selection::Descend, _) => {}
            }
        }
        Ok(subfolders)
    }

    fn skip(&mut self, path: &[u8], why: SkipReason, _fingerprint: Option<FileFingerprint>) {
        let path = self.root.join(OsStr::from_bytes(path));
        let error = match why {
            SkipReason::Gone => return,
            SkipReason::Unreadable => TreeError::from_io(&path, Errno::ACCESS),
            SkipReason::TooDeep => TreeError::TooLarge {
                path,
                what: "folders are nested too deeply",
                limit: format!("{MAX_DEPTH} levels"),
            },
        };
        self.skipped.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_safe_only_if_no_other_link_can_lead_it_outside() {
        for (link, target, expected) in [
            ("a", "b", true),
            ("a", "./b/c", true),
            ("x/a", "../b", true),
            ("x/y/a", "../../b/c", true),
            ("a", "..", false),
            ("a", "../b", false),
            ("x/a", "../../b", false),
            ("x/a", "b/../../..", false),
            // `b` may be a link to a folder higher up.
            ("x/a", "b/..", false),
            ("a", "/etc/passwd", false),
            ("a", "", false),
        ] {
            assert_eq!(
                is_safe_link(Path::new(link), Path::new(target)),
                expected,
                "{link} {target}"
            );
        }
    }
}
