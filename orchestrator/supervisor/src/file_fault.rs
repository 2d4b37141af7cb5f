//! Why the kernel does not execute a file.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Why the kernel does not execute a file, where "no such file" and "permission denied" may mean the file, its
/// interpreter, or its loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileFault {
    Missing,
    Folder,
    NotExecutable,
    /// The interpreter that its first line names, for people.
    BadInterpreter(String),
    MissingLoader,
    Unknown,
}

impl FileFault {
    /// Examines a file that could not be executed with this errno; `None` if that has another cause.
    pub(crate) fn examine(program: &Path, errno: i32) -> Option<Self> {
        if !matches!(errno, libc::ENOENT | libc::EACCES | libc::ENOTDIR | libc::ELOOP) {
            return None;
        }
        let meta = match fs::metadata(program) {
            Ok(meta) => meta,
            Err(e)
                if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                return Some(Self::Missing);
            }
            Err(_) => return Some(Self::Unknown),
        };
        if meta.is_dir() {
            return Some(Self::Folder);
        }
        let executable = is_executable(program);
        Some(match interpreter(program) {
            Some(interpreter) if executable => {
                Self::BadInterpreter(interpreter.display().to_string())
            }
            None if executable && errno == libc::ENOENT => Self::MissingLoader,
            _ => Self::NotExecutable,
        })
    }
}

/// Whether the kernel would execute this file, or enter this folder.
pub(crate) fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Returns what a script's first line asks for.
fn interpreter(program: &Path) -> Option<PathBuf> {
    // The kernel looks no further than this, either.
    let mut first = Vec::new();
    File::open(program).ok()?.take(256).read_to_end(&mut first).ok()?;
    let line = first.split(|b| *b == b'\n').next()?.strip_prefix(b"#!")?;
    let blank = |b: &u8| matches!(*b, b' ' | b'\t');
    let word = line.split(blank).find(|word| !word.is_empty())?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(word.to_vec())))
}
