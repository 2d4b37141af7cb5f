//! A root of its own for a process tree: what it sees of the host, and what it has to itself.
//!
//! The kernel's namespaces do the work, without a container engine and without privileges. The tree gets
//! a new user, mount, pid, ipc and uts namespace, and a new network namespace unless it may use the host's
//! network. Its root is a read-only tmpfs that holds nothing but what a [`Root`] lists, a new `/proc`, and
//! a `/dev` with `null`, `zero`, `full`, `random`, `urandom`, `tty`, `pts`, `shm` and the links to the
//! standard streams. No process of the tree has a capability or can gain a privilege.
//!
//! What is not isolated: the processes have the caller's user id outside, so that they can do to the
//! mounted files what the caller can. With [`Network::Host`] they also reach what listens on abstract Unix
//! sockets.

mod bubblewrap;
mod error;
pub(crate) mod make;
pub(crate) mod plan;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use error::RootError;

/// The folders that [`Root::default`] shows read-only at their own paths.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"];

/// The root of a process tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Folders of the host that are shown read-only at the same path. One that is missing is left out. A
    /// symlink into another of them, such as `/bin`, is a symlink in the root as well. `/usr`, `/bin`,
    /// `/sbin`, `/lib*`, `/etc` and `/opt` by default.
    pub system: Vec<PathBuf>,
    /// What else of the host is shown; nothing by default.
    pub mounts: Vec<Mount>,
    /// Empty folders in memory; `/tmp` and `/var/tmp` by default.
    pub tmpfs: Vec<Tmpfs>,
    /// The network; none by default.
    pub network: Network,
    /// The user that the processes are inside; the caller by default.
    pub user: RootUser,
    /// The host's name inside, 1 to 64 bytes; `localhost` by default.
    pub hostname: OsString,
}

impl Default for Root {
    fn default() -> Self {
        Self {
            system: SYSTEM.map(PathBuf::from).to_vec(),
            mounts: Vec::new(),
            tmpfs: ["/tmp", "/var/tmp"]
                .map(|target| Tmpfs { target: target.into(), max_bytes: None })
                .to_vec(),
            network: Network::default(),
            user: RootUser::default(),
            hostname: "localhost".into(),
        }
    }
}

/// A file or a folder of the host, with everything that is mounted beneath it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its path on the host. Symlinks are followed.
    pub source: PathBuf,
    /// Its absolute path in the root, without `.`, `..` and symlinks. Folders that lead to it are created,
    /// but not within another mount, where the target must exist.
    pub target: PathBuf,
    /// What may be done to it.
    pub access: MountAccess,
}

/// What may be done to a mount, within the rights of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    /// Its files can be read and executed.
    ReadOnly,
    /// They can be written as well, unless the host has mounted them read-only.
    Writable,
}

/// An empty folder in memory, which everybody in the root may write, and which is gone with the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tmpfs {
    /// Its absolute path in the root, as [`Mount::target`].
    pub target: PathBuf,
    /// The bytes that it can hold. Half of the machine's memory if there is no other limit.
    pub max_bytes: Option<u64>,
}

/// The network of a root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// A loopback interface of its own, and nothing else.
    #[default]
    None,
    /// The host's, with its resolver configuration.
    Host,
}

/// The user that processes in a root are inside. Outside they are the caller, whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootUser {
    /// The caller's own user and group id.
    #[default]
    Caller,
    /// User and group id 0, without a capability: for programs that ask for root and do not need it.
    Root,
}

impl Root {
    /// Returns the path in the root of a path of the host: one that lies at or beneath the source of a
    /// mount is beneath its target, of nested sources that of the innermost. Any other path is returned
    /// as it is, for it may be one in the root already.
    #[must_use]
    pub fn path_inside(&self, path: &Path) -> PathBuf {
        let real = path.canonicalize().ok();
        let below = |mount: &Mount| {
            let plain = path.strip_prefix(&mount.source).ok().map(Path::to_owned);
            plain.or_else(|| {
                let source = mount.source.canonicalize().ok()?;
                real.as_ref()?.strip_prefix(source).ok().map(Path::to_owned)
            })
        };
        let found = self.mounts.iter().filter_map(|mount| Some((mount, below(mount)?)));
        match found.min_by_key(|(_, rest)| rest.components().count()) {
            // Joining nothing would add a slash, which a file must not have.
            Some((mount, rest)) if rest.as_os_str().is_empty() => mount.target.clone(),
            Some((mount, rest)) => mount.target.join(rest),
            None => path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(source: &Path, target: &str) -> Mount {
        Mount { source: source.into(), target: target.into(), access: MountAccess::ReadOnly }
    }

    #[test]
    fn a_path_beneath_a_source_is_beneath_its_target() {
        let root = Root {
            mounts: vec![
                mount(Path::new("/no/such"), "/outer"),
                mount(Path::new("/no/such/deep/er"), "/inner"),
                mount(Path::new("/no/such/file"), "/alone"),
            ],
            ..Root::default()
        };
        let cases = [
            ("/no/such", "/outer"),
            ("/no/such/", "/outer"),
            ("/no/such/deep", "/outer/deep"),
            ("/no/such/deep/er/x", "/inner/x"),
            ("/no/such/file", "/alone"),
            ("/no/suchlike", "/no/suchlike"),
            ("/outer/x", "/outer/x"),
            ("/", "/"),
        ];
        for (host, inside) in cases {
            assert_eq!(root.path_inside(Path::new(host)).as_os_str(), inside, "{host}");
        }
    }

    #[test]
    fn a_path_by_way_of_a_link_is_found_too() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir_all(real.join("a")).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for (source, path) in [(&real, &link), (&link, &real)] {
            let root = Root { mounts: vec![mount(source, "/app")], ..Root::default() };
            assert_eq!(root.path_inside(&path.join("a")), Path::new("/app/a"));
        }
    }
}
