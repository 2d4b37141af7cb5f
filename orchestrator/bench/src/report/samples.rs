//! Jobs for the tests of reports, with figures that are not computed by the code under test.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use ralph_orchestrator_contract::{Tokens, Usage, Usd};

use crate::host::Machine;
use crate::statistics::Estimate;
use crate::summary::{
    ColumnSummary, Comparison, JobSummary, LoopFigures, TaskSummary, UsedMachine,
};
use crate::trial::{
    Cause, CheatFinding, CheatKind, Column, Durations, Fault, IterationReward, REWARD, TrialKey,
    TrialRecord,
};

/// Trials of each task in each column.
const TRIALS: u32 = 3;
const TASKS: [&str; 12] = [
    "csv-to-json",
    "fix-off-by-one",
    "parse-ini",
    "rename-symbol",
    "sort-stable",
    "tar-roundtrip",
    "tcp-echo",
    "three-steps",
    "unicode-width",
    "flaky-clock",
    "write-makefile",
    "zip-slip",
];

pub(super) fn column(agent: &str) -> Column {
    Column { agent: agent.into(), variant: None }
}

/// A comparison of which tests change what they are about.
pub(super) fn comparison() -> Comparison {
    Comparison {
        baseline: column("baseline"),
        candidate: column("candidate"),
        tasks: 40,
        difference: None,
        p_value: Some(0.035),
        holm_p_value: None,
        test: "paired t".into(),
        better: 3,
        worse: 11,
    }
}

pub(super) fn estimate(value: f64, low: f64, high: f64) -> Estimate {
    let (low, high) = (Some(low), Some(high));
    Estimate { value, standard_error: Some(0.04), low, high, observations: 12 }
}

/// A name as an attacker would choose it, of more than 300 characters.
pub(super) fn hostile_name() -> String {
    let start =
        "<script>alert(1)</script>\"'`&amp;|\n\r\u{1b}[31m\u{202e}txt.exe\u{2028}../../etc/passwd ";
    format!("{start}{}", "x".repeat(300))
}

pub(super) fn empty_column(agent: &str) -> ColumnSummary {
    ColumnSummary {
        column: column(agent),
        models: Vec::new(),
        planned: 0,
        ended: 0,
        judged: 0,
        solved: 0,
        retries: 0,
        score: None,
        score_without_cheatable: None,
        pass_at: BTreeMap::new(),
        pass_hat: BTreeMap::new(),
        faults: BTreeMap::new(),
        fault_kinds: BTreeMap::new(),
        cost_usd: Some(0.0),
        cost_unknown: 0,
        cost_estimated: false,
        cost_per_solved_usd: None,
        cost_per_solved_interval: None,
        tokens: Tokens::default(),
        median_run_ms: None,
        loop_figures: LoopFigures::default(),
        tasks: Vec::new(),
        cheating: BTreeMap::new(),
    }
}

pub(super) fn empty_summary() -> JobSummary {
    JobSummary {
        job: "empty".into(),
        planned: 0,
        level: 0.95,
        columns: Vec::new(),
        comparisons: Vec::new(),
        machines: Vec::new(),
        warnings: Vec::new(),
    }
}

pub(super) fn sample_summary() -> JobSummary {
    sample_job().0
}

/// Returns three columns on twelve tasks, with faults, retries and a cheater.
pub(super) fn sample_job() -> (JobSummary, Vec<TrialRecord>) {
    let columns = [
        Column { agent: "claude-cli".into(), variant: None },
        Column { agent: "claude-cli".into(), variant: Some("no-notes".into()) },
        Column { agent: "codex".into(), variant: None },
    ];
    build_job(&columns, &TASKS.map(str::to_owned), TRIALS)
}

/// Returns a job with results that follow from the numbers of column, task and trial.
pub(super) fn build_job(
    columns: &[Column],
    tasks: &[String],
    trials: u32,
) -> (JobSummary, Vec<TrialRecord>) {
    let mut records = Vec::new();
    for (c, column) in columns.iter().enumerate() {
        for (t, task) in tasks.iter().enumerate() {
            for trial in 1..=trials {
                let key = TrialKey { column: column.clone(), task: task.clone(), trial };
                records.extend(build_attempts(&key, c * 7 + t * 5 + trial as usize, t));
            }
        }
    }
    let summaries: Vec<_> =
        columns.iter().map(|column| summarize(column, &records, tasks, trials)).collect();
    let comparisons = columns.iter().skip(1).enumerate().map(|(at, candidate)| Comparison {
        baseline: columns[0].clone(),
        candidate: candidate.clone(),
        tasks: tasks.len() as u64,
        difference: Some(estimate(
            -0.042 - 0.1 * at as f64,
            -0.081 - 0.1 * at as f64,
            -0.003 - 0.1 * at as f64,
        )),
        p_value: Some(0.035),
        holm_p_value: None,
        test: "paired t".into(),
        better: 3,
        worse: 6,
    });
    let summary = JobSummary {
        job: "notes-or-none".into(),
        planned: (columns.len() * tasks.len()) as u64 * u64::from(trials),
        level: 0.95,
        comparisons: comparisons.collect(),
        columns: summaries,
        machines: vec![UsedMachine {
            machine: machine("node1", "Some CPU"),
            trials: BTreeMap::from([("claude-cli".into(), 48), ("codex".into(), 47)]),
            contention: Some(0.031),
        }],
        warnings: vec![
            "the machine was busy during 4 trials: 2.6 runnable tasks per processor".into(),
        ],
    };
    (summary, records)
}

fn machine(name: &str, model: &str) -> Machine {
    let memory_bytes = 16_000_000_000;
    Machine { name: name.to_owned(), model: model.to_owned(), processors: 8, memory_bytes }
}

fn build_attempts(key: &TrialKey, seed: usize, task: usize) -> Vec<TrialRecord> {
    let mut record = build_record(key, seed, task);
    if seed % 17 == 3 {
        let mut first = record.clone();
        first.rewards.clear();
        first.curve.clear();
        first.completed = false;
        first.fault = Some(Fault {
            cause: Cause::Provider,
            kind: "ApiOverloadedError".into(),
            message: "the provider answered 529 for 20 minutes".into(),
        });
        record.attempt = 2;
        return vec![first, record];
    }
    vec![record]
}

fn build_record(key: &TrialKey, seed: usize, task: usize) -> TrialRecord {
    let started = Timestamp::from_second(1_790_000_000 + seed as i64 * 60).unwrap();
    let durations =
        Durations { setup_ms: 900, run_ms: 20_000 + seed as u64 * 371, verifier_ms: 1_500 };
    let total = durations.setup_ms + durations.run_ms + durations.verifier_ms;
    let reward =
        if task == 9 { 0.5 } else { f64::from(u8::from(!seed.is_multiple_of(5) && seed % 3 != 1)) };
    let fault = match seed % 11 {
        4 => Some((Cause::Agent, "AgentTimeoutError", "the agent exceeded 900 s")),
        7 if task == 11 => Some((Cause::Verifier, "RewardFileNotFoundError", "no reward file")),
        9 if task == 6 => Some((Cause::Sandbox, "SandboxBuildFailedError", "no network <here>")),
        _ => None,
    };
    let is_judged = fault.is_none_or(|(cause, ..)| cause == Cause::Agent);
    let rewards = is_judged.then(|| (REWARD.to_owned(), reward)).into_iter().collect();
    let iterations = 1 + seed as u64 % 4;
    let curve = build_curve(iterations, reward);
    let cheating = (task == 11 && key.column.agent == "codex").then(|| CheatFinding {
        kind: CheatKind::WroteReward,
        path: "/logs/verifier/reward.txt".into(),
    });
    TrialRecord {
        key: key.clone(),
        attempt: 1,
        task_digest: "5f".repeat(32),
        started,
        finished: started + SignedDuration::from_millis(total as i64),
        rewards,
        fault: fault.map(|(cause, kind, message)| Fault {
            cause,
            kind: kind.into(),
            message: message.into(),
        }),
        run: Some(format!("0198-{seed}")),
        stop_reason: Some("completed".into()),
        agent_version: Some("2.1.0".into()),
        reused: None,
        regraded: None,
        model: Some(if key.column.agent == "codex" { "gpt-5.5" } else { "claude-opus-5" }.into()),
        usage: Usage {
            tokens: Some(Tokens {
                input: 1_000 + seed as u64,
                output: 300 + seed as u64,
                cache_read: 9_000,
                cache_write: 500,
            }),
            cost: (seed % 13 != 6).then(|| Usd::from_nanos(100_000_000 + seed as u64 * 7_000_000)),
            estimated: key.column.agent == "codex",
        },
        iterations,
        claims: 1,
        completed: is_judged,
        durations,
        curve,
        cheating: cheating.into_iter().collect(),
        machine: None,
        contention: None,
        resources: BTreeMap::new(),
        warnings: Vec::new(),
    }
}

fn build_curve(iterations: u64, reward: f64) -> Vec<IterationReward> {
    let build = |iteration| IterationReward {
        iteration,
        rewards: Some(BTreeMap::from([(
            REWARD.to_owned(),
            if iteration == iterations { reward } else { 0.0 },
        )])),
        cost_usd: Some(0.05 * iteration as f64),
        elapsed_ms: 5_000 * iteration,
    };
    (1..=iterations).map(build).collect()
}

fn summarize(column: &Column, all: &[TrialRecord], tasks: &[String], trials: u32) -> ColumnSummary {
    let attempts: Vec<_> = all.iter().filter(|record| &record.key.column == column).collect();
    let mut last: BTreeMap<&TrialKey, &TrialRecord> = BTreeMap::new();
    for record in &attempts {
        last.insert(&record.key, record);
    }
    let last: Vec<_> = last.into_values().collect();
    let judged: Vec<_> = last.iter().filter(|record| record.is_judged()).collect();
    let solved = judged.iter().filter(|record| record.is_solved()).count() as u64;
    let score =
        judged.iter().filter_map(|record| record.reward()).sum::<f64>() / judged.len() as f64;
    let mut summary = empty_column(&column.agent);
    summary.column = column.clone();
    summary.models = last.iter().find_map(|record| record.model.clone()).into_iter().collect();
    summary.planned = tasks.len() as u64 * u64::from(trials);
    summary.ended = last.len() as u64;
    summary.judged = judged.len() as u64;
    summary.solved = solved;
    summary.retries = (attempts.len() - last.len()) as u64;
    if !judged.is_empty() {
        summary.score = Some(estimate(score, score - 0.13, score + 0.12));
        summary.score_without_cheatable = Some(estimate(score - 0.05, score - 0.18, score + 0.1));
    }
    for k in 1..=trials {
        summary.pass_at.insert(k, estimate(0.5 + 0.1 * f64::from(k), 0.45, 0.9));
        summary.pass_hat.insert(k, estimate(0.6 - 0.1 * f64::from(k), 0.1, 0.62));
    }
    for record in &last {
        if let Some(fault) = &record.fault {
            *summary.faults.entry(fault.cause).or_default() += 1;
            *summary.fault_kinds.entry(fault.kind.clone()).or_default() += 1;
        }
        for finding in &record.cheating {
            *summary.cheating.entry(finding.kind).or_default() += 1;
        }
    }
    let costs = attempts.iter().map(|record| record.usage.cost);
    let cost: f64 = costs.clone().flatten().map(Usd::dollars).sum();
    summary.cost_usd = Some(cost);
    summary.cost_unknown = costs.filter(Option::is_none).count() as u64;
    summary.cost_estimated = column.agent == "codex";
    summary.cost_per_solved_usd = (solved > 0).then(|| cost / solved as f64);
    summary.tokens = attempts
        .iter()
        .filter_map(|record| record.usage.tokens)
        .fold(Tokens::default(), |sum, tokens| sum + tokens);
    summary.median_run_ms = Some(27_420);
    summary.loop_figures = LoopFigures {
        mean_iterations: Some(2.4),
        median_iterations_to_solve: Some(2.0),
        reward_by_iteration: vec![score * 0.3, score * 0.7, score * 0.9, score],
        wasted_iterations: Some(3),
        false_completions: 4,
        claims: last.len() as u64,
    };
    summary.tasks =
        tasks.iter().map(|task| summarize_task(task, &attempts, &last, trials)).collect();
    summary
}

fn summarize_task(
    task: &str,
    attempts: &[&TrialRecord],
    last: &[&TrialRecord],
    trials: u32,
) -> TaskSummary {
    let of_task: Vec<_> = last.iter().filter(|record| record.key.task == task).collect();
    let rewards: Vec<_> = of_task.iter().filter_map(|record| record.reward()).collect();
    let mut faults = BTreeMap::new();
    for fault in of_task.iter().filter_map(|record| record.fault.as_ref()) {
        *faults.entry(fault.cause).or_default() += 1;
    }
    TaskSummary {
        task: task.into(),
        planned: u64::from(trials),
        judged: rewards.len() as u64,
        solved: of_task.iter().filter(|record| record.is_solved()).count() as u64,
        mean_reward: (!rewards.is_empty())
            .then(|| rewards.iter().sum::<f64>() / rewards.len() as f64),
        cost_usd: Some(
            attempts
                .iter()
                .filter(|record| record.key.task == task)
                .filter_map(|record| record.usage.cost)
                .map(Usd::dollars)
                .sum(),
        ),
        faults,
        is_cheatable: task == "zip-slip",
    }
}
