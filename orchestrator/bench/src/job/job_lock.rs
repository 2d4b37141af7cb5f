//! What the results of a job depend on, as digests and versions: two jobs whose locks are equal perform the same trials
//! with the same things.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::JobError;
use super::plan::{Host, JobPlan};
use super::store::{JobContents, parse, read};
use crate::trial::{Cause, ReusedTrial, TrialKey, TrialRecord};

/// The name of the file in the folder of a job.
pub const LOCK_FILE: &str = "bench.lock.json";

/// What the results of a job depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLock {
    /// The version of the program.
    pub program: String,
    /// Where the trials are performed.
    pub host: Host,
    /// What a trial sees of the machine.
    pub isolation: String,
    /// Decides the order of the trials, and is given to tasks.
    pub seed: u64,
    /// Trials of each column on each task.
    pub trials: u32,
    /// The digest of each task, by its name.
    pub tasks: BTreeMap<String, String>,
    /// The digest of the configuration of each column, with the files that it names, by the column.
    pub columns: BTreeMap<String, String>,
    /// What is installed: the agent of each column, and plugins.
    pub versions: BTreeMap<String, String>,
}

impl JobLock {
    /// Reads a lock: such a file, or that of the job in a folder.
    ///
    /// # Errors
    /// It is missing or damaged.
    pub fn read(path: &Path) -> Result<Self, JobError> {
        let file = if path.is_dir() { path.join(LOCK_FILE) } else { path.to_owned() };
        match read(&file)? {
            Some(bytes) => parse(&file, &bytes),
            None => Err(JobError::NoLock { path: file }),
        }
    }

    /// Returns in which points `now` differs, one sentence each.
    #[must_use]
    pub fn find_differences(&self, now: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, was: &str, is: &str| {
            if was != is {
                found.push(format!("{what}: was {was}, is {is}"));
            }
        };
        compare("program", &self.program, &now.program);
        compare("isolation", &self.isolation, &now.isolation);
        compare("seed", &self.seed.to_string(), &now.seed.to_string());
        compare("trials", &self.trials.to_string(), &now.trials.to_string());
        compare("host system", &self.host.system, &now.host.system);
        let (was, is) = (&self.host, &now.host);
        compare("host processors", &was.processors.to_string(), &is.processors.to_string());
        compare("host memory", &was.memory_bytes.to_string(), &is.memory_bytes.to_string());
        let maps = [
            ("task", "digest ", &self.tasks, &now.tasks),
            ("column", "configuration ", &self.columns, &now.columns),
            ("version of", "", &self.versions, &now.versions),
        ];
        for (kind, of, was, is) in maps {
            let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
            for name in names {
                let text = |map: &BTreeMap<String, String>| {
                    map.get(name)
                        .map_or_else(|| "missing".to_owned(), |value| format!("{of}{value}"))
                };
                compare(&format!("{kind} {name}"), &text(was), &text(is));
            }
        }
        found
    }

    /// Returns the words that a trial's result depends on; two trials of which they are equal are repetitions of the
    /// same thing. None for a trial that is not of this lock.
    fn identify(&self, key: &TrialKey) -> Option<[String; 7]> {
        let column = key.column.to_string();
        let agent = format!("agent of {column}");
        let plugins = self.versions.iter().filter(|(name, _)| name.starts_with("plugin "));
        let plugins = plugins.map(|(name, version)| format!("{name}={version};")).collect();
        Some([
            self.tasks.get(&key.task)?.clone(),
            self.columns.get(&column)?.clone(),
            self.versions.get(&agent)?.clone(),
            plugins,
            format!("{} {}", self.program, self.isolation),
            self.host.system.clone(),
            self.seed.saturating_add(u64::from(key.trial)).to_string(),
        ])
    }
}

/// Returns the records of trials that need not be performed, since these jobs performed the same: each trial of an
/// earlier job at most once, the oldest first, and only what was judged within its budgets.
#[must_use]
pub fn find_reusable(plan: &JobPlan, earlier: &[(&Path, JobContents)]) -> Vec<TrialRecord> {
    let Some(lock) = &plan.lock else { return Vec::new() };
    let mut known: BTreeMap<[String; 7], Vec<(&Path, &JobContents, &TrialRecord)>> =
        BTreeMap::new();
    for (dir, contents) in earlier {
        let Some(of_job) = &contents.plan.lock else { continue };
        if contents.plan.goal != plan.goal {
            continue;
        }
        for (key, record) in contents.last_records() {
            // Rewards of other tests are not those of this task.
            let of_task = of_job.tasks.get(&key.task).map(String::as_str);
            if is_reusable(record)
                && of_task == Some(record.verifier_digest())
                && let Some(identity) = of_job.identify(&key)
            {
                known.entry(identity).or_default().push((dir, contents, record));
            }
        }
    }
    for found in known.values_mut() {
        // The newest one first: the oldest one is taken from the end.
        found.sort_by_key(|(_, _, record)| std::cmp::Reverse(record.finished));
    }
    let mut reused = Vec::new();
    for key in plan.trials() {
        let found = lock.identify(&key).and_then(|identity| known.get_mut(&identity)?.pop());
        let Some((dir, contents, record)) = found else { continue };
        let from = ReusedTrial {
            job: contents.plan.id.clone(),
            folder: contents.plan.trial_layout(dir, &record.key).attempt(record.attempt),
        };
        reused.push(TrialRecord { key, attempt: 1, reused: Some(from), ..record.clone() });
    }
    add_warnings(plan, &mut reused);
    reused
}

/// Only results of which nothing would be different in another job are taken: what was itself taken from elsewhere
/// would be counted under two names.
fn is_reusable(record: &TrialRecord) -> bool {
    let is_cut = record.fault.as_ref().is_some_and(|fault| fault.cause == Cause::Budget);
    record.is_judged() && !is_cut && record.reused.is_none()
}

/// Says of each column how many trials are no new samples.
fn add_warnings(plan: &JobPlan, reused: &mut [TrialRecord]) {
    let mut counts = BTreeMap::new();
    for record in reused.iter() {
        *counts.entry(record.key.column.clone()).or_insert(0_u64) += 1;
    }
    let planned = u64::try_from(plan.tasks.len()).unwrap_or(0) * u64::from(plan.trials);
    for record in reused {
        let column = &record.key.column;
        let count = counts.get(column).copied().unwrap_or(0);
        record.warnings.push(format!(
            "{count} of {planned} trials of {column} were taken from earlier jobs: they are the same samples, not \
             independent ones, and their cost was paid there"
        ));
    }
}
