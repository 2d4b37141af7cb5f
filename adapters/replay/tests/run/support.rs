//! A place to perform in, and sessions to perform.

use std::fs;
use std::ops::Deref;

use ralph_orchestrator_contract::{Agent, AgentError, Event, Iteration, Report};
use ralph_orchestrator_testkit::shim::supervisor;
use ralph_orchestrator_testkit::{RecordingSink, TestWorkspace};
use serde_json::{Value, json};

/// A workspace whose path needs quotes, and a folder for sessions.
pub(crate) struct Place(TestWorkspace);

impl Deref for Place {
    type Target = TestWorkspace;

    fn deref(&self) -> &TestWorkspace {
        &self.0
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = TestWorkspace::new("the work's space");
        fs::create_dir(place.root.path().join("session")).unwrap();
        Self(place)
    }

    /// Puts a session of these lines where the adapter looks for it.
    pub(crate) fn record(&self, number: u64, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.root.path().join(format!("session/{number}.jsonl")), text).unwrap();
    }

    pub(crate) fn agent(&self, config: Value) -> Box<dyn Agent> {
        ralph_adapter_replay::build(config, &self.context(), &supervisor()).unwrap()
    }

    pub(crate) fn task(&self, number: u64) -> Iteration {
        self.0.task(number, b"nobody reads this")
    }

    /// One iteration of a config, after which none of its processes may be left.
    pub(crate) async fn run(
        &self,
        config: Value,
        number: u64,
        sink: &RecordingSink,
    ) -> Result<Report, AgentError> {
        self.finish(self.agent(config).run(self.task(number), sink)).await
    }

    /// One iteration of the recorded sessions.
    pub(crate) async fn perform(
        &self,
        number: u64,
        sink: &RecordingSink,
    ) -> Result<Report, AgentError> {
        self.run(json!({"session": "session"}), number, sink).await
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.workspace.join(name)).unwrap()
    }
}

/// The first line of a session that was recorded in `/workspace`.
pub(crate) fn init() -> Value {
    json!({"type": "system", "subtype": "init", "cwd": "/workspace", "session_id": "s-1", "model": "m"})
}

/// A message that calls a tool.
pub(crate) fn call(id: &str, name: &str, input: &Value) -> Value {
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
    json!({"type": "assistant", "message": {"id": format!("m-{id}"), "role": "assistant", "content": [block],
        "usage": {"input_tokens": 9, "output_tokens": 1}}, "parent_tool_use_id": null})
}

/// The recorded result of a call.
pub(crate) fn answer(id: &str, text: &str, is_error: bool) -> Value {
    let block =
        json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error});
    json!({"type": "user", "message": {"role": "user", "content": [block]},
        "tool_use_result": {"stdout": text}})
}

/// The last line of a session that ended well.
pub(crate) fn result(text: &str) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": text, "session_id": "s-1",
        "total_cost_usd": 1.5, "terminal_reason": "completed",
        "modelUsage": {"m": {"inputTokens": 9, "outputTokens": 9, "costUSD": 1.5}}})
}

/// Text and failure of each tool's result.
pub(crate) fn results(sink: &RecordingSink) -> Vec<(String, bool)> {
    let events = sink.events();
    let results = events.iter().filter_map(|event| match event {
        Event::ToolResult { text, is_error, .. } => Some((text.clone(), *is_error)),
        _ => None,
    });
    results.collect()
}

/// All warnings.
pub(crate) fn warnings(sink: &RecordingSink) -> Vec<String> {
    let events = sink.events();
    let warnings = events.iter().filter_map(|event| match event {
        Event::Warning { message } => Some(message.clone()),
        _ => None,
    });
    warnings.collect()
}
