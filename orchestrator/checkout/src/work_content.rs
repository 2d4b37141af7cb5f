//! What files that count hold: kept when the run begins, and compared with what they hold later.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use rustix::fs::FileType;

/// What a larger file holds is not read.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkContent {
    /// A regular file.
    File {
        /// Its bytes.
        bytes: Arc<[u8]>,
        /// Whether its owner may execute it.
        is_executable: bool,
    },
    /// A symbolic link.
    Link {
        /// Where it leads to.
        target: Arc<[u8]>,
    },
}

impl WorkContent {
    /// Reads what is at a path; `None` if it is neither a file nor a link, too large, or gone.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        match FileType::from_raw_mode(found.mode()) {
            FileType::RegularFile => {
                let bytes = read_file(path, MAX_BYTES, SymlinkPolicy::Refuse).ok()?;
                Some(Self::File { bytes: bytes.into(), is_executable: found.mode() & 0o100 != 0 })
            }
            FileType::Symlink => {
                let target = fs::read_link(path).ok()?.into_os_string().into_vec();
                Some(Self::Link { target: target.into() })
            }
            _ => None,
        }
    }

    /// Returns its bytes, or where it leads to.
    pub(crate) fn bytes(&self) -> &[u8] {
        let (Self::File { bytes, .. } | Self::Link { target: bytes }) = self;
        bytes
    }

    /// Returns how many bytes it has.
    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.bytes().len()).unwrap_or(u64::MAX)
    }

    /// Returns where a link leads to.
    pub(crate) fn link_target(target: &[u8]) -> &Path {
        Path::new(OsStr::from_bytes(target))
    }
}

/// What was or is at the path of a changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkState {
    /// Nothing.
    Missing,
    /// A file or link.
    Known(WorkContent),
    /// Something whose content is not known: it was not kept, is too large, or is neither file nor link.
    Unknown,
}

impl WorkState {
    pub(crate) fn from_read(content: Option<WorkContent>) -> Self {
        content.map_or(Self::Unknown, Self::Known)
    }
}

/// A file that counts and is not as it was when the run began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What was there when the run began.
    pub start: WorkState,
    /// What is there now.
    pub now: WorkState,
}
