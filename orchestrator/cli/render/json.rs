//! `run --json`: one object per line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ralph_orchestrator_engine::{RunEvent, RunObserver};
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_terminal::activity::Activity;
use ralph_orchestrator_terminal::output;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::stop_exit_status;

/// Prints every notice on stdout.
pub(crate) struct JsonReporter {
    interrupted: Arc<AtomicU8>,
}

impl JsonReporter {
    /// With the exit status of an interruption, should there be one.
    pub(crate) const fn new(interrupted: Arc<AtomicU8>) -> Self {
        Self { interrupted }
    }
}

impl RunObserver for JsonReporter {
    fn on_event(&self, run: &str, notice: &RunEvent) {
        Activity::update(notice);
        let end = match notice {
            RunEvent::RunFinished { stop_reason, ended_well, .. } => {
                Some((*stop_reason, *ended_well))
            }
            _ => None,
        };
        print_event(Some(run), notice, end, &self.interrupted);
    }
}

/// Prints an event with its time; the last one, which says why all ended and whether the only iteration ended
/// well, with the exit status. The events of a run have its id; others may name one.
pub(super) fn print_event(
    run: Option<&str>,
    event: &impl Serialize,
    end: Option<(StopReason, bool)>,
    interrupted: &AtomicU8,
) {
    let Ok(Value::Object(fields)) = serde_json::to_value(event) else { return };
    let mut object = serde_json::Map::new();
    object.extend(fields.get("event").map(|event| ("event".to_owned(), event.clone())));
    object.insert("time".into(), json!(jiff::Timestamp::now()));
    object.extend(run.map(|run| ("run".to_owned(), json!(run))));
    object.extend(fields);
    if let Some((reason, ended_well)) = end {
        let status = interrupted.load(Ordering::Relaxed);
        object.insert("exit_code".into(), json!(stop_exit_status(reason, ended_well, status)));
    }
    let run = object.get("run").and_then(Value::as_str).unwrap_or_default().to_owned();
    output::event(&run, &Value::Object(object), end.is_some());
}
