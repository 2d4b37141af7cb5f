//! The agent's requests and their answers.

use std::future::Future;
use std::pin::Pin;

use ralph_adapter_common::agent_tools::{
    self as tools, ACCEPTED, ASKED, MAX_NOTE, NOTED, RULE, SERVER, ServerRequest, ToolCall,
    VALIDATED_LATER, rejection,
};
use ralph_adapter_common::claude_stream::{Denial, Message, bounded};
use ralph_orchestrator_contract::{ClaimKind, Event, GUIDANCE, ValidationPreview};
use serde_json::{Value, json};

use super::SdkSession;
use super::control_channel::{AT_STOP, BEFORE_TOOL};
use super::stage::Stage;
use crate::control::{Request, text};

/// Most refused calls that the report names.
const MAX_DENIED: usize = 64;

/// A validation preview that the agent waits for.
pub(super) struct PendingPreview<'a> {
    /// The control request to answer.
    pub(super) id: String,
    trigger: PreviewTrigger,
    pub(super) preview: Pin<Box<dyn Future<Output = ValidationPreview> + Send + 'a>>,
}

enum PreviewTrigger {
    /// The agent wants to end its turn.
    Stop,
    /// It claims by tool; the tool's call has this id.
    Claim(Value),
}

const NOT_ALLOWED: &str =
    "nobody is there to ask, and the configuration does not allow it; do without it";
const NOTES_ONLY: &str =
    "This session is ending. Use no tools: write the notes as the text of your answer.";

impl SdkSession<'_> {
    pub(super) fn handle_request(&mut self, id: &str, request: Request) {
        match request {
            Request::MayUse { tool, input } => self.may_use(id, &tool, &input),
            Request::Hook { callback, input } => match callback.as_str() {
                BEFORE_TOOL if self.hold_tool_call(id, &input) => {}
                BEFORE_TOOL => self.before_tool(id, &input),
                AT_STOP => self.at_stop(id, &input),
                _ => self.channel.answer_error(id, "there is no such hook"),
            },
            Request::Mcp { server, message } if server == SERVER => match tools::read(&message) {
                ServerRequest::Answered(answer) => self.serve(id, &answer),
                ServerRequest::ToolCall { id: call_id, call } => self.call_tool(id, call_id, call),
            },
            Request::Mcp { .. } => {
                self.channel.answer_error(id, "there is no such server of tools");
            }
            Request::Unknown { kind } => {
                self.channel
                    .answer_error(id, &format!("Unsupported control request subtype: {kind:.100}"));
                let kind = format!("control_request/{kind}");
                let events = self.parser.message(Message::Other { kind, raw: Value::Null });
                self.actions.emit_all(events);
            }
        }
    }

    /// Answers whether a tool may be used, which is asked where neither a rule nor the mode decides.
    fn may_use(&mut self, id: &str, tool: &str, input: &Value) {
        let paths = self.path_context(&Value::Null);
        let refusal = self.settings.policy.refusal(tool, input, &paths).or_else(|| {
            let allowed = self.settings.bypass || tool.starts_with(RULE);
            (!allowed).then(|| NOT_ALLOWED.to_owned())
        });
        let answer = match refusal {
            Some(message) => {
                self.deny(tool, input);
                json!({"behavior": "deny", "message": message})
            }
            None => json!({"behavior": "allow", "updatedInput": input}),
        };
        self.channel.answer(id, &answer);
    }

    pub(super) fn before_tool(&mut self, id: &str, hook: &Value) {
        let tool = text(hook, "tool_name").unwrap_or_default();
        let input = hook.get("tool_input").unwrap_or(&Value::Null);
        let ours = tool.starts_with(RULE);
        if !ours {
            self.accepted = false;
        }
        let noting = matches!(self.stage, Stage::Noting { .. }) && !ours;
        let refusal = if noting {
            Some(NOTES_ONLY.to_owned())
        } else {
            self.settings.policy.refusal(&tool, input, &self.path_context(hook))
        };
        let answer = match refusal {
            Some(reason) => {
                self.deny(&tool, input);
                json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
                    "permissionDecision": "deny", "permissionDecisionReason": reason}})
            }
            // A call of a subagent: what it adds would not reach the main conversation.
            None if hook.get("agent_id").is_some() => json!({}),
            None => match self.take_guidance() {
                Some(text) => json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
                    "additionalContext": text}}),
                None => json!({}),
            },
        };
        self.channel.answer(id, &answer);
    }

    /// Takes what people sent since the last call of a tool, in words for the agent. Not while it does something
    /// else than work on the task: then the next session is given it.
    fn take_guidance(&self) -> Option<String> {
        let is_working = self.stage == Stage::Working;
        let guidance = if is_working { self.events.take_guidance() } else { Vec::new() };
        let texts: Vec<String> = guidance.into_iter().map(|guidance| guidance.text).collect();
        (!texts.is_empty()).then(|| format!("{GUIDANCE}\n\n{}", texts.join("\n\n")))
    }

    fn deny(&mut self, tool: &str, input: &Value) {
        let denial = Denial { tool_name: tool.to_owned(), tool_input: input.clone() }.to_string();
        if self.denied.len() < MAX_DENIED && !self.denied.contains(&denial) {
            self.denied.push(denial);
        }
    }

    fn at_stop(&mut self, id: &str, hook: &Value) {
        // Before its claim is looked at: with the guidance it has more to do.
        if let Some(text) = self.take_guidance() {
            self.accepted = false;
            self.channel.answer(id, &json!({"decision": "block", "reason": text}));
            return;
        }
        if self.accepted || !self.may_preview() {
            self.channel.answer(id, &json!({}));
            return;
        }
        let said = text(hook, "last_assistant_message").or_else(|| self.parser.last_text());
        self.request_preview(id, PreviewTrigger::Stop, said);
    }

    fn may_preview(&self) -> bool {
        self.stage == Stage::Working && self.rejections < self.settings.max_rejections
    }

    fn request_preview(&mut self, id: &str, trigger: PreviewTrigger, final_text: Option<String>) {
        let events = self.events;
        let preview = Box::pin(async move { events.preview(final_text.as_deref()).await });
        self.pending_previews.push_back(PendingPreview { id: id.to_owned(), trigger, preview });
    }

    /// Answers the first of the pending previews.
    pub(super) fn answer_preview(&mut self, preview: ValidationPreview) {
        let Some(PendingPreview { id, trigger, .. }) = self.pending_previews.pop_front() else {
            return;
        };
        if matches!(preview, ValidationPreview::Rejected { .. }) {
            self.rejections = self.rejections.saturating_add(1);
        }
        self.accepted = preview == ValidationPreview::Accepted;
        match (trigger, preview) {
            (PreviewTrigger::Stop, ValidationPreview::Rejected { reasons }) => {
                self.channel
                    .answer(&id, &json!({"decision": "block", "reason": rejection(&reasons)}));
            }
            (PreviewTrigger::Stop, _) => self.channel.answer(&id, &json!({})),
            (PreviewTrigger::Claim(call), ValidationPreview::Rejected { reasons }) => {
                self.serve(&id, &tools::tool_result(&call, &rejection(&reasons), true));
            }
            (PreviewTrigger::Claim(call), ValidationPreview::Accepted) => {
                self.serve(&id, &tools::tool_result(&call, ACCEPTED, false));
            }
            (
                PreviewTrigger::Claim(call),
                ValidationPreview::NoClaim | ValidationPreview::NotNow { .. },
            ) => {
                self.serve(&id, &tools::tool_result(&call, VALIDATED_LATER, false));
            }
        }
    }

    fn call_tool(&mut self, id: &str, call_id: Value, call: ToolCall) {
        let text = match call {
            ToolCall::ClaimComplete(text) => {
                self.actions.emit(Event::Claim { kind: ClaimKind::Complete, text });
                if self.may_preview() {
                    return self.request_preview(id, PreviewTrigger::Claim(call_id), None);
                }
                VALIDATED_LATER.to_owned()
            }
            ToolCall::NeedHuman(text) => {
                self.actions.emit(Event::Claim { kind: ClaimKind::NeedsHuman, text });
                ASKED.to_owned()
            }
            ToolCall::Note(text) => {
                self.actions.emit(Event::Note { text: bounded(&text, MAX_NOTE) });
                NOTED.to_owned()
            }
            ToolCall::Status => self.status(),
            ToolCall::NextTask => String::from_utf8_lossy(&self.task.prompt).into_owned(),
        };
        self.serve(id, &tools::tool_result(&call_id, &text, false));
    }

    fn status(&self) -> String {
        let budget = &self.task.budget;
        let used = self.parser.usage();
        let context = self.parser.context();
        let share = context.and_then(|context| context.share());
        let left = budget.cost.map(|all| all.saturating_sub(used.cost.unwrap_or_default()));
        let tokens = used.tokens.unwrap_or_default().total();
        json!({
            "iteration": self.task.number,
            "cost_usd": used.cost,
            "cost_left_usd": left,
            "tokens": tokens,
            "tokens_left": budget.tokens.map(|all| all.saturating_sub(tokens)),
            "seconds_in_all": budget.time.map(|time| time.as_secs()),
            "context_tokens": context.map(|context| context.used),
            "context_window": context.and_then(|context| context.window),
            "context_percent": share.map(|share| (share * 1000.0).round() / 10.0),
            "handoff_at_percent": self.settings.handoff_at.map(|at| (at * 1000.0).round() / 10.0),
        })
        .to_string()
    }

    fn serve(&mut self, id: &str, answer: &Value) {
        self.channel.answer(id, &json!({"mcp_response": answer}));
    }
}
