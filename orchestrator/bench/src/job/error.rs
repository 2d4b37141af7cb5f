//! Why a job cannot be read, written or begun.

use std::io;
use std::path::{Path, PathBuf};

/// Why a job cannot be read, written or begun.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A file of the job cannot be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was to be done, such as "read".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the job is not what was written.
    #[error("{} is damaged: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was expected.
        message: String,
    },
    /// There is no job.
    #[error("{} has no job: it has no {}", path.display(), super::file_names::PLAN)]
    NoJob {
        /// The folder.
        path: PathBuf,
    },
    /// There is no lock file.
    #[error("there is no lock file {}", path.display())]
    NoLock {
        /// The file.
        path: PathBuf,
    },
    /// There is a job already.
    #[error("{} has a job already", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// Another process performs the job.
    #[error("another process works on the job in {}", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// It was written by another version of the program.
    #[error("the job in {} has format {found}; this program reads format {expected}", path.display())]
    Format {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format of this program.
        expected: u32,
    },
}

impl JobError {
    /// Returns what makes an error of a file operation into one of the job.
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}
