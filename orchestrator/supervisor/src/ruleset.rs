//! The rules by which the kernel's Landlock holds a process to its sandbox.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

use crate::landlock_level::LandlockLevel;
use crate::sandbox::Sandbox;

/// Creates the ruleset that restricts a process.
pub(crate) fn ruleset(sandbox: &Sandbox) -> io::Result<OwnedFd> {
    let level = LandlockLevel::from_kernel().map_err(io::Error::other)?;
    let (readable, writable) = sandbox.grants()?;
    let ports = level.confines_connections().then_some(&sandbox.ports);
    let mut ruleset = empty(level, ports).map_err(io::Error::other)?;
    let all = AccessFs::from_all(ABI::V3) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    for (paths, access) in [(readable, AccessFs::from_read(ABI::V3)), (writable, all)] {
        for path in paths {
            ruleset = grant(ruleset, &path, access)?;
        }
    }
    let fd: Option<OwnedFd> = ruleset.into();
    fd.ok_or_else(|| io::Error::other("the kernel gave no ruleset"))
}

/// Creates a ruleset that grants no path, and connections to all ports but these.
fn empty(
    level: LandlockLevel,
    ports: Option<&BTreeSet<u16>>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V3))?;
    if level.confines_signals() {
        ruleset = ruleset.scope(Scope::Signal)?;
    }
    let Some(closed) = ports.filter(|ports| !ports.is_empty()) else { return ruleset.create() };
    let mut created = ruleset.handle_access(AccessNet::ConnectTcp)?.create()?;
    // The kernel knows no other way to close a port than to open the others.
    for port in (0..=u16::MAX).filter(|port| !closed.contains(port)) {
        created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    Ok(created)
}

fn grant(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    // Links were followed before; one that came into its place or above it since is not.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let no_links = ResolveFlags::NO_SYMLINKS;
    let Ok(fd) = rustix::fs::openat2(CWD, path, flags, Mode::empty(), no_links) else {
        // It is gone, or out of reach anyway.
        return Ok(ruleset);
    };
    let access = match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
        FileType::Directory => access,
        FileType::Symlink => return Ok(ruleset),
        _ => access & AccessFs::from_file(ABI::V3),
    };
    ruleset
        .add_rule(PathBeneath::new(&fd, access))
        .map_err(|e| io::Error::other(format!("{}: {e}", path.display())))
}
