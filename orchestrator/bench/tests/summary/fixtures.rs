//! Records and jobs to sum up.

use std::collections::BTreeMap;

use jiff::Timestamp;

use ralph_orchestrator_bench::summary::{
    ColumnSummary, JobSummary, PlannedJob, SummaryOptions, summarize,
};
use ralph_orchestrator_bench::trial::{
    Cause, Column, Durations, Fault, IterationReward, REWARD, TrialKey, TrialRecord,
};
use ralph_orchestrator_contract::{Usage, Usd};

pub(crate) fn column(agent: &str) -> Column {
    Column { agent: agent.to_owned(), variant: None }
}

pub(crate) fn rewards(reward: f64) -> BTreeMap<String, f64> {
    BTreeMap::from([(REWARD.to_owned(), reward)])
}

/// An attempt with a run, without a known cost; judged if there is a reward.
pub(crate) fn record(agent: &str, task: &str, trial: u32, reward: Option<f64>) -> TrialRecord {
    TrialRecord {
        key: TrialKey { column: column(agent), task: task.to_owned(), trial },
        attempt: 1,
        task_digest: format!("digest of {task}"),
        started: Timestamp::UNIX_EPOCH,
        finished: Timestamp::UNIX_EPOCH,
        rewards: reward.map(rewards).unwrap_or_default(),
        fault: None,
        run: Some("run".to_owned()),
        stop_reason: None,
        reused: None,
        regraded: None,
        machine: None,
        contention: None,
        resources: BTreeMap::new(),
        agent_version: None,
        model: None,
        usage: Usage::default(),
        iterations: 1,
        claims: 0,
        completed: false,
        durations: Durations::default(),
        curve: Vec::new(),
        cheating: Vec::new(),
        warnings: Vec::new(),
    }
}

pub(crate) fn fault(cause: Cause, kind: &str) -> Fault {
    Fault { cause, kind: kind.to_owned(), message: String::new() }
}

pub(crate) fn point(iteration: u64, reward: Option<f64>) -> IterationReward {
    IterationReward { iteration, rewards: reward.map(rewards), cost_usd: None, elapsed_ms: 0 }
}

pub(crate) fn cost(dollars: f64) -> Usage {
    Usage { cost: Usd::from_dollars(dollars), ..Usage::default() }
}

pub(crate) fn plan(agents: &[&str], tasks: &[&str], trials: u32) -> PlannedJob {
    let columns: Vec<Column> = agents.iter().map(|agent| column(agent)).collect();
    let tasks: Vec<String> = tasks.iter().map(|task| (*task).to_owned()).collect();
    PlannedJob::from_matrix(&columns, &tasks, trials)
}

pub(crate) fn sum_up(planned: &PlannedJob, records: &[TrialRecord]) -> JobSummary {
    let summary = summarize("job", planned, records, &SummaryOptions::default());
    // Whatever it holds can be written and read again: no figure is infinite or not a number.
    let text = serde_json::to_string(&summary).unwrap();
    assert!(!text.contains("NaN"));
    assert_eq!(serde_json::from_str::<JobSummary>(&text).unwrap().job, "job");
    summary
}

/// The only column of a job with one.
pub(crate) fn sum_up_one(tasks: &[&str], trials: u32, records: &[TrialRecord]) -> ColumnSummary {
    let mut summary = sum_up(&plan(&["a"], tasks, trials), records);
    assert_eq!((summary.columns.len(), summary.comparisons.len()), (1, 0));
    summary.columns.remove(0)
}

pub(crate) fn assert_close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-12, "{actual} instead of {expected}");
}
