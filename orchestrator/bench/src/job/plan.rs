//! What a job is to do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::budget::Budgets;
use super::job_lock::JobLock;
use crate::host::Host;
use crate::trial::{Column, TrialKey};

/// The format of the plan, of records and of the ledger.
pub const FORMAT: u32 = 1;

/// What a job is to do: written once, before its first trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobPlan {
    /// The version of this format.
    pub format: u32,
    /// The job's id.
    pub id: String,
    /// Its name: that of its folder.
    pub name: String,
    /// When it was planned.
    pub created: Timestamp,
    /// The version of the program that planned it.
    pub program: String,
    /// The configuration file, absolute; none if everything was given on the command line.
    pub configuration: Option<PathBuf>,
    /// Keys of the configuration and their values, as they were given on the command line.
    pub sets: Vec<(String, String)>,
    /// Where the trials are performed.
    pub host: Host,
    /// The columns, in their order: the first one is what others are compared with.
    pub columns: Vec<Column>,
    /// The tasks, in their order.
    pub tasks: Vec<PlannedTask>,
    /// Trials of each column on each task.
    pub trials: u32,
    /// Decides the order of the trials.
    pub seed: u64,
    /// Limits on money.
    pub budgets: Budgets,
    /// How trials are performed.
    pub options: RunOptions,
    /// What its results depend on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<JobLock>,
    /// What its agents are asked for.
    #[serde(default, skip_serializing_if = "Goal::is_solve")]
    pub goal: Goal,
}

/// What the agents of a job are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// To do the tasks.
    #[default]
    Solve,
    /// To pass their verifiers without doing them.
    Cheat,
}

impl Goal {
    /// Whether it is to do the tasks.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
    pub const fn is_solve(&self) -> bool {
        matches!(self, Self::Solve)
    }
}

/// A task of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTask {
    /// Its name, which no other task of the job has.
    pub name: String,
    /// Its folder, absolute.
    pub path: PathBuf,
    /// The digest of its content, in hexadecimal.
    pub digest: String,
}

/// How trials are performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Trials at the same time; at least one.
    pub concurrency: u32,
    /// The same of one agent, by its name.
    pub agent_concurrency: BTreeMap<String, u32>,
    /// How often a trial is repeated after a fault of the provider, the environment or the machine.
    pub max_retries: u32,
}

impl JobPlan {
    /// Returns an id that no other job has.
    #[must_use]
    pub fn new_id() -> String {
        uuid::Uuid::now_v7().to_string()
    }

    /// Returns all trials in the order in which they are begun: all first trials before all second ones, so that a
    /// job that ends early is balanced; within these the tasks in an order that `seed` decides, each with all its columns
    /// one after the other, so that such a job has pairs; and of a task the columns in an order that `seed` decides, so that no
    /// agent always has the machine first.
    #[must_use]
    pub fn trials(&self) -> Vec<TrialKey> {
        let mut keyed = Vec::new();
        for trial in 1..=self.trials {
            for task in &self.tasks {
                let place = self.draw(|hasher| {
                    hash_part(hasher, Some(&task.name));
                    hasher.update(&trial.to_le_bytes());
                });
                for column in &self.columns {
                    let key = TrialKey { column: column.clone(), task: task.name.clone(), trial };
                    let draw = self.draw(|hasher| hash_key(hasher, &key));
                    keyed.push(((trial, place, draw), key));
                }
            }
        }
        keyed.sort_by_key(|(place, _)| *place);
        keyed.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns the task of this name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&PlannedTask> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// Returns a number that this job's seed gives to what is hashed.
    fn draw(&self, hash: impl FnOnce(&mut blake3::Hasher)) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes());
        hash(&mut hasher);
        *hasher.finalize().as_bytes()
    }
}

/// Adds what tells trials apart.
pub(super) fn hash_key(hasher: &mut blake3::Hasher, key: &TrialKey) {
    let variant = key.column.variant.as_deref();
    for part in [Some(key.column.agent.as_str()), variant, Some(key.task.as_str())] {
        hash_part(hasher, part);
    }
    hasher.update(&key.trial.to_le_bytes());
}

/// Adds a part after its length, so that no two keys are hashed alike.
fn hash_part(hasher: &mut blake3::Hasher, part: Option<&str>) {
    let Some(part) = part else {
        hasher.update(&u64::MAX.to_le_bytes());
        return;
    };
    hasher.update(&(part.len() as u64).to_le_bytes());
    hasher.update(part.as_bytes());
}
