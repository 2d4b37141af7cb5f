//! What a job directory says beyond summary and records.

use std::path::PathBuf;

use jiff::Timestamp;
use thiserror::Error;
use uuid::Uuid;

use crate::summary::{ColumnSummary, JobSummary};
use crate::trial::{Column, TrialRecord};

/// What is known of a job beyond its results.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFacts {
    /// The job's id.
    pub id: Uuid,
    /// Its name. Characters that are not safe in the name of a folder become `-` there.
    pub name: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; none while trials are missing.
    pub finished: Option<Timestamp>,
    /// The name of the set of tasks.
    pub dataset: String,
    /// The seed of everything random.
    pub seed: u64,
    /// The version of the orchestrator.
    pub orchestrator_version: String,
    /// How trials are isolated, as the configuration has it.
    pub isolation: String,
    /// The type of environment that Harbor knows this as; none if it does not.
    pub harbor_type: Option<String>,
    /// Trials of each task in each column.
    pub trials_per_task: u32,
    /// Trials at a time.
    pub concurrency: u32,
    /// Attempts at a trial beyond its first one, at most.
    pub max_retries: u32,
    /// The columns.
    pub columns: Vec<ColumnFacts>,
    /// The tasks.
    pub tasks: Vec<TaskFacts>,
}

/// What is known of a column beyond its results.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnFacts {
    /// The column.
    pub column: Column,
    /// The adapter that runs its agent.
    pub adapter: String,
    /// The configured model; without it, the one that all trials name, if it is one.
    pub model: Option<String>,
    /// The provider of the model.
    pub provider: Option<String>,
    /// The agent's version, for trials that do not name it.
    pub version: Option<String>,
}

/// What is known of a task beyond its results.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFacts {
    /// The name that records have.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// SHA-256 of its content, in 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// Why a job directory cannot be made.
#[derive(Debug, Error)]
pub enum HarborError {
    /// A record has a column that the facts do not have.
    #[error("column {column}: a trial has it, but the job's facts do not; add it to their columns")]
    UnknownColumn {
        /// The column.
        column: String,
    },
    /// A record has a task that the facts do not have.
    #[error("task {task:?}: a trial has it, but the job's facts do not; add it to their tasks")]
    UnknownTask {
        /// The task's name.
        task: String,
    },
    /// A digest is not one of SHA-256.
    #[error(
        "task {task:?}: expected a digest of 64 lower-case hexadecimal digits, found {found:?}"
    )]
    Digest {
        /// The task's name.
        task: String,
        /// What is there.
        found: String,
    },
    /// A file's name would lie outside of the trial's folder.
    #[error("{name:?}: expected a relative path without `..` for a file of a trial")]
    FileName {
        /// The name.
        name: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

impl JobFacts {
    pub(super) fn find_column(&self, column: &Column) -> Result<&ColumnFacts, HarborError> {
        self.columns
            .iter()
            .find(|facts| &facts.column == column)
            .ok_or_else(|| HarborError::UnknownColumn { column: column.to_string() })
    }

    pub(super) fn find_task(&self, task: &str) -> Result<&TaskFacts, HarborError> {
        let facts = self
            .tasks
            .iter()
            .find(|facts| facts.name == task)
            .ok_or_else(|| HarborError::UnknownTask { task: task.to_owned() })?;
        let is_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if facts.sha256.len() == 64 && facts.sha256.bytes().all(is_hex) {
            return Ok(facts);
        }
        Err(HarborError::Digest { task: task.to_owned(), found: facts.sha256.clone() })
    }
}

impl ColumnFacts {
    /// Returns the one model of all trials of the column, by which Harbor groups them: the configured one, else the
    /// only one that trials named.
    pub(super) fn select_model<'a>(&'a self, summary: &'a JobSummary) -> Option<&'a str> {
        let of_column = |column: &&ColumnSummary| column.column == self.column;
        self.model.as_deref().or_else(|| {
            match summary.columns.iter().find(of_column)?.models.as_slice() {
                [model] => Some(model.as_str()),
                _ => None,
            }
        })
    }
}

/// Returns the attempts of each trial, in order, by trial.
pub(super) fn group_attempts(records: &[TrialRecord]) -> Vec<Vec<&TrialRecord>> {
    let mut sorted: Vec<_> = records.iter().collect();
    sorted.sort_by(|a, b| (&a.key, a.attempt).cmp(&(&b.key, b.attempt)));
    sorted.chunk_by(|a, b| a.key == b.key).map(<[_]>::to_vec).collect()
}
