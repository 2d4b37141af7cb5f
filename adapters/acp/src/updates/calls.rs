//! Calls of tools, which are reported piece by piece.

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    ContentBlock, Meta, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use ralph_adapter_common::json::bounded;
use ralph_orchestrator_contract::Event;
use serde_json::{Map, Value, json};

/// Most calls that are followed at a time; further ones are ignored.
const MAX_OPEN: usize = 1000;
/// How much of a terminal's output is kept, in bytes.
const MAX_TERMINAL: usize = 128 * 1024;

/// The calls that have not ended yet.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    open: BTreeMap<String, OpenCall>,
}

#[derive(Debug, Default)]
struct OpenCall {
    name: Option<String>,
    title: Option<String>,
    kind: Option<ToolKind>,
    input: Option<Value>,
    output: Option<Value>,
    content: String,
    terminal: String,
    emitted: bool,
}

impl ToolCalls {
    pub(super) fn start(&mut self, call: ToolCall, events: &mut Vec<Event>) {
        let id = call.tool_call_id.to_string();
        let (kind, status) = (call.kind, call.status);
        let fields = ToolCallUpdateFields::new()
            .kind(kind)
            .status(status)
            .title(call.title)
            .name(call.name)
            .content(call.content)
            .raw_input(call.raw_input)
            .raw_output(call.raw_output);
        self.apply(id, fields, call.meta.as_ref(), events);
    }

    pub(super) fn update(&mut self, update: ToolCallUpdate, events: &mut Vec<Event>) {
        let id = update.tool_call_id.to_string();
        self.apply(id, update.fields, update.meta.as_ref(), events);
    }

    /// Handles a request for permission: by now the call is complete.
    pub(super) fn permission_requested(&mut self, update: ToolCallUpdate, events: &mut Vec<Event>) {
        let id = update.tool_call_id.to_string();
        self.update(update, events);
        if let Some(call) = self.open.get_mut(&id) {
            call.emit_once(&id, events);
        }
    }

    fn apply(
        &mut self,
        id: String,
        fields: ToolCallUpdateFields,
        meta: Option<&Meta>,
        events: &mut Vec<Event>,
    ) {
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&id) {
            return;
        }
        let call = self.open.entry(id.clone()).or_default();
        let status = fields.status;
        call.merge(fields, meta);
        // The first word of a call often comes before its arguments.
        if call.has_input() || status.is_some_and(|status| status != ToolCallStatus::Pending) {
            call.emit_once(&id, events);
        }
        let is_error = match status {
            Some(ToolCallStatus::Completed) => false,
            Some(ToolCallStatus::Failed) => true,
            _ => return,
        };
        if let Some(call) = self.open.remove(&id) {
            events.push(Event::ToolResult { id, is_error, text: bounded(&call.answer()) });
        }
    }
}

impl OpenCall {
    fn merge(&mut self, fields: ToolCallUpdateFields, meta: Option<&Meta>) {
        let of_claude = meta.and_then(|meta| meta.get("claudeCode")?.get("toolName")?.as_str());
        let name = fields.name.or_else(|| of_claude.map(str::to_owned));
        self.name = name.or_else(|| self.name.take());
        self.title = fields.title.or_else(|| self.title.take());
        self.kind = fields.kind.or(self.kind);
        self.input = fields.raw_input.or_else(|| self.input.take());
        self.output = fields.raw_output.or_else(|| self.output.take());
        if let Some(content) = fields.content {
            self.content = content.iter().filter_map(content_text).collect::<Vec<_>>().join("\n");
        }
        let delta = meta.and_then(|meta| meta.get("terminal_output_delta")?.get("data")?.as_str());
        if let Some(delta) = delta
            && self.terminal.len() < MAX_TERMINAL
        {
            self.terminal.push_str(delta);
        }
    }

    fn has_input(&self) -> bool {
        match &self.input {
            None | Some(Value::Null) => false,
            Some(Value::Object(input)) => !input.is_empty(),
            Some(_) => true,
        }
    }

    fn emit_once(&mut self, id: &str, events: &mut Vec<Event>) {
        if std::mem::replace(&mut self.emitted, true) {
            return;
        }
        let kind = self.kind.and_then(|kind| serde_json::to_value(kind).ok());
        let kind = kind.as_ref().and_then(Value::as_str).map(str::to_owned);
        let name = self.name.clone().or(kind).unwrap_or_else(|| "other".to_owned());
        let input = match (&self.input, &self.title) {
            (Some(input), _) if self.has_input() => input.clone(),
            (_, Some(title)) => json!({"title": title}),
            _ => Value::Object(Map::new()),
        };
        events.push(Event::ToolCall { id: id.to_owned(), name, input });
    }

    /// Returns the tool's output, or else what the agent shows of it.
    fn answer(self) -> String {
        match self.output {
            Some(Value::String(output)) => output,
            _ if !self.terminal.is_empty() => self.terminal,
            _ if !self.content.is_empty() => self.content,
            None | Some(Value::Null) => String::new(),
            Some(output) => output.to_string(),
        }
    }
}

fn content_text(content: &ToolCallContent) -> Option<String> {
    match content {
        ToolCallContent::Content(content) => match &content.content {
            ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        },
        ToolCallContent::Diff(diff) => Some(format!("{} was changed", diff.path.display())),
        _ => None,
    }
}
