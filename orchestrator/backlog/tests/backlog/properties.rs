use proptest::prelude::*;
use ralph_orchestrator_backlog::{
    BacklogError, BacklogItem, GuardFinding, GuardRules, ItemStatus, NextItem, TrustedEdit,
};

use crate::fixture::Workspace;

/// A feature list whose dependencies lead to earlier items, with random layout.
fn backlogs() -> impl Strategy<Value = String> {
    let status = prop::sample::select(ItemStatus::ALL.to_vec());
    let item = (status, -2..3_i64, any::<u64>(), "[ -~äß€\n\"\\\\]{0,12}", 0..4_usize);
    let newline = prop::sample::select(vec!["\n", "\r\n", ""]);
    (prop::collection::vec(item, 1..8), newline, any::<bool>()).prop_map(
        |(items, newline, has_mark)| {
            let mut sources = Vec::new();
            for (n, (status, priority, links, text, notes)) in items.iter().enumerate() {
                let before: Vec<String> =
                    (0..n).filter(|m| links >> m & 1 == 1).map(|m| format!("i{m}")).collect();
                let before = serde_json::to_string(&before).unwrap();
                let text = serde_json::to_string(text).unwrap();
                let notes = match notes {
                    0 => String::new(),
                    1 => format!(",{newline} \"implementation_notes\" : [ ]"),
                    2 => format!(", \"implementation_notes\":[{newline}{text}{newline}]"),
                    _ => ", \"implementation_notes\": null".to_owned(),
                };
                sources.push(format!(
                    "{{{newline} \"id\": \"i{n}\",{newline}\t\"name\": {text}, \
                     \"description\": {text},\"status\" :\"{status}\", \"priority\": {priority}, \
                     \"x\": [1.50,{newline} {{}}],\"depends_on\": {before}{notes}{newline}}}"
                ));
            }
            let sources = sources.join(&format!(",{newline} "));
            let mark = if has_mark { "\u{feff}" } else { "" };
            format!("{mark}{{\"features\": [{newline}{sources}]}}{newline}")
        },
    )
}

fn without_locations(items: &[BacklogItem]) -> Vec<BacklogItem> {
    items.iter().cloned().map(|item| BacklogItem { location: None, ..item }).collect()
}

/// Returns how many bytes are equal at the beginning and at the end.
fn common_ends(before: &str, after: &str) -> (usize, usize) {
    let prefix = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
    let (b, a) = (&before.as_bytes()[prefix..], &after.as_bytes()[prefix..]);
    let suffix = b.iter().rev().zip(a.iter().rev()).take_while(|(a, b)| a == b).count();
    (prefix, suffix)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn a_status_changes_one_item_and_one_span(
        text in backlogs(),
        index in any::<prop::sample::Index>(),
        status in prop::sample::select(ItemStatus::ALL.to_vec()),
    ) {
        let workspace = Workspace::json(&text);
        let before = workspace.load();
        let index = index.index(before.items.len());
        workspace.backlog.set_status(&before.items[index].id, status).unwrap();
        let mut expected = without_locations(&before.items);
        let old = std::mem::replace(&mut expected[index].status, status);
        prop_assert_eq!(without_locations(&workspace.load().items), expected);
        let after = workspace.text();
        let (prefix, suffix) = common_ends(&text, &after);
        prop_assert!(text.len() - prefix - suffix <= old.as_str().len());
    }

    #[test]
    fn a_note_only_inserts(text in backlogs(), index in any::<prop::sample::Index>(), note in ".{0,20}") {
        let workspace = Workspace::json(&text);
        let before = workspace.load();
        let index = index.index(before.items.len());
        workspace.backlog.append_note(&before.items[index].id, &note).unwrap();
        let mut expected = without_locations(&before.items);
        if !note.trim().is_empty() {
            expected[index].notes.push(note);
        }
        prop_assert_eq!(without_locations(&workspace.load().items), expected);
        let (prefix, suffix) = common_ends(&text, &workspace.text());
        // Nothing is replaced but `null` and the blank space in an empty list.
        prop_assert!(text.len() - prefix - suffix <= 4);
    }

    #[test]
    fn the_order_is_total_and_ends(text in backlogs()) {
        let workspace = Workspace::json(&text);
        let mut snapshot = workspace.load();
        prop_assert_eq!(snapshot.explain().len(), snapshot.items.len());
        for _ in 0..snapshot.items.len() {
            let NextItem::Item { item } = snapshot.select_next() else { break };
            prop_assert_eq!(snapshot.select_next(), NextItem::Item { item: item.clone() });
            let others = snapshot.items.iter().filter(|other| other.status == ItemStatus::InProgress);
            if item.status != ItemStatus::InProgress {
                let done = |id: &String| snapshot.find(id).unwrap().status == ItemStatus::Completed;
                prop_assert_eq!(others.filter(|other| other.dependencies.iter().all(done)).count(), 0);
            }
            let at = snapshot.items.iter().position(|other| other.id == item.id).unwrap();
            snapshot.items[at].status = ItemStatus::Completed;
        }
        let is_item = matches!(snapshot.select_next(), NextItem::Item { .. });
        prop_assert!(!is_item);
    }

    #[test]
    fn guard_never_loses_an_item(base in backlogs(), after in backlogs(), cut in any::<prop::sample::Index>(), kind in 0..3) {
        let workspace = Workspace::json(&base);
        let snapshot = workspace.load();
        let agent = match kind {
            0 => after,
            1 => after.chars().take(cut.index(after.chars().count())).collect(),
            _ => base.replace("\"priority\": 1", "\"priority\": 2").replace("pending", "completed"),
        };
        workspace.write(&agent);
        let report = workspace.backlog.guard(&snapshot, &[], GuardRules::default()).unwrap();
        let now = workspace.load();
        prop_assert_eq!(&now, &report.current);
        prop_assert_eq!(now.items.len(), snapshot.items.len());
        for (before, now) in snapshot.items.iter().zip(&now.items) {
            let expected = BacklogItem {
                status: now.status,
                notes: now.notes.clone(),
                location: now.location,
                ..before.clone()
            };
            prop_assert_eq!(&expected, now);
            prop_assert!(now.status != ItemStatus::Completed || before.status == now.status);
        }
        let again = workspace.backlog.guard(&now, &[], GuardRules::default()).unwrap();
        prop_assert_eq!(again.findings, Vec::<GuardFinding>::new());
    }

    #[test]
    fn an_edit_of_a_person_wins_whatever_the_agent_did(
        base in backlogs(),
        before in backlogs(),
        after in backlogs(),
        agent in backlogs(),
    ) {
        let workspace = Workspace::json(&base);
        let snapshot = workspace.load();
        let of = |text: &String| workspace.backlog.parse(text.as_bytes()).unwrap();
        let (was, is) = (of(&before), of(&after));
        workspace.write(&agent);
        let edit = TrustedEdit { before: before.into_bytes(), after: after.into_bytes() };
        let guarded = workspace.backlog.guard(&snapshot, &[edit], GuardRules::default());
        let now = match guarded {
            Ok(report) => report.current,
            // The merged items may depend on removed ones.
            Err(BacklogError::Invalid { .. }) => {
                prop_assert_eq!(workspace.text(), agent);
                return Ok(());
            }
            Err(error) => panic!("{error}"),
        };
        for item in &is.items {
            let old = was.find(&item.id);
            if old.is_none_or(|old| old.title != item.title || old.priority != item.priority) {
                let now = now.find(&item.id).unwrap();
                prop_assert_eq!(&now.title, &item.title);
                prop_assert_eq!(now.priority, item.priority);
            }
        }
        for item in &was.items {
            prop_assert!(is.find(&item.id).is_some() || now.find(&item.id).is_none());
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[-*\\[\\] xX\n>`#a-c{}\":,<!]{0,80}") {
        for content in [bytes.as_slice(), text.as_bytes()] {
            let _ = Workspace::json(content).backlog.load();
            let plan = Workspace::plan(content);
            if let Ok(snapshot) = plan.backlog.load() {
                for item in &snapshot.items {
                    let after = plan.backlog.set_status(&item.id, ItemStatus::Completed).unwrap();
                    prop_assert_eq!(after.items.len(), snapshot.items.len());
                    prop_assert_eq!(after.bytes.len(), snapshot.bytes.len());
                }
                let report = plan.backlog.guard(&snapshot, &[], GuardRules::default()).unwrap();
                let now = without_locations(&report.current.items);
                prop_assert_eq!(now, without_locations(&snapshot.items));
            }
        }
    }
}
