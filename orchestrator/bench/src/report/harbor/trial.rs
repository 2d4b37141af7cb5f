//! The documents of one trial.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use ralph_orchestrator_contract::{Tokens, Usage};
use ralph_orchestrator_safe_fs::path_bytes;
use ralph_orchestrator_text::escape_line;
use serde_json::{Map, Value, json};

use crate::report::harbor::configs::{build_trial_config, build_trial_lock};
use crate::report::harbor::facts::{HarborError, JobFacts};
use crate::report::harbor::names::{identify_trial, name_trial};
use crate::summary::JobSummary;
use crate::trial::{Cause, Fault, TrialRecord};

/// What is encoded in the path of a URI.
const IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// How Harbor names a trial that was stopped: its counts and policies go by this name.
const CANCELLED: &str = "CancelledError";

/// The files of a trial that are made of its records.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialDocuments {
    /// The trial's name, which is that of its folder.
    pub name: String,
    /// `config.json`.
    pub config: Value,
    /// `lock.json`.
    pub lock: Value,
    /// `result.json`.
    pub result: Value,
    /// `exception.txt`, if the last attempt had a fault.
    pub exception: Option<String>,
    /// `trial.log`: a line for each attempt and each thing that was noticed.
    pub log: String,
}

/// Returns the documents of a trial. `job` is the absolute path of the job's folder, `attempts` are all attempts at
/// one trial, in order: the last one counts, tokens and cost are those of all.
///
/// # Errors
/// Returns an error if the trial's column or task is missing in the facts, or a digest is none.
pub fn build_trial(
    job: &Path,
    facts: &JobFacts,
    summary: &JobSummary,
    last: &TrialRecord,
    attempts: &[&TrialRecord],
) -> Result<TrialDocuments, HarborError> {
    let name = name_trial(facts, &last.key);
    let config = build_trial_config(job, facts, summary, &last.key)?;
    let task = facts.find_task(&last.key.task)?;
    let times = Times::of(last);
    let rewards = last.is_judged().then(|| json!({"rewards": last.rewards}));
    let result = json!({
        "id": identify_trial(facts, &last.key).to_string(),
        "task_name": task.name,
        "trial_name": name,
        "trial_uri": build_file_uri(&job.join(&name)),
        "task_id": {"path": task.path},
        "source": facts.dataset,
        "task_checksum": last.task_digest,
        "config": config,
        "agent_info": build_agent_info(facts, summary, last)?,
        "agent_result": build_agent_result(last, attempts),
        "verifier_result": rewards,
        "verifier_environment_mode": null,
        "exception_info": last.fault.as_ref().map(|fault| build_exception(fault, last.finished)),
        "started_at": last.started,
        "finished_at": last.finished,
        "environment_setup": times.setup,
        "agent_setup": null,
        "agent_execution": times.run,
        "verifier": times.verifier,
        "step_results": null,
    });
    Ok(TrialDocuments {
        config,
        lock: build_trial_lock(facts, summary, &last.key)?,
        result,
        exception: last
            .fault
            .as_ref()
            .map(|fault| format!("{}: {}\n", name_exception(fault), fault.message)),
        log: write_log(attempts),
        name,
    })
}

/// When the parts of a trial began and ended; none for a part that did not take place.
struct Times {
    setup: Value,
    run: Value,
    verifier: Value,
}

impl Times {
    fn of(record: &TrialRecord) -> Self {
        let after = |start: Timestamp, ms: u64| {
            let ms = i64::try_from(ms).unwrap_or(i64::MAX);
            let end = start.checked_add(SignedDuration::from_millis(ms));
            end.unwrap_or(record.finished).min(record.finished)
        };
        let span = |start: Timestamp, end: Timestamp, ms: u64| {
            if ms == 0 { Value::Null } else { json!({"started_at": start, "finished_at": end}) }
        };
        let durations = record.durations;
        let set_up = after(record.started, durations.setup_ms);
        let run_end = after(set_up, durations.run_ms);
        let verified = after(run_end, durations.verifier_ms);
        Self {
            setup: span(record.started, set_up, durations.setup_ms),
            run: span(set_up, run_end, durations.run_ms),
            verifier: span(run_end, verified, durations.verifier_ms),
        }
    }
}

fn build_agent_info(
    facts: &JobFacts,
    summary: &JobSummary,
    record: &TrialRecord,
) -> Result<Value, HarborError> {
    let column = facts.find_column(&record.key.column)?;
    let version = record.agent_version.as_ref().or(column.version.as_ref());
    let model = column
        .select_model(summary)
        .map(|model| json!({"name": model, "provider": column.provider}));
    Ok(json!({
        "name": record.key.column.to_string(),
        "version": version.map_or("unknown", String::as_str),
        "model_info": model,
    }))
}

fn build_agent_result(last: &TrialRecord, attempts: &[&TrialRecord]) -> Value {
    let mut all = Usage::default();
    let mut models: BTreeMap<&str, Usage> = BTreeMap::new();
    for attempt in attempts {
        add_usage(&mut all, attempt.usage);
        if let Some(model) = &attempt.model {
            add_usage(models.entry(model).or_default(), attempt.usage);
        }
    }
    let mut result = usage_to_json(&all);
    let models = models.iter().map(|(model, usage)| {
        let tokens = Some(usage.tokens.unwrap_or_default());
        ((*model).to_owned(), Value::Object(usage_to_json(&Usage { tokens, ..*usage })))
    });
    result.insert("model_usage".into(), Value::Object(models.collect()));
    result.insert("rollout_details".into(), Value::Null);
    result.insert("metadata".into(), build_metadata(last, attempts, all.estimated));
    Value::Object(result)
}

fn add_usage(sum: &mut Usage, usage: Usage) {
    sum.tokens = match (sum.tokens, usage.tokens) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    sum.cost = match (sum.cost, usage.cost) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    sum.estimated |= usage.estimated;
}

/// Harbor's input includes what was read from and written to the cache.
fn usage_to_json(usage: &Usage) -> Map<String, Value> {
    let input = |tokens: Tokens| {
        tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write)
    };
    let mut map = Map::new();
    map.insert("n_input_tokens".into(), json!(usage.tokens.map(input)));
    map.insert("n_cache_tokens".into(), json!(usage.tokens.map(|tokens| tokens.cache_read)));
    map.insert("n_output_tokens".into(), json!(usage.tokens.map(|tokens| tokens.output)));
    map.insert("cost_usd".into(), json!(usage.cost));
    map
}

fn build_metadata(last: &TrialRecord, attempts: &[&TrialRecord], is_estimated: bool) -> Value {
    let attempts: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            json!({
                "attempt": attempt.attempt,
                "run": attempt.run,
                "started_at": attempt.started,
                "finished_at": attempt.finished,
                "fault": attempt.fault,
                "usage": attempt.usage,
            })
        })
        .collect();
    json!({
        "trial": last.key.trial,
        "iterations": last.iterations,
        "claims": last.claims,
        "completed": last.completed,
        "stop_reason": last.stop_reason,
        "cost_estimated": is_estimated,
        "cause": last.fault.as_ref().map(|fault| fault.cause),
        "reward_by_iteration": last.curve,
        "cheating": last.cheating,
        "warnings": last.warnings,
        "attempts": attempts,
    })
}

fn name_exception(fault: &Fault) -> &str {
    if fault.cause == Cause::Cancelled { CANCELLED } else { &fault.kind }
}

/// Returns how a fault is named in the job's statistics.
pub(super) fn exception_type(record: &TrialRecord) -> Option<&str> {
    record.fault.as_ref().map(name_exception)
}

fn build_exception(fault: &Fault, time: Timestamp) -> Value {
    json!({
        "exception_type": name_exception(fault),
        "exception_message": fault.message,
        "exception_traceback": "",
        "occurred_at": time,
    })
}

fn write_log(attempts: &[&TrialRecord]) -> String {
    let mut log = String::new();
    for record in attempts {
        let outcome = match (&record.fault, record.reward()) {
            (Some(fault), _) => format!("{}: {}", fault.kind, fault.message),
            (None, Some(reward)) => format!("reward {reward}"),
            (None, None) => "not judged".into(),
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            log,
            "{} attempt {}: {}",
            record.finished,
            record.attempt,
            escape_line(&outcome)
        );
        let findings = record.cheating.iter().map(|finding| {
            format!("{}: {}", crate::report::figures::name_cheat(finding.kind), finding.path)
        });
        for line in findings.chain(record.warnings.iter().cloned()) {
            let _ = writeln!(log, "{} {}", record.finished, escape_line(&line));
        }
    }
    log
}

fn build_file_uri(path: &Path) -> String {
    format!("file://{}", percent_encode(path_bytes(path), IN_PATH))
}
