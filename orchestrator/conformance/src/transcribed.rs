//! An agent whose events and results are kept, for the report of a scenario that fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ralph_orchestrator_contract::{
    Agent, AgentError, CancelReason, CancelSignal, Description, Event, EventSink, Guidance,
    Iteration, Launch, Report, ValidationPreview, async_trait,
};
use serde_json::{Value, json};

/// The most that is kept of a scenario, in bytes.
const LARGEST: usize = 1024 * 1024;
/// The most that is kept of one line, in bytes.
const LONGEST_LINE: usize = 16 * 1024;

/// What an agent reported in a scenario, one JSON value per line.
#[derive(Clone, Default)]
pub(crate) struct TranscriptLog(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    text: String,
    omitted: usize,
    /// The first warning that the agent violated its protocol.
    violation: Option<String>,
    /// The last warning.
    warning: Option<String>,
    has_events: bool,
}

impl TranscriptLog {
    fn push(&self, line: &Value) {
        let line = line.to_string();
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines { text, omitted, .. } = &mut *log;
        if *omitted > 0 || text.len() + line.len().min(LONGEST_LINE) > LARGEST {
            *omitted += 1;
            return;
        }
        match line.get(..line.floor_char_boundary(LONGEST_LINE)) {
            Some(start) if start.len() < line.len() => {
                let cut = json!({"truncated": start, "bytes": line.len()});
                text.push_str(&cut.to_string());
            }
            _ => text.push_str(&line),
        }
        text.push('\n');
    }

    /// Returns the first violation of the protocol that came with a good result.
    pub(crate) fn violation(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).violation.clone()
    }

    /// Returns the last warning.
    pub(crate) fn warning(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).warning.clone()
    }

    /// Whether the agent reported anything but warnings and what was printed.
    pub(crate) fn has_events(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).has_events
    }

    fn observe(&self, event: &Event) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Warning { message } => {
                log.warning = Some(message.clone());
                if message.contains("violated the protocol") {
                    log.violation.get_or_insert_with(|| message.clone());
                }
            }
            Event::Stderr { .. } => {}
            _ => log.has_events = true,
        }
        drop(log);
        self.push(&json!({"event": event}));
    }

    /// Returns the lines, and how many more there were.
    pub(crate) fn text(&self) -> String {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines { text, omitted, .. } = &*log;
        match omitted {
            0 => text.clone(),
            omitted => format!("{text}{}\n", json!({"omitted_lines": omitted})),
        }
    }
}

/// An agent, and where what it reports is kept.
pub(crate) struct TranscribedAgent {
    pub(crate) agent: Box<dyn Agent>,
    pub(crate) log: TranscriptLog,
}

#[async_trait]
impl Agent for TranscribedAgent {
    fn describe(&self) -> Description {
        self.agent.describe()
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let result = self.agent.check(env).await;
        self.log.push(&match &result {
            Ok(found) => json!({"check": found}),
            Err(error) => json!({"check_failed": error.message, "class": error.class.word()}),
        });
        result
    }

    fn launch(&self, task: &Iteration) -> Option<Launch> {
        self.agent.launch(task)
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let bytes = task.prompt.len();
        self.log.push(&json!({"run": task.run, "iteration": task.number, "prompt_bytes": bytes}));
        let result = self.agent.run(task, &TranscribedSink { events, log: &self.log }).await;
        self.log.push(&match &result {
            Ok(report) => json!({"report": report}),
            Err(error) => json!({
                "failed": error.message, "class": error.class.word(), "report": error.report,
            }),
        });
        result
    }
}

struct TranscribedSink<'a> {
    events: &'a dyn EventSink,
    log: &'a TranscriptLog,
}

#[async_trait]
impl CancelSignal for TranscribedSink<'_> {
    async fn cancelled(&self) -> CancelReason {
        let reason = self.events.cancelled().await;
        self.log.push(&json!({"cancelled": reason}));
        reason
    }
}

#[async_trait]
impl EventSink for TranscribedSink<'_> {
    async fn emit(&self, event: Event) {
        self.log.observe(&event);
        self.events.emit(event).await;
    }

    async fn preview(&self, final_text: Option<&str>) -> ValidationPreview {
        let preview = self.events.preview(final_text).await;
        self.log.push(&json!({"preview": preview, "final_text": final_text}));
        preview
    }

    fn take_guidance(&self) -> Vec<Guidance> {
        self.events.take_guidance()
    }

    async fn is_write_refused(&self, path: &Path) -> bool {
        let refused = self.events.is_write_refused(path).await;
        self.log.push(&json!({"write_check": path, "refused": refused}));
        refused
    }
}
