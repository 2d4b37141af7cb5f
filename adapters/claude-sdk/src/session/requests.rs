//! What the agent asks, and what it is answered.

use std::future::Future;
use std::pin::Pin;

use ralph_adapter_claude_stream::{Denial, Message, bounded};
use ralph_orchestrator_contract::{ClaimKind, Event, Judgement, REJECTED_CLAIM};
use serde_json::{Value, json};

use super::Session;
use super::link::{AT_STOP, BEFORE_TOOL};
use super::stage::Stage;
use crate::control::{Request, text};
use crate::tools::{self, Asked, Call, RULE, SERVER};

/// So many refused calls are named at the end.
const MAX_DENIED: usize = 64;
/// Longest note that is taken, in bytes.
pub(super) const MAX_NOTE: usize = 32 * 1024;

/// A judgement that somebody waits for.
pub(super) struct Judging<'a> {
    /// The control request to answer.
    pub(super) id: String,
    whose: Whose,
    pub(super) judgement: Pin<Box<dyn Future<Output = Judgement> + Send + 'a>>,
}

enum Whose {
    /// The agent wants to end its turn.
    Stop,
    /// It claims by tool; the tool's call has this id.
    Claim(Value),
}

const LATER: &str =
    "The claim is noted. It will be validated when this session has ended: end your turn now.";
const STAYS: &str =
    "nobody is there to ask, and the configuration does not allow it; do without it";
const NOTES_ONLY: &str =
    "This session is ending. Use no tools: write the notes as the text of your answer.";

impl<'a> Session<'a> {
    pub(super) async fn requested(&mut self, id: &str, request: Request) {
        match request {
            Request::MayUse { tool, input } => self.may_use(id, &tool, &input),
            Request::Hook { callback, input } => match callback.as_str() {
                BEFORE_TOOL if self.holds(id, &input) => {}
                BEFORE_TOOL => self.before_tool(id, &input),
                AT_STOP => self.at_stop(id, &input),
                _ => self.link.refuse(id, "there is no such hook"),
            },
            Request::Mcp { server, message } if server == SERVER => match tools::read(&message) {
                Asked::Nothing(answer) => self.serve(id, &answer),
                Asked::Tool { id: call_id, call } => self.call(id, call_id, call).await,
            },
            Request::Mcp { .. } => self.link.refuse(id, "there is no such server of tools"),
            Request::Unknown { kind } => {
                self.link.refuse(id, &format!("Unsupported control request subtype: {kind:.100}"));
                let kind = format!("control_request/{kind}");
                let events = self.parser.message(Message::Other { kind, raw: Value::Null });
                self.emit_all(events).await;
            }
        }
    }

    /// Only what neither a rule nor the mode settles is asked for.
    fn may_use(&mut self, id: &str, tool: &str, input: &Value) {
        let place = self.place(&Value::Null);
        let refusal = self.settings.policy.refusal(tool, input, &place).or_else(|| {
            let allowed = self.settings.bypass || tool.starts_with(RULE);
            (!allowed).then(|| STAYS.to_owned())
        });
        let answer = match refusal {
            Some(message) => {
                self.deny(tool, input);
                json!({"behavior": "deny", "message": message})
            }
            None => json!({"behavior": "allow", "updatedInput": input}),
        };
        self.link.answer(id, &answer);
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
            self.settings.policy.refusal(&tool, input, &self.place(hook))
        };
        let answer = match refusal {
            Some(reason) => {
                self.deny(&tool, input);
                json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
                    "permissionDecision": "deny", "permissionDecisionReason": reason}})
            }
            None => json!({}),
        };
        self.link.answer(id, &answer);
    }

    fn deny(&mut self, tool: &str, input: &Value) {
        let denial = Denial { tool_name: tool.to_owned(), tool_input: input.clone() }.to_string();
        if self.denied.len() < MAX_DENIED && !self.denied.contains(&denial) {
            self.denied.push(denial);
        }
    }

    fn at_stop(&mut self, id: &str, hook: &Value) {
        if self.accepted || !self.may_judge() {
            self.link.answer(id, &json!({}));
            return;
        }
        let said = text(hook, "last_assistant_message").or_else(|| self.parser.last_text());
        self.judge(id, Whose::Stop, said);
    }

    fn may_judge(&self) -> bool {
        self.stage == Stage::Working && self.rejections < self.settings.max_rejections
    }

    fn judge(&mut self, id: &str, whose: Whose, final_text: Option<String>) {
        let events = self.events;
        let judgement = Box::pin(async move { events.judge(final_text.as_deref()).await });
        self.judging.push_back(Judging { id: id.to_owned(), whose, judgement });
    }

    /// The first judgement that was asked for is there.
    pub(super) fn judged(&mut self, judgement: Judgement) {
        let Some(Judging { id, whose, .. }) = self.judging.pop_front() else { return };
        if matches!(judgement, Judgement::Rejected { .. }) {
            self.rejections = self.rejections.saturating_add(1);
        }
        self.accepted = judgement == Judgement::Accepted;
        match (whose, judgement) {
            (Whose::Stop, Judgement::Rejected { reasons }) => {
                self.link.answer(&id, &json!({"decision": "block", "reason": rejection(&reasons)}));
            }
            (Whose::Stop, _) => self.link.answer(&id, &json!({})),
            (Whose::Claim(call), Judgement::Rejected { reasons }) => {
                self.serve(&id, &tools::said(&call, &rejection(&reasons), true));
            }
            (Whose::Claim(call), Judgement::Accepted) => {
                let text = "The claim was validated and stands. End your turn now.";
                self.serve(&id, &tools::said(&call, text, false));
            }
            (Whose::Claim(call), Judgement::NoClaim | Judgement::NotNow { .. }) => {
                self.serve(&id, &tools::said(&call, LATER, false));
            }
        }
    }

    async fn call(&mut self, id: &str, call_id: Value, call: Call) {
        let text = match call {
            Call::ClaimComplete(text) => {
                self.emit(Event::Claim { kind: ClaimKind::Complete, text }).await;
                if self.may_judge() {
                    return self.judge(id, Whose::Claim(call_id), None);
                }
                LATER.to_owned()
            }
            Call::NeedHuman(text) => {
                self.emit(Event::Claim { kind: ClaimKind::NeedsHuman, text }).await;
                "A human will be asked. End your turn now.".to_owned()
            }
            Call::Note(text) => {
                self.emit(Event::Note { text: bounded(&text, MAX_NOTE) }).await;
                "Noted.".to_owned()
            }
            Call::Status => self.status(),
        };
        self.serve(id, &tools::said(&call_id, &text, false));
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
        self.link.answer(id, &json!({"mcp_response": answer}));
    }
}

fn rejection(reasons: &[String]) -> String {
    let mut text = REJECTED_CLAIM.to_owned();
    for reason in reasons {
        text.push_str("\n- ");
        text.push_str(reason);
    }
    text.push_str("\nPut this right, then claim again.");
    text
}
