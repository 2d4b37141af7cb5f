//! Entries of the file of failures.

use ralph_orchestrator_text::{is_printable, plain_line};

use crate::text::{last_lines, time_text};

/// The most lines of an entry, below its first.
const MOST_LINES: usize = 50;
/// The most bytes of these lines.
const MOST_BYTES: usize = 8 * 1024;
const LONGEST_HEADLINE: usize = 400;

/// An entry of the file of failures: one line that is not indented, and indented lines.
#[derive(Clone, Copy, Debug)]
pub struct ErrorEntry<'a> {
    /// When it happened, in seconds since the Unix epoch.
    pub unix_s: i64,
    /// The iteration's number.
    pub iteration: u64,
    /// The session's id, by which entries differ.
    pub session: &'a str,
    /// What happened, in a few words.
    pub what: &'a str,
    /// What was printed; its last lines are written.
    pub output: &'a str,
}

impl ErrorEntry<'_> {
    /// Returns the entry as it is in the file.
    #[must_use]
    pub fn render(&self) -> String {
        let time = time_text(self.unix_s, "%Y-%m-%d %H:%M:%S");
        let what = plain_line(self.what, LONGEST_HEADLINE);
        let (iteration, session) = (self.iteration, self.session);
        let mut text = format!("[{time}] Iteration {iteration} ({session}): {what}\n");
        for line in last_lines(self.output, MOST_LINES, MOST_BYTES).lines() {
            let harmless = line.replace(|c| c != '\t' && !is_printable(c), " ");
            text.push_str(&format!("  {}\n", harmless.trim_end()));
        }
        text.push('\n');
        text
    }
}

/// Returns the last whole entries of the file that are not too long together.
#[must_use]
pub fn tail_entries(content: &str, most: usize, bytes: usize) -> &str {
    let is_heading = |line: &str| line.starts_with('[');
    let mut at = 0;
    let mut starts = Vec::new();
    for line in content.split_inclusive('\n') {
        if is_heading(line) {
            starts.push(at);
        }
        at += line.len();
    }
    let fits = |start: &usize| content.len() - start <= bytes;
    let start = starts.into_iter().rev().take(most).take_while(fits).last();
    start.and_then(|start| content.get(start..)).unwrap_or_default()
}
