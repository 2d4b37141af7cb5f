//! Pipes and devices that an agent may have put where git reads files: git would wait for ever, or read without end.

use std::ffi::OsStr;
use std::fs::{self, File, FileType};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::error::{GitError, Result};

/// What git reads in any folder of a working tree.
const IN_TREE: [&str; 4] = [".gitignore", ".gitattributes", ".gitmodules", ".mailmap"];

/// The longest file that names another git directory, in bytes.
const LONGEST_LINK: u64 = 4096;

/// Fails if a file that git reads of a workspace's repository is a pipe or a device.
pub(crate) fn refuse_special_files(workspace: &Path) -> Result<()> {
    for folder in workspace.ancestors() {
        IN_TREE.iter().try_for_each(|name| refuse_special(&folder.join(name)))?;
        let git = folder.join(".git");
        refuse_special(&git)?;
        if fs::symlink_metadata(&git).is_ok() {
            refuse_in_git_directories(&git)?;
            break;
        }
    }
    let is_read = |name: &OsStr| IN_TREE.iter().any(|read| name == *read);
    refuse_below(workspace, &is_read)
}

/// Looks at everything in a git directory, and in the one that it is a worktree of.
fn refuse_in_git_directories(git: &Path) -> Result<()> {
    let mut git_dir = git.to_owned();
    if git.is_file() {
        let Some(path) = read_path(git, b"gitdir: ") else { return Ok(()) };
        git_dir = git.with_file_name("").join(path);
    }
    refuse_below(&git_dir, &|_| true)?;
    match read_path(&git_dir.join("commondir"), b"") {
        Some(path) => refuse_below(&git_dir.join(path), &|_| true),
        None => Ok(()),
    }
}

/// Reads a file that holds a path.
fn read_path(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    // Whoever calls has seen that it is no pipe.
    let mut text = Vec::new();
    let file = File::open(file).ok()?;
    file.take(LONGEST_LINK).read_to_end(&mut text).ok()?;
    let path = text.strip_prefix(prefix)?.trim_ascii_end();
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Looks at the files below a folder that have one of the names, and follows no link to another folder.
fn refuse_below(folder: &Path, is_read: &dyn Fn(&OsStr) -> bool) -> Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // What cannot be listed git cannot read either, and says so.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (name, kind) = (entry.file_name(), entry.file_type());
            match kind {
                // A repository of its own is none of git's business here.
                Ok(kind) if kind.is_dir() && name != ".git" => folders.push(entry.path()),
                Ok(kind) if !kind.is_file() && !kind.is_dir() && is_read(&name) => {
                    refuse_special(&entry.path())?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn refuse_special(path: &Path) -> Result<()> {
    let is_special =
        |kind: FileType| kind.is_fifo() || kind.is_char_device() || kind.is_block_device();
    match fs::metadata(path) {
        Ok(found) if is_special(found.file_type()) => {
            Err(GitError::SpecialInRepository(path.to_owned()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};

    #[test]
    fn a_pipe_is_refused_wherever_git_reads() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let workspace = root.join("top/work");
        fs::create_dir_all(workspace.join("sub")).unwrap();
        fs::create_dir_all(root.join("top/.git/refs/heads")).unwrap();
        fs::create_dir_all(root.join("top/.git/info")).unwrap();
        let pipe = |name: &str| {
            let path = root.join(name);
            mknodat(CWD, &path, Kind::Fifo, Mode::RWXU, 0).unwrap();
            path
        };
        let own = pipe("top/work/pipe");
        assert!(refuse_special_files(&workspace).is_ok(), "git reads no {}", own.display());
        for name in [
            "top/.gitignore",
            "top/work/.gitattributes",
            "top/work/sub/.gitignore",
            "top/.git/HEAD",
            "top/.git/shallow",
            "top/.git/info/exclude",
            "top/.git/refs/heads/main",
        ] {
            let path = pipe(name);
            let error = refuse_special_files(&workspace).unwrap_err();
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
            fs::remove_file(path).unwrap();
        }
        std::os::unix::fs::symlink("/dev/zero", root.join("top/.git/config")).unwrap();
        assert!(refuse_special_files(&workspace).is_err(), "a link to a device is one");
    }
}
