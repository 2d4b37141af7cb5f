//! What an iteration did, in sections.

use crate::text::append_list;

const NOTHING: &str = "nothing is recorded";

/// What an iteration did, in the sections that each entry has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// What was done.
    pub accomplished: Vec<String>,
    /// Checks and tests, with their results.
    pub checks: Vec<String>,
    /// What was found wrong, or put right.
    pub issues: Vec<String>,
    /// What comes next.
    pub next: Vec<String>,
    /// How far the work is.
    pub status: Vec<String>,
}

impl Summary {
    /// The titles of the sections, in their order.
    pub const TITLES: [&'static str; 5] = [
        "Accomplished this session",
        "Checks and tests completed",
        "Issues found or fixed",
        "What next",
        "Completion status",
    ];

    /// Returns the sections as text. Each is there, and each is bounded.
    #[must_use]
    pub fn render(&self) -> String {
        let sections = [&self.accomplished, &self.checks, &self.issues, &self.next, &self.status];
        let mut text = String::new();
        for (title, items) in Self::TITLES.iter().zip(sections) {
            append_list(&mut text, title, items, NOTHING);
        }
        text
    }
}

/// What a session leaves to the next one when it is handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoffNotes {
    /// Why it was handed over.
    pub reason: String,
    /// What the next session has to do.
    pub next: Vec<String>,
    /// The files that were changed.
    pub files: Vec<String>,
    /// The commit that has the work.
    pub commit: Option<String>,
}

impl HandoffNotes {
    /// Returns the notes as text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = format!("HANDOFF: {}\n\n", self.reason);
        let unfinished = "continue with the files as they are";
        append_list(&mut text, "NEXT STEPS FOR INCOMING SESSION", &self.next, unfinished);
        text.push('\n');
        append_list(&mut text, "Files changed", &self.files, "none");
        text.push_str(&format!("\nCommit: {}\n", self.commit.as_deref().unwrap_or("none")));
        text
    }
}
