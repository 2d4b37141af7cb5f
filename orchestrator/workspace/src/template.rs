//! Creates a workspace from a template.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint};
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// How often the temporary folder is opened anew, if others create and rename it meanwhile.
const ATTEMPTS: usize = 8;

/// Why a workspace could not be created.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template is no folder.
    #[error("template {path}: {source}; it has to be a folder that can be read")]
    Template {
        /// The template as given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The workspace's path is taken by something that is no folder.
    #[error("workspace {path}: is there, but is no folder; remove it or choose another path")]
    NotAFolder {
        /// The workspace as given.
        path: PathBuf,
    },
    /// The workspace would lie in its own template.
    #[error("workspace {workspace}: lies in its template {template}; put it elsewhere")]
    Nested {
        /// The workspace as given.
        workspace: PathBuf,
        /// The template as given.
        template: PathBuf,
    },
    /// The template holds what cannot be copied.
    #[error("template entry {path}: only files, folders and links can be copied; remove it")]
    Unsupported {
        /// The pipe, socket or device.
        path: PathBuf,
    },
    /// Another process is creating the same workspace.
    #[error("workspace {path}: another process is creating it right now; try again later")]
    Busy {
        /// The workspace as given.
        path: PathBuf,
    },
    /// Copying failed.
    #[error("copying the template to {path}: {source}")]
    Io {
        /// What could not be written or read.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Copies a folder tree (files with their modes, links as links, without anything called `.git`) to
/// become the workspace. It is complete as soon as it is there: the copy is made in a folder beside
/// it, `.<name>.ralph-template`, and renamed. What an earlier attempt left there is removed.
///
/// Returns whether it was created: `false` if it exists and is not empty. Then nothing is touched.
///
/// # Errors
/// If the template is no folder or holds pipes, sockets or devices, if the workspace's path is taken
/// or lies in the template, if another process is at it, and if copying fails.
pub fn create_from_template(template: &Path, workspace: &Path) -> Result<bool, TemplateError> {
    let not_a_template =
        |source: std::io::Error| TemplateError::Template { path: template.to_owned(), source };
    let template_real = template.canonicalize().map_err(not_a_template)?;
    if !template_real.is_dir() {
        return Err(not_a_template(Errno::NOTDIR.into()));
    }
    if occupied(workspace)? {
        return Ok(false);
    }
    let target = place(workspace)?;
    if target.starts_with(&template_real) {
        return Err(TemplateError::Nested {
            workspace: workspace.to_owned(),
            template: template.to_owned(),
        });
    }
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(TemplateError::NotAFolder { path: workspace.to_owned() });
    };
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(".ralph-template");
    let temporary = parent.join(temporary);
    let Some(lock) = claim(&temporary, workspace)? else { return Ok(false) };
    let created = empty(&temporary)
        .and_then(|()| copy_tree(&template_real, &temporary))
        .and_then(|()| put_in_place(&temporary, &target));
    if !matches!(created, Ok(true)) {
        // Best effort: the next attempt clears it as well.
        make_writable(&temporary);
        let _ = std::fs::remove_dir_all(&temporary);
    }
    drop(lock);
    created
}

/// Whether the workspace is there with something in it.
fn occupied(workspace: &Path) -> Result<bool, TemplateError> {
    match std::fs::metadata(workspace) {
        Ok(there) if !there.is_dir() => {
            Err(TemplateError::NotAFolder { path: workspace.to_owned() })
        }
        Ok(_) => {
            let mut entries = std::fs::read_dir(workspace).map_err(at_path(workspace))?;
            Ok(entries.next().is_some())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if workspace.is_symlink() {
                return Err(TemplateError::NotAFolder { path: workspace.to_owned() });
            }
            Ok(false)
        }
        Err(error) => Err(at_path(workspace)(error)),
    }
}

/// Returns the absolute path without links of the workspace, in a folder that exists.
fn place(workspace: &Path) -> Result<PathBuf, TemplateError> {
    if let Ok(real) = workspace.canonicalize() {
        return Ok(real);
    }
    let absolute = std::path::absolute(workspace).map_err(at_path(workspace))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(TemplateError::NotAFolder { path: workspace.to_owned() });
    };
    std::fs::create_dir_all(parent).map_err(at_path(parent))?;
    Ok(parent.canonicalize().map_err(at_path(parent))?.join(name))
}

/// Makes the temporary folder this process's own, by a lock that ends with the process. `None` if
/// another process was faster and the workspace is there by now.
fn claim(temporary: &Path, workspace: &Path) -> Result<Option<OwnedFd>, TemplateError> {
    for _ in 0..ATTEMPTS {
        if occupied(workspace)? {
            return Ok(None);
        }
        match std::fs::create_dir(temporary) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(at_path(temporary)(error)),
        }
        let fd = match safe_fs::open_folder_nofollow(temporary) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(at_path(temporary)(error.into())),
        };
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => break,
            Err(error) => return Err(at_path(temporary)(error.into())),
        }
        // It may have been renamed between opening and locking.
        let ours = FileFingerprint::from_fd(&fd)
            .ok()
            .map(|fingerprint| (fingerprint.dev, fingerprint.ino));
        let there = FileFingerprint::from_path(temporary)
            .ok()
            .map(|fingerprint| (fingerprint.dev, fingerprint.ino));
        if ours.is_some() && ours == there {
            return Ok(Some(fd));
        }
    }
    Err(TemplateError::Busy { path: workspace.to_owned() })
}

/// Removes what an earlier attempt left.
fn empty(folder: &Path) -> Result<(), TemplateError> {
    make_writable(folder);
    for entry in std::fs::read_dir(folder).map_err(at_path(folder))? {
        let entry = entry.map_err(at_path(folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(at_path(&path))?;
        let removed = if kind.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        removed.map_err(at_path(&path))?;
    }
    Ok(())
}

/// Makes copied folders such that their entries can be removed, whatever the template's are like. What
/// fails here shows when removing.
fn make_writable(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let _ = std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700));
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), TemplateError> {
    let mut folders = vec![(from.to_owned(), to.to_owned())];
    let mut next = 0;
    while let Some((from, to)) = folders.get(next).cloned() {
        next += 1;
        for entry in std::fs::read_dir(&from).map_err(at_path(&from))? {
            let entry = entry.map_err(at_path(&from))?;
            if entry.file_name() == ".git" {
                continue;
            }
            let (source, copy) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().map_err(at_path(&source))?;
            if kind.is_dir() {
                std::fs::create_dir(&copy).map_err(at_path(&copy))?;
                folders.push((source, copy));
            } else if kind.is_file() {
                copy_file(&source, &copy).map_err(at_path(&source))?;
            } else if kind.is_symlink() {
                let target = std::fs::read_link(&source).map_err(at_path(&source))?;
                std::os::unix::fs::symlink(target, &copy).map_err(at_path(&copy))?;
            } else {
                return Err(TemplateError::Unsupported { path: source });
            }
        }
    }
    // Last, and innermost first: a folder that may not be written could not be filled.
    for (from, to) in folders.iter().rev() {
        let mode = std::fs::metadata(from).map_err(at_path(from))?.permissions();
        std::fs::set_permissions(to, mode).map_err(at_path(to))?;
    }
    Ok(())
}

/// Copies a file with its mode.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let source = std::fs::File::open(from)?;
    let copy = std::fs::File::create_new(to)?;
    safe_fs::copy_data(&source, &copy)?;
    copy.set_permissions(source.metadata()?.permissions())
}

fn put_in_place(temporary: &Path, target: &Path) -> Result<bool, TemplateError> {
    match std::fs::rename(temporary, target) {
        Ok(()) => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::DirectoryNotEmpty | std::io::ErrorKind::AlreadyExists
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(at_path(target)(error)),
    }
}

fn at_path(path: &Path) -> impl Fn(std::io::Error) -> TemplateError {
    move |source| TemplateError::Io { path: path.to_owned(), source }
}
