//! The orchestrator's own tools for agents: to claim completion and learn at once why the claim is rejected, to ask
//! for a human, to leave a note, to see what is left to spend.
//!
//! An adapter that offers its model tools adds [`definitions`] to its own, and passes calls of them to
//! [`AgentTools::call`]. One whose agent takes servers of the Model Context Protocol need not: the orchestrator
//! serves the same tools to plugins' agents.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::{ClaimKind, Event, EventSink, Iteration, REJECTED_CLAIM, ValidationPreview};

/// What is answered to a claim that cannot be validated now.
pub const VALIDATED_LATER: &str =
    "The claim is noted. It will be validated when this session has ended: end your turn now.";
/// What is answered to a claim that is accepted so far.
pub const ACCEPTED: &str = "The claim was validated and stands. End your turn now.";
/// What is answered to an agent that needs a human.
pub const ASKED: &str = "A human will be asked. End your turn now.";
/// What is answered to a note.
pub const NOTED: &str = "Noted.";
/// Longest note that is stored, in bytes.
pub const MAX_NOTE: usize = 32 * 1024;
/// Longest task that is told again, in bytes.
const MAX_TASK: usize = 64 * 1024;
/// Claims that are validated while the session goes on. Later ones are validated at its end.
const MOST_PREVIEWS: u32 = 20;

/// A tool, as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The tool's name.
    pub name: &'static str,
    /// What it is for.
    pub description: &'static str,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

/// Returns the tools.
#[must_use]
pub fn definitions() -> Vec<ToolDefinition> {
    let tool = |name, description, argument: Option<(&str, &str)>| {
        let (properties, required) = match argument {
            Some((key, what)) => {
                (json!({key: {"type": "string", "description": what}}), json!([key]))
            }
            None => (json!({}), json!([])),
        };
        let input_schema =
            json!({"type": "object", "properties": properties, "required": required});
        ToolDefinition { name, description, input_schema }
    };
    vec![
        tool(
            "claim_complete",
            "Claim that the whole task is complete. The claim is validated; if it is refused, the \
             answer says why.",
            Some(("message", "What was done, in one or two sentences.")),
        ),
        tool(
            "need_human",
            "Say that the work cannot go on without a human: a decision, an access, a contradiction \
             in the task. End your turn afterwards.",
            Some(("reason", "What is needed, and why.")),
        ),
        tool(
            "note",
            "Leave a note for the sessions after this one, which know nothing of it otherwise.",
            Some(("text", "The note.")),
        ),
        tool(
            "status",
            "Tells the iteration's number, what is left to spend, and how full the context is.",
            None,
        ),
        tool("next_task", "Returns the task of this session, as it was given at its start.", None),
    ]
}

/// A call of one of the tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolCall {
    /// The task is complete.
    ClaimComplete(String),
    /// A human has to decide.
    NeedHuman(String),
    /// A note for later iterations.
    Note(String),
    /// The session's status.
    Status,
    /// The task of this iteration, once more.
    NextTask,
}

impl ToolCall {
    /// Reads a call from the tool's name and its arguments.
    ///
    /// # Errors
    /// What is wrong, for the model: there is no such tool, or an argument is missing.
    pub fn parse(name: &str, arguments: &Value) -> Result<Self, String> {
        let argument = |key: &str| {
            let text = arguments.get(key).and_then(Value::as_str);
            text.filter(|text| !text.trim().is_empty())
                .map(str::to_owned)
                .ok_or_else(|| format!("`{key}` is missing; expected a text"))
        };
        match name {
            "claim_complete" => argument("message").map(Self::ClaimComplete),
            "need_human" => argument("reason").map(Self::NeedHuman),
            "note" => argument("text").map(Self::Note),
            "status" => Ok(Self::Status),
            "next_task" => Ok(Self::NextTask),
            name => Err(format!("no such tool: {name:.100}")),
        }
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    /// The text for the model.
    pub text: String,
    /// Whether the call failed, such as a claim that is rejected.
    pub is_error: bool,
}

/// The tools of one iteration.
#[derive(Debug)]
pub struct AgentTools {
    status: Value,
    prompt: String,
    previews: AtomicU32,
}

impl AgentTools {
    /// Returns the tools of this iteration.
    #[must_use]
    pub fn new(task: &Iteration) -> Self {
        let budget = &task.budget;
        let status = json!({
            "iteration": task.number,
            "cost_left_usd": budget.cost,
            "tokens_left": budget.tokens,
            "seconds_in_all": budget.time.map(|time| time.as_secs()),
        });
        let prompt = String::from_utf8_lossy(&task.prompt).into_owned();
        Self { status, prompt, previews: AtomicU32::new(0) }
    }

    /// Performs a call, and returns what the model is answered. A claim is validated while its answer is waited
    /// for; what counts is its validation after the session.
    pub async fn call(&self, call: ToolCall, events: &dyn EventSink) -> ToolAnswer {
        let text = match call {
            ToolCall::ClaimComplete(text) => {
                events.emit(Event::Claim { kind: ClaimKind::Complete, text }).await;
                return self.preview(events).await;
            }
            ToolCall::NeedHuman(text) => {
                events.emit(Event::Claim { kind: ClaimKind::NeedsHuman, text }).await;
                ASKED.to_owned()
            }
            ToolCall::Note(text) => {
                let text = text.get(..text.floor_char_boundary(MAX_NOTE)).unwrap_or_default();
                events.emit(Event::Note { text: text.to_owned() }).await;
                NOTED.to_owned()
            }
            ToolCall::Status => self.status.to_string(),
            ToolCall::NextTask => self.task(),
        };
        ToolAnswer { text, is_error: false }
    }

    fn task(&self) -> String {
        let end = self.prompt.floor_char_boundary(MAX_TASK);
        let task = self.prompt.get(..end).unwrap_or_default();
        match self.prompt.len() - end {
            0 => task.to_owned(),
            cut => format!("{task}\n[… {cut} bytes cut]"),
        }
    }

    async fn preview(&self, events: &dyn EventSink) -> ToolAnswer {
        let later = || ToolAnswer { text: VALIDATED_LATER.to_owned(), is_error: false };
        if self.previews.fetch_add(1, Ordering::Relaxed) >= MOST_PREVIEWS {
            return later();
        }
        match events.preview(None).await {
            ValidationPreview::Accepted => {
                ToolAnswer { text: ACCEPTED.to_owned(), is_error: false }
            }
            ValidationPreview::Rejected { reasons } => {
                ToolAnswer { text: rejection(&reasons), is_error: true }
            }
            ValidationPreview::NoClaim | ValidationPreview::NotNow { .. } => later(),
        }
    }
}

/// Returns what an agent reads whose claim was rejected for these reasons.
#[must_use]
pub fn rejection(reasons: &[String]) -> String {
    let mut text = REJECTED_CLAIM.to_owned();
    for reason in reasons {
        text.push_str("\n- ");
        text.push_str(reason);
    }
    text.push_str("\nPut this right, then claim again.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_their_mistakes() {
        let call = ToolCall::parse;
        let text = |text: &str| text.to_owned();
        assert_eq!(
            call("claim_complete", &json!({"message": "m"})),
            Ok(ToolCall::ClaimComplete(text("m")))
        );
        assert_eq!(call("need_human", &json!({"reason": "r"})), Ok(ToolCall::NeedHuman(text("r"))));
        assert_eq!(call("note", &json!({"text": "t"})), Ok(ToolCall::Note(text("t"))));
        assert_eq!(call("status", &json!(null)), Ok(ToolCall::Status));
        for (name, arguments, part) in [
            ("claim_complete", json!({}), "`message` is missing"),
            ("claim_complete", json!({"message": " "}), "`message` is missing"),
            ("note", json!({"text": 7}), "`text` is missing"),
            ("need_human", json!(["r"]), "`reason` is missing"),
            ("rm", json!({}), "no such tool: rm"),
        ] {
            let error = call(name, &arguments).unwrap_err();
            assert!(error.contains(part), "{name} {arguments}: {error}");
        }
    }

    #[test]
    fn every_tool_that_a_model_is_offered_can_be_called() {
        for tool in definitions() {
            let required = tool.input_schema["required"].as_array().unwrap();
            let arguments =
                required.iter().map(|key| (key.as_str().unwrap().to_owned(), json!("x")));
            let arguments = Value::Object(arguments.collect());
            assert!(ToolCall::parse(tool.name, &arguments).is_ok(), "{}", tool.name);
        }
    }
}
