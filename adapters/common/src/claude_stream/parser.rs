//! Reads a whole stream.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Report, Usage, Usd};
use serde_json::Value;

use crate::LineParser;
use crate::claude_stream::context::{Context, ContextMeter};
use crate::claude_stream::ending::{self, Hints};
use crate::claude_stream::fast_path;
use crate::claude_stream::message::{
    Assistant, Block, Init, McpServer, Message, Outcome, Retry, System, Task,
};
use crate::claude_stream::meter::Meter;
use crate::claude_stream::rate_limit::RateLimit;
use crate::claude_stream::text::bounded;

/// Longest text of a tool's answer that is handed on.
const MAX_TOOL_RESULT: usize = 64 * 1024;
/// So many kinds of unread messages are counted apart.
const MAX_KINDS: usize = 64;
const MAX_KIND: usize = 64;
/// So many background tasks that were stopped are named, each in so many bytes.
const MAX_TASKS: usize = 20;
const MAX_TASK: usize = 200;
/// Longest list of servers in a warning, in bytes.
const MAX_SERVERS: usize = 500;

/// Reads a stream line by line, then sums it up.
#[derive(Debug, Default)]
pub struct ClaudeParser {
    session: Option<String>,
    meter: Meter,
    context: ContextMeter,
    outcome: Option<Outcome>,
    hints: Hints,
    last: LastMessage,
    stopped_tasks: Vec<String>,
    unread: BTreeMap<String, u64>,
    not_json: u64,
}

/// The text of the main thread's last message so far.
#[derive(Debug, Default)]
struct LastMessage {
    id: Option<String>,
    texts: Vec<String>,
}

impl ClaudeParser {
    /// Creates a parser that has read nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the events of a message.
    pub fn message(&mut self, message: Message) -> Vec<Event> {
        let mut events = Vec::new();
        self.read(message, &mut events);
        events
    }

    /// Counts a line, or its end, that is no message. The first time, there is a warning.
    pub fn not_a_message(&mut self, line: &str) -> Option<Event> {
        self.not_json = self.not_json.saturating_add(1);
        (self.not_json == 1).then(|| Event::Warning {
            message: format!("the agent printed a line that is no message: {}", bounded(line, 200)),
        })
    }

    /// Takes what the process has cost so far, by its own answer to a question.
    pub fn cost(&mut self, cost: Usd) -> Option<Event> {
        self.meter.cost(cost).map(usage)
    }

    /// Takes how many tokens the context can hold, by the agent's answer to a question.
    pub fn window(&mut self, tokens: u64) -> Option<Event> {
        self.context.set_window(tokens)
    }

    /// Returns how full the main conversation's context is, if anything is known of it.
    #[must_use]
    pub fn context(&self) -> Option<Context> {
        self.context.now()
    }

    /// Returns what was used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.meter.estimate()
    }

    /// Returns the text of the main thread's last message so far.
    #[must_use]
    pub fn last_text(&self) -> Option<String> {
        self.last.text()
    }

    /// Returns whether the turn's last line was seen: the process should exit by itself now.
    #[must_use]
    pub fn has_result(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns how often messages came that have no meaning here, by `type` or `type/subtype`.
    #[must_use]
    pub fn unread(&self) -> &BTreeMap<String, u64> {
        &self.unread
    }

    /// Returns how many lines were no messages at all.
    #[must_use]
    pub fn not_json(&self) -> u64 {
        self.not_json
    }

    /// Does the same as [`account`](LineParser::account) for a session whose last turn was the adapter's own, such as a hand-off: that it was
    /// aborted is no failure, and its text is not the agent's last word on the task.
    ///
    /// # Errors
    /// The turn failed for another reason than that.
    pub fn finish_handed_off(self) -> Result<Report, AgentError> {
        let failed = |outcome: &&Outcome| outcome.failed() && !outcome.aborted();
        let failure = self.outcome.as_ref().filter(failed).map(|outcome| self.failure(outcome));
        self.report(failure, None)
    }

    fn failure(&self, outcome: &Outcome) -> (ErrorClass, String) {
        (ending::classify(outcome, &self.hints), ending::failure(outcome, &self.hints))
    }

    fn report(
        self,
        failure: Option<(ErrorClass, String)>,
        final_text: Option<String>,
    ) -> Result<Report, AgentError> {
        let outcome = self.outcome.as_ref();
        let report = Report {
            final_text,
            usage: outcome
                .map_or_else(|| self.meter.estimate(), |outcome| self.meter.settle(outcome)),
            session: self.session,
            denied: outcome.map_or_else(Vec::new, |outcome| {
                outcome.permission_denials.iter().map(ToString::to_string).collect()
            }),
            left_behind: self.stopped_tasks,
            ..Report::default()
        };
        match failure {
            None => Ok(report),
            Some((class, message)) => Err(AgentError::new(class, message).with_report(report)),
        }
    }

    fn read(&mut self, message: Message, events: &mut Vec<Event>) {
        match message {
            Message::System(System::Init(init)) => self.init(init, events),
            Message::System(System::Retry(retry)) => self.retry(&retry, events),
            Message::System(System::Fallback(fallback)) => {
                self.context.init(fallback.fallback_model.as_deref());
                let name = |model: Option<String>| model.unwrap_or_else(|| "?".to_owned());
                let (from, to) = (name(fallback.original_model), name(fallback.fallback_model));
                let message = format!("the agent goes on with model {to} instead of {from}");
                events.push(Event::Warning { message });
            }
            Message::System(System::Compacted(compaction)) => {
                let count =
                    |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), |n| n.to_string());
                let message = format!(
                    "the agent compacted its context from {} to {} tokens",
                    count(compaction.pre_tokens),
                    count(compaction.post_tokens)
                );
                events.push(Event::Warning { message });
                events.extend(self.context.compacted(&compaction));
            }
            Message::System(System::Task(task)) => self.task(task),
            Message::Assistant(message) => self.assistant(message, events),
            Message::User(message) => events.extend(message.content.into_iter().filter_map(answer)),
            Message::Stream { event, parent } => {
                if parent.is_none() {
                    events.extend(self.context.stream(&event));
                }
                if let Some(tokens) = self.meter.stream(&event, parent) {
                    events.push(usage(Usage { tokens: Some(tokens), ..Usage::default() }));
                }
            }
            Message::RateLimit(limit) => self.limit(limit, events),
            Message::Result(outcome) => {
                if self.session.is_none() {
                    self.session.clone_from(&outcome.session_id);
                }
                events.push(usage(self.meter.result(&outcome)));
                events.extend(self.context.result(&outcome));
                self.outcome = Some(*outcome);
            }
            Message::Other { kind, .. } => self.count_unread(&kind),
        }
    }

    fn init(&mut self, init: Init, events: &mut Vec<Event>) {
        // A new turn of the same process: what the earlier one came to is not the end any more.
        self.outcome = None;
        self.context.init(init.model.as_deref());
        let Some(id) = init.session_id else { return };
        if self.session.as_ref() != Some(&id) {
            self.session = Some(id.clone());
            events.push(Event::Session { id, model: init.model });
            events.extend(missing_servers(&init.mcp_servers));
        }
    }

    fn retry(&mut self, retry: &Retry, events: &mut Vec<Event>) {
        self.hints.unanswered = retry.error_status.is_none();
        let mut reason = match (retry.error_status, retry.error.as_deref()) {
            (Some(status), Some(error)) => format!("{error}, HTTP status {status}"),
            (Some(status), None) => format!("HTTP status {status}"),
            (None, _) => "no answer from the provider".to_owned(),
        };
        if let (Some(attempt), Some(most)) = (retry.attempt, retry.max_retries) {
            reason.push_str(&format!("; retry {attempt} of {most}"));
        }
        events.push(Event::Waiting { reason, delay_ms: retry.retry_delay_ms });
    }

    fn limit(&mut self, limit: RateLimit, events: &mut Vec<Event>) {
        let kind = limit.rate_limit_type.as_deref().unwrap_or("account");
        let message = match limit.status.as_deref() {
            _ if limit.rejects() => Some(format!("the {kind} rate limit is reached")),
            Some("allowed_warning") => Some(format!("the {kind} rate limit is nearly reached")),
            _ => None,
        };
        events.extend(message.map(|message| Event::Warning { message }));
        events.extend(limit.windows());
        self.hints.limit = Some(limit);
    }

    fn assistant(&mut self, message: Assistant, events: &mut Vec<Event>) {
        let tokens = self.meter.assistant(&message);
        let context = self.context.assistant(&message);
        let main = message.parent.is_none();
        if main {
            self.hints.unanswered &= message.error.is_some();
            self.hints.error = message.error;
            if message.id.is_none() || self.last.id != message.id {
                self.last = LastMessage { id: message.id, texts: Vec::new() };
            }
        }
        for block in message.content {
            match block {
                // A subagent's words are not the agent's own: it is given them as a tool's answer.
                Block::Text(text) if main => {
                    self.last.texts.push(text.clone());
                    events.push(Event::Text { text });
                }
                Block::Thinking(text) if main => events.push(Event::Thinking { text }),
                Block::ToolUse { id, name, input } => {
                    events.push(Event::ToolCall { id, name, input });
                }
                _ => {}
            }
        }
        if let Some(tokens) = tokens {
            events.push(usage(Usage { tokens: Some(tokens), ..Usage::default() }));
        }
        events.extend(context);
    }

    /// What the agent itself ended in the background is work that is lost, as processes are that it leaves.
    fn task(&mut self, task: Task) {
        if task.status.as_deref() == Some("stopped") && self.stopped_tasks.len() < MAX_TASKS {
            let summary = task.summary.filter(|summary| !summary.trim().is_empty());
            let summary = summary.as_deref().unwrap_or("a background task");
            self.stopped_tasks.push(bounded(summary, MAX_TASK));
        }
    }

    fn count_unread(&mut self, kind: &str) {
        let kind = bounded(kind, MAX_KIND);
        let room = self.unread.len() < MAX_KINDS || self.unread.contains_key(&kind);
        let kind = if room { kind } else { "other".to_owned() };
        let count = self.unread.entry(kind).or_default();
        *count = count.saturating_add(1);
    }
}

impl LineParser for ClaudeParser {
    /// Anything can be a line: what cannot be read
    /// is counted and has no events but, the first time, a warning.
    fn line(&mut self, line: &str) -> Vec<Event> {
        let line = line.trim();
        if line.is_empty() {
            return Vec::new();
        }
        let mut events = Vec::new();
        if let Some(message) = fast_path::message(line) {
            self.read(message, &mut events);
            return events;
        }
        if let Some(kind) = fast_path::ignored_kind(line) {
            self.count_unread(&kind);
            return events;
        }
        // `json` with `--verbose` prints all messages as one list.
        if line.starts_with('[')
            && let Ok(messages) = serde_json::from_str::<Vec<Value>>(line)
            && !messages.is_empty()
            && messages.iter().all(Value::is_object)
        {
            for message in messages {
                self.read(Message::from_value(message), &mut events);
            }
            return events;
        }
        for value in objects(line) {
            match value {
                Some(value) => events.extend(self.message(Message::from_value(value))),
                None => events.extend(self.not_a_message(line)),
            }
        }
        events
    }

    fn is_done(&self) -> bool {
        self.has_result()
    }

    /// Fails with every ending but a result that says it is no error. The exit status does not count: it is
    /// not reliable in either direction.
    fn account(self, exit: &str) -> Result<Report, AgentError> {
        let (failure, final_text) = match &self.outcome {
            Some(outcome) if outcome.failed() => (Some(self.failure(outcome)), None),
            Some(outcome) => (None, outcome.result.clone().or_else(|| self.last.text())),
            None => {
                let message = format!("the agent ended without a result ({exit})");
                (Some((ErrorClass::Crashed, message)), None)
            }
        };
        self.report(failure, final_text)
    }
}

impl LastMessage {
    fn text(&self) -> Option<String> {
        (!self.texts.is_empty()).then(|| self.texts.join("\n"))
    }
}

fn usage(usage: Usage) -> Event {
    Event::Usage { usage }
}

/// Of what the model is given, only tool results are events; the rest are echoes.
fn answer(block: Block) -> Option<Event> {
    match block {
        Block::ToolResult { id, is_error, text } => {
            Some(Event::ToolResult { id, is_error, text: bounded(&text, MAX_TOOL_RESULT) })
        }
        _ => None,
    }
}

/// Returns the objects on a line, and `None` at the end if something else follows. Two messages on one line
/// happen when a newline is lost.
#[must_use]
pub fn objects(line: &str) -> Vec<Option<Value>> {
    let mut objects = Vec::new();
    for value in serde_json::Deserializer::from_str(line.trim()).into_iter::<Value>() {
        let object = value.ok().filter(Value::is_object);
        let last = object.is_none();
        objects.push(object);
        if last {
            break;
        }
    }
    objects
}

/// Returns the warning that the agent works without some of the tools that it was configured with.
fn missing_servers(servers: &[McpServer]) -> Option<Event> {
    let missing: Vec<String> = servers
        .iter()
        .filter(|server| server.is_missing())
        .map(|server| {
            let (name, status) = (server.name.as_deref(), server.status.as_deref());
            format!("{} ({})", name.unwrap_or("?"), status.unwrap_or("?"))
        })
        .collect();
    let message = format!(
        "the agent works without the tools of these MCP servers, which did not start: {}",
        bounded(&missing.join(", "), MAX_SERVERS)
    );
    (!missing.is_empty()).then_some(Event::Warning { message })
}
