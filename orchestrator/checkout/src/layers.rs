//! One layer of an overlay, while it is written.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown, symlink,
};
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{self as safe_fs, create_whiteout, path_bytes};
use rustix::fd::AsFd as _;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};
use rustix::io::Errno;

use crate::error::CheckoutError;
use crate::work_content::WorkContent;

/// The system takes no longer path.
const PATH_MAX: usize = 4096;
const NANOS: i64 = 1_000_000_000;

/// A layer in a folder of the orchestrator's own.
pub(crate) struct Layer<'a> {
    root: PathBuf,
    /// The folder whose entries it replaces: folders of the layer are as those are.
    like: &'a Path,
    /// Relative to the root, with the modes that they get in the end: those without write permission are to be filled first.
    modes: Vec<(PathBuf, u32)>,
    made: BTreeSet<PathBuf>,
    /// Files have the modes that a clone gives them.
    has_git_modes: bool,
}

impl<'a> Layer<'a> {
    /// Begins a layer. Its folder is made.
    pub(crate) fn create(root: PathBuf, like: &'a Path) -> Result<Self, CheckoutError> {
        fs::create_dir(&root).map_err(CheckoutError::io("create", &root))?;
        let mut layer =
            Self { root, like, modes: Vec::new(), made: BTreeSet::new(), has_git_modes: false };
        layer.liken(Path::new(""))?;
        Ok(layer)
    }

    /// Gives files the modes that a clone gives them.
    pub(crate) fn with_git_modes(self, has_git_modes: bool) -> Self {
        Self { has_git_modes, ..self }
    }

    /// Copies a file, a link or a pipe, as of this time. What is none of these any more is left out.
    pub(crate) fn copy(&mut self, path: &Path, modified_ns: i64) -> Result<(), CheckoutError> {
        let source = self.like.join(path);
        let Some(target) = self.make_place(path)? else { return Ok(()) };
        let failed = |error: io::Error| CheckoutError::io("copy", &source)(error);
        let found = match fs::symlink_metadata(&source) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.map_err(failed)?,
        };
        match FileType::from_raw_mode(found.mode()) {
            FileType::RegularFile if self.has_git_modes => {
                copy_file(&source, &target, git_mode(found.mode() & 0o100 != 0))
            }
            FileType::RegularFile => copy_file(&source, &target, found.mode()),
            FileType::Symlink => {
                fs::read_link(&source).and_then(|leads_to| symlink(leads_to, &target))
            }
            FileType::Fifo => {
                let mode = Mode::from_raw_mode(found.mode());
                rustix::fs::mknodat(CWD, &target, FileType::Fifo, mode, 0).map_err(Into::into)
            }
            _ => return Ok(()),
        }
        .map_err(failed)?;
        keep_owner(&found, &target);
        set_time(&target, modified_ns).map_err(|error| failed(error.into()))
    }

    /// Writes a file or a link, as of this time.
    pub(crate) fn write(
        &mut self,
        path: &Path,
        content: &WorkContent,
        modified_ns: i64,
    ) -> Result<(), CheckoutError> {
        let Some(target) = self.make_place(path)? else { return Ok(()) };
        let failed = |error: io::Error| CheckoutError::io("write", &target)(error);
        match content {
            WorkContent::File { bytes, is_executable } => {
                let mode = git_mode(*is_executable);
                let options =
                    OpenOptions::new().write(true).create_new(true).mode(0o600).to_owned();
                options.open(&target).and_then(|mut file| {
                    file.write_all(bytes)?;
                    file.set_permissions(Permissions::from_mode(mode))
                })
            }
            WorkContent::Link { target: leads_to } => {
                symlink(WorkContent::link_target(leads_to), &target)
            }
        }
        .map_err(failed)?;
        set_time(&target, modified_ns).map_err(|error| failed(error.into()))
    }

    /// Hides what has this path in the layers below.
    pub(crate) fn hide(&mut self, path: &Path) -> Result<(), CheckoutError> {
        let (Some(target), Some(name)) = (self.make_place(path)?, path.file_name()) else {
            return Ok(());
        };
        let failed = |error: Errno| CheckoutError::errno("create", &target)(error);
        let folder = target.parent().unwrap_or(&self.root);
        let folder = safe_fs::open_no_symlinks(folder, safe_fs::path_flags()).map_err(failed)?;
        match create_whiteout(folder.as_fd(), path_bytes(Path::new(name))) {
            Err(Errno::EXIST) => Ok(()),
            made => made.map_err(failed),
        }
    }

    /// Gives the folders their modes, and returns where the layer is.
    pub(crate) fn finish(self) -> Result<PathBuf, CheckoutError> {
        for (path, mode) in self.modes.iter().rev() {
            let folder = self.root.join(path);
            fs::set_permissions(&folder, Permissions::from_mode(*mode))
                .map_err(CheckoutError::io("change", &folder))?;
        }
        Ok(self.root)
    }

    /// Makes the folders above a path. Returns where it is in the layer; `None` where a whiteout hides it already.
    fn make_place(&mut self, path: &Path) -> Result<Option<PathBuf>, CheckoutError> {
        if self.root.join(path).as_os_str().len() >= PATH_MAX {
            return Err(CheckoutError::too_long(path));
        }
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        for folder in above.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
            if self.made.contains(folder) {
                continue;
            }
            let target = self.root.join(folder);
            match fs::create_dir(&target) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !crate::repository::is_folder(&target) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(CheckoutError::io("create", &target)(error)),
            }
            self.liken(folder)?;
        }
        Ok(Some(self.root.join(path)))
    }

    /// Remembers the mode, and takes over the owner, of the folder that one of the layer stands for.
    fn liken(&mut self, folder: &Path) -> Result<(), CheckoutError> {
        self.made.insert(folder.to_owned());
        let target = self.root.join(folder);
        let own = Permissions::from_mode(0o700);
        fs::set_permissions(&target, own).map_err(CheckoutError::io("change", &target))?;
        let mode = match fs::symlink_metadata(self.like.join(folder)) {
            Ok(found) if found.is_dir() => {
                keep_owner(&found, &target);
                found.mode() & 0o7777
            }
            _ => 0o755,
        };
        self.modes.push((folder.to_owned(), mode));
        Ok(())
    }
}

/// Makes an empty folder as another one is.
pub(crate) fn create_like(folder: PathBuf, like: &Path) -> Result<PathBuf, CheckoutError> {
    Layer::create(folder, like)?.finish()
}

/// Returns the mode that a clone gives a file: git stores no more than whether it is executable.
const fn git_mode(is_executable: bool) -> u32 {
    if is_executable { 0o755 } else { 0o644 }
}

fn copy_file(source: &Path, target: &Path, mode: u32) -> io::Result<()> {
    let from = safe_fs::open_no_symlinks(source, safe_fs::read_flags())?;
    let from = File::from(from);
    if !from.metadata()?.is_file() {
        return Ok(());
    }
    let to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
    safe_fs::copy_data(&from, &to)?;
    to.set_permissions(Permissions::from_mode(mode & 0o7777))
}

/// Only the superuser can give files to others; to everybody else they are readable as they are.
fn keep_owner(found: &fs::Metadata, target: &Path) {
    let _ = lchown(target, Some(found.uid()), Some(found.gid()));
}

fn set_time(path: &Path, modified_ns: i64) -> Result<(), Errno> {
    let time =
        Timespec { tv_sec: modified_ns.div_euclid(NANOS), tv_nsec: modified_ns.rem_euclid(NANOS) };
    let times = Timestamps { last_access: time, last_modification: time };
    match rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        // What had the path is gone.
        Err(Errno::NOENT) => Ok(()),
        set => set,
    }
}
