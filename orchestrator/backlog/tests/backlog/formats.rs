//! Formats that are not built in: what they return is checked, and the file is guarded as any other.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ralph_orchestrator_backlog::{
    Backlog, BacklogError, BacklogFile, BacklogItem, GuardFinding, GuardReport, GuardRules,
    ItemOrder, ItemStatus, NewItem, TextLocation, TrustedEdit, open_backlog_of,
};
use ralph_orchestrator_contract::{
    BacklogEdit, BacklogFormat, FormatDefect, FormatDescription, FormatError,
};

/// What the format makes of its own, right results.
type Twist<T> = fn(T) -> Result<T, FormatError>;

/// One item a line: `status|id|title|criterion|note;note`. Other lines begin with `#`.
struct Lines {
    read: Twist<Vec<BacklogItem>>,
    edit: Twist<String>,
    reads: Arc<AtomicUsize>,
}

fn read_lines(text: &str) -> Result<Vec<BacklogItem>, FormatError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let (mut items, mut defects) = (Vec::new(), Vec::new());
    for (number, line) in lines {
        let location = Some(TextLocation { line: number + 1, column: 1 });
        let parts: Vec<&str> = line.split('|').collect();
        let (&[_, id, title, criterion, notes], Some(status)) =
            (&parts[..], ItemStatus::from_word(parts[0]))
        else {
            let message = format!("expected five parts and a status, found {line:?}");
            defects.push(FormatDefect { location, item: None, message });
            continue;
        };
        items.push(BacklogItem {
            id: id.to_owned(),
            title: title.to_owned(),
            description: String::new(),
            status,
            priority: 0,
            criteria: Some(criterion.to_owned())
                .filter(|text| !text.is_empty())
                .into_iter()
                .collect(),
            dependencies: Vec::new(),
            notes: notes.split(';').filter(|note| !note.is_empty()).map(str::to_owned).collect(),
            verify: None,
            location,
        });
    }
    if defects.is_empty() { Ok(items) } else { Err(FormatError::Defects(defects)) }
}

fn edit_line(text: &str, id: &str, part: usize, value: &str) -> String {
    let edit = |line: &str| {
        let mut parts: Vec<&str> = line.trim_end_matches('\n').split('|').collect();
        if parts.get(1) == Some(&id) {
            parts[part] = value;
        }
        parts.join("|") + "\n"
    };
    text.split_inclusive('\n').map(edit).collect()
}

impl BacklogFormat for Lines {
    fn describe(&self) -> FormatDescription {
        FormatDescription {
            statuses: vec![ItemStatus::Pending, ItemStatus::InProgress, ItemStatus::Completed],
            example: "pending|a|A|it works|\n".to_owned(),
            ..FormatDescription::default()
        }
    }

    fn read(&self, text: &str) -> Result<Vec<BacklogItem>, FormatError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        (self.read)(read_lines(text)?)
    }

    fn edit(&self, text: &str, edits: &[BacklogEdit]) -> Result<String, FormatError> {
        let mut text = text.to_owned();
        for edit in edits {
            text = match edit {
                BacklogEdit::SetStatus { id, status } => edit_line(&text, id, 0, status.as_str()),
                BacklogEdit::SetNotes { id, notes } => edit_line(&text, id, 4, &notes.join(";")),
                BacklogEdit::Add { item } if item.priority.is_some() => {
                    return Err(FormatError::NotStorable("a priority".to_owned()));
                }
                BacklogEdit::Add { item } => {
                    let id = item.id.clone().unwrap_or_else(|| item.title.to_lowercase());
                    let criterion = item.criteria.first().map_or("", String::as_str);
                    format!("{text}pending|{id}|{}|{criterion}|\n", item.title)
                }
            };
        }
        (self.edit)(text)
    }
}

struct Workspace {
    folder: tempfile::TempDir,
    backlog: Box<dyn Backlog>,
    reads: Arc<AtomicUsize>,
}

const TEXT: &str = "# keep this\npending|a|A|it works|old\nin_progress|b|B|it runs|\n";

impl Workspace {
    fn twisted(read: Twist<Vec<BacklogItem>>, edit: Twist<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = BacklogFile::new(folder.path(), Path::new("items")).unwrap();
        let reads = Arc::<AtomicUsize>::default();
        let format = Lines { read, edit, reads: Arc::clone(&reads) };
        let backlog = open_backlog_of(Box::new(format), "lines", file, None);
        let workspace = Self { folder, backlog, reads };
        workspace.write(TEXT);
        workspace
    }

    fn new() -> Self {
        Self::twisted(Ok, Ok)
    }

    fn write(&self, text: &str) {
        std::fs::write(self.folder.path().join("items"), text).unwrap();
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("items")).unwrap()
    }

    /// Lets an agent replace the file, and guards it.
    fn guard(&self, agent: &str) -> GuardReport {
        let base = self.backlog.load().unwrap();
        self.write(agent);
        self.backlog.guard(&base, &[], GuardRules::default()).unwrap()
    }
}

#[test]
fn reads_orders_and_edits_and_keeps_every_other_byte() {
    let workspace = Workspace::new();
    let snapshot = workspace.backlog.load().unwrap();
    assert_eq!((snapshot.order, snapshot.items.len()), (ItemOrder::File, 2));
    assert_eq!(workspace.backlog.format(), "lines");
    workspace.backlog.set_status("a", ItemStatus::Completed).unwrap();
    workspace.backlog.append_note("b", "two words").unwrap();
    let (id, _) = workspace
        .backlog
        .add_item(&NewItem { title: "C".to_owned(), ..NewItem::default() })
        .unwrap();
    assert_eq!(id, "c");
    assert_eq!(
        workspace.text(),
        "# keep this\ncompleted|a|A|it works|old\nin_progress|b|B|it runs|two words\npending|c|C||\n"
    );
}

#[test]
fn what_does_not_change_asks_for_no_edit_and_the_same_text_is_read_once() {
    fn never(_: String) -> Result<String, FormatError> {
        panic!("no edit is needed")
    }
    let workspace = Workspace::twisted(Ok, never);
    workspace.backlog.set_status("b", ItemStatus::InProgress).unwrap();
    workspace.backlog.append_note("b", " \n").unwrap();
    assert!(workspace.guard(TEXT).findings.is_empty());
    for _ in 0..10 {
        workspace.backlog.load().unwrap();
    }
    assert_eq!(workspace.reads.load(Ordering::Relaxed), 1);
}

#[test]
fn defects_are_shown_where_they_are_and_rules_between_items_hold() {
    let workspace = Workspace::new();
    workspace.write("pending|a|A||\nwhat|is|this\n");
    let error = workspace.backlog.load().unwrap_err().to_string();
    assert_eq!(error, "items:2:1: expected five parts and a status, found \"what|is|this\"");
    workspace.write("pending|a|A||\npending|a|B||\n");
    let error = workspace.backlog.load().unwrap_err().to_string();
    assert!(error.contains("items:2:1") && error.contains("the id is used twice"), "{error}");
    std::fs::write(workspace.folder.path().join("items"), b"pending|\xff").unwrap();
    let error = workspace.backlog.load().unwrap_err().to_string();
    assert!(error.contains("not UTF-8"), "{error}");
}

#[test]
fn what_it_cannot_hold_is_refused_before_anything_is_written() {
    let workspace = Workspace::new();
    let blocked = workspace.backlog.set_status("a", ItemStatus::Blocked).unwrap_err();
    assert!(matches!(blocked, BacklogError::NotStorable { .. }), "{blocked}");
    let item = NewItem { title: "C".into(), priority: Some(1), ..NewItem::default() };
    let error = workspace.backlog.add_item(&item).unwrap_err().to_string();
    assert!(error.contains("lines files cannot store a priority"), "{error}");
    let item = NewItem { title: "C".into(), id: Some("a".into()), ..NewItem::default() };
    let error = workspace.backlog.add_item(&item).unwrap_err().to_string();
    assert!(error.contains("is taken"), "{error}");
    let unknown = workspace.backlog.set_status("z", ItemStatus::Completed).unwrap_err();
    assert!(matches!(unknown, BacklogError::UnknownItem { .. }), "{unknown}");
    assert_eq!(workspace.text(), TEXT);
}

/// A format that does one thing too many to the text: which, and what is said of it.
#[test]
fn an_edit_that_changes_more_than_was_requested_is_the_formats_error() {
    let twists: [(Twist<String>, &str); 6] = [
        (|text| Ok(text.replace("it runs", "it crawls")), "`criteria` of item `b`"),
        (|text| Ok(text.replace("in_progress|b|B", "completed|b|B")), "`status` of item `b`"),
        (|_| Ok(TEXT.to_owned()), "`status` of item `a`"),
        (|text| Ok(text.replace("in_progress|b|B|it runs|\n", "")), "1 items instead of 2"),
        (|text| Ok(text + "pending|evil|Evil||\n"), "3 items instead of 2"),
        (|_| Ok("no backlog".to_owned()), "it wrote a text that it cannot read"),
    ];
    for (twist, says) in twists {
        let workspace = Workspace::twisted(Ok, twist);
        let error = workspace.backlog.set_status("a", ItemStatus::Completed).unwrap_err();
        assert!(matches!(error, BacklogError::FormatFailed { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains("the format `lines` failed") && error.contains(says), "{error}");
        assert!(error.contains("nothing was written"), "{error}");
        assert_eq!(workspace.text(), TEXT, "{says}");
    }
}

#[test]
fn an_added_item_has_to_be_the_one_that_was_requested() {
    let item = NewItem {
        title: "Log  out".to_owned(),
        criteria: vec!["it ends".to_owned()],
        ..NewItem::default()
    };
    let twists: [(Twist<String>, &str); 3] = [
        (|text| Ok(text.replace("it ends", "it sleeps")), "`criteria`"),
        (|text| Ok(text.replace("Log  out", "Log in")), "`title`"),
        (|text| Ok(text.replace("pending|log", "completed|log")), "`status`"),
    ];
    for (twist, says) in twists {
        let workspace = Workspace::twisted(Ok, twist);
        let error = workspace.backlog.add_item(&item).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(workspace.text(), TEXT);
    }
    // Its words may be set in another way.
    let workspace = Workspace::twisted(Ok, |text| Ok(text.replace("Log  out", "Log out")));
    workspace.backlog.add_item(&item).unwrap();
}

#[test]
fn a_format_that_reads_what_cannot_be_is_named() {
    let reads: [(Twist<Vec<BacklogItem>>, &str); 3] = [
        (
            |mut items| {
                items[0].id.clear();
                Ok(items)
            },
            "an item without an id",
        ),
        (
            |mut items| {
                items[0].status = ItemStatus::Blocked;
                Ok(items)
            },
            "a status that it says it cannot hold",
        ),
        (|_| Err(FormatError::Defects(Vec::new())), "invalid without a reason"),
    ];
    for (read, says) in reads {
        let error = Workspace::twisted(read, Ok).backlog.load().unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("`lines`"), "{error}");
    }
}

#[test]
fn leaves_what_an_agent_may_change() {
    let workspace = Workspace::new();
    let agent = TEXT.replace("|old", "|old;new").replace("pending|a", "in_progress|a");
    let report = workspace.guard(&agent);
    assert_eq!(workspace.text(), agent);
    assert!(!report.is_restored && report.replaced.is_none());
    assert_eq!(report.findings.len(), 2, "{:?}", report.findings);
}

#[test]
fn takes_back_all_else_and_keeps_the_notes() {
    let agent = TEXT
        .replace("it works", "it may work")
        .replace("|old", "|old;new")
        .replace("in_progress|b", "completed|b")
        .replace("keep this", "drop this");
    let workspace = Workspace::new();
    let report = workspace.guard(&agent);
    assert_eq!(workspace.text(), TEXT.replace("|old", "|old;new"));
    assert_eq!(report.replaced.as_deref(), Some(agent.as_bytes()));
    let completed = GuardFinding::CompletedByAgent {
        id: "b".to_owned(),
        before: ItemStatus::InProgress,
        is_reverted: true,
    };
    assert!(report.findings.contains(&completed), "{:?}", report.findings);
    let edited = |finding: &&GuardFinding| matches!(finding, GuardFinding::Edited { field, .. } if field == "criteria");
    assert_eq!(report.findings.iter().filter(edited).count(), 1);
    for agent in [
        "# keep this\npending|a|A|it works|old\n",
        "# keep this\nin_progress|b|B|it runs|\npending|a|A|it works|old\n",
        "# keep this\npending|a|A|it works|old\nin_progress|b|B|it runs|\npending|c|C||\n",
        "no backlog at all",
        "",
    ] {
        let workspace = Workspace::new();
        assert!(workspace.guard(agent).is_restored, "{agent:?}");
        assert_eq!(workspace.text(), TEXT, "{agent:?}");
    }
}

/// Only the items of the format are known: whatever else differs is restored byte for byte.
#[test]
fn an_edit_beside_the_items_is_restored() {
    let workspace = Workspace::new();
    let report = workspace.guard(&TEXT.replace("keep this", "drop this"));
    assert_eq!(workspace.text(), TEXT);
    assert!(
        matches!(&report.findings[..], [GuardFinding::FrameEdited { field, .. }] if field == "text")
    );
}

#[test]
fn a_missing_file_is_restored() {
    let workspace = Workspace::new();
    let base = workspace.backlog.load().unwrap();
    std::fs::remove_file(workspace.folder.path().join("items")).unwrap();
    let report = workspace.backlog.guard(&base, &[], GuardRules::default()).unwrap();
    assert!(matches!(report.findings[..], [GuardFinding::Corrupted { .. }]));
    assert_eq!(workspace.text(), TEXT);
}

/// The agent's text makes the format fail, or the format fails to write what the agent may change.
#[test]
fn where_the_format_fails_the_base_is_restored() {
    let workspace = Workspace::twisted(
        |items| match items.len() {
            2 => Ok(items),
            _ => Err(FormatError::Failed("it crashed".to_owned())),
        },
        |_| Err(FormatError::Failed("it hangs".to_owned())),
    );
    let report = workspace.guard(&format!("{TEXT}pending|c|C||\n"));
    let says = |report: &GuardReport, what: &str| format!("{:?}", report.findings).contains(what);
    assert!(says(&report, "it crashed"));
    let report = workspace.guard(&TEXT.replace("|old", "|old;new").replace("keep", "drop"));
    assert!(says(&report, "cannot be written") && says(&report, "it hangs"));
    assert_eq!(workspace.text(), TEXT);
}

#[test]
fn trusted_edits_become_part_of_the_base() {
    let workspace = Workspace::new();
    let base = workspace.backlog.load().unwrap();
    // The agent edits a criterion; meanwhile somebody adds an item and a note.
    let agent = TEXT.replace("it works", "it may work");
    let trusted = agent.replace("|old", "|old;ours") + "pending|c|C|it is there|\n";
    let edit = TrustedEdit { before: agent.into_bytes(), after: trusted.clone().into_bytes() };
    workspace.write(&trusted);
    workspace.backlog.guard(&base, &[edit], GuardRules::default()).unwrap();
    let expected = TEXT.replace("|old", "|old;ours") + "pending|c|C|it is there|\n";
    assert_eq!(workspace.text(), expected);
}

/// Many threads ask for the same backlog, as the driver and the detector do.
#[test]
fn it_serves_several_threads() {
    let workspace = Workspace::new();
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                if let Err(error) = workspace.backlog.load() {
                    failures.lock().unwrap().push(error.to_string());
                }
            });
        }
    });
    assert_eq!(failures.into_inner().unwrap(), Vec::<String>::new());
}
