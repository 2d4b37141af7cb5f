//! The results of `plugin test`: rows as they finish, JSON, JUnit, and the transcripts of failures.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_conformance::{CheckResultRow, Outcome};
use ralph_orchestrator_terminal::output;
use serde_json::{Value, json};

/// The results so far.
#[derive(Clone, Debug)]
pub(super) struct TestReport {
    state: Arc<Mutex<State>>,
    is_json: bool,
}

#[derive(Debug, Default)]
struct State {
    items: Vec<TestedItem>,
    /// The folder of transcripts, once there is one.
    folder: Option<PathBuf>,
}

#[derive(Debug)]
struct TestedItem {
    kind: &'static str,
    name: String,
    rows: Vec<(CheckResultRow, Option<PathBuf>)>,
}

impl TestReport {
    pub(super) fn new(is_json: bool) -> Self {
        Self { state: Arc::default(), is_json }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with the next item.
    pub(super) fn begin(&self, kind: &'static str, name: &str) {
        if !self.is_json {
            output::result(&format!("{kind} {name}"));
        }
        let item = TestedItem { kind, name: name.to_owned(), rows: Vec::new() };
        self.state().items.push(item);
    }

    /// Adds a row to the present item, prints it, and keeps the transcript of a failure.
    pub(super) fn add(&self, row: &CheckResultRow) {
        let mut state = self.state();
        let path = row.transcript.as_deref().and_then(|text| state.keep(&row.word, text));
        if !self.is_json {
            output::result(&row.to_string());
            if let Some(path) = &path {
                output::result(&format!("  {:<22} transcript: {}", "", path.display()));
            }
        }
        if let Some(item) = state.items.last_mut() {
            item.rows.push((row.clone(), path));
        }
    }

    /// Whether no item was tested.
    pub(super) fn is_empty(&self) -> bool {
        self.state().items.is_empty()
    }

    /// Returns how many checks failed.
    pub(super) fn failed(&self) -> usize {
        let state = self.state();
        let rows = state.items.iter().flat_map(|item| &item.rows);
        rows.filter(|(row, _)| is_failed(&row.outcome)).count()
    }

    /// Returns the folder of the transcripts that are kept, if there are any.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.state().folder.clone()
    }

    pub(super) fn json(&self) -> Value {
        let state = self.state();
        let items: Vec<Value> = state.items.iter().map(TestedItem::json).collect();
        let failed = state.items.iter().flat_map(|item| &item.rows);
        let passed =
            !items.is_empty() && !failed.into_iter().any(|(row, _)| is_failed(&row.outcome));
        json!({"passed": passed, "items": items})
    }

    /// Returns the results as JUnit XML.
    pub(super) fn junit(&self) -> String {
        let state = self.state();
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        for item in &state.items {
            item.write_junit(&mut xml);
        }
        xml + "</testsuites>\n"
    }
}

impl State {
    /// Writes the transcript of a failure.
    fn keep(&mut self, word: &str, text: &str) -> Option<PathBuf> {
        if self.folder.is_none() {
            let folder = tempfile::Builder::new().prefix("ralph-plugin-test-").tempdir();
            self.folder = folder.map(tempfile::TempDir::keep).ok();
        }
        let item = self.items.last()?;
        let path = self.folder.as_ref()?.join(format!("{}-{word}.jsonl", file_name(&item.name)));
        match std::fs::write(&path, text) {
            Ok(()) => Some(path),
            Err(error) => {
                output::info(&format!("warning: {} cannot be written: {error}", path.display()));
                None
            }
        }
    }
}

impl TestedItem {
    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|(row, transcript)| {
            let (outcome, reason) = outcome_words(&row.outcome);
            json!({
                "check": row.word,
                "outcome": outcome,
                "reason": reason,
                "seconds": row.duration.as_secs_f64(),
                "transcript": transcript,
                "remarks": row.remarks,
            })
        });
        json!({"kind": self.kind, "name": self.name, "checks": rows.collect::<Vec<_>>()})
    }

    fn write_junit(&self, xml: &mut String) {
        let of = |outcome: &str| {
            self.rows.iter().filter(|(row, _)| outcome_words(&row.outcome).0 == outcome).count()
        };
        let (name, tests) = (xml_text(&self.name), self.rows.len());
        let (failures, skipped) = (of("failed"), of("skipped"));
        // Writing to a string does not fail.
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{} {name}\" tests=\"{tests}\" failures=\"{failures}\" \
             skipped=\"{skipped}\">",
            self.kind
        );
        for (row, _) in &self.rows {
            let (word, seconds) = (xml_text(&row.word), row.duration.as_secs_f64());
            let _ = write!(
                xml,
                "    <testcase classname=\"{name}\" name=\"{word}\" time=\"{seconds:.3}\">"
            );
            let _ = match &row.outcome {
                Outcome::Passed => Ok(()),
                Outcome::Failed(why) => write!(xml, "<failure message=\"{}\"/>", xml_text(why)),
                Outcome::Skipped(why) => write!(xml, "<skipped message=\"{}\"/>", xml_text(why)),
            };
            xml.push_str("</testcase>\n");
        }
        xml.push_str("  </testsuite>\n");
    }
}

const fn is_failed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(_))
}

fn outcome_words(outcome: &Outcome) -> (&'static str, Option<&str>) {
    match outcome {
        Outcome::Passed => ("passed", None),
        Outcome::Failed(why) => ("failed", Some(why)),
        Outcome::Skipped(why) => ("skipped", Some(why)),
    }
}

/// Returns a name that is one part of a path.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().map(plain).collect()
}

/// Escapes text for an attribute. XML has no place for most control characters.
fn xml_text(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn row(word: &str, outcome: Outcome) -> CheckResultRow {
        let (word, title) = (word.to_owned(), word.to_owned());
        CheckResultRow {
            word,
            title,
            outcome,
            duration: Duration::from_millis(1500),
            transcript: None,
            remarks: Vec::new(),
        }
    }

    #[test]
    fn junit_is_xml_whatever_a_plugin_says() {
        let report = TestReport::new(true);
        report.begin("agent", "a\"<b>&");
        report.add(&row("start", Outcome::Failed("\u{1b}[31m <&\">\0".into())));
        report.add(&row("order", Outcome::Passed));
        report.add(&row("usage", Outcome::Skipped("it asks no model".into())));
        let xml = report.junit();
        let document = roxmltree::Document::parse(&xml).unwrap();
        let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
        let counts = ["tests", "failures", "skipped"].map(|name| suite.attribute(name).unwrap());
        assert_eq!(counts, ["3", "1", "1"]);
        assert_eq!(report.failed(), 1);
        assert_eq!(report.json()["passed"], false);
    }

    #[test]
    fn nothing_at_all_has_not_passed() {
        assert_eq!(TestReport::new(true).json()["passed"], false);
    }
}
