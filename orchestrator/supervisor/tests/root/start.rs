//! Starting in a root: its paths, and every way in which that can fail.

use std::fs;
use std::io;
use std::path::Path;

use ralph_orchestrator_supervisor::{
    MountAccess, Root, RootError, Sandbox, SpawnError, Spec, Supervisor,
};

use crate::common::{program, sh};
use crate::fixture::{OWN_SHIM, app, mount, plain_supervisor, require, run, script, supervisor};

async fn fails(root: &Root, spec: Spec) -> SpawnError {
    run(&supervisor(root), spec).await.expect_err("it was started")
}

#[tokio::test]
async fn paths_of_the_host_are_translated_and_paths_inside_are_taken_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let sub = folder.path().join("sub");
    fs::create_dir(&sub).unwrap();
    let program = folder.path().join("own");
    fs::write(&program, "#!/bin/sh\npwd; echo $0 $TMPDIR\n").unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let cases = [
        (program.as_path(), folder.path(), "/app\n/app/own"),
        (Path::new("own"), folder.path(), "/app\n/app/own"),
        (Path::new("/app/own"), &sub, "/app/sub\n/app/own"),
        (program.as_path(), Path::new("/tmp"), "/tmp\n/app/own"),
    ];
    for (program, cwd, wanted) in cases {
        let mut spec = sh("");
        (spec.program, spec.cwd) = (program.to_owned(), cwd.to_owned());
        spec.env.insert("TMPDIR".to_owned(), sub.display().to_string());
        let ran = run(&supervisor(&app(folder.path())), spec).await.unwrap();
        assert_eq!(ran.stdout, format!("{wanted} /app/sub\n"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_folder_that_is_not_inside_is_named() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for cwd in [other.path(), Path::new("/home"), Path::new("/app/none")] {
        let error = fails(&app(folder.path()), Spec { cwd: cwd.to_owned(), ..sh("") }).await;
        assert!(
            matches!(&error, SpawnError::Root { reason: RootError::SetUp { .. }, .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains(&format!("enter the folder `{}`", cwd.display())),
            "{error}"
        );
    }
    let error = fails(&app(folder.path()), Spec { cwd: "".into(), ..sh("") }).await;
    assert!(matches!(error, SpawnError::Root { reason: RootError::RelativeFolder { .. }, .. }));
}

#[tokio::test]
async fn a_program_that_is_not_inside_or_cannot_be_executed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = app(folder.path());
    let plain = folder.path().join("plain");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    let program = |program: &Path| Spec { program: program.to_owned(), ..sh("") };
    let missing = fails(&root, program(Path::new("/home/none"))).await.to_string();
    assert!(missing.contains("execute `/home/none`") && missing.contains("mount"), "{missing}");
    let error = fails(&root, program(&plain)).await;
    assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error}");
    assert!(error.to_string().contains("/app/plain"), "{error}");
    // A shim that could not start one starts the next.
    let supervisor = supervisor(&root);
    for _ in 0..3 {
        run(&supervisor, program(&plain)).await.unwrap_err();
        assert_eq!(run(&supervisor, sh("exit 5")).await.unwrap().code, Some(5));
    }
}

#[tokio::test]
async fn a_source_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let root =
        Root { mounts: vec![mount(&gone, "/app", MountAccess::Writable)], ..Root::default() };
    let error = fails(&root, sh("true")).await;
    assert!(matches!(error, SpawnError::Root { reason: RootError::Source { .. }, .. }));
    assert!(error.to_string().contains(&gone.display().to_string()), "{error}");
}

#[tokio::test]
async fn a_root_that_cannot_be_resolved_or_has_a_sandbox_starts_nothing() {
    let failing = plain_supervisor().with_root(|| Err(io::Error::other("no such trial")));
    let error = run(&failing, sh("true")).await.unwrap_err().to_string();
    assert!(error.contains("no such trial") && error.contains("/bin/sh"), "{error}");
    let both = plain_supervisor()
        .with_root(|| Ok(Root::default()))
        .with_sandbox(|| Ok(Sandbox::default()));
    let error = run(&both, sh("true")).await.unwrap_err();
    assert!(matches!(error, SpawnError::Root { reason: RootError::WithSandbox, .. }), "{error}");
}

#[tokio::test]
async fn support_is_checked_by_a_start() {
    plain_supervisor().check_root_support().await.unwrap();
}

/// Each limit of namespaces is one that a user can set for those within it.
#[tokio::test]
async fn a_kernel_that_forbids_namespaces_is_an_error_that_names_the_setting() {
    require(&["unshare"], "util-linux");
    let shim = std::env::var_os(OWN_SHIM)
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_ralph-supervisor-shim").into());
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let args = ["--user", "--map-root-user", "--", "/bin/sh", "-c", forbid].map(Into::into);
    let args = args.into_iter().chain([shim]).collect();
    let limited = Supervisor::new(program("unshare"), args);
    let error = limited.check_root_support().await.unwrap_err().to_string();
    assert!(error.contains("make new namespaces") && error.contains("os error 28"), "{error}");
    assert!(error.contains("user.max_user_namespaces"), "{error}");
    // It is as good as any other otherwise.
    assert_eq!(run(&limited, sh("exit 3")).await.unwrap().code, Some(3));
}

#[tokio::test]
async fn the_hostname_is_the_roots_own() {
    let root = Root { hostname: "trial-7".into(), ..Root::default() };
    assert_eq!(script(&root, "uname -n").await, "trial-7\n");
    assert_ne!(rustix::system::uname().nodename().to_bytes(), b"trial-7");
}
