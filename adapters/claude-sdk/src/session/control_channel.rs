//! What is sent to the agent.

use std::collections::BTreeMap;

use ralph_orchestrator_supervisor::Input;
use serde_json::{Value, json};

use crate::control;

/// A question of ours to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Initialize,
    Interrupt,
    ContextUsage,
    Usage,
}

/// Sends questions, answers and prompts to the agent's standard input.
#[derive(Debug)]
pub(super) struct ControlChannel {
    /// Closed once nothing more is to be sent.
    input: Option<Input>,
    questions: BTreeMap<String, Question>,
    count: u64,
    /// The agent does not read its standard input.
    pub(super) stdin_blocked: bool,
}

impl ControlChannel {
    pub(super) const fn new(input: Input) -> Self {
        Self { input: Some(input), questions: BTreeMap::new(), count: 0, stdin_blocked: false }
    }

    pub(super) fn ask(&mut self, question: Question) {
        let request = match question {
            Question::Initialize => json!({"subtype": "initialize", "hooks": hooks()}),
            Question::Interrupt => json!({"subtype": "interrupt"}),
            Question::ContextUsage => json!({"subtype": "get_context_usage"}),
            Question::Usage => json!({"subtype": "get_usage"}),
        };
        self.count = self.count.saturating_add(1);
        let id = format!("ralph-{}", self.count);
        self.send(&control::request(&id, &request));
        self.questions.insert(id, question);
    }

    /// Removes and returns the question with this id.
    pub(super) fn take_question(&mut self, id: &str) -> Option<Question> {
        self.questions.remove(id)
    }

    /// Returns whether this question has no answer yet.
    pub(super) fn is_pending(&self, question: Question) -> bool {
        self.questions.values().any(|pending| *pending == question)
    }

    pub(super) fn answer(&mut self, id: &str, answer: &Value) {
        self.send(&control::answer(id, answer));
    }

    pub(super) fn answer_error(&mut self, id: &str, error: &str) {
        self.send(&control::refusal(id, error));
    }

    pub(super) fn send_prompt(&mut self, text: &str) {
        self.send(&control::user(text));
    }

    /// Closes the agent's input: it exits when it has done what it was asked.
    pub(super) fn close(&mut self) {
        self.input = None;
    }

    fn send(&mut self, message: &Value) {
        let Some(input) = &self.input else { return };
        self.stdin_blocked |= input.send(format!("{message}\n").into_bytes()).is_err();
    }
}

/// The hooks' names, which the agent sends back.
pub(super) const BEFORE_TOOL: &str = "before-tool";
pub(super) const AT_STOP: &str = "at-stop";
/// How long the agent waits for a hook's answer: validators have limits of their own.
const HOOK_TIMEOUT_SECONDS: u64 = 24 * 60 * 60;

fn hooks() -> Value {
    let hook = |name: &str| json!([{"matcher": null, "hookCallbackIds": [name], "timeout": HOOK_TIMEOUT_SECONDS}]);
    json!({"PreToolUse": hook(BEFORE_TOOL), "Stop": hook(AT_STOP)})
}
