//! What a shim does to make a root: a [`Root`] with its folders of the system found and everything in order.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::{MountAccess, Network, Root, RootError, RootUser};

/// The longest hostname, in bytes.
const MAX_HOSTNAME: usize = 64;
/// Often a symlink to a file of a service, outside of `/etc`.
const RESOLVER: &str = "/etc/resolv.conf";

/// Everything that is needed to make a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootPlan {
    pub(crate) network: Network,
    pub(crate) user: RootUser,
    pub(crate) hostname: OsString,
    /// In the order in which they are made: what leads to another one comes before it.
    pub(crate) mounts: Vec<PlannedMount>,
}

/// One thing that appears in the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlannedMount {
    Bind { source: PathBuf, target: PathBuf, access: MountAccess },
    Tmpfs { target: PathBuf, max_bytes: Option<u64> },
    Link { target: PathBuf, to: PathBuf },
}

impl PlannedMount {
    /// Its path in the root.
    pub(crate) fn target(&self) -> &Path {
        match self {
            Self::Bind { target, .. } | Self::Tmpfs { target, .. } | Self::Link { target, .. } => {
                target
            }
        }
    }
}

impl RootPlan {
    /// Looks at the host, and puts everything in order.
    pub(crate) fn new(root: &Root) -> Result<Self, RootError> {
        let hostname = root.hostname.as_bytes();
        if hostname.is_empty() || hostname.len() > MAX_HOSTNAME || hostname.contains(&0) {
            return Err(RootError::Hostname { hostname: root.hostname.clone() });
        }
        let mut mounts = Vec::new();
        for path in &root.system {
            mounts.extend(system_mount(path, &root.system)?);
        }
        let system = mounts.len();
        for mount in &root.mounts {
            check_source(&mount.source, &mount.target)?;
            let (source, target) = (mount.source.clone(), normal(&mount.target)?);
            mounts.push(PlannedMount::Bind { source, target, access: mount.access });
        }
        for tmpfs in &root.tmpfs {
            let target = normal(&tmpfs.target)?;
            mounts.push(PlannedMount::Tmpfs { target, max_bytes: tmpfs.max_bytes });
        }
        let mut targets = BTreeSet::new();
        if let Some(twice) =
            mounts.iter().skip(system).find(|mount| !targets.insert(mount.target()))
        {
            return Err(RootError::DuplicateTarget { target: twice.target().to_owned() });
        }
        if root.network == Network::Host {
            mounts.extend(resolver(Path::new(RESOLVER), &mounts));
        }
        // Stable: a mount at the path of a system folder comes after it. Paths sort by their names, so
        // a folder precedes what is in it.
        mounts.sort_by(|a, b| a.target().cmp(b.target()));
        Ok(Self { network: root.network, user: root.user, hostname: root.hostname.clone(), mounts })
    }

    /// Returns the words that are sent for it.
    pub(crate) fn encode(&self) -> Vec<OsString> {
        let network = if self.network == Network::Host { "host" } else { "none" };
        let user = if self.user == RootUser::Root { "root" } else { "caller" };
        let mut words = vec![network.into(), user.into(), self.hostname.clone()];
        for mount in &self.mounts {
            let [kind, first, second]: [OsString; 3] = match mount {
                PlannedMount::Bind { source, target, access } => {
                    let kind = if *access == MountAccess::Writable { "writable" } else { "bind" };
                    [kind.into(), target.into(), source.into()]
                }
                PlannedMount::Tmpfs { target, max_bytes } => {
                    let size = max_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
                    ["tmpfs".into(), target.into(), size.into()]
                }
                PlannedMount::Link { target, to } => ["link".into(), target.into(), to.into()],
            };
            words.extend([kind, first, second]);
        }
        words
    }

    /// Returns what [`encode`](Self::encode) made; `None` if it is something else.
    pub(crate) fn decode(words: &[OsString]) -> Option<Self> {
        let [network, user, hostname, rest @ ..] = words else { return None };
        let network = match network.to_str()? {
            "host" => Network::Host,
            "none" => Network::None,
            _ => return None,
        };
        let user = match user.to_str()? {
            "root" => RootUser::Root,
            "caller" => RootUser::Caller,
            _ => return None,
        };
        let (triples, []) = rest.as_chunks::<3>() else { return None };
        let mounts = triples.iter().map(decode_mount).collect::<Option<_>>()?;
        Some(Self { network, user, hostname: hostname.clone(), mounts })
    }
}

fn decode_mount([kind, target, last]: &[OsString; 3]) -> Option<PlannedMount> {
    let (target, path) = (PathBuf::from(target), PathBuf::from(last));
    let bind = |access| PlannedMount::Bind { source: path.clone(), target: target.clone(), access };
    Some(match kind.to_str()? {
        "bind" => bind(MountAccess::ReadOnly),
        "writable" => bind(MountAccess::Writable),
        "link" => PlannedMount::Link { target, to: path },
        "tmpfs" if last.is_empty() => PlannedMount::Tmpfs { target, max_bytes: None },
        "tmpfs" => PlannedMount::Tmpfs { target, max_bytes: Some(last.to_str()?.parse().ok()?) },
        _ => return None,
    })
}

/// Returns how a folder of the system appears in the root.
fn system_mount(path: &Path, system: &[PathBuf]) -> Result<Option<PlannedMount>, RootError> {
    let target = normal(path)?;
    let Ok(real) = path.canonicalize() else { return Ok(None) };
    if let Ok(to) = fs::read_link(path)
        && system.iter().any(|folder| folder != path && real.starts_with(folder))
    {
        return Ok(Some(PlannedMount::Link { target, to }));
    }
    Ok(Some(PlannedMount::Bind { source: real, target, access: MountAccess::ReadOnly }))
}

/// Returns the file to which the resolver's configuration leads, if that would not be in the root.
fn resolver(configuration: &Path, mounts: &[PlannedMount]) -> Option<PlannedMount> {
    let real = configuration.canonicalize().ok()?;
    let shows = |mount: &PlannedMount| {
        matches!(mount, PlannedMount::Bind { .. }) && real.starts_with(mount.target())
    };
    let shown = mounts.iter().any(shows);
    let bind = |real: PathBuf| PlannedMount::Bind {
        source: real.clone(),
        target: real,
        access: MountAccess::ReadOnly,
    };
    (!shown).then(|| bind(real))
}

fn check_source(source: &Path, target: &Path) -> Result<(), RootError> {
    let error = match source.metadata() {
        Ok(_) if source.is_absolute() => return Ok(()),
        Ok(_) => std::io::Error::other("its path on the host is not absolute"),
        Err(error) => error,
    };
    Err(RootError::Source { path: source.to_owned(), target: target.to_owned(), error })
}

/// Returns a target without repeated and trailing slashes.
fn normal(target: &Path) -> Result<PathBuf, RootError> {
    let plain =
        plain_path(target).ok_or_else(|| RootError::BadTarget { target: target.to_owned() })?;
    if ["/proc", "/dev"].iter().any(|made| plain.starts_with(made)) {
        return Err(RootError::ReservedTarget { target: target.to_owned() });
    }
    Ok(plain)
}

/// Returns an absolute path below `/` without repeated and trailing slashes; `None` if it is something else, or
/// has a `.` or `..` in it.
pub(crate) fn plain_path(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    // `components` would hide the dots.
    let dots = bytes.split(|byte| *byte == b'/').any(|name| matches!(name, b"." | b".."));
    let names: Vec<&OsStr> = path.iter().skip(1).collect();
    if !path.is_absolute() || dots || names.is_empty() || bytes.contains(&0) {
        return None;
    }
    let plain = [b"/", names.join(OsStr::new("/")).as_bytes()].concat();
    Some(PathBuf::from(OsString::from_vec(plain)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::root::{Mount, Tmpfs};

    fn bind(target: &str) -> Mount {
        let source = std::env::temp_dir();
        Mount { source, target: target.into(), access: MountAccess::Writable }
    }

    fn targets(root: &Root) -> Vec<PathBuf> {
        let plan = RootPlan::new(root).unwrap();
        plan.mounts.iter().map(|mount| mount.target().to_owned()).collect()
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let root = Root {
            system: vec!["/usr".into(), "/no/such".into()],
            mounts: vec![bind("/a/b/c"), bind("/a-b"), bind("/usr"), bind("/a//b/")],
            tmpfs: vec![Tmpfs { target: "/a".into(), max_bytes: Some(1) }],
            ..Root::default()
        };
        let wanted = ["/a", "/a/b", "/a/b/c", "/a-b", "/usr", "/usr"];
        assert_eq!(targets(&root), wanted.map(PathBuf::from));
        let plan = RootPlan::new(&root).unwrap();
        let sources: Vec<_> = plan.mounts.iter().skip(4).collect();
        let own = |source: &Path| PlannedMount::Bind {
            source: source.to_owned(),
            target: "/usr".into(),
            access: MountAccess::Writable,
        };
        assert_eq!(sources[1], &own(&std::env::temp_dir()), "it covers the system's");
    }

    #[test]
    fn a_target_that_is_no_plain_path_is_refused() {
        for target in ["", "/", "//", "a", "./a", "/a/../b", "/a/./b", "/..", "/a\0b"] {
            let root = Root { mounts: vec![bind(target)], ..Root::default() };
            let error = RootPlan::new(&root).unwrap_err();
            assert!(matches!(error, RootError::BadTarget { .. }), "{target}: {error}");
        }
        for target in ["/dev", "/proc/self", "/dev/shm/x"] {
            let root = Root { mounts: vec![bind(target)], ..Root::default() };
            let error = RootPlan::new(&root).unwrap_err();
            assert!(matches!(error, RootError::ReservedTarget { .. }), "{target}: {error}");
        }
        let twice = Root { mounts: vec![bind("/tmp/")], ..Root::default() };
        let error = RootPlan::new(&twice).unwrap_err();
        assert!(matches!(error, RootError::DuplicateTarget { .. }), "{error}");
        assert!(error.to_string().contains("`/tmp`"), "{error}");
    }

    #[test]
    fn a_source_that_is_missing_or_relative_is_named() {
        for (source, reason) in [("/no/such", "os error 2"), ("src", "absolute")] {
            let mount = Mount { source: source.into(), ..bind("/app") };
            let root = Root { mounts: vec![mount], ..Root::default() };
            let error = RootPlan::new(&root).unwrap_err().to_string();
            assert!(error.contains(&format!("`{source}`")) && error.contains("`/app`"), "{error}");
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_link_of_the_system_stays_one_if_its_folder_is_shown_and_is_the_folder_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (real, link) = (base.join("real"), base.join("link"));
        fs::create_dir_all(real.join("bin")).unwrap();
        std::os::unix::fs::symlink("real/bin", &link).unwrap();
        let plan = |system: Vec<PathBuf>| {
            let root = Root { system, tmpfs: Vec::new(), ..Root::default() };
            RootPlan::new(&root).unwrap().mounts
        };
        let to = PathBuf::from("real/bin");
        let both = plan(vec![link.clone(), real.clone()]);
        assert_eq!(both[0], PlannedMount::Link { target: link.clone(), to });
        let (source, access) = (real.join("bin"), MountAccess::ReadOnly);
        let alone = plan(vec![link.clone()]);
        assert_eq!(alone, [PlannedMount::Bind { source, target: link, access }]);
    }

    #[test]
    fn a_resolver_configuration_that_lies_elsewhere_is_shown_where_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (real, link) = (base.join("service/conf"), base.join("etc/conf"));
        for path in [&real, &link] {
            fs::create_dir(path.parent().unwrap()).unwrap();
        }
        fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let bind = |path: &Path| PlannedMount::Bind {
            source: path.to_owned(),
            target: path.to_owned(),
            access: MountAccess::ReadOnly,
        };
        let memory = PlannedMount::Tmpfs { target: base.clone(), max_bytes: None };
        let shown = [bind(&base.join("etc")), memory];
        assert_eq!(resolver(&link, &shown), Some(bind(&real)));
        assert_eq!(resolver(&link, &[bind(&base)]), None);
        assert_eq!(resolver(&base.join("none"), &shown), None);
    }

    #[test]
    fn a_hostname_that_the_kernel_would_not_accept_is_refused() {
        for (length, good) in [(0, false), (1, true), (64, true), (65, false)] {
            let root = Root { hostname: "x".repeat(length).into(), ..Root::default() };
            assert_eq!(RootPlan::new(&root).is_ok(), good, "{length}");
        }
        let root = Root { hostname: "a\0b".into(), ..Root::default() };
        assert!(RootPlan::new(&root).is_err());
    }

    fn any_word() -> impl Strategy<Value = OsString> {
        prop::collection::vec(1_u8.., 0..12).prop_map(OsString::from_vec)
    }

    fn any_mount() -> impl Strategy<Value = PlannedMount> {
        let path = || any_word().prop_map(PathBuf::from);
        prop_oneof![
            (path(), path(), any::<bool>()).prop_map(|(source, target, writable)| {
                let access = if writable { MountAccess::Writable } else { MountAccess::ReadOnly };
                PlannedMount::Bind { source, target, access }
            }),
            (path(), any::<Option<u64>>())
                .prop_map(|(target, max_bytes)| PlannedMount::Tmpfs { target, max_bytes }),
            (path(), path()).prop_map(|(target, to)| PlannedMount::Link { target, to }),
        ]
    }

    proptest! {
        #[test]
        fn a_plan_survives_its_way(
            mounts in prop::collection::vec(any_mount(), 0..6),
            (host, root) in any::<(bool, bool)>(),
            hostname in any_word(),
        ) {
            let network = if host { Network::Host } else { Network::None };
            let user = if root { RootUser::Root } else { RootUser::Caller };
            let plan = RootPlan { network, user, hostname, mounts };
            let words = plan.encode();
            prop_assert_eq!(RootPlan::decode(&words), Some(plan));
            prop_assert_eq!(RootPlan::decode(&words[..words.len() - 1]), None);
        }
    }
}
