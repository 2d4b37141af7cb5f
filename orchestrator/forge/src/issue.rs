//! An issue as an item: what strangers wrote, bounded and without what is not seen.

use ralph_orchestrator_backlog::BacklogItem;
use ralph_orchestrator_text::{is_printable, one_line, strip_escape_sequences};
use serde::{Deserialize, Serialize};

use crate::commands::PrintedIssue;
use crate::labels::StatusLabels;

/// The longest title, in characters.
const LONGEST_TITLE: usize = 200;
/// The longest text, in bytes.
const LONGEST_BODY: usize = 64 * 1024;
/// Most boxes of a task list that are acceptance criteria.
const MOST_CRITERIA: usize = 100;

/// An issue as it was read last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Issue {
    pub(crate) number: u64,
    pub(crate) item: BacklogItem,
    pub(crate) labels: Vec<String>,
}

impl Issue {
    /// Makes an item of an issue. Its text names no command that is run.
    pub(crate) fn from_printed(printed: PrintedIssue, labels: &StatusLabels) -> Self {
        let (description, criteria) = split_criteria(&clean(&printed.body));
        let item = BacklogItem {
            id: printed.number.to_string(),
            title: one_line(&printed.title, LONGEST_TITLE),
            description,
            status: labels.status_of(&printed.labels),
            priority: 0,
            criteria,
            dependencies: Vec::new(),
            notes: Vec::new(),
            verify: None,
            location: None,
        };
        Self { number: printed.number, item, labels: printed.labels }
    }
}

/// Returns a text without escape sequences, control characters and what is not seen, cut at the longest.
fn clean(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_BODY);
    let (kept, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let is_kept = |c: &char| matches!(c, '\n' | '\t') || is_printable(*c);
    let mut cleaned: String = strip_escape_sequences(kept).chars().filter(is_kept).collect();
    if !rest.is_empty() {
        cleaned.push_str(&format!("\n[{} more bytes of the issue are left out]\n", rest.len()));
    }
    cleaned
}

/// Takes the boxes of task lists out of a text: they are what has to hold.
fn split_criteria(text: &str) -> (String, Vec<String>) {
    let mut description = Vec::new();
    let mut criteria = Vec::new();
    for line in text.lines() {
        match read_box(line).filter(|_| criteria.len() < MOST_CRITERIA) {
            Some(criterion) => criteria.push(criterion.to_owned()),
            None => description.push(line),
        }
    }
    (description.join("\n").trim().to_owned(), criteria)
}

/// Returns what a box of a task list says, ticked or not.
fn read_box(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))?;
    let boxes = ["[ ] ", "[x] ", "[X] "];
    let text = boxes.into_iter().find_map(|found| rest.strip_prefix(found))?.trim();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_backlog::ItemStatus;

    fn issue(title: &str, body: &str, labels: &[&str]) -> Issue {
        let names = StatusLabels { in_progress: "p".into(), done: "d".into(), blocked: "b".into() };
        let printed = PrintedIssue {
            number: 7,
            title: title.into(),
            body: body.into(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        };
        Issue::from_printed(printed, &names)
    }

    #[test]
    fn boxes_of_a_task_list_are_criteria_and_the_rest_is_the_description() {
        let Issue { item, .. } =
            issue("T", "Do it.\r\n\r\n- [ ] one\r\n  * [x] two\n- [ ]\n- [y] no\nEnd.\n", &[]);
        assert_eq!(item.criteria, ["one", "two"]);
        assert_eq!(item.description, "Do it.\n\n- [ ]\n- [y] no\nEnd.");
        assert_eq!((item.id.as_str(), item.verify), ("7", None));
    }

    #[test]
    fn what_is_not_seen_is_removed_and_what_is_too_long_is_cut() {
        let body = format!("a\u{1b}[31mb\u{202e}c\0\n{}", "é".repeat(LONGEST_BODY));
        let Issue { item, .. } = issue("\u{1b}]0;x\u{7}T\nU", &body, &[]);
        assert!(item.description.starts_with("abc\né"), "{:.20}", item.description);
        assert!(item.description.ends_with("more bytes of the issue are left out]"));
        assert!(item.description.len() < LONGEST_BODY + 100);
        assert!(item.title.chars().all(is_printable), "{:?}", item.title);
    }

    #[test]
    fn the_furthest_of_several_status_labels_counts() {
        let table = [
            (&[][..], ItemStatus::Pending),
            (&["ralph"], ItemStatus::Pending),
            (&["P"], ItemStatus::InProgress),
            (&["p", "d"], ItemStatus::Completed),
            (&["b", "p"], ItemStatus::Blocked),
        ];
        for (labels, status) in table {
            assert_eq!(issue("T", "", labels).item.status, status, "{labels:?}");
        }
    }
}
