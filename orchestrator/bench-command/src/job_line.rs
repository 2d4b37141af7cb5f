//! The last line of a terminal while a job goes on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ralph_orchestrator_bench::job::JobProgress;
use ralph_orchestrator_bench::statistics::interval::estimate_mean;
use ralph_orchestrator_bench::trial::{Column, TrialKey, TrialRecord};
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_story::words::short_usd;
use ralph_orchestrator_text::{clock, count, fit, one_line};

/// How often it is drawn.
pub(super) const REDRAW: Duration = Duration::from_millis(500);
/// The confidence level of its intervals.
const LEVEL: f64 = 0.95;
/// Characters of the name of a column.
const MAX_NAME: usize = 24;

/// How far a job is.
pub(super) struct JobLine {
    began: Instant,
    progress: JobProgress,
    budget: Option<Usd>,
    columns: Vec<Column>,
    /// The reward of each trial that was judged, and none of one that was not.
    rewards: BTreeMap<TrialKey, Option<f64>>,
    faults: u64,
}

impl JobLine {
    /// Returns the line of a job of which these records are there.
    pub(super) fn new(columns: Vec<Column>, budget: Option<Usd>, records: &[TrialRecord]) -> Self {
        let mut line = Self {
            began: Instant::now(),
            progress: JobProgress::default(),
            budget,
            columns,
            rewards: BTreeMap::new(),
            faults: 0,
        };
        records.iter().for_each(|record| line.add(record));
        line
    }

    pub(super) const fn set_progress(&mut self, progress: JobProgress) {
        self.progress = progress;
    }

    /// Adds an attempt that ended.
    pub(super) fn add(&mut self, record: &TrialRecord) {
        self.rewards.insert(record.key.clone(), record.reward());
        self.faults += u64::from(record.fault.is_some());
    }

    /// Returns the line, in less than `width` columns: the last one stays free.
    pub(super) fn text(&self, width: usize, now: Instant) -> String {
        let JobProgress { planned, ended, running, cost } = self.progress;
        let budget = self.budget.map(|most| format!(" of {}", short_usd(most))).unwrap_or_default();
        let mut parts = vec![
            format!("{ended}/{planned} trials, {running} running"),
            clock(now.saturating_duration_since(self.began)),
            format!("{cost}{budget}"),
        ];
        if self.faults > 0 {
            parts.push(count(self.faults, "fault"));
        }
        parts.extend(self.columns.iter().filter_map(|column| self.score(column)));
        fit(&parts.join("  "), width.saturating_sub(1))
    }

    /// Returns the score of a column so far.
    fn score(&self, column: &Column) -> Option<String> {
        let mut by_task: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (key, reward) in self.rewards.iter().filter(|(key, _)| key.column == *column) {
            by_task.entry(&key.task).or_default().extend(*reward);
        }
        let clusters: Vec<Vec<f64>> = by_task.into_values().collect();
        let estimate = estimate_mean(&clusters, LEVEL)?;
        let percent = |value: f64| format!("{:.0}", value * 100.0);
        let interval = estimate.low.zip(estimate.high);
        let interval = interval
            .map(|(low, high)| format!(" ({}–{})", percent(low), percent(high)))
            .unwrap_or_default();
        let name = one_line(&column.to_string(), MAX_NAME);
        Some(format!("{name} {} %{interval}", percent(estimate.value)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ralph_orchestrator_text::columns;

    fn record(task: &str, trial: u32, reward: Option<f64>) -> TrialRecord {
        let rewards = reward.map_or_else(|| json!({}), |reward| json!({ "reward": reward }));
        let fault = json!({ "cause": "provider", "kind": "K", "message": "m" });
        serde_json::from_value(json!({
            "agent": "claude", "task": task, "trial": trial, "attempt": 1, "task_digest": "",
            "started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:00:00Z",
            "rewards": rewards, "fault": reward.is_none().then_some(fault),
            "usage": { "tokens": null, "cost": null, "estimated": false },
            "iterations": 1, "claims": 1, "completed": true, "durations": {},
        }))
        .unwrap()
    }

    fn line(records: &[TrialRecord]) -> JobLine {
        let claude = Column { agent: "claude".to_owned(), variant: None };
        let mut line = JobLine::new(vec![claude], Usd::from_dollars(5.0), records);
        let cost = Usd::from_dollars(1.25).unwrap();
        line.set_progress(JobProgress { planned: 12, ended: 3, running: 2, cost });
        line
    }

    #[test]
    fn it_says_how_far_the_job_is() {
        let none = line(&[]);
        let now = none.began + Duration::from_secs(61);
        assert_eq!(none.text(200, now), "3/12 trials, 2 running  1:01  $1.25 of $5");
        let some =
            line(&[record("a", 1, Some(1.0)), record("b", 1, Some(0.0)), record("c", 1, None)]);
        let text = some.text(200, some.began);
        assert!(text.contains("$1.25 of $5  1 fault  claude 50 % ("), "{text}");
    }

    #[test]
    fn a_repeated_trial_counts_by_its_last_attempt() {
        let mut line = line(&[record("a", 1, None)]);
        line.add(&record("a", 1, Some(1.0)));
        assert!(line.text(200, line.began).contains("claude 100 %"));
    }

    #[test]
    fn it_fits_every_width() {
        let line = line(&[record("a", 1, Some(0.5)), record("b", 1, Some(0.0))]);
        for width in 20..200 {
            assert!(columns(&line.text(width, line.began)) < width, "{width}");
        }
    }
}
