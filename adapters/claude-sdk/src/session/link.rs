//! Speaking to the agent.

use std::collections::BTreeMap;

use ralph_orchestrator_supervisor::Input;
use serde_json::{Value, json};

use crate::control;

/// What we asked the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Initialize,
    Interrupt,
    ContextUsage,
    Usage,
}

/// Our end of the conversation.
#[derive(Debug)]
pub(super) struct Link {
    /// Gone once nothing more is to be said.
    input: Option<Input>,
    asked: BTreeMap<String, Question>,
    count: u64,
    /// It does not read what it is told.
    pub(super) deaf: bool,
}

impl Link {
    pub(super) const fn new(input: Input) -> Self {
        Self { input: Some(input), asked: BTreeMap::new(), count: 0, deaf: false }
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
        self.say(&control::request(&id, &request));
        self.asked.insert(id, question);
    }

    /// What was asked with this id, once.
    pub(super) fn answered(&mut self, id: &str) -> Option<Question> {
        self.asked.remove(id)
    }

    pub(super) fn waits_for(&self, question: Question) -> bool {
        self.asked.values().any(|asked| *asked == question)
    }

    pub(super) fn answer(&mut self, id: &str, answer: &Value) {
        self.say(&control::answer(id, answer));
    }

    pub(super) fn refuse(&mut self, id: &str, error: &str) {
        self.say(&control::refusal(id, error));
    }

    pub(super) fn prompt(&mut self, text: &str) {
        self.say(&control::user(text));
    }

    /// Nothing more is said: the agent ends when it has done what it was told.
    pub(super) fn close(&mut self) {
        self.input = None;
    }

    fn say(&mut self, message: &Value) {
        let Some(input) = &self.input else { return };
        self.deaf |= input.send(format!("{message}\n").into_bytes()).is_err();
    }
}

/// The hooks' names, which the agent gives back.
pub(super) const BEFORE_TOOL: &str = "before-tool";
pub(super) const AT_STOP: &str = "at-stop";
/// How long the agent waits for a hook's answer, in seconds: validators have limits of their own.
const PATIENCE: u64 = 24 * 60 * 60;

fn hooks() -> Value {
    let hook =
        |name: &str| json!([{"matcher": null, "hookCallbackIds": [name], "timeout": PATIENCE}]);
    json!({"PreToolUse": hook(BEFORE_TOOL), "Stop": hook(AT_STOP)})
}
