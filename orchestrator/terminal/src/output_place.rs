//! Where commands write the files and folders that a user names.
//!
//! Links on the way are the user's own and followed, but for those in a folder in which an agent works, or worked: it
//! may have made them, to have something written elsewhere.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git::locate_worktrees;
use ralph_orchestrator_assembly::user_folders::{all_states, state_home, variables};
use ralph_orchestrator_safe_fs::{create_folders, normalize_lexically};
use tempfile::NamedTempFile;

/// Returns the real path of what a command is to write. The last part may be missing, as may be folders above it.
///
/// # Errors
/// A part of it is a link in a workspace.
pub fn find_place(path: &Path) -> Result<PathBuf, CommandError> {
    find_place_outside(path, &workspaces())
}

/// Creates a folder that a command writes to, and those above it, and returns its real path.
///
/// # Errors
/// A part of it is a link in a workspace, or it cannot be created.
pub fn create_folder(path: &Path) -> Result<PathBuf, CommandError> {
    let place = find_place(path)?;
    create_folders(&place, None).map_err(|error| failed(path, &error.into()))?;
    Ok(place)
}

/// Writes a file with this mode, whole or not at all, in place of a file or link of its name.
///
/// # Errors
/// A part of its path is a link in a workspace, its folder is missing, it is a device or a pipe, or it cannot be written.
pub fn write_whole(path: &Path, content: &[u8], mode: u32) -> Result<(), CommandError> {
    let (place, mut file) = begin_file(path)?;
    file.write_all(content).map_err(|error| failed(path, &error))?;
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(mode))
        .map_err(|error| failed(path, &error))?;
    file.persist(&place).map_err(|error| failed(path, &error.error))?;
    Ok(())
}

/// Finds out whether a file can be written, before something is done that is to be in it.
///
/// # Errors
/// As of [`write_whole`].
pub fn verify_writable(path: &Path) -> Result<(), CommandError> {
    begin_file(path).map(drop)
}

/// Makes the file that is to take the place of one at a path, beside that.
fn begin_file(path: &Path) -> Result<(PathBuf, NamedTempFile), CommandError> {
    let place = find_file(path)?;
    let is_special = |found: &fs::Metadata| !found.is_file() && !found.is_symlink();
    if fs::symlink_metadata(&place).as_ref().is_ok_and(is_special) {
        let message = format!("cannot write {}: it is no regular file", path.display());
        return Err(CommandError::user(message).hinted("name a file"));
    }
    let folder = place.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        let message =
            format!("cannot write {}: there is no folder {}", path.display(), folder.display());
        return Err(CommandError::user(message));
    }
    let file = NamedTempFile::new_in(folder).map_err(|error| failed(path, &error))?;
    Ok((place, file))
}

/// Returns the real path of a file that is to take the place of whatever has its name, a link included.
///
/// # Errors
/// A folder on the way to it is a link in a workspace.
pub fn find_file(path: &Path) -> Result<PathBuf, CommandError> {
    let name = path.file_name().ok_or_else(|| failed(path, &io::ErrorKind::InvalidInput.into()))?;
    Ok(find_place(folder_of(path))?.join(name))
}

/// Returns the folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn failed(path: &Path, error: &io::Error) -> CommandError {
    CommandError::user(format!("cannot write {}: {error}", path.display()))
}

/// The folders in which agents of this user's runs work or worked, without links.
fn workspaces() -> Vec<PathBuf> {
    let state_home = state_home(&variables());
    let of_state = |state: ralph_orchestrator_store::StateDir| {
        let workspace = state.owner.workspace().unwrap_or_default();
        let worktrees = locate_worktrees(&state.layout, &state_home, &workspace).into_iter();
        let worktrees = worktrees.map(|record| record.folder());
        std::iter::once(workspace).chain(worktrees).collect::<Vec<_>>()
    };
    all_states().into_iter().flat_map(of_state).collect()
}

fn find_place_outside(path: &Path, workspaces: &[PathBuf]) -> Result<PathBuf, CommandError> {
    let absolute = std::path::absolute(path).map_err(|error| failed(path, &error))?;
    let mut real = PathBuf::from("/");
    for part in normalize_lexically(&absolute).components() {
        let Component::Normal(name) = part else { continue };
        let next = real.join(name);
        let is_link = fs::symlink_metadata(&next).is_ok_and(|found| found.is_symlink());
        if !is_link {
            real = next;
        } else if workspaces.iter().any(|workspace| real.starts_with(workspace)) {
            let message = format!(
                "cannot write {}: {} is a link, and an agent could have made it",
                path.display(),
                next.display()
            );
            return Err(CommandError::user(message)
                .hinted("name the place that it leads to, if that is meant, or remove it"));
        } else {
            real = next.canonicalize().map_err(|error| failed(path, &error))?;
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_device_or_a_folder_does_not_give_way_to_a_file() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [socket.as_path(), temp.path(), Path::new("/dev/null")] {
            let error = write_whole(path, b"x", 0o644).unwrap_err().summary();
            assert!(error.contains("it is no regular file"), "{error}");
            assert!(!fs::metadata(path).unwrap().is_file());
        }
        let missing = verify_writable(&temp.path().join("gone/file")).unwrap_err().summary();
        assert!(missing.contains("there is no folder"), "{missing}");
        verify_writable(&temp.path().join("file")).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "nothing is left");
    }

    #[test]
    fn follows_the_users_links_and_none_in_a_workspace() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let workspace = root.join("work");
        for folder in ["work/sub", "elsewhere", "home"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        symlink(root.join("elsewhere"), root.join("home/out")).unwrap();
        symlink(&workspace, root.join("home/project")).unwrap();
        for (link, to) in [("out", "elsewhere"), ("sub/out", "elsewhere"), ("gone", "nowhere")] {
            symlink(root.join(to), workspace.join(link)).unwrap();
        }
        let workspaces = [workspace];
        let find = |path: &str| find_place_outside(&root.join(path), &workspaces);
        for (path, place) in [
            ("home/out/new/file", "elsewhere/new/file"),
            ("home/project/sub/file", "work/sub/file"),
            ("work/new/file", "work/new/file"),
            ("work/../home/out", "elsewhere"),
            ("work", "work"),
        ] {
            assert_eq!(find(path).unwrap(), root.join(place), "{path}");
        }
        for path in ["work/out", "work/out/file", "work/sub/out/x", "work/gone", "home/project/out"]
        {
            let error = find(path).unwrap_err().summary();
            assert!(error.contains("is a link, and an agent could have made it"), "{error}");
        }
    }
}
