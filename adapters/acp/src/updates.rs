//! Translates the agent's updates into events.

mod calls;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Cost, NoticeSeverity, PlanEntryStatus, RequestPermissionRequest,
    SessionUpdate, UsageUpdate,
};
use ralph_adapter_common::claude_stream::{self, ClaudeParser, RateLimit};
use ralph_orchestrator_contract::{Event, Tokens, Usage, Usd};
use serde_json::Value;

use crate::failure::Failure;
use calls::ToolCalls;

/// Where the adapter of Claude Code says how much of its rate windows is used.
const CLAUDE_LIMIT: &str = "_claude/rateLimit";
/// The model of messages that no model has written.
const SYNTHETIC: &str = "<synthetic>";
/// A message's text is handed over when the message is whole, or in pieces of this size in bytes.
const MAX_PIECE: usize = 16 * 1024;
/// How much of the end of a message is kept, in bytes: claims are at its end.
const MAX_MESSAGE: usize = 1024 * 1024;

/// Translates a session's updates; keeps what the report needs of them.
#[derive(Debug, Default)]
pub(crate) struct UpdateTranslator {
    /// Text that arrives in a row, as far as it was not emitted yet.
    current: Option<PendingText>,
    message: Message,
    calls: ToolCalls,
    usage: Usage,
    /// Reads Claude Code's own messages, which tell tokens while it works.
    claude: ClaudeParser,
    /// The model that they come from.
    model: Option<String>,
    /// Codex says so instead of answering with an error.
    system_error: bool,
    /// A currency that is not counted was warned of.
    warned_currency: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct PendingText {
    thought: bool,
    pending: String,
}

/// The agent's last message.
#[derive(Debug, Default)]
struct Message {
    id: Option<String>,
    text: String,
    /// Something else came since: what follows without an id is another message.
    over: bool,
}

impl UpdateTranslator {
    /// Returns the events of a `session/update`; none if it is of a kind not known here, or malformed,
    /// which costs no more than itself.
    pub(crate) fn translate(&mut self, update: &Value) -> Vec<Event> {
        let mut events = Vec::new();
        self.note_status(update);
        let Ok(update) = serde_json::from_value::<SessionUpdate>(update.clone()) else {
            return events;
        };
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.chunk(chunk, false, &mut events),
            SessionUpdate::AgentThoughtChunk(chunk) => self.chunk(chunk, true, &mut events),
            SessionUpdate::ToolCall(call) => {
                self.end_message(&mut events);
                self.calls.start(call, &mut events);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.end_message(&mut events);
                self.calls.update(update, &mut events);
            }
            SessionUpdate::Plan(plan) => {
                self.end_message(&mut events);
                let line = |entry: &agent_client_protocol::v1::schema::PlanEntry| {
                    let done = match entry.status {
                        PlanEntryStatus::Completed => "x",
                        PlanEntryStatus::InProgress => "~",
                        _ => " ",
                    };
                    format!("[{done}] {}\n", entry.content)
                };
                let text: String = plan.entries.iter().map(line).collect();
                events.push(Event::Thinking { text: format!("Plan:\n{text}") });
            }
            SessionUpdate::UsageUpdate(usage) => {
                let limit = usage.meta.as_ref().and_then(|meta| meta.get(CLAUDE_LIMIT));
                events.extend(
                    limit
                        .into_iter()
                        .flat_map(|limit| RateLimit::from_value(limit.clone()).windows()),
                );
                self.add_usage(&usage, &mut events);
            }
            SessionUpdate::Notice(notice) if notice.severity != NoticeSeverity::Info => {
                let more = notice.description.map(|more| format!(": {more}")).unwrap_or_default();
                let message = format!("the agent says: {}{more}", notice.title);
                events.push(Event::Warning { message });
            }
            // What the session can be set to, and what it is called.
            _ => {}
        }
        events
    }

    /// Returns the events of a request for a permission: the call may not have been reported completely.
    pub(crate) fn translate_permission_request(&mut self, params: &Value) -> Vec<Event> {
        let mut events = Vec::new();
        if let Ok(request) = serde_json::from_value::<RequestPermissionRequest>(params.clone()) {
            self.end_message(&mut events);
            self.calls.permission_requested(request.tool_call, &mut events);
        }
        events
    }

    fn chunk(&mut self, chunk: ContentChunk, thought: bool, events: &mut Vec<Event>) {
        let ContentBlock::Text(content) = chunk.content else { return };
        if !thought {
            let id = chunk.message_id.map(|id| id.to_string());
            if self.message.is_another(id.as_deref()) {
                self.flush(events);
                self.message = Message { id, ..Message::default() };
            }
            self.message.append(&content.text);
        } else {
            self.message.over = true;
        }
        if self.current.as_ref().is_some_and(|current| current.thought != thought) {
            self.flush(events);
        }
        let current =
            self.current.get_or_insert_with(|| PendingText { thought, pending: String::new() });
        current.pending.push_str(&content.text);
        if current.pending.len() >= MAX_PIECE {
            self.flush(events);
        }
    }

    fn end_message(&mut self, events: &mut Vec<Event>) {
        self.message.over = true;
        self.flush(events);
    }

    /// Emits the text that has arrived.
    pub(crate) fn flush(&mut self, events: &mut Vec<Event>) {
        let Some(PendingText { thought, pending: text }) = self.current.take() else { return };
        if !text.is_empty() {
            events.push(if thought { Event::Thinking { text } } else { Event::Text { text } });
        }
    }

    fn add_usage(&mut self, update: &UsageUpdate, events: &mut Vec<Event>) {
        let window = (update.size > 0).then_some(update.size);
        events.push(Event::Context { used: update.used, window });
        let cost = update.cost.as_ref();
        let dollars = cost.filter(|cost| cost.currency == "USD");
        if let Some(cost) = dollars.and_then(|cost| Usd::from_dollars(cost.amount)) {
            self.add(Usage { cost: Some(cost), ..Usage::default() }, events);
        } else if let Some(Cost { currency, .. }) = cost
            && !std::mem::replace(&mut self.warned_currency, true)
        {
            let message = format!(
                "the agent reports its cost in {currency:.20}, not in USD: it is not counted"
            );
            events.push(Event::Warning { message });
        }
    }

    /// Returns the events of one of Claude Code's own messages, of this session: the usage so far, and the
    /// model. All else is reported by the protocol, too.
    pub(crate) fn translate_claude(
        &mut self,
        message: &Value,
        session: Option<&str>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let model = message.pointer("/message/model").and_then(Value::as_str);
        let model =
            model.filter(|model| *model != SYNTHETIC && Some(*model) != self.model.as_deref());
        if let (Some(model), Some(id)) = (model, session) {
            self.model = Some(model.to_owned());
            events.push(Event::Session { id: id.to_owned(), model: self.model.clone() });
        }
        for event in self.claude.message(claude_stream::Message::from_value(message.clone())) {
            if let Event::Usage { usage: Usage { tokens: Some(tokens), .. } } = event {
                self.add_tokens(tokens, &mut events);
            }
        }
        events
    }

    /// Figures of the whole session, which only ever grow.
    fn add(&mut self, usage: Usage, events: &mut Vec<Event>) {
        let usage = self.usage.max(usage);
        if usage != self.usage {
            self.usage = usage;
            events.push(Event::Usage { usage });
        }
    }

    /// Adds the tokens of the prompt's turn, which is the session's only one.
    pub(crate) fn add_tokens(&mut self, tokens: Tokens, events: &mut Vec<Event>) {
        self.add(Usage { tokens: Some(tokens), ..Usage::default() }, events);
    }

    pub(crate) const fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the agent's last message.
    pub(crate) fn final_text(&self) -> Option<String> {
        (!self.message.text.is_empty()).then(|| self.message.text.clone())
    }

    fn note_status(&mut self, update: &Value) {
        let status = update.pointer("/_meta/codex/threadStatus/type").and_then(Value::as_str);
        if let Some(status) = status {
            self.system_error = status == "systemError";
        }
    }

    /// Returns a failure that was reported as if it were the agent's text.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.system_error.then(|| Failure::from_text(&self.message.text))
    }
}

impl Message {
    fn is_another(&self, id: Option<&str>) -> bool {
        self.id.as_deref() != id || (id.is_none() && self.over)
    }

    fn append(&mut self, text: &str) {
        self.over = false;
        self.text.push_str(text);
        // Seldom, so that a long message is not moved again and again.
        if self.text.len() > 2 * MAX_MESSAGE {
            let surplus = self.text.ceil_char_boundary(self.text.len() - MAX_MESSAGE);
            self.text.drain(..surplus);
        }
    }
}

#[cfg(test)]
mod tests;
