use ralph_orchestrator_backlog::{ItemStatus, NewItem};

use crate::fixture::Workspace;

const PLAN: &str = "\
# Plan

- [ ] not this one: it is quoted below
  ```
  - [ ] in a fence
  ```
- [x] Write the *parser*
- [ ] Write the `printer`,
  on two lines

  A paragraph about it.
  - [x] handles tabs
  - plain entry
  - Note: chose a stack
- plain entry without a box

<!--
- [ ] in a comment
-->

> - [ ] in a quotation

## Later

1. [ ] Write the tests
* [X] Write the tests
- [ ]

    - [ ] in an indented block
";

#[test]
fn items_are_the_checkboxes_of_lists_at_the_top_level() {
    let workspace = Workspace::plan(PLAN);
    let titles: Vec<_> = workspace.load().items.into_iter().map(|i| (i.title, i.status)).collect();
    let (pending, completed) = (ItemStatus::Pending, ItemStatus::Completed);
    let expected = [
        ("not this one: it is quoted below", pending),
        ("Write the parser", completed),
        ("Write the printer, on two lines", pending),
        ("Write the tests", pending),
        ("Write the tests", completed),
    ];
    assert_eq!(titles, expected.map(|(title, status)| (title.to_owned(), status)));
    assert_eq!(
        workspace.ids(),
        [
            "not-this-one-it-is-quoted-below",
            "write-the-parser",
            "write-the-printer-on-two-lines",
            "write-the-tests",
            "write-the-tests-2"
        ]
    );
    let item = &workspace.load().items[2];
    assert_eq!(item.criteria, ["handles tabs", "plain entry"]);
    assert_eq!(item.notes, ["chose a stack"]);
    assert!(item.description.contains("A paragraph about it."));
    assert_eq!(item.location.unwrap().line, 8);
}

#[test]
fn selects_the_first_unchecked_item_until_all_are_checked() {
    let workspace = Workspace::plan("- [x] a\n- [ ] b\n- [ ] c");
    assert_eq!(workspace.next(), "b");
    workspace.backlog.set_status("b", ItemStatus::Completed).unwrap();
    assert_eq!(workspace.text(), "- [x] a\n- [x] b\n- [ ] c");
    assert_eq!(workspace.next(), "c");
    workspace.backlog.set_status("c", ItemStatus::Completed).unwrap();
    assert_eq!(workspace.next(), "(complete)");
    workspace.backlog.set_status("a", ItemStatus::Pending).unwrap();
    assert_eq!(workspace.next(), "a");
    assert_eq!(Workspace::plan("# Nothing\n").next(), "(empty)");
    assert_eq!(Workspace::plan("").next(), "(empty)");
}

#[test]
fn a_box_is_checked_or_not() {
    let workspace = Workspace::plan("- [ ] a\n");
    for status in [ItemStatus::InProgress, ItemStatus::Blocked] {
        let error = workspace.backlog.set_status("a", status).unwrap_err();
        assert!(error.to_string().contains("plan-md files cannot store the status"), "{error}");
    }
}

#[test]
fn notes_are_nested_entries() {
    let text = "\u{feff}- [ ] a\r\n  - [ ] step\r\n\r\n- [ ] b\r\n10. [ ] c";
    let workspace = Workspace::plan(text);
    workspace.backlog.append_note("a", "one\nline").unwrap();
    workspace.backlog.append_note("c", "two").unwrap();
    assert_eq!(
        workspace.text(),
        "\u{feff}- [ ] a\r\n  - [ ] step\r\n  - Note: one line\r\n\r\n- [ ] b\r\n10. [ ] c\r\n    - Note: two"
    );
    assert_eq!(workspace.load().items[0].notes, ["one line"]);
}

#[test]
fn adds_items_after_the_last() {
    let workspace = Workspace::plan("# P\n\n* [ ] a\n  * [ ] step\n\nThe end.\n");
    let item = NewItem {
        title: "b".to_owned(),
        description: "What to do.".to_owned(),
        criteria: vec!["it works".to_owned()],
        ..NewItem::default()
    };
    let (id, after) = workspace.backlog.add_item(&item).unwrap();
    assert_eq!(id, "b");
    assert_eq!(after.items[1].criteria, ["it works"]);
    assert_eq!(after.items[1].description, "What to do.");
    assert_eq!(
        workspace.text(),
        "# P\n\n* [ ] a\n  * [ ] step\n* [ ] b\n\n  What to do.\n\n  - it works\n\nThe end.\n"
    );
    let empty = Workspace::plan("# P");
    empty.backlog.add_item(&NewItem { title: "b".to_owned(), ..NewItem::default() }).unwrap();
    assert_eq!(empty.text(), "# P\n\n- [ ] b\n");
}

#[test]
fn refuses_what_a_plan_cannot_hold() {
    let workspace = Workspace::plan("- [ ] a\n");
    let titled = || NewItem { title: "t".to_owned(), ..NewItem::default() };
    for item in [
        NewItem { priority: Some(1), ..titled() },
        NewItem { dependencies: vec!["a".to_owned()], ..titled() },
        NewItem { id: Some("t".to_owned()), ..titled() },
        NewItem { category: Some("c".to_owned()), ..titled() },
    ] {
        let error = workspace.backlog.add_item(&item).unwrap_err().to_string();
        assert!(error.contains("plan-md files cannot store"), "{error}");
    }
    assert_eq!(workspace.text(), "- [ ] a\n");
}

#[test]
fn an_edit_that_markdown_would_read_otherwise_is_not_written() {
    let text = "- [ ] a\n  ```\n  open fence";
    let workspace = Workspace::plan(text);
    let error = workspace.backlog.append_note("a", "n").unwrap_err().to_string();
    assert!(error.contains("edit the file by hand"), "{error}");
    assert_eq!(workspace.text(), text);
}
