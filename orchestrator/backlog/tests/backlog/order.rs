use ralph_orchestrator_backlog::{ItemStatus, NextItem, PlacementReason};

use crate::fixture::{Workspace, feature, feature_list};

fn next_of(features: &[String]) -> String {
    Workspace::json(feature_list(features)).next()
}

#[test]
fn selects_by_progress_then_highest_priority_then_file() {
    let table: &[(&[String], &str)] = &[
        (&[], "(empty)"),
        (&[feature("a", "pending", 1, &[]), feature("b", "pending", 2, &[])], "b"),
        (&[feature("a", "pending", 2, &[]), feature("b", "pending", 2, &[])], "a"),
        (&[feature("a", "pending", 9, &[]), feature("b", "in_progress", 1, &[])], "b"),
        (&[feature("a", "in_progress", 1, &[]), feature("b", "in_progress", 5, &[])], "b"),
        (&[feature("a", "pending", -5, &[]), feature("b", "pending", 0, &[])], "b"),
        (&[feature("a", "blocked", 9, &[]), feature("b", "pending", 1, &[])], "b"),
        (&[feature("a", "completed", 9, &[]), feature("b", "pending", 1, &[])], "b"),
        (&[feature("a", "pending", 9, &["b"]), feature("b", "pending", 1, &[])], "b"),
        (&[feature("a", "pending", 9, &["b"]), feature("b", "completed", 1, &[])], "a"),
        (&[feature("a", "in_progress", 9, &["b"]), feature("b", "pending", 1, &[])], "b"),
        (&[feature("a", "completed", 1, &[]), feature("b", "completed", 1, &["a"])], "(complete)"),
        (
            &[feature("a", "blocked", 1, &[]), feature("b", "pending", 1, &["a"])],
            "a: blocked; b: waits for a (blocked)",
        ),
    ];
    for (features, expected) in table {
        assert_eq!(next_of(features), *expected, "{features:?}");
    }
}

#[test]
fn works_a_chain_from_its_beginning_whatever_the_priorities() {
    let workspace = Workspace::json(feature_list(&[
        feature("c", "pending", 100, &["b"]),
        feature("b", "pending", 50, &["a"]),
        feature("a", "pending", 1, &[]),
    ]));
    let mut order = Vec::new();
    while let NextItem::Item { item } = workspace.backlog.select_next().unwrap() {
        workspace.backlog.set_status(&item.id, ItemStatus::Completed).unwrap();
        order.push(item.id);
    }
    assert_eq!(order, ["a", "b", "c"]);
    assert_eq!(workspace.next(), "(complete)");
}

#[test]
fn explains_the_place_of_every_item() {
    let workspace = Workspace::json(feature_list(&[
        feature("done", "completed", 9, &[]),
        feature("low", "pending", 1, &[]),
        feature("aside", "blocked", 9, &[]),
        feature("high", "pending", 5, &["done"]),
        feature("later", "pending", 9, &["low", "aside", "done"]),
    ]));
    let lines: Vec<String> =
        workspace.backlog.explain().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "done: completed",
            "low: number 2, after high",
            "aside: blocked",
            "high: selected",
            "later: waits for low (pending), aside (blocked)",
        ]
    );
}

#[test]
fn answers_the_same_a_hundred_times() {
    let features: Vec<String> =
        (0..20).map(|n| feature(&format!("f{n}"), "pending", n % 4, &[])).collect();
    let workspace = Workspace::json(feature_list(&features));
    for _ in 0..100 {
        assert_eq!(workspace.next(), "f3");
    }
}

#[test]
fn prd_and_feature_array_work_the_lowest_priority_first() {
    let prd = r#"{"userStories":[
        {"id":"US-1","title":"a","priority":3,"passes":false},
        {"id":"US-2","title":"b","priority":1,"passes":true},
        {"id":"US-3","title":"c","priority":2,"passes":false},
        {"id":"US-4","title":"d","priority":2,"passes":false}]}"#;
    assert_eq!(Workspace::json(prd).next(), "US-3");
    let array = r#"[{"id":10,"priority":1,"description":"a"},{"id":9,"priority":1,"description":"b"},
        {"id":1,"priority":2,"in_progress":true,"description":"c"}]"#;
    assert_eq!(Workspace::json(array).next(), "9");
}

#[test]
fn sees_what_another_process_changed() {
    let workspace = Workspace::json(feature_list(&[feature("a", "pending", 1, &[])]));
    assert_eq!(workspace.next(), "a");
    workspace.write(feature_list(&[feature("a", "completed", 1, &[])]));
    assert_eq!(workspace.next(), "(complete)");
}

#[test]
fn orders_ten_thousand_items_with_one_long_chain() {
    let features: Vec<String> = (0..10_000)
        .map(|n| {
            let before = format!("f{}", n + 1);
            let depends_on: &[&str] = if n < 9_999 { &[&before] } else { &[] };
            feature(&format!("f{n}"), "pending", n, depends_on)
        })
        .collect();
    let snapshot = Workspace::json(feature_list(&features)).load();
    let NextItem::Item { item } = snapshot.select_next() else { panic!("no item") };
    assert_eq!(item.id, "f9999");
    let waiting = snapshot.explain().into_iter();
    let waiting = waiting.filter(|p| matches!(p.reason, PlacementReason::Waiting { .. }));
    assert_eq!(waiting.count(), 9_999);
}

#[test]
fn statuses_have_the_names_of_the_formats() {
    assert_eq!(ItemStatus::from_word("in_progress"), Some(ItemStatus::InProgress));
    assert_eq!(ItemStatus::from_word("done"), None);
}

#[test]
fn counts_have_a_percentage() {
    let counts = |completed, total| {
        ralph_orchestrator_backlog::ItemCounts { completed, in_progress: 0, total }.to_string()
    };
    assert_eq!(counts(45, 200), "45/200 (22.5%)");
    assert_eq!(counts(0, 0), "0/0 (0.0%)");
    assert_eq!(counts(3, 3), "3/3 (100.0%)");
}
