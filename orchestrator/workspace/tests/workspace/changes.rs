//! What was changed between two digests.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ralph_orchestrator_workspace::{FileChangeKind, TreeHasher};

use crate::support::Workspace;

/// A path, what became of it, and the lines added and removed.
type Row = (String, FileChangeKind, Option<(u64, u64)>);

/// Changes as a table.
fn changes(hasher: &TreeHasher) -> Vec<Row> {
    let changes = hasher.changes().expect("it is known what was there before");
    changes
        .into_iter()
        .map(|file| (file.path.display().to_string(), file.change, file.lines))
        .collect()
}

fn marked(workspace: &Workspace) -> TreeHasher {
    let mut hasher = TreeHasher::new(workspace.root(), Vec::new());
    hasher.digest().unwrap();
    hasher.mark();
    hasher
}

#[test]
fn names_what_was_added_modified_and_removed_with_its_lines() {
    let workspace = Workspace::new();
    workspace.write("kept", "1\n").write("edited", "a\nb\nc\n").write("d/gone", "1\n2").end();
    let mut hasher = marked(&workspace);
    assert_eq!(changes(&hasher), []);
    workspace.write("edited", "a\nx\ny\nc\n").write("d/new", "1\n2\n3\n").remove("d/gone").end();
    hasher.digest().unwrap();
    let expected = [
        ("d/gone".to_owned(), FileChangeKind::Removed, Some((0, 2))),
        ("d/new".to_owned(), FileChangeKind::Added, Some((3, 0))),
        ("edited".to_owned(), FileChangeKind::Modified, Some((2, 1))),
    ];
    assert_eq!(changes(&hasher), expected);
    hasher.mark();
    assert_eq!(changes(&hasher), []);
}

#[test]
fn what_is_put_back_is_not_changed() {
    let workspace = Workspace::new();
    workspace.write("file", "as it was\n").end();
    let mut hasher = marked(&workspace);
    workspace.write("file", "other\n").write("passing", "x").end();
    hasher.digest().unwrap();
    assert_eq!(changes(&hasher).len(), 2);
    workspace.write("file", "as it was\n").remove("passing").end();
    hasher.digest().unwrap();
    assert_eq!(changes(&hasher), []);
}

#[test]
fn other_content_than_text_has_no_lines() {
    let workspace = Workspace::new();
    workspace.write("picture", b"\x89PNG\0\n").write("run.sh", "x\n").write("text", "1\n").end();
    let mut hasher = marked(&workspace);
    let large = "line\n".repeat(300_000);
    workspace.write("picture", b"\x89PNG\0\n\n").mode("run.sh", 0o755).link("link", "text");
    workspace.write("large", large).write("text", "2\n").end();
    hasher.digest().unwrap();
    let expected = [
        ("large".to_owned(), FileChangeKind::Added, None),
        ("link".to_owned(), FileChangeKind::Added, None),
        ("picture".to_owned(), FileChangeKind::Modified, None),
        ("run.sh".to_owned(), FileChangeKind::Modified, Some((0, 0))),
        ("text".to_owned(), FileChangeKind::Modified, Some((1, 1))),
    ];
    assert_eq!(changes(&hasher), expected);
}

#[test]
fn nothing_is_known_before_the_first_whole_digest() {
    let workspace = Workspace::new();
    workspace.write("file", "1\n").end();
    let mut hasher = TreeHasher::new(workspace.root(), Vec::new());
    hasher.mark();
    assert_eq!(hasher.changes(), None);
    let mut hasher = hasher.cancelled_by(Arc::new(AtomicBool::new(true)));
    hasher.digest().unwrap_err();
    hasher.mark();
    assert_eq!(hasher.changes(), None);
    let mut hasher = hasher.cancelled_by(Arc::default());
    hasher.digest().unwrap();
    assert_eq!(hasher.changes(), None, "it was not marked since");
    hasher.mark();
    // A digest that is broken off reports no file as gone.
    let mut hasher = hasher.cancelled_by(Arc::new(AtomicBool::new(true)));
    hasher.digest().unwrap_err();
    assert_eq!(changes(&hasher), []);
}

#[test]
fn thousands_of_lines_are_compared_within_a_bounded_time() {
    let workspace = Workspace::new();
    let text =
        |step: usize| (0..40_000).map(|n| format!("{}\n", n * step % 39_989)).collect::<String>();
    for n in 0..4 {
        workspace.write(format!("file{n}"), text(1)).end();
    }
    let mut hasher = marked(&workspace);
    for n in 0..4 {
        workspace.write(format!("file{n}"), text(7919)).end();
    }
    hasher.digest().unwrap();
    let began = std::time::Instant::now();
    let changes = hasher.changes().unwrap();
    assert_eq!(changes.len(), 4, "the files are named although their lines are not counted");
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}
