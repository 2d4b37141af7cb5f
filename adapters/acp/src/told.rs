//! What the agent tells of its work, as events.

mod calls;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Cost, NoticeSeverity, PlanEntryStatus, RequestPermissionRequest,
    SessionUpdate, UsageUpdate,
};
use ralph_adapter_common::claude_stream::{self as claude_stream, Parser};
use ralph_orchestrator_contract::{Event, Tokens, Usage, Usd};
use serde_json::Value;

use crate::failure::Failure;
use calls::Calls;

/// The model of messages that no model has written.
const SYNTHETIC: &str = "<synthetic>";
/// A message's text is handed over when the message is whole, or in pieces of this size in bytes.
const PIECE: usize = 16 * 1024;
/// So much of the end of a message is kept, in bytes: claims are at its end.
const MESSAGE_MAX: usize = 1024 * 1024;

/// What was told so far.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Text that comes in a row, and what of it was not handed over yet.
    current: Option<Current>,
    message: Message,
    calls: Calls,
    usage: Usage,
    /// Reads Claude Code's own messages, which tell tokens while it works.
    claude: Parser,
    /// The model that they come from.
    model: Option<String>,
    /// Codex says so instead of answering with an error.
    system_error: bool,
    /// A currency that is not counted was warned of.
    warned_currency: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Current {
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

impl Told {
    /// The events behind a `session/update`; none if it is of a kind not known here, or makes no
    /// sense, which costs no more than itself.
    pub(crate) fn update(&mut self, update: &Value) -> Vec<Event> {
        let mut events = Vec::new();
        self.note_status(update);
        let Ok(update) = serde_json::from_value::<SessionUpdate>(update.clone()) else {
            return events;
        };
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.chunk(chunk, false, &mut events),
            SessionUpdate::AgentThoughtChunk(chunk) => self.chunk(chunk, true, &mut events),
            SessionUpdate::ToolCall(call) => {
                self.something_else(&mut events);
                self.calls.began(call, &mut events);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.something_else(&mut events);
                self.calls.went_on(update, &mut events);
            }
            SessionUpdate::Plan(plan) => {
                self.something_else(&mut events);
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
            SessionUpdate::UsageUpdate(usage) => self.used(&usage, &mut events),
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

    /// The events behind a request for a permission: the call may not have been told of as a whole.
    pub(crate) fn asked(&mut self, params: &Value) -> Vec<Event> {
        let mut events = Vec::new();
        if let Ok(request) = serde_json::from_value::<RequestPermissionRequest>(params.clone()) {
            self.something_else(&mut events);
            self.calls.asked(request.tool_call, &mut events);
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
            self.current.get_or_insert_with(|| Current { thought, pending: String::new() });
        current.pending.push_str(&content.text);
        if current.pending.len() >= PIECE {
            self.flush(events);
        }
    }

    fn something_else(&mut self, events: &mut Vec<Event>) {
        self.message.over = true;
        self.flush(events);
    }

    /// Hands over what has come of a text.
    pub(crate) fn flush(&mut self, events: &mut Vec<Event>) {
        let Some(Current { thought, pending: text }) = self.current.take() else { return };
        if !text.is_empty() {
            events.push(if thought { Event::Thinking { text } } else { Event::Text { text } });
        }
    }

    fn used(&mut self, update: &UsageUpdate, events: &mut Vec<Event>) {
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

    /// The events behind a message of Claude Code's own, of this session: what was used so far, and by
    /// which model. All else is told by the protocol, too.
    pub(crate) fn claude(&mut self, message: &Value, session: Option<&str>) -> Vec<Event> {
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
                self.tokens(tokens, &mut events);
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

    /// The tokens of the prompt's turn, which is the session's only one.
    pub(crate) fn tokens(&mut self, tokens: Tokens, events: &mut Vec<Event>) {
        self.add(Usage { tokens: Some(tokens), ..Usage::default() }, events);
    }

    pub(crate) const fn usage(&self) -> Usage {
        self.usage
    }

    /// The agent's last message.
    pub(crate) fn final_text(&self) -> Option<String> {
        (!self.message.text.is_empty()).then(|| self.message.text.clone())
    }

    fn note_status(&mut self, update: &Value) {
        let status = update.pointer("/_meta/codex/threadStatus/type").and_then(Value::as_str);
        if let Some(status) = status {
            self.system_error = status == "systemError";
        }
    }

    /// A failure that is told of as if it were the agent's text.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.system_error.then(|| Failure::in_words(&self.message.text))
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
        if self.text.len() > 2 * MESSAGE_MAX {
            let surplus = self.text.ceil_char_boundary(self.text.len() - MESSAGE_MAX);
            self.text.drain(..surplus);
        }
    }
}

#[cfg(test)]
mod tests;
