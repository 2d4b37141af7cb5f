//! What the rules make of a recording: `agents try`. Starts nothing.

use std::collections::BTreeSet;

use ralph_adapter_common::{LineParser as _, LineReader, OutputLine, ProcessEnd};
use ralph_orchestrator_contract::{AgentError, BuildError, Report, Usage};
use ralph_orchestrator_text::plain_line;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Config, Output};
use crate::stream::{Finding, Found, StreamParser};

/// How much of a line, and of a value in it, is shown, in characters.
const SHOWN_MAX: usize = 160;

/// What the rules make of a recording.
#[derive(Debug, Serialize)]
pub struct TriedStream {
    /// The lines.
    pub lines: Vec<TriedLine>,
    /// What the report of an iteration would be that printed this.
    pub report: TriedReport,
}

/// How the program of a recording ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct RecordedEnd {
    /// Its exit status for people, such as `exit 7`.
    pub exit: String,
    /// Whether it exited with status 0.
    pub success: bool,
    /// The end of its standard error.
    pub stderr: String,
}

/// What the rules make of a line.
#[derive(Debug, Serialize)]
pub struct TriedLine {
    /// Its number, from 1.
    pub line: usize,
    /// Its beginning.
    pub text: String,
    /// Why it is not read at all.
    pub problem: Option<&'static str>,
    /// What was found in it.
    pub found: Vec<TriedKey>,
}

/// What one key of a rule makes of a line.
#[derive(Debug, Serialize)]
pub struct TriedKey {
    /// The rule's number, from 1.
    pub rule: usize,
    /// The key within the rule.
    pub key: &'static str,
    /// What it means, or why the line does not satisfy the key.
    pub value: String,
    /// The line does not satisfy the key.
    pub is_mismatch: bool,
}

/// What the report of an iteration would be.
#[derive(Debug, Default, Serialize)]
pub struct TriedReport {
    /// The failure, if it would be one.
    pub failure: Option<TriedFailure>,
    /// The final message, in which claims are looked for.
    pub final_text: Option<String>,
    /// What was used.
    pub usage: Usage,
    /// The session's id.
    pub session: Option<String>,
    /// What the report lacks.
    pub missing: Vec<String>,
}

/// How the iteration would fail.
#[derive(Debug, Serialize)]
pub struct TriedFailure {
    /// Its class, as in the journal.
    pub class: &'static str,
    /// Why.
    pub message: String,
}

/// Reads a recording by the rules of this `[agent.config]`; `None` if it has none. Without an `end` it exited with status 0.
///
/// # Errors
/// The first mistake in `config`, with its key.
pub fn try_stream(
    config: Value,
    recording: &[u8],
    end: Option<RecordedEnd>,
) -> Result<Option<TriedStream>, BuildError> {
    let Output::Configured(rules) = Config::parse(config)?.output else { return Ok(None) };
    let count = rules.count();
    let mut parser = StreamParser::new(rules);
    let mut reader = LineReader::default();
    let mut read = reader.push(recording);
    read.extend(reader.finish());
    let mut used = BTreeSet::new();
    let lines = read.into_iter().zip(1..).map(|(line, number)| {
        let line = try_line(&mut parser, number, line);
        used.extend(line.found.iter().map(|found| found.rule));
        line
    });
    let lines = lines.collect();
    let end = describe_end(end);
    let account = parser.account(&end.exit);
    let mut report = report(end.conclude(account));
    let unused = (1..=count).filter(|rule| !used.contains(rule));
    report.missing.extend(unused.map(|rule| format!("rule {rule} found nothing in any line")));
    Ok(Some(TriedStream { lines, report }))
}

/// Returns the end of the process as an iteration has it.
fn describe_end(end: Option<RecordedEnd>) -> ProcessEnd {
    match end {
        Some(RecordedEnd { exit, success, stderr }) => {
            ProcessEnd { exit, success, stderr, ..ProcessEnd::default() }
        }
        None => ProcessEnd { exit: "exit 0".to_owned(), success: true, ..ProcessEnd::default() },
    }
}

fn try_line(parser: &mut StreamParser, line: usize, read: OutputLine) -> TriedLine {
    let (text, found, problem) = match read {
        OutputLine::TooLong { start, .. } => (start, Vec::new(), Some("too long to be read")),
        OutputLine::Whole(text) => match parser.read(&text) {
            Some(found) => (text, found, None),
            None => (text, Vec::new(), Some("not JSON")),
        },
    };
    let tried = found.iter().map(describe_found).collect();
    parser.apply(found);
    TriedLine { line, text: plain_line(&text, SHOWN_MAX), problem, found: tried }
}

fn describe_found(found: &Found) -> TriedKey {
    let quote = |text: &str| Value::from(text).to_string();
    let value = match &found.finding {
        Finding::NewMessage | Finding::End => "true".to_owned(),
        Finding::Session(text)
        | Finding::Model(text)
        | Finding::Text(text)
        | Finding::Thinking(text)
        | Finding::FinalText(text)
        | Finding::Question(text) => quote(text),
        Finding::ToolCall { id, name, input } => format!("{name} {input} (id {})", quote(id)),
        Finding::ToolResult { id, is_error, text } => {
            let failed = if *is_error { "failed: " } else { "" };
            format!("{failed}{} (id {})", quote(text), quote(id))
        }
        Finding::Usage { usage, .. } => describe_usage(usage).join(", "),
        Finding::Context { used, window } => match window {
            Some(window) => format!("{used} of {window} tokens"),
            None => format!("{used} tokens"),
        },
        Finding::RateWindow { name, used, resets_at_ms } => {
            let reset = resets_at_ms.map(|at| format!(", reset at {at} ms since 1970"));
            format!("{name}: {:.1} % used{}", used * 100.0, reset.unwrap_or_default())
        }
        Finding::Failure { class, message } => format!("{}: {}", class.word(), quote(message)),
        Finding::Mismatch(message) => message.clone(),
    };
    let is_mismatch = matches!(found.finding, Finding::Mismatch(_));
    let value = plain_line(&value, SHOWN_MAX);
    TriedKey { rule: found.rule, key: found.key, value, is_mismatch }
}

/// Returns each figure with its name.
fn describe_usage(usage: &Usage) -> Vec<String> {
    let tokens = usage.tokens.map(|tokens| {
        let (read, write) = (tokens.cache_read, tokens.cache_write);
        let cache = format!("{read} read from and {write} written to the cache");
        format!("tokens: {} input, {} output, {cache}", tokens.input, tokens.output)
    });
    let cost = usage.cost.map(|cost| format!("cost: ${}", cost.dollars()));
    tokens.into_iter().chain(cost).collect()
}

fn report(account: Result<Report, AgentError>) -> TriedReport {
    let (report, failure) = match account {
        Ok(report) => (report, None),
        Err(AgentError { class, message, report }) => {
            (*report, Some(TriedFailure { class: class.word(), message }))
        }
    };
    let Report { final_text, usage, session, .. } = report;
    let missing = [
        (final_text.is_none(), "no final text: claims are looked for in it"),
        (
            usage.tokens.is_none(),
            "no tokens: no price can be computed, and limits.max_tokens cannot hold",
        ),
        (usage.cost.is_none(), "no cost: limits.max_cost_usd holds by [agent.prices] only"),
        (session.is_none(), "no session: people cannot find it in the program's own records"),
    ];
    let missing = missing.into_iter().filter(|(is_missing, _)| *is_missing);
    let missing = missing.map(|(_, what)| what.to_owned()).collect();
    TriedReport { failure, final_text, usage, session, missing }
}

impl TriedReport {
    /// Returns each figure of what was used with its name.
    #[must_use]
    pub fn figures(&self) -> Vec<String> {
        describe_usage(&self.usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_adapter_common::MAX_LINE;
    use serde_json::json;

    #[test]
    fn a_recording_is_read_line_by_line_and_what_is_missing_is_named() {
        let rules = json!([
            {"when": {"type": "text"}, "text": "t", "session": "id"},
            {"when": {"type": "usage"}, "usage": {"counts": "per_message", "input": "in", "output": "out"}},
            {"when": {"type": "never"}, "end": true},
        ]);
        let config = json!({"program": ["no-such-program"], "stream": {"rule": rules}});
        let mut recording = b"warming up\n{\"type\":\"text\",\"t\":\"hi\",\"id\":[]}\n".to_vec();
        recording.extend(b"{\"type\":\"news\"}\n{\"type\":\"usage\",\"in\":5,\"out\":-1}\n");
        recording.extend(vec![b'x'; MAX_LINE + 1]);
        let tried = try_stream(config, &recording, None).unwrap().unwrap();
        let lines: Vec<String> = tried
            .lines
            .iter()
            .map(|line| {
                let found = line.found.iter().map(|found| {
                    let sign = if found.is_mismatch { "!" } else { "" };
                    format!("{sign}{} {}: {}", found.rule, found.key, found.value)
                });
                let found: Vec<String> =
                    line.problem.map(str::to_owned).into_iter().chain(found).collect();
                format!("{} [{}]", line.line, found.join("; "))
            })
            .collect();
        assert_eq!(
            lines,
            [
                "1 [not JSON]",
                "2 [!1 session: expected a string or a number at `id`, found []; 1 text: \"hi\"]",
                "3 []",
                "4 [!2 usage.output: expected a whole number that is not negative at `out`, found -1; \
                 2 usage: tokens: 5 input, 0 output, 0 read from and 0 written to the cache]",
                "5 [too long to be read]",
            ]
        );
        let TriedReport { failure, final_text, missing, .. } = tried.report;
        assert!(failure.is_some_and(|failure| failure.message.contains("`end = true`")));
        let missing = missing.join("\n");
        for what in ["no final text", "no cost", "no session", "rule 3 found nothing"] {
            assert!(missing.contains(what), "{what}: {missing}");
        }
        assert!(!missing.contains("no tokens") && final_text.is_none(), "{missing}");
    }

    #[test]
    fn a_built_in_output_has_no_rules() {
        let config = json!({"program": ["a"], "output": "claude-json"});
        assert!(try_stream(config, b"{}", None).unwrap().is_none());
    }
}
