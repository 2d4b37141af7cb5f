use std::os::unix::fs::symlink;

use ralph_orchestrator_backlog::{
    AgentCompletions, GuardFinding, GuardReport, GuardRules, ItemStatus, NewItem, TrustedEdit,
};

use crate::fixture::{Workspace, feature, feature_list};

const ADA: &str = include_str!("fixtures/feature-list.json");

/// Lets an agent replace the file, and guards it.
fn guard(workspace: &Workspace, agent: impl FnOnce(String) -> String) -> GuardReport {
    let base = workspace.load();
    workspace.write(agent(workspace.text()));
    workspace.backlog.guard(&base, &[], GuardRules::default()).unwrap()
}

#[test]
fn leaves_what_an_agent_may_change() {
    let workspace = Workspace::json(ADA);
    let changed = ADA
        .replace("\"in_progress\"", "\"blocked\"")
        .replace("\"Chose argon2\"", "\"Chose argon2\", \"Needs a key\"");
    let report = guard(&workspace, |_| changed.clone());
    assert_eq!(workspace.text(), changed);
    assert!(!report.is_restored);
    assert_eq!(
        report.findings,
        [
            GuardFinding::StatusChanged {
                id: "user-auth".to_owned(),
                before: ItemStatus::InProgress,
                after: ItemStatus::Blocked,
                is_reverted: false,
            },
            GuardFinding::NotesChanged { id: "user-auth".to_owned() },
        ]
    );
}

#[test]
fn an_unchanged_file_has_no_findings() {
    let workspace = Workspace::json(ADA);
    assert!(guard(&workspace, |text| text).findings.is_empty());
    // Another layout of the same values is no change either.
    let report = guard(&workspace, |text| text.replace("  ", " "));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn restores_criteria_and_items_and_keeps_the_notes() {
    let workspace = Workspace::json(ADA);
    let report = guard(&workspace, |text| {
        let first = text.find("    {\n      \"id\": \"database\"").unwrap();
        let second = text.find("    {\n      \"id\": \"user-auth\"").unwrap();
        format!("{}{}", &text[..first], &text[second..])
            .replace("\"A wrong password is refused\", ", "")
            .replace("\"Chose argon2\"", "\"Chose bcrypt\"")
            .replace("400.50", "9999")
            .replace("\"shop\"", "\"mine\"")
    });
    assert_eq!(workspace.text(), ADA.replace("Chose argon2", "Chose bcrypt"));
    assert!(report.is_restored);
    assert!(report.replaced.is_some());
    let found: Vec<String> = report.findings.iter().map(|f| format!("{f:?}")).collect();
    let has = |part: &str| found.iter().any(|finding| finding.contains(part));
    assert!(has("Removed { id: \"database\" }"), "{found:#?}");
    assert!(has("field: \"acceptance_criteria\""));
    assert!(has("field: \"quality_gates\""));
    assert!(has("FrameEdited { field: \"project_name\""));
    assert!(has("NotesChanged"));
}

#[test]
fn reports_and_takes_back_a_completion_of_the_agent() {
    let workspace = Workspace::json(ADA);
    let complete = |text: String| {
        text.replace("\"in_progress\"", "\"completed\"").replace("Chose argon2", "Done!")
    };
    let report = guard(&workspace, complete);
    assert_eq!(workspace.text(), ADA.replace("Chose argon2", "Done!"));
    assert_eq!(report.completed_by_agent().collect::<Vec<_>>(), ["user-auth"]);
    assert_eq!(report.current.items[1].status, ItemStatus::InProgress);

    let base = workspace.load();
    workspace.write(complete(workspace.text()));
    let rules = GuardRules { completions: AgentCompletions::Keep };
    let report = workspace.backlog.guard(&base, &[], rules).unwrap();
    assert_eq!(report.completed_by_agent().count(), 1);
    assert!(!report.is_restored);
    assert_eq!(workspace.next(), "(complete)");
}

#[test]
fn restores_a_broken_file_from_the_base() {
    for broken in [
        "",
        "{",
        &ADA[..ADA.len() / 2],
        "[]",
        "{\"features\": [{}]}",
        "\u{0}",
        "{\"userStories\":[]}",
    ] {
        let workspace = Workspace::json(ADA);
        let report = guard(&workspace, |_| broken.to_owned());
        assert_eq!(workspace.text(), ADA, "{broken}");
        assert!(matches!(report.findings[..], [GuardFinding::Corrupted { .. }]), "{broken}");
        assert_eq!(report.replaced.as_deref(), Some(broken.as_bytes()));
        assert_eq!(workspace.next(), "user-auth");
    }
}

#[test]
fn restores_a_file_that_is_gone_or_became_a_link() {
    let workspace = Workspace::json(ADA);
    let base = workspace.load();
    std::fs::remove_file(workspace.path()).unwrap();
    let report = workspace.backlog.guard(&base, &[], GuardRules::default()).unwrap();
    assert!(matches!(report.findings[..], [GuardFinding::Corrupted { .. }]));
    assert_eq!(workspace.text(), ADA);

    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "mine").unwrap();
    std::fs::remove_file(workspace.path()).unwrap();
    symlink(outside.path(), workspace.path()).unwrap();
    workspace.backlog.guard(&base, &[], GuardRules::default()).unwrap();
    assert!(workspace.path().symlink_metadata().unwrap().is_file());
    assert_eq!(workspace.text(), ADA);
    assert_eq!(std::fs::read_to_string(outside.path()).unwrap(), "mine");
}

#[test]
fn new_items_are_proposals() {
    let text = feature_list(&[feature("a", "pending", 1, &[])]);
    let workspace = Workspace::json(&text);
    let report = guard(&workspace, |_| {
        feature_list(&[feature("b", "pending", 100, &["nope"]), feature("a", "pending", 1, &[])])
    });
    assert_eq!(workspace.text(), text);
    let [GuardFinding::Proposed { item, source }] = &report.findings[..] else {
        panic!("{:?}", report.findings)
    };
    assert_eq!(item.id, "b");
    assert_eq!(*source, feature("b", "pending", 100, &["nope"]));
}

#[test]
fn a_second_item_with_the_same_id_is_a_proposal() {
    let text = feature_list(&[feature("a", "pending", 1, &[])]);
    let workspace = Workspace::json(&text);
    let report = guard(&workspace, |_| {
        feature_list(&[feature("a", "pending", 1, &[]), feature("a", "completed", 9, &[])])
    });
    assert_eq!(workspace.text(), text);
    assert!(matches!(report.findings[..], [GuardFinding::Proposed { .. }]));
}

#[test]
fn restores_the_order_and_dependencies() {
    let items = [
        feature("a", "pending", 1, &[]),
        feature("b", "pending", 1, &["a"]),
        feature("c", "pending", 1, &[]),
    ];
    let workspace = Workspace::json(feature_list(&items));
    let report = guard(&workspace, |_| {
        let free = feature("b", "in_progress", 1, &[]);
        feature_list(&[items[2].clone(), items[0].clone(), free])
    });
    let expected =
        feature_list(&[items[0].clone(), feature("b", "in_progress", 1, &["a"]), items[2].clone()]);
    assert_eq!(workspace.text(), expected);
    let reordered = report.findings.iter().filter(|f| matches!(f, GuardFinding::Reordered { .. }));
    assert_eq!(reordered.count(), 1);
}

#[test]
fn keeps_what_a_person_changed_meanwhile() {
    let text = feature_list(&[
        feature("a", "pending", 1, &[]),
        feature("b", "pending", 1, &[]),
        feature("c", "pending", 1, &[]),
    ]);
    let workspace = Workspace::json(&text);
    let base = workspace.load();
    // The agent completes `b`; then a person adds `d`, removes `c`, and raises `b`.
    workspace
        .write(text.replace(&feature("b", "pending", 1, &[]), &feature("b", "completed", 1, &[])));
    let before = workspace.text();
    let new = NewItem { title: "d".to_owned(), priority: Some(7), ..NewItem::default() };
    workspace.backlog.add_item(&new).unwrap();
    workspace.write(
        workspace
            .text()
            .replace(&format!("{},\n", feature("c", "pending", 1, &[])), "")
            .replace(&feature("b", "completed", 1, &[]), &feature("b", "completed", 5, &[]))
            .replace(&format!(",\n{}", feature("c", "pending", 1, &[])), ""),
    );
    let edit = TrustedEdit { before: before.into_bytes(), after: workspace.text().into_bytes() };
    // Then the agent writes its own old copy back, without `a`.
    workspace.write(text.replace(&format!("{},\n", feature("a", "pending", 1, &[])), ""));
    let report = workspace.backlog.guard(&base, &[edit], GuardRules::default()).unwrap();
    assert_eq!(workspace.ids(), ["a", "b", "d"]);
    let current = workspace.load();
    assert_eq!(current.find("b").unwrap().priority, 5);
    assert_eq!(current.find("b").unwrap().status, ItemStatus::Pending);
    assert_eq!(workspace.next(), "d");
    assert_eq!(report.current, current);
}

#[test]
fn an_edit_between_sessions_is_a_new_base() {
    let workspace = Workspace::json(ADA);
    workspace.write(ADA.replace("\"priority\": 10", "\"priority\": 99"));
    assert!(guard(&workspace, |text| text).findings.is_empty());
    assert_eq!(workspace.load().items[1].priority, 99);
}

#[test]
fn guards_a_plan_and_keeps_its_prose() {
    let plan = "# Plan\n\n- [x] a\n- [ ] b\n  - criterion\n- [ ] c\n\nProse.\n";
    let workspace = Workspace::plan(plan);
    let report = guard(&workspace, |text| {
        text.replace("- [ ] b", "- [x] b").replace("Prose.", "Other prose.")
    });
    assert_eq!(workspace.text(), plan.replace("Prose.", "Other prose."));
    assert_eq!(report.completed_by_agent().collect::<Vec<_>>(), ["b"]);

    workspace.write(plan);
    let report =
        guard(&workspace, |_| "# Plan\n\n- [x] a\n- [ ] b\n  - Note: hard\n- [ ] new\n".to_owned());
    let expected = plan.replace("  - criterion\n", "  - criterion\n  - Note: hard\n");
    assert_eq!(workspace.text(), expected);
    // The prose, too, is as before, and is reported.
    assert_eq!(report.findings.len(), 5, "{:#?}", report.findings);
}

#[test]
fn ticking_nested_boxes_is_no_tampering() {
    let workspace = Workspace::plan("- [ ] a\n  - [ ] step\n");
    let report = guard(&workspace, |text| text.replace("[ ] step", "[x] step"));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(workspace.text(), "- [ ] a\n  - [x] step\n");
}

#[test]
fn an_edit_before_the_agent_touched_the_file_is_a_new_base() {
    let workspace = Workspace::json(ADA);
    let base = workspace.load();
    let after = ADA.replace("\"shop\"", "\"store\"").replace("400.50", "7");
    let edit = TrustedEdit { before: base.bytes.clone(), after: after.clone().into_bytes() };
    workspace.write(&after);
    let report = workspace.backlog.guard(&base, &[edit], GuardRules::default()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(workspace.text(), after);
}

#[test]
fn merges_additions_to_an_empty_list() {
    let empty = "{\"features\": []}";
    let workspace = Workspace::json(empty);
    let base = workspace.load();
    let two = feature_list(&[feature("a", "pending", 1, &[]), feature("b", "pending", 1, &["a"])]);
    let edit = TrustedEdit { before: b"{\"features\":[ ]}".to_vec(), after: two.into_bytes() };
    workspace.backlog.guard(&base, &[edit], GuardRules::default()).unwrap();
    assert_eq!(workspace.ids(), ["a", "b"]);
}

#[test]
fn merges_an_edit_of_a_plan() {
    let workspace = Workspace::plan("- [ ] a\n- [ ] b\n- [ ] c\n");
    let base = workspace.load();
    let edit = TrustedEdit {
        before: b"- [x] a\n- [ ] b\n- [ ] c\n".to_vec(),
        after: b"- [x] a\n  - now with a criterion\n- [ ] new\n- [ ] c\n".to_vec(),
    };
    workspace.write(&edit.after);
    let report = workspace.backlog.guard(&base, &[edit], GuardRules::default()).unwrap();
    assert_eq!(workspace.text(), "- [ ] a\n  - now with a criterion\n- [ ] new\n- [ ] c\n");
    assert_eq!(report.completed_by_agent().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn an_agent_cannot_unblock_an_item() {
    let workspace = Workspace::json(ADA.replace("\"in_progress\"", "\"blocked\""));
    let before = workspace.text();
    let report = guard(&workspace, |text| text.replace("\"blocked\"", "\"pending\""));
    assert_eq!(workspace.text(), before);
    assert!(report.is_restored, "{:?}", report.findings);
}

/// What an agent does to a plan, and what of it stays.
#[test]
fn ticks_of_sub_boxes_and_prose_of_a_plan_stay_or_are_reported() {
    let plan = "# Plan\n\n- [ ] Add login\n  - [ ] form\n  - [ ] endpoint\n- [ ] Log out\n";
    let ticked = plan.replace("  - [ ] form", "  - [x] form");
    let learned = |text: &str| text.replace("# Plan\n", "# Plan\n\nLearned: use argon2.\n");
    let added = |text: &str| format!("{text}- [ ] Bug: logout leaks\n");
    let without_last = |text: &str| text.replace("- [ ] Log out\n", "");
    let done = |text: &str| text.replace("- [ ] Log out", "- [x] Log out");
    let renamed = |text: &str| text.replace("Log out", "Sign out");
    for (what, agent, expected, lost) in [
        ("a tick", ticked.clone(), ticked.clone(), None),
        ("a tick and an item", added(&ticked), ticked.clone(), None),
        (
            "an item first",
            ticked.replace("- [ ] Add", "- [ ] Bug\n- [ ] Add"),
            ticked.clone(),
            None,
        ),
        ("prose and an item", added(&learned(&ticked)), learned(&ticked), None),
        (
            "a completion and an item",
            added(&done(&ticked)),
            ticked.clone(),
            Some("CompletedByAgent"),
        ),
        ("a tick and a removed item", without_last(&ticked), ticked.clone(), Some("Removed")),
        ("a tick and a renamed item", renamed(&ticked), ticked.clone(), Some("Removed")),
        (
            "prose and a removed item",
            without_last(&learned(plan)),
            plan.to_owned(),
            Some("FrameEdited { field: \"text\""),
        ),
        (
            "an edited sub-box",
            plan.replace("form", "any form"),
            plan.to_owned(),
            Some("Edited { id: \"add-login\""),
        ),
    ] {
        let workspace = Workspace::plan(plan);
        let report = guard(&workspace, |_| agent.clone());
        assert_eq!(workspace.text(), expected, "{what}");
        let found = format!("{:?}", report.findings);
        assert!(lost.is_none_or(|lost| found.contains(lost)), "{what}: {found}");
        assert!(lost.is_some() || !found.contains("Edited"), "{what}: {found}");
    }
}
