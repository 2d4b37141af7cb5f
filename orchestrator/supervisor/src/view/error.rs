//! Why a process tree cannot have a view of its own.

use std::io;
use std::path::PathBuf;

use crate::step::{StepSubject, advice_when_forbidden};

/// The number of layers whose names fit into the page of options that the kernel is given.
pub(super) const MAX_LAYERS: usize = 100;

/// Why a process tree cannot have a view of its own.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// Something else was requested that excludes a view.
    #[error("it cannot have {with} as well; use one of both")]
    Combined {
        /// What excludes it.
        with: &'static str,
    },
    /// A path cannot be used.
    #[error(
        "the path `{}` of its view must be absolute, without `.` and `..`, and not in /proc, which is made anew",
        path.display()
    )]
    BadPath {
        /// The path.
        path: PathBuf,
    },
    /// An overlay has no layers, or more than the kernel is given.
    #[error("the overlay at `{}` has {count} layers; give it 1 to {MAX_LAYERS}", target.display())]
    Layers {
        /// The overlay's target.
        target: PathBuf,
        /// How many layers it has.
        count: usize,
    },
    /// Something is mounted beneath a layer, which would not be seen.
    #[error(
        "an overlay over `{}` would hide what is mounted at `{}`; unmount that, or do without the overlay",
        layer.display(), mount.display()
    )]
    MountWithin {
        /// The layer.
        layer: PathBuf,
        /// What is mounted beneath it.
        mount: PathBuf,
    },
    /// A file or folder is missing or cannot be used.
    #[error("{step}: {error}; {advice}")]
    Path {
        /// The step, with its paths.
        step: String,
        /// What the kernel said.
        error: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The kernel, its settings, or the file system do not permit it.
    #[error("{step}: {error}; {advice}")]
    Unsupported {
        /// The step, with its paths.
        step: String,
        /// What the kernel said, or what did not work.
        error: io::Error,
        /// What to do.
        advice: String,
    },
}

impl ViewError {
    /// Whether no view like this is to be had here, whatever its folders hold.
    #[must_use]
    pub const fn is_unsupported(&self) -> bool {
        matches!(self, Self::MountWithin { .. } | Self::Unsupported { .. })
    }

    pub(crate) fn set_up(step: String, subject: StepSubject, errno: i32) -> Self {
        let error = io::Error::from_raw_os_error(errno);
        match subject {
            StepSubject::Kernel => {
                Self::Unsupported { step, error, advice: advice_on_kernel(errno) }
            }
            StepSubject::Path => Self::Path { step, error, advice: advice_on_path(errno) },
        }
    }

    /// An overlay was mounted, but does not do what one is for.
    pub(super) fn unusable(step: String, error: io::Error) -> Self {
        Self::Unsupported { step, error, advice: NEEDED.to_owned() }
    }
}

/// Returns what to do about a path.
const fn advice_on_path(errno: i32) -> &'static str {
    match errno {
        libc::ENOENT | libc::ENOTDIR => {
            "create it, or correct its path; what a view holds is what its layers hold and no whiteout hides"
        }
        libc::ELOOP => "a symlink is in the way; name the path without it",
        libc::EACCES | libc::EPERM => "the user may not use it; change its owner or its mode",
        libc::EROFS => {
            "see that the user may write it, and that its file system is neither full nor read-only"
        }
        _ => "see that it is a file or a folder that can be used",
    }
}

const NEEDED: &str = "it needs Linux 5.12 or later with overlays, an upper folder on a file system that can hold one (ext4, xfs, btrfs, or \
     a tmpfs from Linux 6.6 on; no overlay, as in a container, no NFS), with its work folder beside it, and layers that \
     are no overlays of overlays";

/// Returns what to do when the kernel does not do its part.
fn advice_on_kernel(errno: i32) -> String {
    if errno == libc::ELOOP {
        return "a layer, the upper or the work folder lies in another one of them; choose a storage outside of the \
                folder over which the overlay lies"
            .to_owned();
    }
    advice_when_forbidden(errno).unwrap_or_else(|| NEEDED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_to_be_had_is_told_from_what_is_missing() {
        for errno in 1..134 {
            for (subject, unsupported) in [(StepSubject::Kernel, true), (StepSubject::Path, false)]
            {
                let error = ViewError::set_up("mount it".to_owned(), subject, errno);
                assert_eq!(error.is_unsupported(), unsupported, "{error}");
                assert!(error.to_string().starts_with("mount it: "), "{error}");
            }
        }
    }
}
