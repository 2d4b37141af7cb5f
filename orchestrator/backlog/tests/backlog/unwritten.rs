//! Files that nobody has written a backlog into yet, and what is shown to whoever writes one.

use std::os::unix::fs::symlink;

use ralph_orchestrator_backlog::BacklogKind;

use crate::fixture::Workspace;

#[test]
fn nothing_a_blank_file_and_a_list_without_items_are_no_backlog_yet() {
    for kind in BacklogKind::ALL.iter().copied() {
        let (name, without_items): (_, &[&str]) = match kind {
            BacklogKind::Json => ("feature_list.json", &[" \r\n", "[]"]),
            BacklogKind::PlanMd => ("plan.md", &["", "# Plan\n\nNothing yet.\n"]),
            // An empty file is a database that lacks its table.
            #[cfg(feature = "sqlite")]
            BacklogKind::Sqlite => ("features.db", &[]),
        };
        let workspace = Workspace::empty(kind, name);
        assert!(workspace.backlog.is_unwritten(), "{name}");
        for content in without_items {
            workspace.write(content);
            assert!(workspace.backlog.is_unwritten(), "{name}: {content:?}");
        }
    }
}

#[test]
fn what_is_broken_or_no_regular_file_was_written_by_somebody() {
    for content in ["{", "\u{feff}x", "\0"] {
        assert!(!Workspace::json(content).backlog.is_unwritten(), "{content:?}");
    }
    let workspace = Workspace::empty(BacklogKind::Json, "feature_list.json");
    symlink("/dev/null", workspace.path()).unwrap();
    assert!(!workspace.backlog.is_unwritten());
}

#[test]
fn each_example_is_a_backlog_with_pending_items() {
    for kind in BacklogKind::ALL.iter().copied() {
        let workspace = Workspace::empty(kind, "list");
        let example = workspace.backlog.example();
        match kind {
            BacklogKind::Json | BacklogKind::PlanMd => workspace.write(example),
            #[cfg(feature = "sqlite")]
            BacklogKind::Sqlite => {
                let database = rusqlite::Connection::open(workspace.path()).unwrap();
                database.execute_batch(example).unwrap();
            }
        }
        assert!(!workspace.backlog.is_unwritten());
        let counts = workspace.load().counts();
        assert!(counts.total > 0 && counts.completed == 0, "{kind:?}: {counts}");
    }
}
