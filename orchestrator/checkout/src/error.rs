//! Why there is no checkout.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Paths of work that are shorter have room for the folder of a layer before them.
const MAX_PATH: usize = 3000;
/// More of a path that is too long is not named.
const MAX_NAMED: usize = 200;

/// Why there is no checkout.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// The system refused.
    #[error("the checkout for the checks could not be made: could not {doing} {}: {source}", .path.display())]
    Io {
        /// What was to be done, as in "could not …".
        doing: &'static str,
        /// With which path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A path of the work, with the folder of the layer before it, is longer than the system allows.
    #[error(
        "{}: the path is too long to be checked: make it shorter than {MAX_PATH} bytes", path.display()
    )]
    TooLong {
        /// Relative to the workspace, or to git's own folder; shortened.
        path: PathBuf,
    },
    /// A file has an attribute by which it vanishes beneath other layers.
    #[error(
        "{}: its extended attributes `user.overlay.*` hide it from checks: remove them (`setfattr -x`)", path.display()
    )]
    Marked {
        /// Relative to the workspace.
        path: PathBuf,
    },
    /// What was recorded when the run began is not what is there.
    #[error(
        "{}: what the run recorded of its workspace was changed from outside; begin a new run with `run --restart`",
        .path.display()
    )]
    Damaged {
        /// The record.
        path: PathBuf,
    },
    /// The system cannot show processes a folder with layers over it.
    #[error("there can be no checkout here: {reason}")]
    Unavailable {
        /// Why not.
        reason: String,
    },
    /// A folder changed faster than it could be read.
    #[error("{}: changed while the checkout for the checks was made; let nothing write there meanwhile", .path.display())]
    Unstable {
        /// The path.
        path: PathBuf,
    },
}

impl CheckoutError {
    pub(crate) fn too_long(path: &Path) -> Self {
        let mut named = PathBuf::new();
        for part in path {
            named.push(part);
            if named.as_os_str().len() > MAX_NAMED {
                named.push("…");
                break;
            }
        }
        Self::TooLong { path: named }
    }

    pub(crate) fn io<E: Into<io::Error>>(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { doing, path, source: error.into() }
    }

    pub(crate) fn errno(doing: &'static str, path: &Path) -> impl FnOnce(Errno) -> Self {
        Self::io(doing, path)
    }
}
