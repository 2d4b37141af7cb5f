//! Finding a program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::leads_into;

use crate::file_fault::is_executable;

/// Why a program was not found, and where it was looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The name is empty.
    #[error("the name of the program is empty; name one")]
    Empty,
    /// None of the folders has it.
    #[error("the program `{name}` is not in PATH{}; install it, or give its path", empty(path))]
    InPath {
        /// The name.
        name: String,
        /// The `PATH` that was searched.
        path: String,
    },
    /// There is no such file.
    #[error("the program `{}` does not exist; install it, or correct its path", file.display())]
    NoFile {
        /// Where it was looked for.
        file: PathBuf,
    },
    /// It is a folder or another thing that cannot be executed.
    #[error("the program `{}` is not a file; name the program itself", file.display())]
    NotAFile {
        /// What was found.
        file: PathBuf,
    },
    /// It may not be executed.
    #[error("the program `{}` is not executable; try `chmod +x`", file.display())]
    NotExecutable {
        /// What was found.
        file: PathBuf,
    },
}

fn empty(path: &str) -> &str {
    if path.is_empty() { ", which is empty" } else { "" }
}

/// Finds a program: a bare name in the folders of `path`, a list as in `PATH`; a name with a slash
/// from the folder `base`, as are relative folders in `path`. What is found is an executable file.
///
/// # Errors
/// When there is none; the error holds where it was looked for.
pub fn find_program(name: &str, path: &str, base: &Path) -> Result<PathBuf, NotFound> {
    if name.is_empty() {
        return Err(NotFound::Empty);
    }
    if name.contains('/') {
        return check(base.join(name));
    }
    // An empty list would stand for the current folder, where nobody expects a program to come from.
    if !path.is_empty()
        && let Ok(found) = which::which_in(name, Some(path), base)
    {
        return Ok(found);
    }
    // Something of that name that cannot be executed is more likely meant than nothing.
    let near = std::env::split_paths(OsStr::new(path))
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| base.join(folder).join(name))
        .find(|file| file.is_file());
    match near {
        Some(file) => Err(NotFound::NotExecutable { file }),
        None => Err(NotFound::InPath { name: name.to_owned(), path: path.to_owned() }),
    }
}

/// Returns the folders of a list as in `PATH` from which this program starts others with its user's rights: absolute
/// ones that lead into none of these places, in which an agent can put programs.
#[must_use]
pub fn path_outside(path: &str, places: &[PathBuf]) -> String {
    let is_outside = |folder: &&str| {
        let folder = Path::new(folder);
        folder.is_absolute() && !leads_into(folder, places)
    };
    path.split(':').filter(is_outside).collect::<Vec<_>>().join(":")
}

fn check(file: PathBuf) -> Result<PathBuf, NotFound> {
    if !file.exists() {
        Err(NotFound::NoFile { file })
    } else if !file.is_file() {
        Err(NotFound::NotAFile { file })
    } else if !is_executable(&file) {
        Err(NotFound::NotExecutable { file })
    } else {
        Ok(file)
    }
}
