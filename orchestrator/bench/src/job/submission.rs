//! Workers that an engine of a cluster was asked for: a file for each time, in the folder of the job.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::JobError;
use super::files::{create_json, new_id, parse, read, write_json};

/// The folder of submissions, and of what workers print, in that of the job.
const SUBMISSIONS: &str = "cluster";

/// Workers that an engine was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// The name that the engine knows them by, which no other submission has.
    pub name: String,
    /// The engine, as `bench.cluster.kind` names it.
    pub engine: String,
    /// The id that the engine gave; empty if it knows them by the name alone.
    pub id: String,
    /// Options that every program of the engine needs to find them.
    pub options: Vec<String>,
    /// How many workers.
    pub workers: u32,
    /// When.
    pub time: Timestamp,
}

impl Submission {
    /// Returns a name that no other submission has.
    #[must_use]
    pub fn new_name() -> String {
        format!("bench-{}", new_id())
    }

    /// Returns the folder of submissions of a job, which is made if there is none.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_folder(job: &Path) -> Result<PathBuf, JobError> {
        let folder = job.join(SUBMISSIONS);
        fs::create_dir_all(&folder).map_err(JobError::io("create", &folder))?;
        Ok(folder)
    }

    /// Remembers it in the folder of the job.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn remember(&self, job: &Path) -> Result<(), JobError> {
        let path = Self::make_folder(job)?.join(format!("{}.json", self.name));
        create_json(&path, self, &self.name).map(drop)
    }

    /// Adds what the engine has answered to what is remembered.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn update(&self, job: &Path) -> Result<(), JobError> {
        let path = Self::make_folder(job)?.join(format!("{}.json", self.name));
        write_json(&path, self, job)
    }

    /// Forgets one of which the engine started nothing.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget(&self, job: &Path) -> Result<(), JobError> {
        let path = Self::make_folder(job)?.join(format!("{}.json", self.name));
        fs::remove_file(&path).map_err(JobError::io("remove", &path))
    }

    /// Returns those of a job, in their order, and why others cannot be read.
    #[must_use]
    pub fn list(job: &Path) -> (Vec<Self>, Vec<JobError>) {
        let entries = fs::read_dir(job.join(SUBMISSIONS)).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let (mut found, mut damaged) = (Vec::<Self>::new(), Vec::new());
        for path in paths.filter(|path| path.extension().is_some_and(|end| end == "json")) {
            let parsed =
                read(&path).and_then(|bytes| bytes.map(|it| parse(&path, &it)).transpose());
            match parsed {
                Ok(submission) => found.extend(submission),
                Err(error) => damaged.push(error),
            }
        }
        found.sort_by(|one, other| (one.time, &one.name).cmp(&(other.time, &other.name)));
        (found, damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions_are_remembered_in_their_order() {
        let job = tempfile::tempdir().unwrap();
        let list = || Submission::list(job.path()).0;
        assert_eq!(list(), []);
        let at = |second: i64| Submission {
            name: Submission::new_name(),
            engine: "slurm".to_owned(),
            id: "7".to_owned(),
            options: vec!["--clusters=a".to_owned()],
            workers: 3,
            time: Timestamp::from_second(second).unwrap(),
        };
        let (later, first) = (at(2), at(1));
        later.remember(job.path()).unwrap();
        first.remember(job.path()).unwrap();
        // What a worker prints is beside them.
        fs::write(job.path().join(SUBMISSIONS).join("7_0.out"), "").unwrap();
        assert_eq!(list(), [first.clone(), later.clone()]);
        let answered = Submission { id: "8".to_owned(), ..later.clone() };
        answered.update(job.path()).unwrap();
        assert_eq!(list(), [first.clone(), answered]);
        let damaged = job.path().join(SUBMISSIONS).join(format!("{}.json", first.name));
        fs::write(&damaged, "{").unwrap();
        let (found, errors) = Submission::list(job.path());
        assert_eq!((found.len(), errors.len()), (1, 1), "the others are found");
        let error = errors[0].to_string();
        assert!(error.contains(&damaged.display().to_string()), "{error}");
        later.forget(job.path()).unwrap();
        assert_eq!(list(), []);
    }
}
