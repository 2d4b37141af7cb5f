//! The adapter, for the tests' harness.

use std::path::PathBuf;

use ralph_adapter_claude_sdk::WriteGuard;
use ralph_orchestrator_contract::{Agent, BuildContext, BuildError, Event, Tokens, Usd};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_testkit::agent_harness::{Adapter, AgentHarness};
use serde_json::Value;

pub(crate) use ralph_orchestrator_testkit::RecordingSink;

pub(crate) type Harness = AgentHarness<ClaudeSdk>;

pub(crate) struct ClaudeSdk;

/// The folders in the workspace that are guarded.
pub(crate) const GUARDED: &str = "guarded";

impl Adapter for ClaudeSdk {
    fn build(
        config: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn Agent>, BuildError> {
        let guarded: PathBuf = context.workspace.join(GUARDED);
        let guard = WriteGuard::new(move |path| path.starts_with(&guarded));
        ralph_adapter_claude_sdk::build(config, context, supervisor, guard)
    }
}

/// What Claude Code reckons for the model it uses by default, in nano-dollars.
pub(crate) fn cost(tokens: Tokens) -> Usd {
    let nanos = tokens.input * 5_000
        + tokens.output * 25_000
        + tokens.cache_read * 500
        + tokens.cache_write * 6_250;
    Usd::from_nanos(nanos)
}

pub(crate) fn contexts(sink: &RecordingSink) -> Vec<(u64, Option<u64>)> {
    let context = |event: &Event| match event {
        Event::Context { used, window } => Some((*used, *window)),
        _ => None,
    };
    sink.events().iter().filter_map(context).collect()
}

pub(crate) fn notes(sink: &RecordingSink) -> Vec<String> {
    let note = |event: &Event| match event {
        Event::Note { text } => Some(text.clone()),
        _ => None,
    };
    sink.events().iter().filter_map(note).collect()
}

/// The answers of tools that the model was given in this request, joined.
pub(crate) fn answers(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].to_string()).collect::<Vec<_>>().join("\n")
}
