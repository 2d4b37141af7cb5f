//! Why a process tree cannot have a root of its own.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a step of making a root depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepSubject {
    /// What the kernel and its settings permit.
    Kernel,
    /// A file or a folder.
    Path,
}

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
    match errno {
        libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS => forbidden(|name| {
            let value = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
            value.trim().parse().ok()
        }),
        _ => "namespaces of users, mounts and processes are needed: Linux 5.12 or later, not in a `chroot`, and \
              no container that filters system calls"
            .to_owned(),
    }
}

/// Returns what to do when the kernel forbids namespaces, by the settings that do it.
fn forbidden(setting: impl Fn(&str) -> Option<u64>) -> String {
    const CAUSES: [(&str, u64, &str); 3] = [
        ("kernel.unprivileged_userns_clone", 0, "1"),
        ("user.max_user_namespaces", 0, "10000"),
        ("kernel.apparmor_restrict_unprivileged_userns", 1, "0"),
    ];
    let found = CAUSES.iter().find(|(name, bad, _)| setting(name) == Some(*bad));
    match found {
        Some((name, bad, good)) => {
            format!("the kernel forbids it by {name} = {bad}; try `sysctl -w {name}={good}`")
        }
        None => {
            "the kernel forbids it; see that kernel.unprivileged_userns_clone is 1 (where it exists), \
             user.max_user_namespaces large enough, kernel.apparmor_restrict_unprivileged_userns 0 (where \
             it exists), that no container around it hides parts of /proc or filters system calls, and that a \
             caller who is root has CAP_SETFCAP"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_it_is_named_with_the_command_that_changes_it() {
        let cases = [
            ("kernel.unprivileged_userns_clone", 0, "kernel.unprivileged_userns_clone=1"),
            ("user.max_user_namespaces", 0, "user.max_user_namespaces=10000"),
            (
                "kernel.apparmor_restrict_unprivileged_userns",
                1,
                "kernel.apparmor_restrict_unprivileged_userns=0",
            ),
        ];
        for (name, bad, command) in cases {
            let advice = forbidden(|asked| Some(if asked == name { bad } else { 1 - bad }));
            let other = forbidden(|asked| (asked == name).then_some(1 - bad));
            assert!(advice.contains(&format!("sysctl -w {command}")) || bad == 1, "{advice}");
            assert!(!other.contains("sysctl -w"), "{other}");
            assert!(forbidden(|asked| (asked == name).then_some(bad)).contains(command));
        }
        let nothing = forbidden(|_| None);
        assert!(cases.iter().all(|(name, ..)| nothing.contains(name)), "{nothing}");
    }

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
