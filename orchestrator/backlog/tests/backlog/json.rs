use ralph_orchestrator_backlog::{ItemStatus, NewItem};

use crate::fixture::{Workspace, feature, feature_list};

const ADA: &str = include_str!("fixtures/feature-list.json");
const PRD: &str = include_str!("fixtures/prd.json");

#[test]
fn reads_the_fields_of_a_feature_list() {
    let snapshot = Workspace::json(ADA).load();
    let item = snapshot.find("user-auth").unwrap();
    assert_eq!(item.title, "User authentication");
    assert_eq!(item.description, "Sign in with e-mail – and “stay signed in”");
    assert_eq!(item.status, ItemStatus::InProgress);
    assert_eq!(item.priority, 10);
    assert_eq!(item.criteria, ["A wrong password is refused", "A right one is accepted"]);
    assert_eq!(item.dependencies, ["database"]);
    assert_eq!(item.notes, ["Chose argon2"]);
    assert_eq!(item.location.unwrap().line, 16);
    assert_eq!(snapshot.storable, ItemStatus::ALL);
}

#[test]
fn status_changes_the_bytes_of_the_status_only() {
    let workspace = Workspace::json(ADA);
    workspace.backlog.set_status("user-auth", ItemStatus::Completed).unwrap();
    assert_eq!(workspace.text(), ADA.replace("\"in_progress\"", "\"completed\""));
}

#[test]
fn keeps_byte_order_mark_line_endings_and_a_missing_last_newline() {
    let text = format!("\u{feff}{}", ADA.trim_end().replace('\n', "\r\n"));
    let workspace = Workspace::json(&text);
    workspace.backlog.set_status("user-auth", ItemStatus::Blocked).unwrap();
    let expected = text.replace("\"in_progress\"", "\"blocked\"");
    assert_eq!(workspace.text(), expected);
    workspace.backlog.append_note("database", "first").unwrap();
    let added = "\"sessions_spent\": 2,\r\n      \"implementation_notes\": [\"first\"]\r\n";
    assert_eq!(workspace.text(), expected.replace("\"sessions_spent\": 2\r\n", added));
}

#[test]
fn the_same_status_leaves_the_file_alone() {
    let workspace = Workspace::json(ADA);
    let inode = |w: &Workspace| std::os::unix::fs::MetadataExt::ino(&w.path().metadata().unwrap());
    let before = inode(&workspace);
    workspace.backlog.set_status("user-auth", ItemStatus::InProgress).unwrap();
    assert_eq!(inode(&workspace), before);
}

#[test]
fn adds_a_status_that_is_missing_in_the_style_of_the_object() {
    for (text, expected) in [
        (
            r#"{"features":[{"id":"a","name":"a","description":""}]}"#,
            r#"{"features":[{"id":"a","name":"a","description":"","status":"completed"}]}"#,
        ),
        (
            "{\"features\": [{\n\t\"id\" : \"a\",\n\t\"name\" : \"a\",\n\t\"description\" : \"\"\n}]}",
            "{\"features\": [{\n\t\"id\" : \"a\",\n\t\"name\" : \"a\",\n\t\"description\" : \"\",\n\t\"status\" : \"completed\"\n}]}",
        ),
    ] {
        let workspace = Workspace::json(text);
        workspace.backlog.set_status("a", ItemStatus::Completed).unwrap();
        assert_eq!(workspace.text(), expected);
    }
}

#[test]
fn appends_notes_to_lists_and_texts() {
    let workspace = Workspace::json(ADA);
    workspace.backlog.append_note("user-auth", "Line \"one\"\nline two").unwrap();
    let expected = ADA.replace(
        "        \"Chose argon2\"\n",
        "        \"Chose argon2\",\n        \"Line \\\"one\\\"\\nline two\"\n",
    );
    assert_eq!(workspace.text(), expected);

    let workspace = Workspace::json(PRD);
    workspace.backlog.append_note("US-001", "one").unwrap();
    workspace.backlog.append_note("US-001", "two").unwrap();
    assert_eq!(workspace.text(), PRD.replacen("\"notes\": \"\"", "\"notes\": \"one\\ntwo\"", 1));
}

#[test]
fn prd_stories_pass_or_do_not() {
    let workspace = Workspace::json(PRD);
    let snapshot = workspace.load();
    assert_eq!(snapshot.items[0].criteria.len(), 2);
    assert_eq!(snapshot.storable, [ItemStatus::Pending, ItemStatus::Completed]);
    workspace.backlog.set_status("US-002", ItemStatus::Completed).unwrap();
    assert_eq!(workspace.load().counts().completed, 1);
    let error = workspace.backlog.set_status("US-002", ItemStatus::InProgress).unwrap_err();
    assert_eq!(
        error.to_string(),
        "feature-list.json: json files cannot store the status `in_progress`; leave it out, or \
         use a format that can"
    );
}

#[test]
fn feature_arrays_number_what_has_no_id() {
    let text = "[\n  {\"category\": \"ui\", \"description\": \"a\", \"steps\": [\"x\"], \"passes\": false},\n  {\"description\": \"b\", \"passes\": true}\n]\n";
    let workspace = Workspace::json(text);
    assert_eq!(workspace.ids(), ["1", "2"]);
    workspace.backlog.set_status("1", ItemStatus::InProgress).unwrap();
    let expected = text.replace("\"passes\": false", "\"passes\": false, \"in_progress\": true");
    assert_eq!(workspace.text(), expected);
    workspace.backlog.set_status("1", ItemStatus::Completed).unwrap();
    assert_eq!(workspace.load().counts().completed, 2);
    assert_eq!(workspace.load().counts().in_progress, 0);
}

#[test]
fn names_file_line_and_column_of_every_defect() {
    let list = |features: &str| format!("{{\n  \"features\": [\n{features}\n  ]\n}}");
    let table = [
        ("{\n  \"features\": [\n    {\"id\": }\n", ":3:12: invalid syntax: expected value"),
        ("{\"features\": [", ":1:14: invalid syntax: EOF while parsing a list"),
        ("", ":1:1: invalid syntax: EOF while parsing a value"),
        ("{} x", ":1:4: invalid syntax: trailing characters"),
        (
            "{}",
            ":1:1: expected an object with `features` or `userStories`, or an array of features",
        ),
        ("7", ":1:1: expected an object with `features` or `userStories`, or an array of features"),
        ("{\"features\":[],\"userStories\":[]}", ":1:30: expected one array of items, not two"),
        ("{\"features\": {}}", ":1:14: expected `features` to be an array of objects"),
        ("{\"features\": [7]}", ":1:15: expected each item to be an object"),
        (
            &list(&feature("a", "done", 1, &[])),
            ":3:48: item `a`: unknown status `done`; expected pending, in_progress, completed or blocked",
        ),
        (
            &list("    {\"id\": \"ä\", \"name\": 7, \"description\": \"\"}"),
            ":3:25: item `ä`: `name` has a value of the wrong kind; expected a text",
        ),
        (
            &list("    {\"name\": \"a\", \"description\": \"\"}"),
            ":3:5: the field `id` is missing; add it",
        ),
        (
            &list(
                "    {\"id\": \"a\", \"name\": \"a\", \"description\": \"\", \"status\": \"pending\", \"status\": \"completed\"}",
            ),
            ":3:80: item `a`: the key `status` occurs twice; keep one",
        ),
        (
            &list(&feature("a", "pending", 1, &["z"])),
            ":3:1: item `a`: depends on `z`, which does not exist; correct or remove it",
        ),
        (
            &list(&[feature("a", "pending", 1, &[]), feature("a", "pending", 1, &[])].join(",\n")),
            ":4:1: item `a`: the id is used twice; give each item its own",
        ),
        (
            &list(
                &[
                    feature("x", "pending", 1, &["a"]),
                    feature("a", "pending", 1, &["b"]),
                    feature("b", "pending", 1, &["c"]),
                    feature("c", "pending", 1, &["a"]),
                ]
                .join(",\n"),
            ),
            ":4:1: item `a`: dependency cycle a -> b -> c -> a; remove one of them",
        ),
        (
            &list(&feature("a", "pending", 1, &["a"])),
            ":3:1: item `a`: dependency cycle a -> a; remove one of them",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(Workspace::json(text).error(), format!("feature-list.json{expected}"), "{text}");
    }
}

#[test]
fn reports_all_defects_at_once() {
    let text = feature_list(&[
        feature("a", "done", 1, &[]),
        "{\"id\":\"b\"}".to_owned(),
        feature("c", "pending", 1, &[]),
    ]);
    assert_eq!(
        Workspace::json(text).error(),
        "feature-list.json:2:48: item `a`: unknown status `done`; expected pending, in_progress, \
         completed or blocked\n\
         feature-list.json:3:1: item `b`: the field `name` is missing; add it\n\
         feature-list.json:3:1: item `b`: the field `description` is missing; add it"
    );
}

#[test]
fn rejects_bytes_that_are_no_text() {
    let error = Workspace::json(b"{\n  \"features\": \"\xff\"}").error();
    let expected =
        "feature-list.json:2:16: invalid syntax: the text is not UTF-8; save it as UTF-8";
    assert_eq!(error, expected);
    let space = Workspace::json("\u{a0}{\"features\": []}").error();
    assert_eq!(space, "feature-list.json:1:1: invalid syntax: expected value");
    let deep = format!("{{\"features\":[{}]}}", "[".repeat(100_000));
    assert!(Workspace::json(deep).error().contains("invalid syntax"));
}

#[test]
fn adds_an_item_in_the_style_of_the_others() {
    let workspace = Workspace::json(ADA);
    let item = NewItem {
        title: "Log out!".to_owned(),
        description: "End the session".to_owned(),
        category: Some("functional".to_owned()),
        criteria: vec!["The cookie is gone".to_owned()],
        dependencies: vec!["user-auth".to_owned()],
        ..NewItem::default()
    };
    let previewed = workspace.backlog.preview_add(ADA.as_bytes(), &item).unwrap();
    assert_eq!(workspace.text(), ADA, "a preview writes nothing");
    let (id, after) = workspace.backlog.add_item(&item).unwrap();
    assert_eq!(previewed, (id.clone(), after.clone()));
    assert_eq!(id, "log-out");
    assert_eq!(after.items.len(), 3);
    let added = r#",
    {
      "id": "log-out",
      "name": "Log out!",
      "description": "End the session",
      "category": "functional",
      "acceptance_criteria": [
        "The cookie is gone"
      ],
      "priority": 0,
      "depends_on": [
        "user-auth"
      ],
      "status": "pending"
    }
  ]"#;
    let end = ADA.rfind("\n  ]").unwrap();
    assert_eq!(workspace.text(), format!("{}{added}{}", &ADA[..end], &ADA[end + 4..]));
    assert_eq!(workspace.backlog.add_item(&item).unwrap().0, "log-out-2");
}

#[test]
fn adds_the_first_item_to_every_kind_of_file() {
    let item = NewItem { title: "A".to_owned(), ..NewItem::default() };
    for (text, id, line) in [
        ("{\n  \"features\": []\n}\n", "a", "\n    {\n      \"id\": \"a\","),
        ("{\"userStories\": []}", "US-001", "\"id\": \"US-001\","),
        ("[]", "1", "[\n  {\n    \"id\": 1,"),
    ] {
        let workspace = Workspace::json(text);
        assert_eq!(workspace.backlog.add_item(&item).unwrap().0, id);
        assert!(workspace.text().contains(line), "{}", workspace.text());
        assert_eq!(workspace.next(), id);
    }
}

#[test]
fn refuses_items_that_would_break_the_backlog() {
    let workspace = Workspace::json(ADA);
    let error = |item: NewItem| workspace.backlog.add_item(&item).unwrap_err().to_string();
    let titled = || NewItem { title: "t".to_owned(), ..NewItem::default() };
    assert_eq!(
        error(NewItem { id: Some("database".to_owned()), ..titled() }),
        "feature-list.json: cannot add the item: the id `database` is taken by \"Database\", at line \
         5, column 5; choose another"
    );
    assert_eq!(
        error(NewItem { dependencies: vec!["nope".to_owned()], ..titled() }),
        "feature-list.json: cannot add the item: it depends on `nope`, which does not exist (there \
         are `database`, `user-auth`); add that first"
    );
    assert_eq!(
        error(NewItem::default()),
        "feature-list.json: cannot add the item: the title is empty; give it one"
    );
    assert_eq!(workspace.text(), ADA);
}

#[test]
fn names_an_item_that_does_not_exist() {
    let error = Workspace::json(ADA).backlog.set_status("x", ItemStatus::Pending).unwrap_err();
    let expected = "feature-list.json: no item has the id `x`; list the items to see their ids";
    assert_eq!(error.to_string(), expected);
}
