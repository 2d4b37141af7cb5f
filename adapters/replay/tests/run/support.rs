//! A place to perform in, sessions to perform, and a sink that remembers and can ask for the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use ralph_orchestrator_contract::{
    Agent, AgentError, Budget, BuildContext, CancelReason, CancelSignal, Event, EventSink,
    Iteration, Report, async_trait,
};
use ralph_orchestrator_testkit::shim::supervisor;
use serde_json::{Value, json};
use tokio::sync::watch;

/// More than any of these performances takes.
const PATIENCE: Duration = Duration::from_secs(180);

/// A workspace whose path needs quotes, a folder for sessions, and a run id of its own.
pub(crate) struct Place {
    root: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    run: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        let workspace = real.join("the work's space");
        for folder in ["the work's space", "scratch", "session"] {
            fs::create_dir(real.join(folder)).unwrap();
        }
        Self { root, workspace, run: format!("test{}", real.display()) }
    }

    /// Puts a session of these lines where the adapter looks for it.
    pub(crate) fn record(&self, number: u64, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.root.path().join(format!("session/{number}.jsonl")), text).unwrap();
    }

    pub(crate) fn agent(&self, config: Value) -> Box<dyn Agent> {
        let context = BuildContext {
            config_dir: self.root.path().to_owned(),
            workspace: self.workspace.clone(),
            prompt_dir: self.workspace.clone(),
            path: std::env::var("PATH").unwrap(),
        };
        ralph_adapter_replay::build(config, &context, &supervisor()).unwrap()
    }

    pub(crate) fn task(&self, number: u64) -> Iteration {
        let path = std::env::var("PATH").unwrap();
        Iteration {
            run: self.run.clone(),
            number,
            prompt: b"nobody reads this".to_vec(),
            workspace: self.workspace.clone(),
            env: BTreeMap::from([("PATH".to_owned(), path)]),
            budget: Budget::default(),
            scratch: self.root.path().join("scratch"),
        }
    }

    /// One iteration of a config, after which none of its processes may be left.
    pub(crate) async fn run(
        &self,
        config: Value,
        number: u64,
        sink: &Sink,
    ) -> Result<Report, AgentError> {
        let agent = self.agent(config);
        let result = tokio::time::timeout(PATIENCE, agent.run(self.task(number), sink)).await;
        assert!(!self.has_processes(), "all processes are gone");
        result.expect("the performance has an end")
    }

    /// One iteration of the recorded sessions.
    pub(crate) async fn perform(&self, number: u64, sink: &Sink) -> Result<Report, AgentError> {
        self.run(json!({"session": "session"}), number, sink).await
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.workspace.join(name)).unwrap()
    }

    fn has_processes(&self) -> bool {
        let wanted = format!("RALPH_RUN_ID={}", self.run);
        let has_it = |path: &Path| {
            fs::read(path.join("environ"))
                .is_ok_and(|env| env.split(|byte| *byte == 0).any(|var| var == wanted.as_bytes()))
        };
        fs::read_dir("/proc").unwrap().filter_map(Result::ok).any(|entry| has_it(&entry.path()))
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

type Hook = Box<dyn Fn(&Event) -> bool + Send + Sync>;

/// Remembers events, and asks for the end when the hook says so.
pub(crate) struct Sink {
    events: Mutex<Vec<Event>>,
    cancel: watch::Sender<bool>,
    hook: Hook,
}

impl Sink {
    pub(crate) fn new() -> Self {
        Self::cancelling(|_| false)
    }

    pub(crate) fn cancelling(hook: impl Fn(&Event) -> bool + Send + Sync + 'static) -> Self {
        Self { events: Mutex::default(), cancel: watch::Sender::new(false), hook: Box::new(hook) }
    }

    pub(crate) fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// Text and failure of each tool's result.
    pub(crate) fn results(&self) -> Vec<(String, bool)> {
        let results = self.events().into_iter().filter_map(|event| match event {
            Event::ToolResult { text, is_error, .. } => Some((text, is_error)),
            _ => None,
        });
        results.collect()
    }

    /// All warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let warnings = self.events().into_iter().filter_map(|event| match event {
            Event::Warning { message } => Some(message),
            _ => None,
        });
        warnings.collect()
    }
}

#[async_trait]
impl CancelSignal for Sink {
    async fn cancelled(&self) -> CancelReason {
        self.cancel.subscribe().wait_for(|asked| *asked).await.unwrap();
        CancelReason::Signal
    }
}

#[async_trait]
impl EventSink for Sink {
    async fn emit(&self, event: Event) {
        let cancel = (self.hook)(&event);
        self.events.lock().unwrap().push(event);
        if cancel {
            self.cancel();
        }
    }
}
