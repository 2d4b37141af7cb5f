//! The job's `result.json`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::report::harbor::facts::{HarborError, JobFacts, group_attempts};
use crate::report::harbor::names::name_trial;
use crate::report::harbor::trial::exception_type;
use crate::summary::{ColumnSummary, JobSummary};
use crate::trial::{Cause, Column, TrialRecord};

/// Names of trials, by what they have in common.
type TrialNames = BTreeMap<String, Vec<String>>;

/// What Harbor lists of the trials of a column.
#[derive(Default)]
struct TrialLists {
    /// By the name of the reward and its value.
    rewards: BTreeMap<String, TrialNames>,
    /// By the type of the exception.
    exceptions: TrialNames,
}

/// Returns the job's `result.json`. All figures are those of the summary; records give the names of trials.
///
/// # Errors
/// Returns an error if a column is missing in the facts.
pub fn build_job_result(
    facts: &JobFacts,
    summary: &JobSummary,
    records: &[TrialRecord],
) -> Result<Value, HarborError> {
    let mut lists = list_trials(facts, records);
    let mut evals = Map::new();
    for column in &summary.columns {
        if column.ended == 0 {
            continue;
        }
        let lists = lists.remove(&column.column).unwrap_or_default();
        let model = facts.find_column(&column.column)?.select_model(summary);
        evals.insert(name_eval(&column.column, model, &facts.dataset), build_eval(column, &lists));
    }
    let finished = facts.finished;
    let last = records.iter().map(|record| record.finished).max();
    Ok(json!({
        "id": facts.id.to_string(),
        "started_at": facts.started,
        "updated_at": finished.or(last).unwrap_or(facts.started),
        "finished_at": finished,
        "n_total_trials": summary.planned,
        "stats": build_stats(summary, &evals),
    }))
}

fn list_trials(facts: &JobFacts, records: &[TrialRecord]) -> BTreeMap<Column, TrialLists> {
    let mut columns: BTreeMap<Column, TrialLists> = BTreeMap::new();
    for attempts in group_attempts(records) {
        let Some(record) = attempts.last() else { continue };
        let lists = columns.entry(record.key.column.clone()).or_default();
        let name = name_trial(facts, &record.key);
        for (reward, value) in &record.rewards {
            let values = lists.rewards.entry(reward.clone()).or_default();
            // With the point that Python's numbers have.
            values.entry(format!("{value:?}")).or_default().push(name.clone());
        }
        if let Some(kind) = exception_type(record) {
            lists.exceptions.entry(kind.to_owned()).or_default().push(name);
        }
    }
    columns
}

fn name_eval(column: &Column, model: Option<&str>, dataset: &str) -> String {
    match model {
        Some(model) => format!("{column}__{model}__{dataset}"),
        None => format!("{column}__{dataset}"),
    }
}

fn build_eval(column: &ColumnSummary, lists: &TrialLists) -> Value {
    let metrics: Vec<_> = column.score.iter().map(|score| json!({"mean": score.value})).collect();
    // Harbor begins with two trials.
    let pass_at_k: BTreeMap<_, _> = column
        .pass_at
        .iter()
        .filter(|(k, _)| **k > 1)
        .map(|(k, estimate)| (k.to_string(), estimate.value))
        .collect();
    json!({
        "n_trials": column.judged,
        "n_errors": column.faults.values().sum::<u64>(),
        "metrics": metrics,
        "pass_at_k": pass_at_k,
        "reward_stats": lists.rewards,
        "exception_stats": lists.exceptions,
    })
}

fn build_stats(summary: &JobSummary, evals: &Map<String, Value>) -> Value {
    let sum = |figure: fn(&ColumnSummary) -> u64| summary.columns.iter().map(figure).sum::<u64>();
    let ended = sum(|column| column.ended);
    json!({
        "n_completed_trials": ended,
        "n_errored_trials": sum(|column| column.faults.values().sum()),
        "n_running_trials": 0,
        "n_pending_trials": summary.planned.saturating_sub(ended),
        "n_cancelled_trials": sum(|column| {
            column.faults.get(&Cause::Cancelled).copied().unwrap_or_default()
        }),
        "n_retries": sum(|column| column.retries),
        "evals": evals,
        "n_input_tokens": sum(|column| column.tokens.total().saturating_sub(column.tokens.output)),
        "n_cache_tokens": sum(|column| column.tokens.cache_read),
        "n_output_tokens": sum(|column| column.tokens.output),
        "cost_usd": summary.columns.iter().filter_map(|column| column.cost_usd).sum::<f64>(),
    })
}
