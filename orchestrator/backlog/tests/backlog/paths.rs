use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use ralph_orchestrator_backlog::{
    BacklogError, BacklogFile, BacklogKind, ItemStatus, MAX_BYTES, open_backlog,
};

use crate::fixture::{Workspace, feature, feature_list};

#[test]
fn refuses_paths_that_leave_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["/etc/passwd", "../x", "a/../../x", "", "."] {
        let error = BacklogFile::new(folder.path(), Path::new(path)).unwrap_err();
        assert!(matches!(error, BacklogError::UnsafePath { .. }), "{path}");
    }
    assert!(BacklogFile::new(folder.path(), Path::new("./a/b.json")).is_ok());
}

#[test]
fn refuses_links_folders_and_pipes() {
    let target = Workspace::json(feature_list(&[]));
    let workspace = Workspace::empty(BacklogKind::Json, "b.json");
    symlink(target.path(), workspace.path()).unwrap();
    assert!(workspace.error().contains("b.json: the file is a link"), "{}", workspace.error());
    let error = workspace.backlog.set_status("a", ItemStatus::Pending).unwrap_err();
    assert!(matches!(error, BacklogError::UnsafePath { .. }));
    std::fs::remove_file(workspace.path()).unwrap();

    std::fs::create_dir(workspace.path()).unwrap();
    assert!(workspace.error().contains("not a regular file"), "{}", workspace.error());
    std::fs::remove_dir(workspace.path()).unwrap();

    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, workspace.path(), mode).unwrap();
    assert!(workspace.error().contains("not a regular file"), "{}", workspace.error());
}

#[test]
fn refuses_a_link_on_the_way() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("b.json"), feature_list(&[])).unwrap();
    let inside = tempfile::tempdir().unwrap();
    symlink(outside.path(), inside.path().join("plans")).unwrap();
    let file = BacklogFile::new(inside.path(), Path::new("plans/b.json")).unwrap();
    let error = open_backlog(BacklogKind::Json, file, None).load().unwrap_err();
    assert!(error.to_string().contains("a part of the path is a link"), "{error}");
}

#[test]
fn bounds_the_size() {
    let workspace = Workspace::empty(BacklogKind::Json, "b.json");
    let file = std::fs::File::create(workspace.path()).unwrap();
    file.set_len(MAX_BYTES + 1).unwrap();
    assert!(matches!(workspace.backlog.load(), Err(BacklogError::TooLarge { .. })));
}

#[test]
fn names_a_missing_file() {
    let error = Workspace::empty(BacklogKind::Json, "b.json").error();
    assert_eq!(error, "b.json: no backlog file; create it, or correct the path");
}

#[test]
fn keeps_the_mode_of_the_file() {
    let workspace = Workspace::json(feature_list(&[feature("a", "pending", 1, &[])]));
    std::fs::set_permissions(workspace.path(), PermissionsExt::from_mode(0o640)).unwrap();
    workspace.backlog.set_status("a", ItemStatus::Completed).unwrap();
    assert_eq!(workspace.path().metadata().unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(std::fs::read_dir(workspace.folder.path()).unwrap().count(), 1);
}

#[test]
fn editors_at_the_same_time_lose_nothing() {
    let features: Vec<_> = (0..4).map(|n| feature(&n.to_string(), "pending", 1, &[])).collect();
    let workspace = Workspace::json(feature_list(&features));
    std::thread::scope(|scope| {
        for n in 0..4 {
            let backlog = &workspace.backlog;
            scope.spawn(move || {
                for note in 0..5 {
                    backlog.append_note(&n.to_string(), &note.to_string()).unwrap();
                }
                backlog.set_status(&n.to_string(), ItemStatus::Completed).unwrap();
            });
        }
    });
    for item in workspace.load().items {
        assert_eq!(item.notes, ["0", "1", "2", "3", "4"]);
        assert_eq!(item.status, ItemStatus::Completed);
    }
}
