//! The labels that say how far an issue has come.

use ralph_orchestrator_backlog::ItemStatus;

/// The longest name of a label, in characters, as GitHub allows it.
const LONGEST: usize = 50;

/// The labels of an issue's statuses. One without any of them is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLabels {
    /// It is worked on.
    pub in_progress: String,
    /// The work is accepted.
    pub done: String,
    /// It is set aside.
    pub blocked: String,
}

impl StatusLabels {
    /// Returns the label of a status.
    pub(crate) fn label_of(&self, status: ItemStatus) -> Option<&str> {
        match status {
            ItemStatus::Pending => None,
            ItemStatus::InProgress => Some(&self.in_progress),
            ItemStatus::Completed => Some(&self.done),
            ItemStatus::Blocked => Some(&self.blocked),
        }
    }

    /// Returns the status of an issue with these labels. One that has several, because a change of them was cut off or
    /// by hand, is the furthest.
    pub(crate) fn status_of(&self, labels: &[String]) -> ItemStatus {
        let by_weight = [ItemStatus::Completed, ItemStatus::Blocked, ItemStatus::InProgress];
        let has =
            |status: &ItemStatus| self.label_of(*status).is_some_and(|l| has_label(labels, l));
        by_weight.into_iter().find(has).unwrap_or(ItemStatus::Pending)
    }

    /// Returns each with the colour and the words that it is created with.
    pub(crate) fn to_create(&self) -> [(&str, &'static str, &'static str); 3] {
        [
            (&self.in_progress, "fbca04", "ralph-orchestrator works on it"),
            (&self.done, "0e8a16", "ralph-orchestrator completed it: the checks accept the work"),
            (&self.blocked, "d93f0b", "ralph-orchestrator set it aside: see its comment"),
        ]
    }
}

/// Returns whether a label is among others. Hosts do not tell upper and lower case apart.
pub(crate) fn has_label(labels: &[String], label: &str) -> bool {
    labels.iter().any(|found| found.to_lowercase() == label.to_lowercase())
}

/// Returns what is wrong with the name of a label, if anything is. A comma would separate two, and a quote begin a
/// name in quotes.
#[must_use]
pub fn check_label(name: &str) -> Option<String> {
    let is_plain = |c: char| ralph_orchestrator_text::is_printable(c) && !matches!(c, ',' | '"');
    let length = name.chars().count();
    let is_valid =
        (1..=LONGEST).contains(&length) && name.chars().all(is_plain) && name.trim() == name;
    (!is_valid).then(|| {
        format!("expected the name of a label: 1 to {LONGEST} characters, no comma, quote or space around it, found {name:?}")
    })
}
