//! Calls of tools, which are told of piece by piece.

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    ContentBlock, Meta, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use ralph_adapter_common::json::bounded;
use ralph_orchestrator_contract::Event;
use serde_json::{Map, Value, json};

/// So many calls are followed at a time; of more, nothing is told.
const OPEN_MAX: usize = 1000;
/// So much of what a terminal shows is kept, in bytes.
const TERMINAL_MAX: usize = 128 * 1024;

/// The calls that have not ended yet.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: BTreeMap<String, Call>,
}

#[derive(Debug, Default)]
struct Call {
    name: Option<String>,
    title: Option<String>,
    kind: Option<ToolKind>,
    input: Option<Value>,
    output: Option<Value>,
    content: String,
    terminal: String,
    told: bool,
}

impl Calls {
    pub(super) fn began(&mut self, call: ToolCall, events: &mut Vec<Event>) {
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
        self.goes_on(id, fields, call.meta.as_ref(), events);
    }

    pub(super) fn went_on(&mut self, update: ToolCallUpdate, events: &mut Vec<Event>) {
        let id = update.tool_call_id.to_string();
        self.goes_on(id, update.fields, update.meta.as_ref(), events);
    }

    /// The agent wants to know whether it may: by now the call is whole.
    pub(super) fn asked(&mut self, update: ToolCallUpdate, events: &mut Vec<Event>) {
        let id = update.tool_call_id.to_string();
        self.went_on(update, events);
        if let Some(call) = self.open.get_mut(&id) {
            call.tell(&id, events);
        }
    }

    fn goes_on(
        &mut self,
        id: String,
        fields: ToolCallUpdateFields,
        meta: Option<&Meta>,
        events: &mut Vec<Event>,
    ) {
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&id) {
            return;
        }
        let call = self.open.entry(id.clone()).or_default();
        let status = fields.status;
        call.take(fields, meta);
        // The first word of a call often comes before its arguments.
        if call.has_input() || status.is_some_and(|status| status != ToolCallStatus::Pending) {
            call.tell(&id, events);
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

impl Call {
    fn take(&mut self, fields: ToolCallUpdateFields, meta: Option<&Meta>) {
        let of_claude = meta.and_then(|meta| meta.get("claudeCode")?.get("toolName")?.as_str());
        let name = fields.name.or_else(|| of_claude.map(str::to_owned));
        self.name = name.or_else(|| self.name.take());
        self.title = fields.title.or_else(|| self.title.take());
        self.kind = fields.kind.or(self.kind);
        self.input = fields.raw_input.or_else(|| self.input.take());
        self.output = fields.raw_output.or_else(|| self.output.take());
        if let Some(content) = fields.content {
            self.content = content.iter().filter_map(shown).collect::<Vec<_>>().join("\n");
        }
        let delta = meta.and_then(|meta| meta.get("terminal_output_delta")?.get("data")?.as_str());
        if let Some(delta) = delta
            && self.terminal.len() < TERMINAL_MAX
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

    fn tell(&mut self, id: &str, events: &mut Vec<Event>) {
        if std::mem::replace(&mut self.told, true) {
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

    /// What the tool answered: as it was, else as it is shown.
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

fn shown(content: &ToolCallContent) -> Option<String> {
    match content {
        ToolCallContent::Content(content) => match &content.content {
            ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        },
        ToolCallContent::Diff(diff) => Some(format!("{} was changed", diff.path.display())),
        _ => None,
    }
}
