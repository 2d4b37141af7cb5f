//! Writes a job directory.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use serde::Serialize;
use serde_json::{Value, json};

use crate::report::harbor::configs::{build_job_config, build_job_lock};
use crate::report::harbor::facts::{HarborError, JobFacts, group_attempts};
use crate::report::harbor::job::build_job_result;
use crate::report::harbor::names::name_job;
use crate::report::harbor::trial::{TrialDocuments, build_trial};
use crate::summary::JobSummary;
use crate::trial::TrialRecord;

/// The largest file that is copied, in bytes.
const LARGEST_FILE: usize = 256 << 20;

/// A folder of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialFolder {
    /// `agent/`: logs and trajectories of the agent.
    Agent,
    /// `verifier/`: output and rewards of the verifier.
    Verifier,
    /// `artifacts/`: what was collected from the environment.
    Artifacts,
}

/// A file that becomes part of a trial's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialFile {
    /// The folder.
    pub folder: TrialFolder,
    /// The relative path in it.
    pub name: PathBuf,
    /// The file to copy: a regular one, not a link, of at most 256 MiB.
    pub source: PathBuf,
}

/// What an artifact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// A file.
    File,
    /// A folder.
    Directory,
}

/// What was collected from the environment of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The path in the environment.
    pub source: String,
    /// The relative path in the trial's folder, such as `artifacts/app/out.csv`.
    pub destination: String,
    /// What it is.
    pub kind: ArtifactKind,
    /// Whether it could be collected.
    pub is_collected: bool,
}

/// The files of a trial beside its documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialFiles {
    /// The files to copy.
    pub files: Vec<TrialFile>,
    /// What the manifest of artifacts lists.
    pub artifacts: Vec<Artifact>,
}

/// Writes a job as a new folder in `jobs`, and returns the folder's path. `find_files` returns the files of the
/// trial whose last attempt it is given.
///
/// # Errors
/// Returns an error if the folder exists already, if anything cannot be read or written, or if the facts do not have
/// all columns and tasks of the records.
pub fn write_job(
    jobs: &Path,
    facts: &JobFacts,
    summary: &JobSummary,
    records: &[TrialRecord],
    find_files: &dyn Fn(&TrialRecord) -> TrialFiles,
) -> Result<PathBuf, HarborError> {
    let jobs = std::path::absolute(jobs).map_err(|error| describe(jobs, &error))?;
    let job = jobs.join(name_job(facts));
    fs::create_dir_all(&jobs).map_err(|error| describe(&jobs, &error))?;
    create_folder(&job)?;
    write_json(&job.join("config.json"), &build_job_config(&jobs, facts, summary))?;
    write_json(&job.join("lock.json"), &build_job_lock(facts, summary, records)?)?;
    for attempts in group_attempts(records) {
        let Some(last) = attempts.last() else { continue };
        let documents = build_trial(&job, facts, summary, last, &attempts)?;
        write_trial(&job, &documents, &find_files(last))?;
    }
    // Last, so that a job that has it is whole.
    write_json(&job.join("result.json"), &build_job_result(facts, summary, records)?)?;
    Ok(job)
}

fn write_trial(
    job: &Path,
    documents: &TrialDocuments,
    files: &TrialFiles,
) -> Result<(), HarborError> {
    let trial = job.join(&documents.name);
    create_folder(&trial)?;
    for folder in [TrialFolder::Agent, TrialFolder::Verifier, TrialFolder::Artifacts] {
        create_folder(&trial.join(folder.name()))?;
    }
    for file in &files.files {
        copy_file(&trial, file)?;
    }
    write_json(&trial.join("artifacts/manifest.json"), &build_manifest(&files.artifacts))?;
    write_json(&trial.join("config.json"), &documents.config)?;
    write_json(&trial.join("lock.json"), &documents.lock)?;
    write_file(&trial.join("trial.log"), documents.log.as_bytes())?;
    if let Some(exception) = &documents.exception {
        write_file(&trial.join("exception.txt"), exception.as_bytes())?;
    }
    write_json(&trial.join("result.json"), &documents.result)
}

fn build_manifest(artifacts: &[Artifact]) -> Value {
    let entries = artifacts.iter().map(|artifact| {
        json!({
            "source": artifact.source,
            "destination": artifact.destination,
            "type": artifact.kind,
            "status": if artifact.is_collected { "ok" } else { "failed" },
        })
    });
    entries.collect()
}

impl TrialFolder {
    const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Verifier => "verifier",
            Self::Artifacts => "artifacts",
        }
    }
}

fn copy_file(trial: &Path, file: &TrialFile) -> Result<(), HarborError> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if file.name == Path::new(OsStr::new("")) || !file.name.components().all(is_plain) {
        return Err(HarborError::FileName { name: file.name.display().to_string() });
    }
    let bytes = read_file(&file.source, LARGEST_FILE, SymlinkPolicy::Refuse).map_err(|error| {
        HarborError::File { path: file.source.clone(), message: error.to_string() }
    })?;
    let target = trial.join(file.folder.name()).join(&file.name);
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|error| describe(parent, &error))?;
    }
    write_file(&target, &bytes)
}

/// Creates a folder that does not exist: nobody else has put anything into it, not even a link.
fn create_folder(path: &Path) -> Result<(), HarborError> {
    fs::create_dir(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => HarborError::File {
            path: path.to_owned(),
            message: "exists already; delete it or choose another folder".into(),
        },
        _ => describe(path, &error),
    })
}

fn write_json(path: &Path, value: &Value) -> Result<(), HarborError> {
    let text = format!("{value:#}\n");
    write_file(path, text.as_bytes())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), HarborError> {
    fs::write(path, bytes).map_err(|error| describe(path, &error))
}

fn describe(path: &Path, error: &io::Error) -> HarborError {
    HarborError::File { path: path.to_owned(), message: error.to_string() }
}
