//! `run --json`: one object per line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ralph_orchestrator_core::engine::{RunEvent, RunObserver};
use serde_json::{Value, json};

use crate::activity::Activity;
use crate::error::stop_exit_status;
use crate::output;

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
        let Ok(Value::Object(fields)) = serde_json::to_value(notice) else { return };
        let mut object = serde_json::Map::new();
        if let Some(event) = fields.get("event") {
            object.insert("event".into(), event.clone());
        }
        object.insert("time".into(), json!(jiff::Timestamp::now()));
        object.insert("run".into(), json!(run));
        object.extend(fields);
        let is_last = matches!(notice, RunEvent::RunFinished { .. });
        if let RunEvent::RunFinished { stop_reason, ended_well, .. } = notice {
            let status = self.interrupted.load(Ordering::Relaxed);
            object.insert(
                "exit_code".into(),
                json!(stop_exit_status(*stop_reason, *ended_well, status)),
            );
        }
        output::event(run, &Value::Object(object), is_last);
    }
}
