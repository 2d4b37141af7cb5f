//! Entries of sessions and iterations.

use ralph_orchestrator_text::plain_line;

use crate::entries::RULE;
use crate::text::time_text;

/// The longest field of an entry, in characters.
const LONGEST_FIELD: usize = 200;

/// What a session's entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The session begins.
    SessionStarted,
    /// The session is over.
    SessionEnded,
    /// The session leaves its work to the next one.
    Handoff,
    /// The work is complete.
    FeatureCompleted,
}

impl Action {
    /// Returns the word in the file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::SessionStarted => "session_started",
            Self::SessionEnded => "session_ended",
            Self::Handoff => "handoff",
            Self::FeatureCompleted => "feature_completed",
        }
    }
}

/// An entry of the form "sessions".
#[derive(Clone, Copy, Debug)]
pub struct SessionEntry<'a> {
    /// When it is written, in seconds since the Unix epoch.
    pub unix_s: i64,
    /// The session's id.
    pub session: &'a str,
    /// What it is about.
    pub action: Action,
    /// The id of the item that is worked on, if there is one.
    pub item: Option<&'a str>,
    /// The text.
    pub body: &'a str,
}

impl SessionEntry<'_> {
    /// Returns the entry as it is in the file.
    #[must_use]
    pub fn render(&self) -> String {
        let rule = "=".repeat(RULE);
        let time = time_text(self.unix_s, "%Y-%m-%d %H:%M:%S");
        let (session, action) = (self.session, self.action.word());
        let mut text = format!("{rule}\n[{time}] Session: {session}\nAction: {action}\n");
        if let Some(item) = self.item {
            text.push_str(&format!("Feature: {}\n", plain_line(item, LONGEST_FIELD)));
        }
        text.push_str(&format!("\n{}\n\n", self.body.trim_end()));
        text
    }
}

/// An entry of the form "markdown".
#[derive(Clone, Debug)]
pub struct MarkdownEntry<'a> {
    /// The iteration's number.
    pub iteration: u64,
    /// What happened, in a few words.
    pub headline: &'a str,
    /// What else is to be said.
    pub lines: &'a [String],
}

impl MarkdownEntry<'_> {
    /// Returns the entry as it is in the file.
    #[must_use]
    pub fn render(&self) -> String {
        let headline = plain_line(self.headline, LONGEST_FIELD);
        let mut text = format!("## Iteration {} - {headline}\n\n", self.iteration);
        for line in self.lines {
            text.push_str(&format!("- {}\n", plain_line(line, 2 * LONGEST_FIELD)));
        }
        if !self.lines.is_empty() {
            text.push('\n');
        }
        text
    }
}

/// Returns the id of the session with this number: three digits or more, and the time of its start.
#[must_use]
pub fn session_id(number: u64, started_s: i64) -> String {
    format!("s{number:03}_{}", time_text(started_s, "%H%M%S"))
}

/// Returns the highest number of a session that a file names; 0 if it names none.
#[must_use]
pub fn highest_session(content: &[u8]) -> u64 {
    let number = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?;
        let (_, id) = line.strip_prefix('[')?.split_once("] Session: s")?;
        let (number, _) = id.split_once('_')?;
        number.parse::<u64>().ok()
    };
    // One that is near the end of all numbers was not written here.
    let is_possible = |number: &u64| *number < u64::MAX / 2;
    content.split(|byte| *byte == b'\n').filter_map(number).filter(is_possible).max().unwrap_or(0)
}
