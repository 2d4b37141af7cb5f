//! A root that `bwrap` makes instead of the shim: the same mounts, by its command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::plan::{PlannedMount, RootPlan};
use super::{MountAccess, Network, RootUser};
use crate::spec::Spec;

/// What `bwrap` is always given: namespaces of its own, no capability, and an end with the one that started it. Its
/// process 1 ends everything in the root when the leader ends.
const BASE: [&str; 7] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
];

/// Has `bwrap` make the root and start the program. The paths of `spec` are those in the root.
pub(super) fn wrap(bwrap: &Path, plan: &RootPlan, spec: &mut Spec) {
    let mut words: Vec<OsString> = BASE.map(OsString::from).to_vec();
    let mut add = |words_of: &[&Path]| words.extend(words_of.iter().map(|word| (*word).into()));
    let flag = |word: &'static str| Path::new(word);
    if plan.network == Network::None {
        add(&[flag("--unshare-net")]);
    }
    if plan.user == RootUser::Root {
        add(&[flag("--uid"), flag("0"), flag("--gid"), flag("0")]);
    }
    add(&[flag("--hostname"), Path::new(&plan.hostname)]);
    add(&[flag("--proc"), flag("/proc"), flag("--dev"), flag("/dev")]);
    for mount in &plan.mounts {
        match mount {
            PlannedMount::Bind { source, target, access: MountAccess::ReadOnly } => {
                add(&[flag("--ro-bind"), source, target]);
            }
            PlannedMount::Bind { source, target, access: MountAccess::Writable } => {
                add(&[flag("--bind"), source, target]);
            }
            PlannedMount::Tmpfs { target, max_bytes } => {
                let size = max_bytes.map(|bytes| PathBuf::from(bytes.to_string()));
                if let Some(size) = &size {
                    add(&[flag("--size"), size]);
                }
                add(&[flag("--perms"), flag("1777"), flag("--tmpfs"), target]);
            }
            PlannedMount::Link { target, to } => add(&[flag("--symlink"), to, target]),
        }
    }
    // Nothing else of the root can be written.
    add(&[flag("--remount-ro"), flag("/"), flag("--chdir"), &spec.cwd]);
    add(&[flag("--"), &spec.program]);
    words.append(&mut spec.args);
    spec.args = words;
    bwrap.clone_into(&mut spec.program);
    // Where it is started does not matter; that folder need not be in the root.
    spec.cwd = PathBuf::from("/");
}
