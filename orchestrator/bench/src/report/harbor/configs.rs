//! What was asked for, and what it was resolved to: `config.json` and `lock.json` of job and trials.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::report::harbor::facts::{ColumnFacts, HarborError, JobFacts, group_attempts};
use crate::report::harbor::names::{name_job, name_trial};
use crate::summary::JobSummary;
use crate::trial::{TrialKey, TrialRecord};

/// The version of Harbor's job lock.
const JOB_LOCK_VERSION: u32 = 3;
/// The version of Harbor's trial lock.
const TRIAL_LOCK_VERSION: u32 = 2;

/// Returns the job's `config.json`. `jobs` is the folder with the folders of all jobs.
#[must_use]
pub fn build_job_config(jobs: &Path, facts: &JobFacts, summary: &JobSummary) -> Value {
    let agents: Vec<_> = facts.columns.iter().map(|column| build_agent(column, summary)).collect();
    let tasks = facts.tasks.iter();
    let tasks: Vec<_> =
        tasks.map(|task| json!({"path": task.path, "source": facts.dataset})).collect();
    json!({
        "job_name": name_job(facts),
        "jobs_dir": jobs,
        "n_attempts": facts.trials_per_task.max(1),
        "n_concurrent_trials": facts.concurrency.max(1),
        "retry": build_retry(facts),
        "environment": build_environment(facts),
        "agents": agents,
        "tasks": tasks,
    })
}

/// Returns the job's `lock.json`.
///
/// # Errors
/// Returns an error if a record's column or task is missing in the facts, or a digest is none.
pub fn build_job_lock(
    facts: &JobFacts,
    summary: &JobSummary,
    records: &[TrialRecord],
) -> Result<Value, HarborError> {
    let trials = group_attempts(records);
    let keys = trials.iter().filter_map(|attempts| attempts.last().map(|record| &record.key));
    let locks: Result<Vec<_>, _> = keys.map(|key| build_trial_lock(facts, summary, key)).collect();
    Ok(json!({
        "schema_version": JOB_LOCK_VERSION,
        "created_at": facts.started,
        // It was not run by Harbor.
        "harbor": {},
        "n_concurrent_trials": facts.concurrency.max(1),
        "retry": build_retry(facts),
        "trials": locks?,
    }))
}

/// Returns a trial's `config.json`.
pub(super) fn build_trial_config(
    job: &Path,
    facts: &JobFacts,
    summary: &JobSummary,
    key: &TrialKey,
) -> Result<Value, HarborError> {
    let task = facts.find_task(&key.task)?;
    let column = facts.find_column(&key.column)?;
    Ok(json!({
        "task": {"path": task.path, "source": facts.dataset},
        "trial_name": name_trial(facts, key),
        "trials_dir": job,
        "agent": build_agent(column, summary),
        "environment": build_environment(facts),
        "job_id": facts.id.to_string(),
    }))
}

/// Returns a trial's `lock.json`.
pub(super) fn build_trial_lock(
    facts: &JobFacts,
    summary: &JobSummary,
    key: &TrialKey,
) -> Result<Value, HarborError> {
    let task = facts.find_task(&key.task)?;
    let column = facts.find_column(&key.column)?;
    Ok(json!({
        "schema_version": TRIAL_LOCK_VERSION,
        "task": {
            "name": task.name,
            "type": "local",
            "digest": format!("sha256:{}", task.sha256),
            "source": facts.dataset,
            "path": task.path,
        },
        "agent": build_agent(column, summary),
        "environment": build_environment(facts),
        "verifier": {},
    }))
}

fn build_agent(column: &ColumnFacts, summary: &JobSummary) -> Value {
    let mut options = Map::new();
    options.insert("adapter".into(), json!(column.adapter));
    let mut insert = |key: &str, value: Option<&String>| {
        options.extend(value.map(|value| (key.to_owned(), json!(value))));
    };
    insert("variant", column.column.variant.as_ref());
    insert("version", column.version.as_ref());
    let mut agent = json!({"name": column.column.to_string(), "kwargs": options});
    if let (Some(model), Some(agent)) = (column.select_model(summary), agent.as_object_mut()) {
        agent.insert("model_name".into(), json!(model));
    }
    agent
}

/// Returns the environment. One that Harbor does not know is named by a module that it cannot import: its default
/// would be docker.
fn build_environment(facts: &JobFacts) -> Value {
    let options = json!({
        "isolation": facts.isolation,
        "orchestrator_version": facts.orchestrator_version,
        "seed": facts.seed,
    });
    match &facts.harbor_type {
        Some(known) => json!({"type": known, "kwargs": options}),
        None => {
            let path = format!("ralph_orchestrator:{}", facts.isolation);
            json!({"import_path": path, "kwargs": options})
        }
    }
}

fn build_retry(facts: &JobFacts) -> Value {
    json!({"max_retries": facts.max_retries})
}
