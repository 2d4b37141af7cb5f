//! What the results of a job depend on, as digests and versions: two jobs whose locks are equal perform the same trials
//! with the same things.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::JobError;
use super::file_names::LOCK_FILE;
use super::files::{parse, read};
use crate::host::Host;
use crate::trial::TrialKey;

/// What the results of a job depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLock {
    /// The version of the program, with its digest.
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
    /// The digest of what is in each folder that trials see read-only, by its path.
    #[serde(default)]
    pub folders: BTreeMap<String, String>,
}

/// What of two locks is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScope {
    /// What decides about results: another machine of the same system may perform the job, and as many trials of it as it
    /// likes.
    Results,
    /// All of it.
    Machine,
}

/// What a trial's result depends on, in words.
pub(super) type TrialIdentity = Vec<String>;

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
    pub fn find_differences(&self, now: &Self, scope: LockScope) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, was: &str, is: &str| {
            if was != is {
                found.push(format!("{what}: was {was}, is {is}"));
            }
        };
        compare("program", &self.program, &now.program);
        compare("isolation", &self.isolation, &now.isolation);
        compare("seed", &self.seed.to_string(), &now.seed.to_string());
        compare("host system", &self.host.system, &now.host.system);
        if scope == LockScope::Machine {
            compare("trials", &self.trials.to_string(), &now.trials.to_string());
            let (was, is) = (&self.host, &now.host);
            compare("host processors", &was.processors.to_string(), &is.processors.to_string());
            compare("host memory", &was.memory_bytes.to_string(), &is.memory_bytes.to_string());
        }
        let maps = [
            ("task", "digest ", &self.tasks, &now.tasks),
            ("column", "configuration ", &self.columns, &now.columns),
            ("version of", "", &self.versions, &now.versions),
            ("folder", "contents ", &self.folders, &now.folders),
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
    pub(super) fn identify(&self, key: &TrialKey) -> Option<TrialIdentity> {
        self.list_identity(key).into_iter().map(|(_, word)| word).collect()
    }

    /// Returns by which of these words a trial differs from that of `now`.
    pub(super) fn find_identity_differences(
        &self,
        now: &Self,
        key: &TrialKey,
    ) -> Vec<&'static str> {
        let pairs = self.list_identity(key).into_iter().zip(now.list_identity(key));
        pairs.filter(|(was, is)| was != is).map(|((name, _), _)| name).collect()
    }

    fn list_identity(&self, key: &TrialKey) -> [(&'static str, Option<String>); 8] {
        let column = key.column.to_string();
        let agent = format!("agent of {column}");
        let join = |map: Vec<(&String, &String)>| {
            map.into_iter().map(|(name, value)| format!("{name}={value};")).collect::<String>()
        };
        let plugins = self.versions.iter().filter(|(name, _)| name.starts_with("plugin "));
        [
            ("the task", self.tasks.get(&key.task).cloned()),
            (
                "the configuration of the column or a file that it names",
                self.columns.get(&column).cloned(),
            ),
            ("the agent's version or program", self.versions.get(&agent).cloned()),
            ("plugins", Some(join(plugins.collect()))),
            (
                "the contents of folders in [sandbox] read",
                Some(join(self.folders.iter().collect())),
            ),
            ("this program or the isolation", Some(format!("{} {}", self.program, self.isolation))),
            ("the operating system", Some(self.host.system.clone())),
            ("the seed", Some(self.seed.saturating_add(u64::from(key.trial)).to_string())),
        ]
    }
}
