//! Making a view: the namespaces, what is mounted in them, and the sandbox within it.
//!
//! The kernel is given folders by descriptors, so no character in a path and no length of it matters, and nothing that is
//! mounted first can cover what is mounted later.

use std::fmt::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{
    CWD, FileType, Mode, OFlags, StatVfsMountFlags, fstat, fstatfs, fstatvfs, openat,
};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;

use super::mount_calls::{Done, READ_ONLY, attach, clone_tree, new_proc, open_path};
use super::privileges::{Ids, can_mount, drop_borrowed, drop_mounting, map_ids};
use super::start_failure::{StartFailure, Step as _};
use super::sys;
use crate::root::{Mount, MountAccess};
use crate::ruleset::ruleset;
use crate::sandbox::{self, Sandbox};
use crate::step::StepSubject;
use crate::view::Overlay;
use crate::view::plan::ViewPlan;
use crate::wire::Job;

/// What every overlay is told, since the defaults depend on the kernel's configuration.
///
/// `userxattr`: a user may write these attributes, and so the superuser can read the layers of others and they his.
/// `redirect_dir=nofollow` and `metacopy=off` follow from it: a layer is complete in itself, and none leads elsewhere.
/// `index=off`: a layer may come to lie on other layers than those it was made on. `nfs_export=off` needs no index.
/// `xino=auto`: all files are on one device, as in the folder beneath, where the kernel can do that. Not `volatile`, which
/// mounts once.
const OPTIONS: &str =
    "userxattr,redirect_dir=nofollow,metacopy=off,index=off,nfs_export=off,xino=auto";

/// The type of an overlay, as the kernel tells it.
const OVERLAYFS_MAGIC: u64 = 0x794c_7630;

/// What the processes of a view do without.
pub(super) enum Privileges {
    /// All that a new user namespace has lent.
    Borrowed,
    /// Mounting.
    Mounting,
}

impl Privileges {
    pub(super) fn drop(&self) -> Done {
        match self {
            Self::Borrowed => drop_borrowed(),
            Self::Mounting => drop_mounting(),
        }
    }
}

/// Moves this process to new namespaces, for pids only its children, and only if `new_pids`. A user namespace changes who
/// may use the files of others, so there is one only where nothing can be mounted without.
pub(super) fn enter_namespaces(new_pids: bool) -> Result<Privileges, StartFailure> {
    let ids = Ids::current();
    let privileges = if can_mount()? { Privileges::Mounting } else { Privileges::Borrowed };
    let mut flags = UnshareFlags::NEWNS;
    if new_pids {
        flags |= UnshareFlags::NEWPID;
    }
    if matches!(privileges, Privileges::Borrowed) {
        flags |= UnshareFlags::NEWUSER;
    }
    sys::unshare(flags).step(StepSubject::Kernel, || "make new namespaces".to_owned())?;
    if matches!(privileges, Privileges::Borrowed) {
        map_ids(ids, ids)?;
    }
    Ok(privileges)
}

/// Mounts what the view has over the host's files.
pub(super) fn make_view(plan: &ViewPlan) -> Done {
    // First of all: nothing that follows may reach the host. What the host mounts meanwhile is to be seen.
    let following = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", following)
        .step(StepSubject::Kernel, || "separate the mounts from the host's".to_owned())?;
    let overlays = plan.overlays.iter().map(open_layers).collect::<Result<Vec<_>, _>>()?;
    let trees = plan.mounts.iter().map(open_tree).collect::<Result<Vec<_>, _>>()?;
    for (overlay, layers) in plan.overlays.iter().zip(&overlays) {
        mount_overlay(overlay, layers)?;
    }
    for (mount, tree) in plan.mounts.iter().zip(&trees) {
        attach(tree, &mount.target)?;
    }
    Ok(())
}

/// The folders of an overlay as they are on the host.
struct Layers {
    lower: Vec<OwnedFd>,
    upper: OwnedFd,
    work: OwnedFd,
}

fn open_layers(overlay: &Overlay) -> Result<Layers, StartFailure> {
    let target = overlay.target.display();
    let open = |what: &str, path: &Path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty()).step(StepSubject::Path, || {
            format!("open the {what} `{}` of the overlay at `{target}`", path.display())
        })
    };
    let lower = overlay.layers.iter().map(|layer| open("layer", layer));
    Ok(Layers {
        lower: lower.collect::<Result<_, _>>()?,
        upper: open("upper folder", &overlay.upper)?,
        work: open("work folder", &overlay.work)?,
    })
}

fn open_tree(mount: &Mount) -> Result<OwnedFd, StartFailure> {
    let step = || format!("mount `{}` at `{}`", mount.source.display(), mount.target.display());
    let tree = clone_tree(&mount.source).step(StepSubject::Path, step)?;
    let attributes = match mount.access {
        MountAccess::ReadOnly => READ_ONLY,
        MountAccess::Writable => MountAttrFlags::empty(),
    };
    sys::set_mount_attributes(&tree, attributes, true).step(StepSubject::Kernel, step)?;
    Ok(tree)
}

fn mount_overlay(overlay: &Overlay, layers: &Layers) -> Done {
    let target = overlay.target.display();
    let at_target = || format!("mount an overlay at `{target}`");
    let point = open_folder(&overlay.target).step(StepSubject::Path, at_target)?;
    let there = fstatvfs(&point).step(StepSubject::Path, at_target)?.f_flag;
    let upper_type = fstatfs(&layers.upper).step(StepSubject::Path, at_target)?.f_type;
    check_writable(&layers.upper, "upper", &overlay.upper)?;
    let options = options(layers).step(StepSubject::Kernel, at_target)?;
    mount("overlay", name_of(&point), "overlay", flags_like(there), &*options).step(
        StepSubject::Kernel,
        || {
            let upper = overlay.upper.display();
            let is_overlay = u64::try_from(upper_type) == Ok(OVERLAYFS_MAGIC);
            let where_it_lies = if is_overlay { ", which lies on an overlay itself" } else { "" };
            format!("{} with the upper folder `{upper}`{where_it_lies}", at_target())
        },
    )?;
    // One that the kernel can make no folder in it does not use, and mounts the overlay read-only.
    let mounted = open_path(&overlay.target).step(StepSubject::Path, at_target)?;
    check_writable(&mounted, "work", &overlay.work)
}

/// Fails for the folder with this path if what is open here is mounted read-only.
fn check_writable(mounted: &OwnedFd, what: &str, path: &Path) -> Done {
    let writable = fstatvfs(mounted).and_then(|there| {
        let read_only = there.f_flag.contains(StatVfsMountFlags::RDONLY);
        if read_only { Err(Errno::ROFS) } else { Ok(()) }
    });
    writable.step(StepSubject::Path, || format!("write the {what} folder `{}`", path.display()))
}

/// Opens a folder that no symlink leads to.
fn open_folder(path: &Path) -> rustix::io::Result<OwnedFd> {
    let folder = open_path(path)?;
    let kind = FileType::from_raw_mode(fstat(&folder)?.st_mode);
    if kind == FileType::Directory { Ok(folder) } else { Err(Errno::NOTDIR) }
}

fn options(layers: &Layers) -> std::io::Result<std::ffi::CString> {
    let lower: Vec<String> = layers.lower.iter().map(name_of).collect();
    let mut options = format!("lowerdir={}", lower.join(":"));
    let written = write!(
        options,
        ",upperdir={},workdir={},{OPTIONS}",
        name_of(&layers.upper),
        name_of(&layers.work)
    );
    written.map_err(std::io::Error::other)?;
    Ok(std::ffi::CString::new(options)?)
}

/// Returns a path to what is open here.
fn name_of(folder: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", folder.as_raw_fd())
}

/// Returns the flags that a mount needs to permit no more than the one on which it comes to lie.
fn flags_like(there: StatVfsMountFlags) -> MountFlags {
    let same = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ];
    same.into_iter().filter(|(flag, _)| there.contains(*flag)).map(|(_, flag)| flag).collect()
}

/// Makes `/proc` that of the new pid namespace, from pid 1 inside. Returns false if the kernel does not permit it, as
/// where parts of the `/proc` around it are hidden.
pub(super) fn make_proc() -> Result<bool, StartFailure> {
    match new_proc() {
        Ok(proc) => attach(&proc, Path::new("/proc")).map(|()| true),
        Err(StartFailure::Step { errno: libc::EPERM | libc::EACCES, .. }) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Makes the ruleset that confines the leader, from the files that it will see.
pub(super) fn make_ruleset(sandbox: &Sandbox, job: &Job) -> Result<OwnedFd, StartFailure> {
    let tmp = job.env.iter().find(|(name, _)| name == "TMPDIR").and_then(|(_, tmp)| tmp.to_str());
    ruleset(&sandbox::for_process(sandbox.clone(), Path::new(&job.program), tmp))
        .map_err(|error| StartFailure::Sandbox(error.to_string()))
}
