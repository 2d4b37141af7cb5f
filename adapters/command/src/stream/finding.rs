//! What a rule makes of a line.

use ralph_orchestrator_contract::{ErrorClass, Usage};
use serde_json::Value;

use super::keys::Counts;

/// What one key of a rule makes of a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// The rule's number, from 1.
    pub(crate) rule: usize,
    /// The key within the rule, such as `usage.cost`.
    pub(crate) key: &'static str,
    pub(crate) finding: Finding,
}

/// What something in a line means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finding {
    NewMessage,
    Session(String),
    Model(String),
    Text(String),
    Thinking(String),
    FinalText(String),
    ToolCall {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        id: String,
        is_error: bool,
        text: String,
    },
    Usage {
        counts: Counts,
        usage: Usage,
    },
    Context {
        used: u64,
        window: Option<u64>,
    },
    RateWindow {
        name: String,
        used: f64,
        resets_at_ms: Option<u64>,
    },
    Question(String),
    Failure {
        class: ErrorClass,
        message: String,
    },
    End,
    /// The line does not satisfy the key: what was expected, and what is there.
    Mismatch(String),
}
