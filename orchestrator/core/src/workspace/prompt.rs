//! The prompt file: read whole or not at all, put back if it is gone.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::at::{self, Stamp};

/// The largest prompt, in bytes.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// A file changed less than this ago may be in the middle of being written.
const QUIET: Duration = Duration::from_millis(50);
/// How often a file that will not stand still is looked at.
const ATTEMPTS: usize = 40;
/// How often a file that is not there is looked for: an editor may be replacing it.
const ABSENT_ATTEMPTS: usize = 3;
/// The most links from the prompt's path to the file.
const MAX_LINKS: usize = 40;
/// How many names are tried for a temporary file.
const CREATE_ATTEMPTS: usize = 16;

/// A prompt as it was on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What the file holds.
    pub bytes: Vec<u8>,
    /// The same as text; what is not UTF-8 is replaced by U+FFFD.
    pub text: String,
    /// BLAKE3 of the bytes, in hexadecimal.
    pub digest: String,
}

/// Why the prompt could not be read or put back.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// There is no such file.
    #[error("prompt {path}: there is no such file; write the task into it")]
    NotFound {
        /// The prompt's path.
        path: PathBuf,
    },
    /// It is something else than a file.
    #[error("prompt {path}: is no regular file, nor a link to one")]
    NotAFile {
        /// The prompt's path.
        path: PathBuf,
    },
    /// It is larger than 8 MiB.
    #[error("prompt {path}: is {bytes} bytes large; at most 8 MiB are allowed")]
    TooLarge {
        /// The prompt's path.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
    },
    /// It was still being written after two seconds.
    #[error("prompt {path}: somebody keeps writing it; try again when it is complete")]
    Unstable {
        /// The prompt's path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("prompt {path}: {source}")]
    Io {
        /// The prompt's path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// What one look at the file gave.
enum Look {
    Whole(Vec<u8>),
    Moving,
    Absent,
}

/// Reads the prompt as it is when nobody is writing it: a file changed within the last 50 ms, or while
/// it is read, is looked at again, for about two seconds. Blocks for as long.
///
/// # Errors
/// If there is no such file, it is no regular file (nor a link to one), larger than 8 MiB, cannot be
/// read, or does not stand still.
pub fn read_prompt(path: &Path) -> Result<Prompt, PromptError> {
    let mut absent = 0;
    for _ in 0..ATTEMPTS {
        match look(path)? {
            Look::Whole(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let digest = blake3::hash(&bytes).to_hex().to_string();
                return Ok(Prompt { bytes, text, digest });
            }
            Look::Moving => {}
            Look::Absent => {
                absent += 1;
                if absent >= ABSENT_ATTEMPTS {
                    return Err(PromptError::NotFound { path: path.to_owned() });
                }
                std::thread::sleep(QUIET);
            }
        }
    }
    Err(PromptError::Unstable { path: path.to_owned() })
}

fn look(path: &Path) -> Result<Look, PromptError> {
    let io = |source: std::io::Error| PromptError::Io { path: path.to_owned(), source };
    let fd = match at::open_file_path(path) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Look::Absent),
        Err(Errno::NXIO) => return Err(PromptError::NotAFile { path: path.to_owned() }),
        Err(error) => return Err(io(error.into())),
    };
    let before = Stamp::of(&fd).map_err(|error| io(error.into()))?;
    if before.kind() != FileType::RegularFile {
        return Err(PromptError::NotAFile { path: path.to_owned() });
    }
    if before.size > MAX_BYTES {
        return Err(PromptError::TooLarge { path: path.to_owned(), bytes: before.size });
    }
    let age = at::wall_clock() - before.ctime;
    // A change in the future says nothing of its age, so that is waited for as well.
    if !(i128::try_from(QUIET.as_nanos()).unwrap_or(i128::MAX)..).contains(&age) {
        std::thread::sleep(QUIET);
        if !same(path, &before) {
            return Ok(Look::Moving);
        }
    }
    let limit = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
    let bytes = match at::read_bounded(&fd, limit) {
        Ok(bytes) => bytes,
        // It grew beyond the limit while being read: the next look tells.
        Err(_) if !same(path, &before) => return Ok(Look::Moving),
        Err(error) => return Err(io(error)),
    };
    Ok(if same(path, &before) { Look::Whole(bytes) } else { Look::Moving })
}

/// Whether the path still leads to the same file, unchanged.
fn same(path: &Path, before: &Stamp) -> bool {
    Stamp::of_path(path).is_ok_and(|now| now == *before)
}

/// Puts the prompt back with this content, in one step: whoever reads it sees all of it or none. Keeps
/// the mode of a file that is there; a link to a file stays, and the file it leads to is written. What
/// else has the name gives way: links to anything else, pipes, devices, and empty folders are removed,
/// a folder with something in it gets another name. Creates the folder if it is gone.
///
/// # Errors
/// If it cannot be written.
pub fn restore_prompt(path: &Path, bytes: &[u8]) -> Result<(), PromptError> {
    let io = |source: std::io::Error| PromptError::Io { path: path.to_owned(), source };
    let file = target(path);
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(PromptError::NotAFile { path: path.to_owned() });
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    std::fs::create_dir_all(folder).map_err(io)?;
    let mode = match std::fs::symlink_metadata(&file) {
        Ok(there) if there.is_file() => Some(there.mode() & 0o7777),
        Ok(there) if there.is_dir() => {
            put_aside(&file).map_err(io)?;
            None
        }
        // Renaming replaces everything else.
        _ => None,
    };
    let (temporary, new) = create_beside(folder, name).map_err(io)?;
    let written = write_all(new, bytes, mode)
        .and_then(|()| std::fs::rename(&temporary, &file))
        .and_then(|()| File::open(folder)?.sync_all());
    written.map_err(|error| {
        // It may be renamed already.
        let _ = std::fs::remove_file(&temporary);
        io(error)
    })
}

/// The file to write: where the path's links lead, if that is a file or could be one; else the path
/// itself.
fn target(path: &Path) -> PathBuf {
    end_of_links(path)
        .ok()
        .filter(|end| match std::fs::symlink_metadata(end) {
            Ok(there) => there.is_file(),
            Err(_) => end.parent().is_some_and(|folder| folder.is_dir() || beneath(folder, path)),
        })
        .unwrap_or_else(|| path.to_owned())
}

/// Whether a folder lies in the one that the prompt is in: nothing is created anywhere else because a
/// link says so.
fn beneath(folder: &Path, prompt: &Path) -> bool {
    prompt.parent().is_some_and(|base| folder.starts_with(base))
        && !folder.components().any(|part| part == Component::ParentDir)
}

/// Removes a folder if it is empty; otherwise gives it a name that nobody uses.
fn put_aside(folder: &Path) -> std::io::Result<()> {
    if std::fs::remove_dir(folder).is_ok() {
        return Ok(());
    }
    for number in 1..=CREATE_ATTEMPTS {
        let mut name = folder.as_os_str().to_owned();
        name.push(format!(".{number}"));
        if std::fs::symlink_metadata(&name).is_err() {
            return std::fs::rename(folder, &name);
        }
    }
    Err(Errno::EXIST.into())
}

/// Creates a file under a name that nobody uses.
fn create_beside(folder: &Path, name: &OsStr) -> std::io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut failed = std::io::Error::from(Errno::EXIST);
    // Another process of the same number may have left some behind.
    for _ in 0..CREATE_ATTEMPTS {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.{number}.tmp", std::process::id()));
        let path = folder.join(temporary);
        match OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) => failed = error,
        }
        if failed.kind() != std::io::ErrorKind::AlreadyExists {
            break;
        }
    }
    Err(failed)
}

fn write_all(mut file: File, bytes: &[u8], mode: Option<u32>) -> std::io::Result<()> {
    file.write_all(bytes)?;
    if let Some(mode) = mode {
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    file.sync_all()
}

/// Follows links, also to a file that is not there.
fn end_of_links(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if !path.is_symlink() {
            return Ok(path);
        }
        let target = std::fs::read_link(&path)?;
        path = path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    Err(Errno::LOOP.into())
}
