//! Why a process tree cannot have a root of its own.

use std::io;
use std::path::PathBuf;

use crate::step::{StepSubject, advice_when_forbidden};

/// Why a process tree cannot have a root of its own.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// What resolves the root failed.
    #[error("{0}")]
    Resolve(#[source] io::Error),
    /// A sandbox was requested as well.
    #[error(
        "it cannot have a sandbox as well: the rules of a sandbox name folders of the host, which do not \
         exist there; use one of both"
    )]
    WithSandbox,
    /// A target is not a plain absolute path.
    #[error(
        "the mount target `{}` must be an absolute path below `/`, without `.` and `..`", target.display()
    )]
    BadTarget {
        /// The target.
        target: PathBuf,
    },
    /// A target lies in a folder that is always made anew.
    #[error(
        "the mount target `{}` lies in /proc or /dev, which are made anew; choose another one",
        target.display()
    )]
    ReservedTarget {
        /// The target.
        target: PathBuf,
    },
    /// Two mounts have the same target.
    #[error("the mount target `{}` is given twice; remove one of both", target.display())]
    DuplicateTarget {
        /// The target.
        target: PathBuf,
    },
    /// A source cannot be mounted.
    #[error(
        "`{}` cannot be mounted at `{}`: {error}; create it on the host, or correct its path",
        path.display(), target.display()
    )]
    Source {
        /// Its path on the host.
        path: PathBuf,
        /// Its path in the root.
        target: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The kernel would not accept the hostname.
    #[error("the hostname {hostname:?} must have 1 to 64 bytes, and none that is zero")]
    Hostname {
        /// The hostname.
        hostname: std::ffi::OsString,
    },
    /// The working folder is given relative to nothing that is in the root.
    #[error(
        "the folder `{}` is relative; name it by its absolute path in the root, or by its path on the \
         host beneath the source of a mount",
        cwd.display()
    )]
    RelativeFolder {
        /// The folder.
        cwd: PathBuf,
    },
    /// A step of the set-up failed.
    #[error("{step}: {error}; {advice}")]
    SetUp {
        /// The step, with its paths.
        step: String,
        /// What the kernel said.
        error: io::Error,
        /// What to do.
        advice: String,
    },
}

impl RootError {
    pub(crate) fn set_up(step: String, subject: StepSubject, errno: i32) -> Self {
        let error = io::Error::from_raw_os_error(errno);
        let advice = match subject {
            StepSubject::Kernel => advice_on_kernel(errno),
            StepSubject::Path => advice_on_path(errno).to_owned(),
        };
        Self::SetUp { step, error, advice }
    }
}

/// Returns what to do about a path.
const fn advice_on_path(errno: i32) -> &'static str {
    match errno {
        libc::ENOENT | libc::ENOTDIR => {
            "only what is mounted exists in the root: mount the folder that holds it, or create it in the \
             folder that is mounted"
        }
        libc::ELOOP => "a symlink is in the way; name the path without it",
        libc::EACCES | libc::EPERM => "the user may not use it; change its owner or its mode",
        _ => "see that it is a file or a folder that can be used",
    }
}

/// Returns what to do when the kernel does not do its part.
fn advice_on_kernel(errno: i32) -> String {
    advice_when_forbidden(errno).unwrap_or_else(|| {
        "namespaces of users, mounts and processes are needed: Linux 5.12 or later, not in a `chroot`, and \
         no container that filters system calls"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_has_an_advice_and_keeps_its_number() {
        for (errno, subject) in
            (1..134).flat_map(|errno| [(errno, StepSubject::Kernel), (errno, StepSubject::Path)])
        {
            match RootError::set_up("step".to_owned(), subject, errno) {
                RootError::SetUp { error, advice, .. } => {
                    assert_eq!(error.raw_os_error(), Some(errno));
                    assert!(!advice.is_empty());
                }
                other => panic!("{other}"),
            }
        }
    }
}
