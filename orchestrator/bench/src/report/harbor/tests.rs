use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use uuid::Uuid;

use super::*;
use crate::report::samples::{
    build_job, column, empty_column, empty_summary, hostile_name, sample_job,
};
use crate::summary::JobSummary;
use crate::trial::{Cause, Fault, TrialRecord};

fn facts(summary: &JobSummary, records: &[TrialRecord]) -> JobFacts {
    let tasks: BTreeSet<_> = records.iter().map(|record| &record.key.task).collect();
    JobFacts {
        id: Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0001),
        name: summary.job.clone(),
        started: "2026-11-23T10:00:00Z".parse().unwrap(),
        finished: records.iter().map(|record| record.finished).max(),
        dataset: "own-tasks".into(),
        seed: 7,
        orchestrator_version: "0.1.0".into(),
        isolation: "namespace".into(),
        harbor_type: None,
        trials_per_task: 3,
        concurrency: 2,
        max_retries: 1,
        columns: summary
            .columns
            .iter()
            .map(|column| ColumnFacts {
                column: column.column.clone(),
                adapter: column.column.agent.clone(),
                model: None,
                provider: Some("anthropic".into()),
                version: None,
            })
            .collect(),
        tasks: tasks
            .into_iter()
            .map(|name| TaskFacts {
                name: name.clone(),
                path: PathBuf::from(format!("tasks/{}", blake3::hash(name.as_bytes()))),
                sha256: blake3::hash(name.as_bytes()).to_string(),
            })
            .collect(),
    }
}

fn no_files(_: &TrialRecord) -> TrialFiles {
    TrialFiles::default()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Fails with all that Harbor's models find wrong with a job directory.
#[allow(clippy::disallowed_methods)] // The supervisor is for agents.
fn assert_valid(job: &Path) {
    let python = root().join("target/harbor/bin/python");
    assert!(python.exists(), "Harbor is not installed: run scripts/install-harbor");
    let output = Command::new(python)
        .arg(root().join("tests/harbor/validate.py"))
        .arg(job)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn write(summary: &JobSummary, records: &[TrialRecord]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let job = write_job(folder.path(), &facts(summary, records), summary, records, &no_files);
    (folder, job.unwrap())
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn harbor_accepts_a_job_with_faults_retries_and_cheating() {
    let (mut summary, mut records) = sample_job();
    let last = records.last_mut().unwrap();
    last.fault = Some(Fault {
        cause: Cause::Cancelled,
        kind: "stopped".into(),
        message: "somebody stopped it".into(),
    });
    *summary.columns[2].faults.entry(Cause::Cancelled).or_default() += 1;
    let (_folder, job) = write(&summary, &records);
    assert_valid(&job);
    let result = read(&job.join("result.json"));
    assert_eq!(result["stats"]["n_cancelled_trials"], 1);
    assert_eq!(result["stats"]["n_retries"], 7);
    let eval = &result["stats"]["evals"]["claude-cli+no-notes__claude-opus-5__own-tasks"];
    assert_eq!(eval["n_trials"], summary.columns[1].judged);
    assert_eq!(eval["metrics"][0]["mean"], summary.columns[1].score.unwrap().value);
    let ks: Vec<_> = eval["pass_at_k"].as_object().unwrap().keys().collect();
    assert_eq!(ks, ["2", "3"]);
}

#[test]
fn harbor_accepts_hostile_names() {
    let names = [column(&hostile_name()), column("a/../b__c")];
    let tasks = [hostile_name(), "org/../..".into(), ".".into(), "日本語".into()];
    let (mut summary, mut records) = build_job(&names, &tasks, 1);
    summary.job = "../../outside\n".into();
    for record in &mut records {
        record.fault =
            Some(Fault { cause: Cause::Agent, kind: hostile_name(), message: hostile_name() });
    }
    for column in &mut summary.columns {
        column.faults = [(Cause::Agent, 4)].into();
    }
    let (folder, job) = write(&summary, &records);
    assert_eq!(job.parent(), Some(folder.path()));
    assert_eq!(job.file_name().unwrap(), "-..-outside-");
    assert_valid(&job);
    for entry in fs::read_dir(&job).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.len() <= 32 + 9, "{name}");
        assert!(name.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-".contains(&c)), "{name}");
        assert!(!name.starts_with('.'), "{name}");
    }
}

#[test]
fn harbor_accepts_an_empty_job_and_one_without_results() {
    let (_folder, job) = write(&empty_summary(), &[]);
    assert_valid(&job);
    let mut summary = empty_summary();
    summary.columns.push(empty_column("alone"));
    summary.planned = 5;
    let (_folder, job) = write(&summary, &[]);
    assert_valid(&job);
    assert_eq!(read(&job.join("result.json"))["stats"]["n_pending_trials"], 5);
}

#[test]
fn harbor_accepts_trials_that_were_not_judged() {
    let (mut summary, mut records) = build_job(&[column("a")], &["t".into()], 2);
    for record in &mut records {
        record.rewards.clear();
        record.fault = Some(Fault {
            cause: Cause::Infrastructure,
            kind: "NoSpace".into(),
            message: "no space left".into(),
        });
    }
    summary.columns[0].judged = 0;
    summary.columns[0].score = None;
    summary.columns[0].faults = [(Cause::Infrastructure, 2)].into();
    let (_folder, job) = write(&summary, &records);
    assert_valid(&job);
    let result = read(&job.join("result.json"));
    let eval = &result["stats"]["evals"]["a__claude-opus-5__own-tasks"];
    assert_eq!(eval["metrics"], Value::Array(Vec::new()), "not scored 0");
}

#[test]
fn harbor_accepts_several_rewards_and_several_models() {
    let (mut summary, mut records) = build_job(&[column("a")], &["t".into()], 3);
    for (at, record) in records.iter_mut().enumerate() {
        record.rewards = [("speed".to_owned(), 0.25), ("size".to_owned(), 1e-7)].into();
        record.model = Some(format!("model-{at}"));
    }
    summary.columns[0].models = vec!["model-0".into(), "model-1".into()];
    let (_folder, job) = write(&summary, &records);
    assert_valid(&job);
    assert!(read(&job.join("result.json"))["stats"]["evals"]["a__own-tasks"].is_object());
}

#[test]
fn harbor_accepts_copied_logs_and_artifacts() {
    let (summary, records) = build_job(&[column("a")], &["t".into()], 1);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("log");
    fs::write(&source, "reward: 1").unwrap();
    let find = |_: &TrialRecord| TrialFiles {
        files: vec![
            TrialFile {
                folder: TrialFolder::Verifier,
                name: "deep/test-stdout.txt".into(),
                source: source.clone(),
            },
            TrialFile {
                folder: TrialFolder::Artifacts,
                name: "app/out.csv".into(),
                source: source.clone(),
            },
        ],
        artifacts: vec![Artifact {
            source: "/app/out.csv".into(),
            destination: "artifacts/app/out.csv".into(),
            kind: ArtifactKind::File,
            is_collected: true,
        }],
    };
    let jobs = folder.path().join("jobs");
    let job = write_job(&jobs, &facts(&summary, &records), &summary, &records, &find).unwrap();
    assert_valid(&job);
    let mut trial = fs::read_dir(&job).unwrap().map(|entry| entry.unwrap().path());
    let trial = trial.find(|path| path.is_dir()).unwrap();
    let copied = fs::read_to_string(trial.join("verifier/deep/test-stdout.txt")).unwrap();
    assert_eq!(copied, "reward: 1");
}

#[test]
fn refuses_links_and_names_outside_of_the_trial() {
    let (summary, records) = build_job(&[column("a")], &["t".into()], 1);
    let facts = facts(&summary, &records);
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "key").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    let cases = [("../x", &secret), ("/x", &secret), ("", &secret), (".", &secret), ("x", &link)];
    for (at, (name, source)) in cases.into_iter().enumerate() {
        let find = |_: &TrialRecord| TrialFiles {
            files: vec![TrialFile {
                folder: TrialFolder::Agent,
                name: name.into(),
                source: source.clone(),
            }],
            artifacts: Vec::new(),
        };
        let jobs = folder.path().join(at.to_string());
        let error = write_job(&jobs, &facts, &summary, &records, &find).unwrap_err();
        match error {
            HarborError::File { path, .. } => assert_eq!(path, link),
            HarborError::FileName { name: found } => assert_eq!(found, name),
            other => panic!("{other}"),
        }
        assert!(!jobs.join("notes-or-none/result.json").exists(), "a part looks whole");
    }
}

#[test]
fn never_writes_into_an_existing_folder() {
    let (summary, records) = build_job(&[column("a")], &["t".into()], 1);
    let (folder, job) = write(&summary, &records);
    let again = write_job(folder.path(), &facts(&summary, &records), &summary, &records, &no_files);
    let message = again.unwrap_err().to_string();
    assert!(message.contains("exists already"), "{message}");
    assert!(message.contains(job.to_str().unwrap()), "{message}");
}

#[test]
fn names_what_the_facts_do_not_have() {
    let (summary, records) = build_job(&[column("a")], &["t".into()], 1);
    let whole = facts(&summary, &records);
    let folder = tempfile::tempdir().unwrap();
    let mut without_column = whole.clone();
    without_column.columns.clear();
    let mut without_task = whole.clone();
    without_task.tasks.clear();
    let mut wrong_digest = whole;
    wrong_digest.tasks[0].sha256 = "F".repeat(64);
    let cases =
        [(without_column, "column a: "), (without_task, "task \"t\": "), (wrong_digest, "FFFF")];
    for (at, (facts, expected)) in cases.into_iter().enumerate() {
        let jobs = folder.path().join(at.to_string());
        let error = write_job(&jobs, &facts, &summary, &records, &no_files).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn gives_every_trial_a_name_and_an_id_of_its_own() {
    let tasks: Vec<_> = (0..40).map(|at| format!("{}{at}", "long-name-".repeat(4))).collect();
    let (summary, records) = build_job(&[column("a"), column("a+b")], &tasks, 5);
    let facts = facts(&summary, &records);
    let trials = build_job_lock(&facts, &summary, &records).unwrap();
    let keys: BTreeSet<_> = records.iter().map(|record| &record.key).collect();
    assert_eq!(trials["trials"].as_array().unwrap().len(), keys.len());
    let names: BTreeSet<_> = keys.iter().map(|key| names::name_trial(&facts, key)).collect();
    let ids: BTreeSet<_> = keys.iter().map(|key| names::identify_trial(&facts, key)).collect();
    assert_eq!(names.len(), keys.len());
    assert_eq!(ids.len(), keys.len());
}
