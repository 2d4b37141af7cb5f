//! What people see of a job while it goes on.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ralph_orchestrator_bench::job::{JobObserver, JobPlan, JobProgress, StopSignal, TrialOrder};
use ralph_orchestrator_bench::statistics::sequential::StopRule;
use ralph_orchestrator_bench::summary::{PlannedJob, collect_complete_rounds};
use ralph_orchestrator_bench::trial::{TrialKey, TrialRecord};
use ralph_orchestrator_engine::StopRequests;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::size::stderr_width;
use ralph_orchestrator_text::{duration, one_line};
use serde_json::json;

use super::job_line::JobLine;

/// The longest name that is shown, in characters.
const MAX_NAME: usize = 60;

/// Prints a line for each trial that ends, or an event for everything.
pub(super) struct JobReporter {
    pub(super) plan: JobPlan,
    pub(super) is_json: bool,
    /// Ends the job when the score of every column is known well enough.
    pub(super) until: Option<StopRule>,
    /// The last line of the terminal, if there is one.
    pub(super) line: Option<Mutex<JobLine>>,
    /// It was said that this process waits for others.
    pub(super) has_said_waits: Cell<bool>,
}

/// The requests to stop the job, and when it begins nothing any more.
pub(super) struct JobStop {
    pub(super) requests: StopRequests,
    pub(super) deadline: Option<Instant>,
}

impl StopSignal for JobStop {
    fn is_stopping(&self) -> bool {
        self.requests.borrow().times > 0
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl JobReporter {
    /// Draws the last line of the terminal, as wide as that is now.
    pub(super) fn draw(&self) {
        if let Some((line, width)) = self.line.as_ref().zip(stderr_width()) {
            let line = line.lock().unwrap_or_else(PoisonError::into_inner);
            output::set_live_line(Some(&line.text(width, Instant::now())));
        }
    }

    fn update(&self, change: impl FnOnce(&mut JobLine)) {
        if let Some(line) = &self.line {
            change(&mut line.lock().unwrap_or_else(PoisonError::into_inner));
        }
        self.draw();
    }

    fn event(
        &self,
        event: &str,
        key: &TrialKey,
        attempt: u32,
        progress: JobProgress,
    ) -> serde_json::Value {
        json!({
            "event": event,
            "time": jiff::Timestamp::now(),
            "job": self.plan.name,
            "agent": key.column.agent,
            "variant": key.column.variant,
            "task": key.task,
            "trial": key.trial,
            "attempt": attempt,
            "planned": progress.planned,
            "ended": progress.ended,
            "running": progress.running,
            "cost_usd": progress.cost,
        })
    }
}

impl JobObserver for JobReporter {
    fn trial_started(&self, order: &TrialOrder, progress: JobProgress) {
        if self.is_json {
            output::json(&self.event("trial_started", &order.key, order.attempt, progress));
        }
        self.update(|line| line.set_progress(progress));
    }

    fn trial_ended(&self, record: &TrialRecord, is_retried: bool, progress: JobProgress) {
        if self.is_json {
            let mut event = self.event("trial_ended", &record.key, record.attempt, progress);
            if let Some(event) = event.as_object_mut() {
                event.insert("is_retried".to_owned(), is_retried.into());
                event.insert("record".to_owned(), json!(record));
            }
            output::json(&event);
            return;
        }
        output::info(&ended_line(record, is_retried, progress));
        self.update(|line| {
            line.add(record);
            line.set_progress(progress);
        });
    }

    fn waits_for_others(&self) {
        if !self.has_said_waits.replace(true) {
            output::info(
                "waiting: other workers perform what is left, or have reserved what is left of the money; what they leave is \
                 performed here",
            );
        }
    }

    fn trial_superseded(&self, record: &TrialRecord) {
        output::info(&format!(
            "warning: {} ended, attempt {}, after another worker had not heard of this one for long and recorded the attempt as \
             lost: what it came to is kept in late.json, and does not count",
            one_line(&record.key.to_string(), MAX_NAME),
            record.attempt
        ));
    }

    fn is_decided(&self, ended: &BTreeMap<TrialKey, Option<f64>>) -> bool {
        let Some(rule) = &self.until else { return false };
        planned_job(&self.plan).columns.iter().all(|column| {
            let rounds = collect_complete_rounds(column, ended);
            rule.is_met(&rounds.into_values().collect::<Vec<_>>())
        })
    }
}

/// Returns the matrix of a job.
pub(super) fn planned_job(plan: &JobPlan) -> PlannedJob {
    let tasks: Vec<String> = plan.tasks.iter().map(|task| task.name.clone()).collect();
    PlannedJob::from_matrix(&plan.columns, &tasks, plan.trials)
}

/// Returns a reward as people read it, with three digits after the point at most.
fn round(reward: f64) -> f64 {
    (reward * 1000.0).round() / 1000.0
}

/// Returns the line of a trial that ended.
fn ended_line(record: &TrialRecord, is_retried: bool, progress: JobProgress) -> String {
    let name = one_line(&record.key.to_string(), MAX_NAME);
    let result = match (record.reward(), &record.fault) {
        (Some(reward), None) => format!("reward {}", round(reward)),
        (Some(reward), Some(fault)) => format!("reward {}, {}", round(reward), fault.kind),
        (None, Some(fault)) => {
            let message = one_line(&fault.message, 160);
            format!("not judged: {}: {message}", fault.kind)
        }
        (None, None) => "not judged".to_owned(),
    };
    let cost = match record.usage.cost {
        Some(cost) => format!(", ${:.2}", cost.dollars()),
        None => String::new(),
    };
    let time = duration(record.durations.run_ms);
    let again = if is_retried { "; it is tried again" } else { "" };
    format!("[{}/{}] {name}: {result} ({time}{cost}){again}", progress.ended, progress.planned)
}
