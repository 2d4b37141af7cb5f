//! Who performs which attempt of a job: a sequence of files, of which each worker appends the next.
//!
//! Each claim is a file whose name is its number. It is made whole, and only where there is none: of two workers that append at
//! once one is told that it was slower, and reads what the other has claimed before it tries again. So each decides in the
//! knowledge of all claims before its own, which is all that budgets over several workers need. No lock is held, and
//! nothing is left that a dead worker holds.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_orchestrator_contract::Usd;
use serde::{Deserialize, Serialize};

use super::error::JobError;
use super::files::{create_json, parse, read};
use crate::trial::TrialKey;

/// The folder of claims, in that of the job.
const CLAIMS: &str = "claims";
/// Claims of which the files are in one folder.
const PER_FOLDER: u64 = 1000;

/// What a worker performs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// Which trial.
    #[serde(flatten)]
    pub(super) key: TrialKey,
    /// Which attempt, from 1. No other claim has the same of this trial.
    pub(super) attempt: u32,
    /// What it may cost at most, in US dollars: reserved until it has ended. None is no limit.
    pub(super) max_cost: Option<Usd>,
    /// The id of the worker.
    pub(super) worker: String,
    /// When, by the worker's clock.
    pub(super) time: Timestamp,
}

/// The claims of a job, as far as they were read.
#[derive(Debug)]
pub(super) struct Claims {
    job: PathBuf,
    /// The number of the last one that was read or made; 0 before the first.
    last: u64,
}

impl Claims {
    /// Returns the claims of a job, of which none was read.
    pub(super) fn new(job: &Path) -> Self {
        Self { job: job.to_owned(), last: 0 }
    }

    fn path(&self, number: u64) -> PathBuf {
        let folder = self.job.join(CLAIMS).join((number / PER_FOLDER).to_string());
        folder.join(format!("{number}.json"))
    }

    /// Returns the claim after those that were read, if there is one.
    pub(super) fn read_next(&mut self) -> Result<Option<Claim>, JobError> {
        let next = self.last.saturating_add(1);
        let path = self.path(next);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        self.last = next;
        parse(&path, &bytes).map(Some)
    }

    /// Makes the next claim. Returns whether it was made: none is where another one was appended that was not read yet.
    pub(super) fn append(&mut self, claim: &Claim) -> Result<bool, JobError> {
        let next = self.last.saturating_add(1);
        let path = self.path(next);
        let folder = path.parent().unwrap_or(&self.job);
        fs::create_dir_all(folder).map_err(JobError::io("create", folder))?;
        let is_made = create_json(&path, claim, &claim.worker)?;
        if is_made {
            self.last = next;
        }
        Ok(is_made)
    }
}
