use std::os::unix::fs::symlink;

use ralph_orchestrator_backlog::{
    BacklogError, BacklogKind, GuardFinding, GuardRules, ItemStatus, MAX_BYTES, NewItem, NextItem,
    TrustedEdit,
};
use rusqlite::Connection;

use crate::fixture::Workspace;

const SCHEMA: &str = "CREATE TABLE features (
    id INTEGER NOT NULL PRIMARY KEY, priority INTEGER NOT NULL, category VARCHAR(100) NOT NULL,
    name VARCHAR(255) NOT NULL, description TEXT NOT NULL, steps JSON NOT NULL, passes BOOLEAN,
    in_progress BOOLEAN DEFAULT 0, dependencies JSON, notes TEXT);
    CREATE TABLE schedules (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO schedules VALUES (1, 'nightly');";

fn database(schema: &str) -> Workspace {
    let workspace = Workspace::empty(BacklogKind::Sqlite, "features.db");
    run(&workspace, schema);
    workspace
}

fn run(workspace: &Workspace, sql: &str) {
    Connection::open(workspace.path()).unwrap().execute_batch(sql).unwrap();
}

fn insert(id: i64, priority: i64, passes: i64, dependencies: &str) -> String {
    format!(
        "INSERT INTO features (id, priority, category, name, description, steps, passes, dependencies)
         VALUES ({id}, {priority}, 'ui', 'f{id}', 'd', '[\"s\"]', {passes}, {dependencies});"
    )
}

fn features() -> Workspace {
    let rows = [
        insert(1, 5, 1, "NULL"),
        insert(2, 3, 0, "'[3]'"),
        insert(3, 9, 0, "'[1]'"),
        insert(10, 9, 0, "NULL"),
    ];
    database(&format!("{SCHEMA}{}", rows.concat()))
}

#[test]
fn reads_features_and_orders_them_by_priority_and_id() {
    let workspace = features();
    assert_eq!(workspace.ids(), ["1", "2", "3", "10"]);
    let item = &workspace.load().items[1];
    assert_eq!((item.title.as_str(), item.priority), ("f2", 3));
    assert_eq!(
        (&item.criteria[..], &item.dependencies[..]),
        (&["s".to_owned()][..], &["3".to_owned()][..])
    );
    assert_eq!(workspace.next(), "3");
    run(&workspace, "UPDATE features SET in_progress = 1 WHERE id = 10");
    assert_eq!(workspace.next(), "3");
    workspace.backlog.set_status("3", ItemStatus::Completed).unwrap();
    assert_eq!(workspace.next(), "2");
    let counts = workspace.load().counts();
    assert_eq!((counts.completed, counts.in_progress, counts.total), (2, 1, 4));
}

#[test]
fn writes_flags_and_notes_only() {
    let workspace = features();
    let dump = |w: &Workspace| -> Vec<String> {
        let connection = Connection::open(w.path()).unwrap();
        let mut rows = connection.prepare("SELECT id || priority || category || name || description || steps || ifnull(dependencies, '-') FROM features").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let before = dump(&workspace);
    workspace.backlog.set_status("2", ItemStatus::InProgress).unwrap();
    workspace.backlog.append_note("2", "one").unwrap();
    let after = workspace.backlog.append_note("2", "two").unwrap();
    assert_eq!(after, workspace.load());
    assert_eq!(after.find("2").unwrap().notes, ["one\ntwo"]);
    assert_eq!(after.find("2").unwrap().status, ItemStatus::InProgress);
    assert_eq!(dump(&workspace), before);
    let error = workspace.backlog.set_status("2", ItemStatus::Blocked).unwrap_err();
    assert!(matches!(error, BacklogError::NotStorable { .. }));
}

#[test]
fn works_with_the_first_schema() {
    let workspace = database(
        "CREATE TABLE features (id INTEGER PRIMARY KEY, priority INTEGER, category TEXT, name TEXT,
         description TEXT, steps JSON, passes BOOLEAN);
         INSERT INTO features VALUES (7, 1, 'c', 'n', 'd', '[]', NULL);",
    );
    assert_eq!(workspace.next(), "7");
    assert_eq!(workspace.load().storable, [ItemStatus::Pending, ItemStatus::Completed]);
    let error = workspace.backlog.append_note("7", "n").unwrap_err();
    assert!(matches!(error, BacklogError::NotStorable { .. }));
    workspace.backlog.set_status("7", ItemStatus::Completed).unwrap();
    assert_eq!(workspace.next(), "(complete)");
}

#[test]
fn an_empty_database_has_no_items() {
    assert_eq!(Workspace::new(BacklogKind::Sqlite, "features.db", "").next(), "(empty)");
    assert_eq!(database(SCHEMA).next(), "(empty)");
    let error = Workspace::empty(BacklogKind::Sqlite, "features.db").backlog.load().unwrap_err();
    assert!(matches!(error, BacklogError::NotFound { .. }));
    let error = database("CREATE TABLE other (x)").error();
    assert_eq!(error, "features.db: expected a table `features`");
}

#[test]
fn names_the_row_of_a_defect() {
    let rows = insert(1, 1, 0, "'[2]'") + &insert(2, 1, 0, "'[1]'");
    let error = database(&format!("{SCHEMA}{rows}")).error();
    assert!(error.contains("item `1`: dependency cycle 1 -> 2 -> 1"), "{error}");
    let error = database(&format!("{SCHEMA}{}", insert(1, 1, 0, "'{'"))).error();
    assert!(error.contains("item `1`: `dependencies` has a value of the wrong kind"), "{error}");
    let error = Workspace::new(BacklogKind::Sqlite, "features.db", "x".repeat(4096)).error();
    assert!(error.contains("not a database"), "{error}");
}

#[test]
fn runs_no_code_of_the_database() {
    let workspace = features();
    run(
        &workspace,
        "CREATE TRIGGER t AFTER UPDATE ON features BEGIN UPDATE features SET passes = 1; END;",
    );
    workspace.backlog.set_status("2", ItemStatus::InProgress).unwrap();
    assert_eq!(workspace.load().counts().completed, 1);
    let view = database("CREATE VIEW features AS SELECT 1 AS id, 'n' AS name, 1 AS passes;");
    assert_eq!(view.error(), "features.db: expected a table `features`");
}

#[test]
fn refuses_a_link() {
    let target = features();
    let workspace = Workspace::empty(BacklogKind::Sqlite, "features.db");
    symlink(target.path(), workspace.path()).unwrap();
    assert!(matches!(workspace.backlog.load(), Err(BacklogError::UnsafePath { .. })));
}

#[test]
fn adds_rows() {
    let workspace = features();
    let item = NewItem {
        title: "New".to_owned(),
        criteria: vec!["works".to_owned()],
        dependencies: vec!["10".to_owned()],
        ..NewItem::default()
    };
    let before = workspace.backlog.load().unwrap();
    let (id, previewed) = workspace.backlog.preview_add(&before.bytes, &item).unwrap();
    assert_eq!(id, "11");
    assert_eq!(workspace.backlog.load().unwrap(), before, "a preview writes nothing");
    let (id, after) = workspace.backlog.add_item(&item).unwrap();
    assert_eq!(id, "11");
    assert_eq!(previewed.items, after.items);
    let added = after.find("11").unwrap();
    assert_eq!((added.priority, &added.dependencies[..]), (10, &["10".to_owned()][..]));
    let taken = NewItem { id: Some("3".to_owned()), ..item };
    assert!(matches!(workspace.backlog.add_item(&taken), Err(BacklogError::InvalidNewItem { .. })));
}

#[test]
fn reads_what_is_only_in_the_write_ahead_log() {
    let workspace = features();
    let writer = Connection::open(workspace.path()).unwrap();
    writer.pragma_update(None, "journal_mode", "WAL").unwrap();
    writer.execute("UPDATE features SET passes = 1 WHERE id = 3", []).unwrap();
    assert_eq!(workspace.next(), "2");
    workspace.backlog.set_status("2", ItemStatus::Completed).unwrap();
    assert_eq!(workspace.next(), "10");
}

#[test]
fn guard_restores_rows_and_reports() {
    let workspace = features();
    let base = workspace.load();
    run(
        &workspace,
        "UPDATE features SET description = 'easier', steps = '[]' WHERE id = 2;
         UPDATE features SET passes = 1 WHERE id = 10;
         UPDATE features SET in_progress = 1, notes = 'hm' WHERE id = 3;
         DELETE FROM features WHERE id = 1;",
    );
    run(&workspace, &insert(99, 0, 0, "NULL"));
    let report = workspace.backlog.guard(&base, &[], GuardRules::default()).unwrap();
    let mut expected = base.items;
    expected[2].status = ItemStatus::InProgress;
    expected[2].notes = vec!["hm".to_owned()];
    assert_eq!(workspace.load().items, expected);
    assert_eq!(report.current, workspace.load());
    assert_eq!(report.completed_by_agent().collect::<Vec<_>>(), ["10"]);
    let edited = report.findings.iter().filter(|f| matches!(f, GuardFinding::Edited { .. }));
    assert_eq!(edited.count(), 2);
    let schedules = Connection::open(workspace.path()).unwrap();
    let name: String = schedules.query_row("SELECT name FROM schedules", [], |r| r.get(0)).unwrap();
    assert_eq!(name, "nightly");
    let again = workspace.backlog.guard(&report.current, &[], GuardRules::default()).unwrap();
    assert!(again.findings.is_empty());
}

#[test]
fn guard_restores_a_broken_database() {
    let whole = std::fs::read(features().path()).unwrap();
    for broken in [&b"x"[..], &whole[..whole.len() / 2], &whole[..100], b""] {
        let workspace = features();
        let base = workspace.load();
        workspace.write(broken);
        std::fs::write(workspace.path().with_extension("db-journal"), b"junk").unwrap();
        let report = workspace.backlog.guard(&base, &[], GuardRules::default()).unwrap();
        assert!(matches!(report.findings[..], [GuardFinding::Corrupted { .. }]));
        assert_eq!(workspace.load().items, base.items);
    }
    let workspace = features();
    let base = workspace.load();
    run(&workspace, "DROP TABLE features");
    workspace.backlog.guard(&base, &[], GuardRules::default()).unwrap();
    assert_eq!(workspace.load().items, base.items);
}

#[test]
fn guard_keeps_what_a_person_changed_meanwhile() {
    let workspace = features();
    let base = workspace.load();
    let before = workspace.load().bytes;
    let new = NewItem { title: "New".to_owned(), ..NewItem::default() };
    let after = workspace.backlog.add_item(&new).unwrap().1;
    run(
        &workspace,
        "DELETE FROM features WHERE id = 11; UPDATE features SET name = 'x' WHERE id = 2;",
    );
    let edit = TrustedEdit { before, after: after.bytes };
    workspace.backlog.guard(&base, &[edit], GuardRules::default()).unwrap();
    assert_eq!(workspace.load().items, after.items);
}

#[test]
fn a_locked_database_is_busy_only_for_writers() {
    let workspace = features();
    let other = Connection::open(workspace.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(workspace.next(), "3");
    other.execute_batch("ROLLBACK").unwrap();
    workspace.backlog.set_status("3", ItemStatus::Completed).unwrap();
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let workspace = features();
    std::thread::scope(|scope| {
        for id in ["2", "3", "10"] {
            let backlog = &workspace.backlog;
            scope.spawn(move || {
                for note in 0..4 {
                    backlog.append_note(id, &note.to_string()).unwrap();
                }
                backlog.set_status(id, ItemStatus::Completed).unwrap();
            });
        }
    });
    assert_eq!(workspace.next(), "(complete)");
    assert!(workspace.load().items[1..].iter().all(|item| item.notes == ["0\n1\n2\n3"]));
}

#[test]
fn both_sources_of_one_project_have_the_same_order() {
    let array = r#"[
        {"id": 1, "priority": 5, "name": "f1", "description": "d", "passes": true},
        {"id": 2, "priority": 3, "name": "f2", "description": "d", "dependencies": [3]},
        {"id": 3, "priority": 9, "name": "f3", "description": "d", "dependencies": [1]},
        {"id": 10, "priority": 9, "name": "f10", "description": "d"}]"#;
    let work = |workspace: &Workspace| {
        let mut order = Vec::new();
        while let NextItem::Item { item } = workspace.backlog.select_next().unwrap() {
            workspace.backlog.set_status(&item.id, ItemStatus::Completed).unwrap();
            order.push(item.id);
        }
        order
    };
    let json = Workspace::new(BacklogKind::Json, "feature_list.json", array);
    let order = work(&json);
    assert_eq!(order, ["3", "2", "10"]);
    assert_eq!(work(&features()), order);
}

#[test]
fn bounds_the_size_of_the_file_and_of_its_log() {
    let workspace = features();
    let writer = Connection::open(workspace.path()).unwrap();
    writer.pragma_update(None, "journal_mode", "WAL").unwrap();
    writer.execute_batch("CREATE TABLE blobs (b); PRAGMA wal_autocheckpoint = 0").unwrap();
    writer
        .execute("INSERT INTO blobs VALUES (zeroblob(?1))", [i64::try_from(MAX_BYTES).unwrap()])
        .unwrap();
    assert!(workspace.path().metadata().unwrap().len() < MAX_BYTES);
    assert!(matches!(workspace.backlog.load(), Err(BacklogError::TooLarge { .. })));

    let large = Workspace::empty(BacklogKind::Sqlite, "features.db");
    std::fs::File::create(large.path()).unwrap().set_len(MAX_BYTES + 1).unwrap();
    assert!(matches!(large.backlog.load(), Err(BacklogError::TooLarge { .. })));
}
