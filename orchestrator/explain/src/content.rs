//! The changed files of the work, as the caller gives them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// A regular file.
    Regular {
        /// Its bytes.
        bytes: Arc<[u8]>,
        /// Whether its mode allows to execute it.
        is_executable: bool,
    },
    /// A symbolic link.
    Link {
        /// Where it leads to.
        target: Arc<[u8]>,
    },
}

impl FileContent {
    /// Returns a regular file that is not executable.
    #[must_use]
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self::Regular { bytes: bytes.into(), is_executable: false }
    }
}

/// What the caller knows about a changed file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRole {
    /// Nothing in particular.
    #[default]
    Work,
    /// A test that the work added or changed.
    OwnTest,
    /// A setting that steers which tests the checks run, or how.
    SteersChecks,
    /// The checks write it anew, so what it holds before they run has no effect.
    RewrittenByChecks,
}

/// A file that differs between base and work; `None` where it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFile {
    /// The file before the work.
    pub base: Option<FileContent>,
    /// The file as it was accepted.
    pub work: Option<FileContent>,
    /// What the caller knows about it.
    pub role: FileRole,
}
