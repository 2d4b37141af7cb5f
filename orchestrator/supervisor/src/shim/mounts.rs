//! Making the file system of a root, by init inside its new namespaces.
//!
//! What is mounted from the host is cloned while the host's root is still there, and attached after it has
//! gone: no path inside, and no symlink in a mounted folder, can then lead to the host.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::{fs, io};

use rustix::fs::{CWD, FileType};
use rustix::mount::{
    MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags, mount_change, move_mount,
    unmount,
};
use rustix::process::{fchdir, pivot_root};

use super::mount_calls::{
    Done, NO_DEV, NO_EXEC, NO_SUID, READ_ONLY, attach, clone_tree, new_file_system, new_proc,
    open_path,
};
use super::sys;
use crate::root::MountAccess;
use crate::root::plan::{PlannedMount, RootPlan};
use crate::shim::start_failure::{StartFailure, Step as _};
use crate::step::StepSubject;

/// The devices of the host that every program may expect.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// Makes the root, and makes it this process's and its launcher's.
pub(super) fn make_root(plan: &RootPlan) -> Done {
    // First of all: nothing that follows may reach the host.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)
        .step(StepSubject::Kernel, || "make the mounts private".to_owned())?;
    let trees = plan.mounts.iter().map(open_mount).collect::<Result<Vec<_>, _>>()?;
    let devices = DEVICES.iter().map(open_device).collect::<Result<Vec<_>, _>>()?;
    // The kernel permits a new one only where the host's can be seen.
    let proc = new_proc()?;
    enter_new_root()?;
    for (mount, tree) in plan.mounts.iter().zip(&trees) {
        let within_bind = is_within_bind(mount.target(), &plan.mounts);
        make_mount(mount, tree.as_ref(), within_bind)?;
    }
    fs::create_dir("/proc").step(StepSubject::Path, || "create /proc".to_owned())?;
    attach(&proc, Path::new("/proc"))?;
    protect_kernel_settings()?;
    make_devices(&devices)?;
    sys::set_mount_attributes(&open_path(Path::new("/"))?, READ_ONLY, false)
        .step(StepSubject::Kernel, || "make the root read-only".to_owned())
}

/// Makes what will be attached; nothing for a link.
fn open_mount(mount: &PlannedMount) -> Result<Option<OwnedFd>, StartFailure> {
    match mount {
        PlannedMount::Bind { source, target, access } => {
            let step = || format!("mount `{}` at `{}`", source.display(), target.display());
            let tree = clone_tree(source).step(StepSubject::Path, step)?;
            let read_only = match access {
                MountAccess::ReadOnly => READ_ONLY,
                MountAccess::Writable => MountAttrFlags::empty(),
            };
            sys::set_mount_attributes(&tree, read_only | NO_SUID | NO_DEV, true)
                .step(StepSubject::Kernel, step)?;
            Ok(Some(tree))
        }
        PlannedMount::Tmpfs { max_bytes, .. } => {
            let size = max_bytes.map(|bytes| bytes.to_string());
            let mode = ("mode", "1777");
            let options = match &size {
                Some(size) => &[mode, ("size", size.as_str())][..],
                None => &[mode],
            };
            new_file_system("tmpfs", options, NO_SUID | NO_DEV).map(Some)
        }
        PlannedMount::Link { .. } => Ok(None),
    }
}

fn open_device(device: &&str) -> Result<OwnedFd, StartFailure> {
    clone_tree(Path::new(device)).step(StepSubject::Path, || format!("mount `{device}`"))
}

/// Makes an empty tmpfs the root, and lets go of the host's.
fn enter_new_root() -> Done {
    let root = new_file_system("tmpfs", &[("mode", "0755")], NO_SUID | NO_DEV)?;
    let enter = || {
        move_mount(&root, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        fchdir(&root)?;
        // The old root comes to lie on the new one, from where it is removed.
        pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")
    };
    enter().step(StepSubject::Kernel, || "change the root".to_owned())
}

/// Whether the folder that would hold this target is a mount from the host or leads to one: nothing may be
/// created there.
fn is_within_bind(target: &Path, mounts: &[PlannedMount]) -> bool {
    let above = mounts
        .iter()
        .filter(|mount| target != mount.target() && target.starts_with(mount.target()));
    let nearest = above.max_by_key(|mount| mount.target().components().count());
    matches!(nearest, Some(PlannedMount::Bind { .. } | PlannedMount::Link { .. }))
}

/// Makes a mount appear in the root.
fn make_mount(mount: &PlannedMount, tree: Option<&OwnedFd>, within_bind: bool) -> Done {
    let target = mount.target();
    let create = || match (mount, tree) {
        (PlannedMount::Link { to, .. }, _) => {
            create_parents(target).and_then(|()| symlink(to, target))
        }
        (_, Some(tree)) if !within_bind => create_mount_point(target, tree),
        _ => Ok(()),
    };
    create().step(StepSubject::Path, || format!("create `{}`", target.display()))?;
    tree.map_or(Ok(()), |tree| attach(tree, target))
}

fn create_mount_point(target: &Path, tree: &OwnedFd) -> io::Result<()> {
    create_parents(target)?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode);
    let created = if kind == FileType::Directory {
        fs::create_dir(target)
    } else {
        fs::File::create_new(target).map(drop)
    };
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn create_parents(target: &Path) -> io::Result<()> {
    target.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Keeps the settings of the kernel from being written by a caller who is the host's superuser: that user
/// needs no capability for it. For others the kernel does so.
fn protect_kernel_settings() -> Done {
    let own = |path: &Path| {
        fs::metadata(path).is_ok_and(|meta| meta.uid() == rustix::process::geteuid().as_raw())
    };
    if !own(Path::new("/proc/sys")) {
        return Ok(());
    }
    let step = || "make the settings in /proc read-only".to_owned();
    let entries = fs::read_dir("/proc").step(StepSubject::Path, step)?;
    for entry in entries {
        let path = entry.step(StepSubject::Path, step)?.path();
        // Processes come and go, and the links lead to them.
        let Ok(meta) = path.symlink_metadata() else { continue };
        let is_process = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
        let is_writable = meta.is_dir() || meta.mode() & 0o222 != 0;
        if !is_process && !meta.is_symlink() && is_writable {
            let tree = clone_tree(&path).step(StepSubject::Path, step)?;
            sys::set_mount_attributes(&tree, READ_ONLY, true).step(StepSubject::Kernel, step)?;
            attach(&tree, &path)?;
        }
    }
    Ok(())
}

fn make_devices(devices: &[OwnedFd]) -> Done {
    let pts = [("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620")];
    let folders = [
        ("/dev/pts", new_file_system("devpts", &pts, NO_SUID | NO_EXEC)?),
        ("/dev/shm", new_file_system("tmpfs", &[("mode", "1777")], NO_SUID | NO_DEV)?),
    ];
    let create = || {
        fs::create_dir("/dev")?;
        folders.iter().try_for_each(|(path, _)| fs::create_dir(path))?;
        DEVICES.iter().try_for_each(|path| fs::File::create_new(path).map(drop))?;
        DEVICE_LINKS.iter().try_for_each(|(path, to)| symlink(to, path))
    };
    create().step(StepSubject::Path, || "fill /dev".to_owned())?;
    for (path, device) in DEVICES.iter().zip(devices) {
        attach(device, Path::new(path))?;
    }
    folders.iter().try_for_each(|(path, folder)| attach(folder, Path::new(path)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn nothing_is_created_in_what_the_host_has_mounted() {
        let bind = |target: &str| PlannedMount::Bind {
            source: PathBuf::new(),
            target: target.into(),
            access: MountAccess::Writable,
        };
        let tmpfs = |target: &str| PlannedMount::Tmpfs { target: target.into(), max_bytes: None };
        let link = PlannedMount::Link { target: "/bin".into(), to: "app".into() };
        let mounts = [bind("/app"), tmpfs("/app/tmp"), bind("/app/tmp/a"), tmpfs("/t"), link];
        let cases = [
            ("/app", false),
            ("/app/x", true),
            ("/app/tmp", true),
            ("/app/tmp/x", false),
            ("/app/tmp/a", false),
            ("/app/tmp/a/b/c", true),
            ("/application", false),
            ("/t/x", false),
            ("/bin", false),
            ("/bin/x", true),
        ];
        for (target, within) in cases {
            assert_eq!(is_within_bind(Path::new(target), &mounts), within, "{target}");
        }
    }
}
