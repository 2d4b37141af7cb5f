//! What agents' programs give their hooks, and what these answer. The same for Claude Code and Codex.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

/// What a hook is given on its standard input. Fields that are not used are not named.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HookMessage {
    pub(crate) hook_event_name: String,
    pub(crate) session_id: String,
    pub(crate) transcript_path: Option<PathBuf>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) model: Option<Value>,
    /// How a session started.
    pub(crate) source: String,
    /// Of a prompt.
    pub(crate) prompt: String,
    /// Of a stop.
    pub(crate) last_assistant_message: Option<String>,
    pub(crate) background_tasks: Vec<BackgroundTask>,
}

/// Something that the session has started and not waited for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BackgroundTask {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) command: String,
    pub(crate) description: String,
}

impl BackgroundTask {
    pub(crate) fn is_running(&self) -> bool {
        // Whatever is not known to be over.
        !matches!(
            self.status.as_str(),
            "completed" | "failed" | "killed" | "stopped" | "done" | "exited"
        )
    }

    /// For the agent.
    pub(crate) fn name(&self) -> String {
        let what = [&self.description, &self.command, &self.id];
        let what = what.into_iter().find(|text| !text.is_empty());
        what.cloned().unwrap_or_else(|| "a task without a name".to_owned())
    }
}

/// The event that a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookEvent {
    /// The session began.
    SessionStart,
    /// The person has typed a prompt.
    Prompt,
    /// The agent wants to stop.
    Stop,
    /// The session is over.
    SessionEnd,
}

impl HookEvent {
    /// All that are installed.
    pub(crate) const ALL: [Self; 4] =
        [Self::SessionStart, Self::Prompt, Self::Stop, Self::SessionEnd];

    /// The agents' name for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::Prompt => "UserPromptSubmit",
            Self::Stop => "Stop",
            Self::SessionEnd => "SessionEnd",
        }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }
}

/// What a hook answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookAnswer {
    /// Nothing.
    Pass,
    /// The agent may stop; the person is shown this.
    LetGo(String),
    /// The agent goes on, and reads this.
    Block(String),
    /// The agent reads this beside the prompt.
    Context(HookEvent, String),
}

impl HookAnswer {
    /// The object that is printed, if any.
    pub(crate) fn object(&self) -> Option<Value> {
        match self {
            Self::Pass => None,
            Self::LetGo(text) => Some(json!({ "systemMessage": text })),
            Self::Block(reason) => Some(json!({ "decision": "block", "reason": reason })),
            Self::Context(event, text) => Some(json!({
                "hookSpecificOutput": { "hookEventName": event.name(), "additionalContext": text }
            })),
        }
    }
}
