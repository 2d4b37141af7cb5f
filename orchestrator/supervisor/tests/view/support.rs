//! Where a view is to be had, and every way in which it is not.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use ralph_orchestrator_supervisor::{
    Ending, Root, SpawnError, Spec, Supervisor, ViewError, Wrapper, WrapperFuture,
};

use crate::common::program;
use crate::fixture::{Fixture, plain_supervisor, run, shim};

/// A supervisor whose shim runs behind this script, as root of a user namespace.
pub(crate) fn behind(script: &str, arguments: &[&Path]) -> Supervisor {
    let script = format!("set -e; {script}; exec \"$0\"");
    let mut args: Vec<OsString> =
        ["--user", "--map-root-user", "--mount", "--", "/bin/sh", "-c"].map(Into::into).into();
    args.extend([script.into(), shim().into()]);
    args.extend(arguments.iter().map(Into::into));
    Supervisor::new(program("unshare"), args)
}

fn reason(error: SpawnError) -> ViewError {
    match error {
        SpawnError::View { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

async fn fails(fixture: &Fixture) -> ViewError {
    reason(run(&fixture.supervisor(), fixture.sh("true")).await.expect_err("it was started"))
}

/// Tries it with the storage beside the workspace.
async fn check(supervisor: &Supervisor, fixture: &Fixture) -> Result<(), ViewError> {
    let storage = fixture.overlay.upper.parent().unwrap();
    let before = fs::read_dir(storage).unwrap().count();
    let checked = supervisor.check_view_support(storage, &fixture.ws).await.map_err(reason);
    assert_eq!(fs::read_dir(storage).unwrap().count(), before, "nothing is left");
    assert_eq!(fs::read_dir(&fixture.ws).unwrap().count(), 1, "nothing is made there");
    checked
}

fn workspace() -> Fixture {
    let fixture = Fixture::new();
    fs::write(fixture.ws.join("file"), "").unwrap();
    fixture
}

#[tokio::test]
async fn support_is_checked_by_a_start() {
    let fixture = workspace();
    check(&plain_supervisor(), &fixture).await.unwrap();
    check(&behind(":", &[]), &fixture).await.unwrap();
    let none = fixture.folder.path().join("none");
    for (storage, folder) in [(none.as_path(), &*fixture.ws), (&fixture.ws, none.as_path())] {
        let error = plain_supervisor().check_view_support(storage, folder).await.unwrap_err();
        let reason = reason(error);
        assert!(!reason.is_unsupported() && reason.to_string().contains("/none`"), "{reason}");
    }
}

#[tokio::test]
async fn a_kernel_that_forbids_namespaces_is_named_with_the_setting() {
    let fixture = workspace();
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces; set -- setpriv --bounding-set=-all \"$0\"; exec \"$@\"";
    let mounts = "echo 0 > /proc/sys/user/max_mnt_namespaces";
    for script in [forbid, mounts] {
        let error = check(&behind(script, &[]), &fixture).await.unwrap_err();
        assert!(error.is_unsupported(), "{error}");
        let message = error.to_string();
        for said in ["make new namespaces", "os error 28", "user.max_user_namespaces"] {
            assert!(message.contains(said), "{message}");
        }
    }
}

#[tokio::test]
async fn a_storage_on_an_overlay_is_named() {
    let fixture = workspace();
    let storage = fixture.overlay.upper.parent().unwrap();
    let beside = fixture.folder("beside");
    let mount = "mkdir \"$2/u\" \"$2/w\"
        mount -t overlay -o \"userxattr,lowerdir=$1,upperdir=$2/u,workdir=$2/w\" overlay \"$1\"";
    let script =
        mount.replace("$1", "$3").replace("$2", "$4").replace("$3", "$1").replace("$4", "$2");
    let supervisor = behind(&script, &[storage, &beside]);
    let error = check(&supervisor, &fixture).await.unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("lies on an overlay itself") && message.contains("/upper`"),
        "{message}"
    );
    ralph_orchestrator_safe_fs::remove_layer(&beside).unwrap();
}

/// The superuser of a container, who may not mount: a user namespace does instead.
#[tokio::test]
async fn a_superuser_without_the_capability_gets_a_user_namespace() {
    let fixture = Fixture::new();
    let drop = ["--bounding-set=-sys_admin".into(), shim().into()].into();
    let supervisor = if rustix::process::geteuid().is_root() {
        Supervisor::new(program("setpriv"), drop)
    } else {
        behind("exec setpriv --bounding-set=-sys_admin \"$0\"", &[])
    };
    let text = "id -u; touch made; grep CapEff /proc/self/status; echo $$";
    let ran = run(&supervisor.with_view(fixture.view()), fixture.sh(text)).await.unwrap();
    assert_eq!(ran.stdout, "0\nCapEff:\t0000000000000000\n2\n", "{ran:?}");
    assert!(fixture.overlay.upper.join("made").exists());
}

#[tokio::test]
async fn a_folder_that_is_missing_or_none_is_named_and_nothing_is_started() {
    let file: fn(&Path) = |path| {
        fs::remove_dir(path).unwrap();
        fs::write(path, "").unwrap();
    };
    let link: fn(&Path) = |path| {
        fs::remove_dir(path).unwrap();
        std::os::unix::fs::symlink("/etc", path).unwrap();
    };
    let removed: fn(&Path) = |path| fs::remove_dir(path).unwrap();
    let changes = [("os error 2", removed), ("os error 20", file), ("symlink", link)];
    for (said, change) in changes {
        for which in 0..4 {
            let mut fixture = Fixture::new();
            fixture.overlay.layers = vec![fixture.folder("layer")];
            let overlay = &fixture.overlay;
            let path =
                [&overlay.layers[0], &overlay.upper, &overlay.work, &overlay.target][which].clone();
            // Links to what does not change are fine.
            if said == "symlink" && which < 3 {
                continue;
            }
            change(&path);
            let error = fails(&fixture).await;
            assert!(!error.is_unsupported(), "{error}");
            let message = error.to_string();
            assert!(
                message.contains(&path.display().to_string()) && message.contains(said),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_mounted_beneath_a_layer_keeps_it_from_being_one() {
    let mut fixture = Fixture::new();
    fixture.overlay.layers = vec!["/dev".into()];
    let error = fails(&fixture).await;
    assert!(error.is_unsupported(), "{error}");
    assert!(matches!(&error, ViewError::MountWithin { layer, .. } if layer == Path::new("/dev")));
}

#[tokio::test]
async fn a_storage_within_the_folder_is_told_to_lie_elsewhere() {
    let fixture = Fixture::new();
    let ws = &fixture.ws;
    let error = plain_supervisor().check_view_support(ws, ws).await.map_err(reason).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    assert!(error.to_string().contains("choose a storage outside"), "{error}");
    assert_eq!(fs::read_dir(ws).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn an_upper_folder_that_is_mounted_read_only_is_named() {
    let fixture = Fixture::new();
    let store = fixture.overlay.upper.parent().unwrap();
    let supervisor =
        behind("mount --bind \"$1\" \"$1\"; mount -o remount,bind,ro \"$1\"", &[store]);
    let error = run(&supervisor.with_view(fixture.view()), fixture.sh("true")).await.unwrap_err();
    let reason = reason(error);
    assert!(!reason.is_unsupported(), "{reason}");
    assert!(reason.to_string().contains("write the upper folder"), "{reason}");
}

#[derive(Debug)]
struct Elsewhere;

impl Wrapper for Elsewhere {
    fn wrap(&self, spec: Spec) -> WrapperFuture<'_, std::io::Result<Spec>> {
        Box::pin(async { Ok(spec) })
    }

    fn release(&self, _: Option<Ending>) -> WrapperFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn a_view_excludes_a_root_and_another_place() {
    let fixture = Fixture::new();
    let supervisor = fixture.supervisor();
    let with_root = supervisor.clone().with_root(|| Ok(Root::default()));
    let elsewhere = supervisor.with_wrapper(std::sync::Arc::new(Elsewhere));
    for both in [with_root, elsewhere] {
        let error = reason(run(&both, fixture.sh("true")).await.unwrap_err());
        assert!(matches!(error, ViewError::Combined { .. }), "{error}");
    }
}
