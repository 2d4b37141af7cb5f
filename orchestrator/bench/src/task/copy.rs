//! Copies trees that others wrote into folders of ours.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{
    FileFingerprint, copy_sparse, create_folders, open_folder_nofollow,
};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::problem::TreeError;
use super::tree::{MAX_FILE, Selection, TreeSink, open_plain_file, walk_tree};

/// Says what becomes of an entry, by its path relative to the top and whether it is a folder.
pub(super) type TreeFilter<'f> = &'f dyn Fn(&Path, bool) -> Selection;

/// How a tree is copied.
#[derive(Clone, Copy)]
pub(super) struct CopyRules<'f> {
    /// The mode of every file and folder; none keeps those of the source.
    pub(super) mode: Option<u32>,
    /// What is copied.
    pub(super) filter: TreeFilter<'f>,
    /// Leave out unsafe links and special files instead of refusing the whole tree.
    pub(super) skip_unsafe: bool,
    /// Remove what an agent put into the way: links and files where folders belong, folders where files belong.
    pub(super) replace: bool,
}

impl Default for CopyRules<'_> {
    fn default() -> Self {
        Self { mode: None, filter: &|_, _| Selection::Take, skip_unsafe: false, replace: false }
    }
}

/// Copies what is in a folder into another, which is created if it is missing. What is there already stays, unless
/// a file of the same name replaces it. Returns the paths that were left out because they are unsafe.
///
/// Both paths are absolute, and no part of them is a link.
pub(super) fn copy_tree(
    from: &Path,
    to: &Path,
    rules: CopyRules<'_>,
) -> Result<Vec<PathBuf>, TreeError> {
    create_folder(to)?;
    let mut copier = TreeCopier { to, rules, skipped: Vec::new() };
    walk_tree(from, &mut copier)?;
    Ok(copier.skipped)
}

/// Copies one file to a path whose folder is created if it is missing.
///
/// Both paths are absolute, and no part of them is a link.
pub(super) fn copy_file(from: &Path, to: &Path, mode: Option<u32>) -> Result<(), TreeError> {
    let (file, found) = open_plain_file(from)?;
    write_file(to, &file, mode.unwrap_or(found.mode))
}

/// Copies one file to a path below a folder that an agent worked in, and removes what is in the way.
pub(super) fn replace_by_copy(from: &Path, base: &Path, target: &Path) -> Result<(), TreeError> {
    clear_way(base, target, false)?;
    copy_file(from, &base.join(target), None)
}

/// Removes links and files where the folders of a path belong, and what is in the place of the path itself, unless it
/// is what belongs there.
pub(super) fn clear_way(base: &Path, path: &Path, is_folder: bool) -> Result<(), TreeError> {
    let mut reached = base.to_owned();
    let count = path.components().count();
    for (at, part) in path.components().enumerate() {
        reached.push(part);
        let io = |error: io::Error| TreeError::from_io(&reached, error);
        let found = match reached.symlink_metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io(error)),
        };
        let wants_folder = is_folder || at + 1 < count;
        if found.is_dir() && !wants_folder {
            std::fs::remove_dir_all(&reached).map_err(io)?;
        } else if !found.is_dir() {
            std::fs::remove_file(&reached).map_err(io)?;
        }
    }
    Ok(())
}

/// Creates a folder and those above it.
pub(super) fn create_folder(path: &Path) -> Result<(), TreeError> {
    create_folders(path, None).map(drop).map_err(|error| TreeError::from_io(path, error))
}

/// Sets the permissions of a folder or a file that is not a link. The owner keeps access, as the superuser of a
/// container would.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), TreeError> {
    let folder = open_folder_nofollow(path).map(File::from);
    let (file, access) = match folder {
        Ok(folder) => (folder, 0o700),
        Err(_) => (open_plain_file(path)?.0, 0o600),
    };
    let permissions = Permissions::from_mode(mode & 0o777 | access);
    file.set_permissions(permissions).map_err(|error| TreeError::from_io(path, error))
}

/// Writes a file anew, in the place of a file or link of that name.
fn write_file(to: &Path, from: &File, mode: u32) -> Result<(), TreeError> {
    let io = |error: io::Error| TreeError::from_io(to, error);
    let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
        return Err(io(Errno::INVAL.into()));
    };
    let folder = create_folders(parent, None).map_err(|e| TreeError::from_io(parent, e))?;
    match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(io(error.into())),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = rustix::fs::openat(&folder, name, flags, Mode::from(0o600));
    let new: File = new.map_err(|error| io(error.into()))?.into();
    copy_sparse(from, &new, MAX_FILE).map_err(io)?;
    new.set_permissions(Permissions::from_mode(mode & 0o777 | 0o600)).map_err(io)
}

struct TreeCopier<'c> {
    to: &'c Path,
    rules: CopyRules<'c>,
    skipped: Vec<PathBuf>,
}

impl TreeSink for TreeCopier<'_> {
    fn select(&mut self, path: &Path, is_folder: bool) -> Selection {
        (self.rules.filter)(path, is_folder)
    }

    fn visit_folder(&mut self, path: &Path, mode: u32) -> Result<(), TreeError> {
        if self.rules.replace {
            clear_way(self.to, path, true)?;
        }
        let folder = self.to.join(path);
        create_folder(&folder)?;
        set_mode(&folder, self.rules.mode.unwrap_or(mode))
    }

    fn visit_file(
        &mut self,
        path: &Path,
        file: File,
        found: &FileFingerprint,
    ) -> Result<(), TreeError> {
        if self.rules.replace {
            clear_way(self.to, path, false)?;
        }
        write_file(&self.to.join(path), &file, self.rules.mode.unwrap_or(found.mode))
    }

    fn visit_link(&mut self, path: &Path, target: &Path) -> Result<(), TreeError> {
        if self.rules.replace {
            clear_way(self.to, path, false)?;
        }
        let link = self.to.join(path);
        let io = |error| TreeError::from_io(&link, error);
        let (Some(parent), Some(name)) = (link.parent(), link.file_name()) else {
            return Err(io(Errno::INVAL));
        };
        let folder = create_folders(parent, None).map_err(|e| TreeError::from_io(parent, e))?;
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(io(error)),
        }
        rustix::fs::symlinkat(target, &folder, name).map_err(io)
    }

    fn refuse(&mut self, error: TreeError) -> Result<(), TreeError> {
        match error {
            TreeError::UnsafeLink { path, .. } | TreeError::SpecialFile { path }
                if self.rules.skip_unsafe =>
            {
                self.skipped.push(path);
                Ok(())
            }
            other => Err(other),
        }
    }
}
