//! Processes that cannot be started.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_supervisor::{SpawnError, Spec, Supervisor};

use crate::common::{bounded, one_at_a_time, sh, supervisor};

fn file(folder: &Path, name: &str, content: &[u8], mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

async fn fails(spec: Spec) -> SpawnError {
    bounded("the failure", supervisor().spawn(spec)).await.expect_err("it was started")
}

async fn fails_for(program: &Path) -> SpawnError {
    let mut spec = sh("");
    spec.program = program.to_owned();
    let error = fails(spec).await;
    assert!(error.to_string().contains(program.to_str().unwrap()), "{error}");
    error
}

#[tokio::test]
async fn each_way_a_program_can_be_missing_has_its_error() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(matches!(fails_for(&dir.join("none")).await, SpawnError::NotFound { .. }));
    assert!(matches!(fails_for(&dir.join("a\nb")).await, SpawnError::NotFound { .. }));
    let plain = file(dir, "plain", b"#!/bin/sh\n", 0o644);
    assert!(matches!(fails_for(&plain).await, SpawnError::NotExecutable { .. }));
    assert!(matches!(fails_for(&plain.join("below")).await, SpawnError::NotFound { .. }));
    assert!(matches!(fails_for(dir).await, SpawnError::Folder { .. }));
    std::os::unix::fs::symlink("nowhere", dir.join("dangling")).unwrap();
    assert!(matches!(fails_for(&dir.join("dangling")).await, SpawnError::NotFound { .. }));
    std::os::unix::fs::symlink("loop", dir.join("loop")).unwrap();
    assert!(matches!(fails_for(&dir.join("loop")).await, SpawnError::Other { .. }));
}

#[tokio::test]
async fn a_bad_interpreter_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[u8], &str); 3] = [
        (b"#!/no/such/interpreter -x\n", "/no/such/interpreter"),
        (b"#! \t/no/such\n", "/no/such"),
        (b"#!/bin/sh\r\necho\r\n", "/bin/sh\r"),
    ];
    for (content, wanted) in cases {
        match fails_for(&file(dir.path(), "script", content, 0o755)).await {
            SpawnError::BadInterpreter { interpreter, .. } => {
                assert_eq!(interpreter, Path::new(wanted));
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_program_that_is_being_written_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "busy", &fs::read("/bin/true").unwrap(), 0o755);
    let mut writer = File::options().append(true).open(&path).unwrap();
    writer.write_all(b" ").unwrap();
    assert!(matches!(fails_for(&path).await, SpawnError::Busy { .. }));
    drop(writer);
    let mut spec = sh("");
    spec.program = path;
    let mut process = bounded("the start", supervisor().spawn(spec)).await.unwrap();
    assert!(bounded("the exit", process.wait()).await.ending.is_success());
}

#[tokio::test]
async fn a_folder_that_cannot_be_entered_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let plain = file(dir.path(), "plain", b"", 0o644);
    for cwd in [dir.path().join("gone"), plain, "/proc/self/none\0".into()] {
        let mut spec = sh("true");
        spec.cwd = cwd.clone();
        let error = fails(spec).await;
        assert!(matches!(error, SpawnError::Cwd { .. }), "{error}");
        assert!(error.to_string().contains(&cwd.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn text_that_the_kernel_cannot_pass_on_is_refused() {
    let mut spec = sh("true");
    spec.args.push("a\0b".into());
    assert!(matches!(fails(spec).await, SpawnError::Nul { .. }));
    let mut spec = sh("true");
    spec.env.insert("A".into(), "a\0b".into());
    assert!(matches!(fails(spec).await, SpawnError::Nul { .. }));
    let mut spec = sh("true");
    spec.args.push("x".repeat(4 * 1024 * 1024).into());
    let error = fails(spec).await;
    assert!(matches!(error, SpawnError::TooLong { bytes: 4_194_304.., .. }), "{error}");
}

#[tokio::test]
async fn a_shim_that_is_none_is_an_error() {
    let _turn = one_at_a_time().await;
    let shims = ["/no/such/shim", "/bin/true", "/bin/echo", "/etc/passwd"];
    for (shim, is_prepared) in shims.map(|shim| [(shim, false), (shim, true)]).concat() {
        let supervisor = Supervisor::new(shim.into(), Vec::new());
        if is_prepared {
            supervisor.prepare();
            supervisor.set_guard(Arc::new(tempfile::tempfile().unwrap()));
            supervisor.prepare();
        }
        let error = bounded("the failure", supervisor.spawn(sh("true"))).await.unwrap_err();
        assert!(matches!(error, SpawnError::Shim { .. }), "{error}");
        assert!(error.to_string().contains(shim), "{error}");
    }
}

#[tokio::test]
async fn a_relative_program_is_taken_from_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "own", b"#!/bin/sh\nexit 6\n", 0o755);
    let mut spec = sh("");
    spec.program = "own".into();
    spec.cwd = dir.path().to_owned();
    let mut process = bounded("the start", supervisor().spawn(spec)).await.unwrap();
    assert_eq!(bounded("the exit", process.wait()).await.ending.code(), Some(6));
}

#[test]
#[allow(clippy::disallowed_methods)]
fn a_shim_started_by_hand_says_what_it_is() {
    for args in [
        &[][..],
        &["__supervise"],
        &["__supervise", "3"],
        &["99", "-", "1", "1", "1", "--", "/bin/true"],
        &["1", "-", "1", "1", "1", "--", "/bin/true"],
    ] {
        let shim = env!("CARGO_BIN_EXE_ralph-supervisor-shim");
        let output = std::process::Command::new(shim).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("only ralph-orchestrator starts it"), "{text}");
    }
}
