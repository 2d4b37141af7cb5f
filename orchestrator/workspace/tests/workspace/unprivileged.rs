//! What may not be read. Root may read everything, so as root these tests run again as nobody.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use ralph_orchestrator_workspace::{
    Baseline, PromptError, PromptPlace, TreeError, TreeHasher, evidence_digests,
};

use crate::support::Workspace;

/// An id that owns nothing.
const NOBODY: u32 = 65_534;

/// Whether the caller, the test of this name, may go on. As root it runs that test as nobody, in a
/// process of its own, and says no.
#[allow(clippy::disallowed_methods)]
fn unprivileged(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    // The test binary may lie where nobody may not go.
    let temp = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temp.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let binary = temp.path().join("test");
    // Not copied here: another test could fork while the copy is open for writing, and until its child
    // executes something the copy could not be executed.
    let copied = std::process::Command::new("install")
        .args(["-m", "755"])
        .args([&std::env::current_exe().unwrap(), &binary])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let output = std::process::Command::new(binary)
        .args(["--exact", &format!("unprivileged::{test}")])
        .current_dir(temp.path())
        .env("TMPDIR", temp.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    false
}

#[test]
fn an_unreadable_file_or_folder_is_reported_and_watched_by_its_metadata() {
    if !unprivileged("an_unreadable_file_or_folder_is_reported_and_watched_by_its_metadata") {
        return;
    }
    let ws = Workspace::new();
    ws.write("f", "x").write("file", "1").write("folder/inside", "1").write("blind/inside", "1");
    ws.mode("file", 0).mode("folder", 0).mode("blind", 0o444);
    let state = ws.state();
    let unreadable = ["file", "blind/inside", "folder"].map(std::path::PathBuf::from);
    assert_eq!(state.unreadable, unreadable);
    assert_eq!((state.files, state.bytes), (4, 1));
    assert_eq!(ws.digest(), state.digest.to_string(), "stable as long as nobody touches it");
    let hidden_edit =
        |ws: &Workspace| ws.mode("file", 0o600).write("file", "2").mode("file", 0).end();
    assert!(ws.changes(hidden_edit));
    assert!(ws.changes(|ws| ws.mode("folder", 0o700).mode("folder", 0).end()));
    ws.mode("folder", 0o755).mode("blind", 0o755);
}

#[test]
fn an_unreadable_workspace_is_an_error() {
    if !unprivileged("an_unreadable_workspace_is_an_error") {
        return;
    }
    let ws = Workspace::new();
    ws.mode("", 0);
    let error = TreeHasher::new(ws.root(), Vec::new()).digest().unwrap_err();
    assert!(matches!(error, TreeError::Workspace { .. }));
    let error = Baseline::take(&ws.root(), &["**".into()]).unwrap_err();
    assert!(error.to_string().contains("ws"), "{error}");
    ws.mode("", 0o755);
}

#[test]
fn unreadable_evidence_prompts_and_protected_files_are_reported() {
    if !unprivileged("unreadable_evidence_prompts_and_protected_files_are_reported") {
        return;
    }
    let ws = Workspace::new();
    ws.write("e/ok", "1").write("e/no", "2").write("e/sub/x", "3");
    let before = Baseline::take(&ws.root(), &["e".into()]).unwrap();
    ws.mode("e/no", 0).mode("e/sub", 0);
    let found = evidence_digests(&[ws.path("e")]);
    assert_eq!(found.contents.len(), 1);
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    let error = PromptPlace::locate(&ws.path("e/no")).read().unwrap_err();
    assert!(matches!(error, PromptError::Io { .. }), "{error}");
    let now = Baseline::take(&ws.root(), &["e".into()]).unwrap();
    let changes = before.changes(&now, &["e".into()]).unwrap();
    let paths: Vec<_> = changes.iter().map(|change| change.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["e/no", "e/sub", "e/sub/x"]);
    ws.mode("e/sub", 0o755);
}
