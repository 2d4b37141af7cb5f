//! `codex exec --json`.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Report, Tokens, Usage};
use serde_json::{Value, json};

use crate::LineParser;
use crate::error_text::classify;
use crate::json::{bounded, count, some_text, text};

/// How many kinds of ignored events are counted apart, and how long their names may be, in characters.
const KINDS_MAX: usize = 64;
const KIND_MAX: usize = 128;

/// Reads what Codex prints, line by line.
#[derive(Debug, Default)]
pub struct CodexParser {
    session: Option<String>,
    turn: Turn,
    last_message: Option<String>,
    /// The last error outside a turn's end: the reason if the turn never ends.
    last_error: Option<String>,
    /// The sums over the present thread.
    tokens: Option<Tokens>,
    /// The sums over the threads before it.
    earlier: Tokens,
    /// Items whose call was already reported.
    open: Vec<String>,
    /// How often events came that have no meaning here, by their type.
    unread: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
enum Turn {
    #[default]
    Open,
    Completed,
    Failed(String),
}

impl CodexParser {
    /// Creates a parser that has read nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the id of the thread, if one began: `codex exec resume` takes its id.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns the events of a line.
    pub fn line(&mut self, line: &str) -> Vec<Event> {
        // Warnings of the program come between the events as plain lines.
        let Ok(event) = serde_json::from_str::<Value>(line) else { return Vec::new() };
        match text(&event, "type") {
            "thread.started" => self.thread_started(&event),
            "turn.started" => {
                self.turn = Turn::Open;
                self.last_message = None;
                Vec::new()
            }
            "turn.completed" => self.turn_completed(&event),
            "turn.failed" => {
                let message = event.get("error").map(|error| text(error, "message").to_owned());
                self.turn = Turn::Failed(message.unwrap_or_default());
                Vec::new()
            }
            "error" => self.error(text(&event, "message")),
            "item.started" | "item.updated" => {
                event.get("item").map(|item| self.call(item)).unwrap_or_default()
            }
            "item.completed" => {
                event.get("item").map(|item| self.item_completed(item)).unwrap_or_default()
            }
            kind => {
                self.count_unread(kind);
                Vec::new()
            }
        }
    }

    /// Returns how often events or items came that have no meaning here, by `type` or `item/type`.
    #[must_use]
    pub fn unread(&self) -> &BTreeMap<String, u64> {
        &self.unread
    }

    fn count_unread(&mut self, kind: &str) {
        let kind: String = kind.chars().take(KIND_MAX).collect();
        let room = self.unread.len() < KINDS_MAX || self.unread.contains_key(&kind);
        let count = self.unread.entry(if room { kind } else { "other".to_owned() }).or_default();
        *count = count.saturating_add(1);
    }

    /// Returns whether the turn has ended: nothing more is to be expected.
    #[must_use]
    pub fn has_result(&self) -> bool {
        !matches!(self.turn, Turn::Open)
    }

    /// Takes what the thread has used according to another source, such as its recording: the figures of
    /// the stream come only when a turn has ended well. Returns an event if the figures grew.
    pub fn add_usage(&mut self, tokens: Tokens) -> Option<Event> {
        let known = self.tokens.unwrap_or_default();
        let tokens = known.max(tokens);
        if self.tokens.is_some() && tokens == known {
            return None;
        }
        self.tokens = Some(tokens);
        Some(Event::Usage { usage: self.usage() })
    }

    /// Returns what the thread came to, by the agent's own account.
    ///
    /// # Errors
    /// The turn failed, with the class that its message speaks of, or did not end.
    pub fn finish(self) -> Result<Report, AgentError> {
        let report = Report { usage: self.usage(), session: self.session, ..Report::default() };
        let message = match (self.turn, self.last_error) {
            (Turn::Completed, _) => {
                return Ok(Report { final_text: self.last_message, ..report });
            }
            (Turn::Failed(message), _) | (Turn::Open, Some(message)) => message,
            (Turn::Open, None) => {
                let message = "codex ended without turn.completed: expected the output of \
                               `codex exec --json`";
                return Err(AgentError::new(ErrorClass::Crashed, message).with_report(report));
            }
        };
        let class = classify(&message);
        let message = if message.is_empty() { "codex failed without a reason" } else { &message };
        Err(AgentError::new(class, message).with_report(report))
    }

    fn usage(&self) -> Usage {
        let tokens = self.tokens.map(|tokens| tokens + self.earlier);
        let earlier = Some(self.earlier).filter(|earlier| earlier.total() > 0);
        Usage { tokens: tokens.or(earlier), ..Usage::default() }
    }

    fn thread_started(&mut self, event: &Value) -> Vec<Event> {
        let id = some_text(event, "thread_id");
        if self.session.is_some() && id != self.session {
            self.earlier += self.tokens.take().unwrap_or_default();
        }
        self.session.clone_from(&id);
        vec![Event::Session { id: id.unwrap_or_default(), model: None }]
    }

    fn turn_completed(&mut self, event: &Value) -> Vec<Event> {
        self.turn = Turn::Completed;
        let Some(usage) = event.get("usage") else { return Vec::new() };
        self.add_usage(tokens(usage)).into_iter().collect()
    }

    fn error(&mut self, message: &str) -> Vec<Event> {
        if message.starts_with("Reconnecting...") {
            return vec![Event::Waiting { reason: message.to_owned(), delay_ms: None }];
        }
        self.last_error = Some(message.to_owned());
        vec![Event::Warning { message: message.to_owned() }]
    }

    fn item_completed(&mut self, item: &Value) -> Vec<Event> {
        match text(item, "type") {
            "agent_message" => {
                let message = text(item, "text").to_owned();
                self.last_message = Some(message.clone());
                vec![Event::Text { text: message }]
            }
            "reasoning" => vec![Event::Thinking { text: text(item, "text").to_owned() }],
            "error" => vec![Event::Warning { message: text(item, "message").to_owned() }],
            _ => {
                let known = self.open.iter().any(|open| open == text(item, "id"));
                let mut events = if known { Vec::new() } else { self.call(item) };
                events.extend(self.result(item));
                events
            }
        }
    }

    /// Returns the call of an item, unless it was reported when the item began.
    fn call(&mut self, item: &Value) -> Vec<Event> {
        let id = text(item, "id").to_owned();
        let pick = |keys: &[&str]| -> Value {
            keys.iter()
                .filter_map(|&key| Some((key.to_owned(), item.get(key)?.clone())))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let (name, input) = match text(item, "type") {
            kind @ "command_execution" => (kind.to_owned(), pick(&["command"])),
            kind @ "file_change" => (kind.to_owned(), pick(&["changes"])),
            // It begins before it is known what for.
            "web_search" if text(item, "query").is_empty() => return Vec::new(),
            kind @ "web_search" => (kind.to_owned(), pick(&["query"])),
            kind @ "todo_list" => (kind.to_owned(), pick(&["items"])),
            "mcp_tool_call" => (
                format!("{}.{}", text(item, "server"), text(item, "tool")),
                item.get("arguments").cloned().unwrap_or_else(|| json!({})),
            ),
            // What they say is told when they are complete.
            "agent_message" | "reasoning" | "error" => return Vec::new(),
            kind => {
                self.count_unread(&format!("item/{kind}"));
                return Vec::new();
            }
        };
        if !self.open.contains(&id) {
            self.open.push(id.clone());
        } else if name != "todo_list" {
            return Vec::new();
        }
        vec![Event::ToolCall { id, name, input }]
    }

    fn result(&mut self, item: &Value) -> Option<Event> {
        let id = text(item, "id").to_owned();
        self.open.iter().position(|open| *open == id).map(|at| self.open.swap_remove(at))?;
        let failed = matches!(text(item, "status"), "failed" | "declined")
            || item.get("exit_code").and_then(Value::as_i64).is_some_and(|code| code != 0);
        let answer = match text(item, "type") {
            "command_execution" => text(item, "aggregated_output").to_owned(),
            "mcp_tool_call" => mcp_answer(item),
            "todo_list" => todo_list(item),
            _ => text(item, "status").to_owned(),
        };
        Some(Event::ToolResult { id, is_error: failed, text: bounded(&answer) })
    }
}

impl LineParser for CodexParser {
    fn line(&mut self, line: &str) -> Vec<Event> {
        self.line(line)
    }

    fn is_done(&self) -> bool {
        self.has_result()
    }

    fn account(self, _exit: &str) -> Result<Report, AgentError> {
        self.finish()
    }
}

/// Returns counts as Codex writes them: the input includes what was cached.
#[must_use]
pub fn tokens(usage: &Value) -> Tokens {
    let cache_read = count(usage, "cached_input_tokens");
    let cache_write = count(usage, "cache_write_input_tokens");
    Tokens {
        input: count(usage, "input_tokens").saturating_sub(cache_read).saturating_sub(cache_write),
        output: count(usage, "output_tokens"),
        cache_read,
        cache_write,
    }
}

fn todo_list(item: &Value) -> String {
    let items = item.get("items").and_then(Value::as_array);
    let line = |item: &Value| {
        let done = item.get("completed").and_then(Value::as_bool).unwrap_or(false);
        format!("[{}] {}", if done { 'x' } else { ' ' }, text(item, "text"))
    };
    items.into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
}

fn mcp_answer(item: &Value) -> String {
    if let Some(error) = item.get("error").filter(|error| !error.is_null()) {
        return text(error, "message").to_owned();
    }
    let parts = item.pointer("/result/content").and_then(Value::as_array);
    parts
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("text").and_then(Value::as_str))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HAPPY: &str = include_str!("../../tests/transcripts/codex/happy.jsonl");

    fn read(text: &str) -> (Vec<Event>, Result<Report, AgentError>) {
        let mut parser = CodexParser::new();
        let events = text.lines().flat_map(|line| parser.line(line)).collect();
        (events, parser.finish())
    }

    #[test]
    fn endings_have_their_classes() {
        for (text, wanted) in [
            (include_str!("../../tests/transcripts/codex/429.jsonl"), "rate_limited"),
            (include_str!("../../tests/transcripts/codex/failed.jsonl"), "rate_limited"),
            (include_str!("../../tests/transcripts/codex/quota.jsonl"), "rate_limited"),
            (include_str!("../../tests/transcripts/codex/ctx.jsonl"), "context_exceeded"),
            ("", "crashed"),
            ("{\"type\":\"turn.failed\"}", "crashed"),
            (
                "{\"type\":\"error\",\"message\":\"unexpected status 401 Unauthorized\"}",
                "unauthenticated",
            ),
        ] {
            let error = read(text).1.unwrap_err();
            assert_eq!(error.class.word(), wanted);
            assert!(!error.message.is_empty() && error.report.final_text.is_none());
        }
        let failed =
            read(include_str!("../../tests/transcripts/codex/failed.jsonl")).1.unwrap_err();
        assert!(matches!(failed.class, ErrorClass::RateLimited { until_ms: Some(_) }), "in 1s");
        let quota = read(include_str!("../../tests/transcripts/codex/quota.jsonl")).1.unwrap_err();
        assert_eq!(quota.class, ErrorClass::RateLimited { until_ms: None }, "later");
        // A second turn that does not end takes the first one's message with it.
        let two = format!("{HAPPY}{{\"type\":\"turn.started\"}}\n");
        assert_eq!(read(&two).1.unwrap_err().class.word(), "crashed");
    }

    #[test]
    fn noise_is_passed_over_and_sums_are_not_added_up() {
        let resumed = include_str!("../../tests/transcripts/codex/resume.jsonl");
        let tokens = |text: &str| read(text).1.unwrap().usage.tokens.unwrap();
        assert_eq!(tokens(resumed).total(), 8640);
        let again: String =
            HAPPY.lines().chain(resumed.lines()).map(|line| format!("{line}\n")).collect();
        assert_eq!(tokens(&again).total(), 8640, "the same thread went on");
        let other = format!("{HAPPY}{}", HAPPY.replace("01a1ffe3-bec6", "01a1ffe3-ffff"));
        assert_eq!(tokens(&other), tokens(HAPPY) + tokens(HAPPY), "another thread");
    }

    #[test]
    fn what_is_not_known_is_counted_and_changes_nothing() {
        for text in [
            HAPPY,
            include_str!("../../tests/transcripts/codex/429.jsonl"),
            include_str!("../../tests/transcripts/codex/failed.jsonl"),
            include_str!("../../tests/transcripts/codex/quota.jsonl"),
            include_str!("../../tests/transcripts/codex/ctx.jsonl"),
            include_str!("../../tests/transcripts/codex/resume.jsonl"),
            include_str!("../../tests/transcripts/codex/patch.jsonl"),
        ] {
            let (mut plain, mut more) = (CodexParser::new(), CodexParser::new());
            for line in text.lines() {
                let events = plain.line(line);
                let field = line.replacen('{', "{\"field_of_the_future\":{\"a\":[1,null]},", 1);
                assert_eq!(more.line(&field), events, "{field}");
                assert_eq!(more.line(r#"{"type":"of_the_future","x":[{}]}"#), []);
                let item = r#"{"type":"item.completed","item":{"id":"x","type":"of_the_future"}}"#;
                assert_eq!(more.line(item), []);
            }
            assert!(plain.unread().is_empty(), "{:?}", plain.unread());
            let lines = u64::try_from(text.lines().count()).unwrap();
            let counted = ["of_the_future", "item/of_the_future"].map(|kind| more.unread()[kind]);
            assert_eq!(counted, [lines, lines]);
            // When a limit is over is counted from the moment of reading.
            let summarized = |parser: CodexParser| {
                parser.finish().map_err(|error| (error.class.word(), error.message, error.report))
            };
            assert_eq!(summarized(more), summarized(plain));
        }
    }

    #[test]
    fn figures_from_elsewhere_only_grow() {
        let mut parser = CodexParser::new();
        let some = Tokens { input: 10, output: 1, ..Tokens::default() };
        assert!(matches!(parser.add_usage(some), Some(Event::Usage { .. })));
        assert_eq!(parser.add_usage(some), None);
        assert_eq!(parser.add_usage(Tokens::default()), None);
        for line in HAPPY.lines() {
            parser.line(line);
        }
        assert_eq!(parser.finish().unwrap().usage.tokens.unwrap().output, 120);
    }

    #[test]
    fn items_are_calls_and_results() {
        let patch = include_str!("../../tests/transcripts/codex/patch.jsonl");
        let (events, result) = read(patch);
        assert_eq!(result.unwrap().final_text.as_deref(), Some("done"));
        let is_patch =
            |e: &&Event| matches!(e, Event::ToolCall { name, .. } if name == "file_change");
        assert_eq!(events.iter().filter(is_patch).count(), 1);
        let items = concat!(
            r#"{"type":"item.started","item":{"id":"1","type":"todo_list","items":[{"completed":false,"text":"a"}]}}"#,
            "\n",
            r#"{"type":"item.updated","item":{"id":"1","type":"todo_list","items":[{"completed":true,"text":"a"}]}}"#,
            "\n",
            r#"{"type":"item.completed","item":{"id":"1","type":"todo_list","items":[{"completed":true,"text":"a"}]}}"#,
            "\n",
            r#"{"type":"item.started","item":{"id":"2","type":"web_search","query":""}}"#,
            "\n",
            r#"{"type":"item.completed","item":{"id":"2","type":"web_search","query":"q"}}"#,
            "\n",
            r#"{"type":"item.started","item":{"id":"3","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"x":1},"status":"in_progress"}}"#,
            "\n",
            r#"{"type":"item.completed","item":{"id":"3","type":"mcp_tool_call","server":"s","tool":"t","error":{"message":"no"},"status":"failed"}}"#,
            "\n",
            r#"{"type":"item.completed","item":{"id":"4","type":"hologram","what":7}}"#,
            "\n",
            r#"{"type":"item.completed","item":7}"#,
            "\n",
            r#"{"type":"new.event"}"#,
            "\n",
            "[]\n",
        );
        let summarized: Vec<String> = read(items)
            .0
            .into_iter()
            .map(|event| match event {
                Event::ToolCall { id, name, input } => format!("{id} {name} {input}"),
                Event::ToolResult { id, is_error, text } => format!("{id} {is_error} {text}"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            summarized,
            [
                r#"1 todo_list {"items":[{"completed":false,"text":"a"}]}"#,
                r#"1 todo_list {"items":[{"completed":true,"text":"a"}]}"#,
                "1 false [x] a",
                r#"2 web_search {"query":"q"}"#,
                "2 false ",
                r#"3 s.t {"x":1}"#,
                "3 true no",
            ]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn cut_anywhere_it_never_ends_well(cut in 0..HAPPY.trim_end().len()) {
            let text = HAPPY.get(..cut).unwrap_or_default();
            prop_assert!(read(text).1.is_err());
        }

        #[test]
        fn no_line_does_harm(line in "\\PC{0,80}", kind in "[a-z.]{0,12}") {
            let typed = format!(r#"{{"type":"item.completed","item":{{"type":"{kind}","id":3,"text":[]}}}}"#);
            let _ = read(&format!("{line}\n{typed}\n{line}"));
        }
    }
}
