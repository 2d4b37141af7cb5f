//! A job on disk.
//!
//! ```text
//! bench.json                      the plan, written once
//! bench.lock.json                 what its results depend on
//! ledger.jsonl                    what was paid: a line for each iteration of each attempt, appended
//! lock                            held by the process that performs the job
//! <trial>/attempts/<n>/           an attempt; all of them are kept
//! <trial>/attempts/<n>/trial.json its record, written in one step when it has ended
//! <trial>/attempts/<n>/regraded.json the last repeated verification; the record stays as it is
//! ```
//!
//! The folder of an attempt is made before anything is started, so an attempt without a record is one that was lost
//! with the process that performed it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Deserialize;

use super::error::JobError;
use super::file_names::{LOCK_FILE, PLAN};
use super::files::{parse, read, write_json};
use super::ledger_entry::LedgerEntry;
use super::plan::{FORMAT, JobPlan, hash_key};
use crate::trial::{Regrading, TrialKey, TrialRecord};

const LEDGER: &str = "ledger.jsonl";
const LOCK: &str = "lock";
const ATTEMPTS: &str = "attempts";
const RECORD: &str = "trial.json";
const REGRADING: &str = "regraded.json";
/// The mode of the folders of attempts.
const OWNER_ONLY: u32 = 0o700;

/// How long somebody who only looks whether the job is performed can hold the lock.
const LOCK_WAIT: Duration = Duration::from_millis(500);
const LOCK_POLL: Duration = Duration::from_millis(5);
/// Characters of a task's name that are part of the names of its trials.
const TASK_PART: usize = 32;
/// Characters that tell trials of the same task apart.
const ID_PART: usize = 7;
const ID_LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A job on disk, performed by this process alone.
#[derive(Debug)]
pub struct JobStore {
    dir: PathBuf,
    plan: JobPlan,
    ledger: File,
    _lock: File,
}

/// Where the files of a trial are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialLayout {
    dir: PathBuf,
}

/// An attempt that has no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedTrial {
    /// Which trial.
    pub key: TrialKey,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Its folder.
    pub dir: PathBuf,
}

impl TrialLayout {
    /// Returns the folder of the trial.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the folder of an attempt.
    #[must_use]
    pub fn attempt(&self, attempt: u32) -> PathBuf {
        self.dir.join(ATTEMPTS).join(attempt.to_string())
    }
}

impl JobPlan {
    /// Returns the name of a trial, which is that of its folder: the beginning of its task's name, and letters that
    /// tell it from all others of this job.
    #[must_use]
    pub fn trial_name(&self, key: &TrialKey) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.id.as_bytes());
        hash_key(&mut hasher, key);
        let letter = |byte: &u8| ID_LETTERS.get(usize::from(byte % 32)).map(|l| char::from(*l));
        let id: String =
            hasher.finalize().as_bytes().iter().filter_map(letter).take(ID_PART).collect();
        let last = key.task.rsplit('/').next().unwrap_or(&key.task);
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
        let task: String =
            last.chars().map(|c| if is_plain(&c) { c } else { '-' }).take(TASK_PART).collect();
        // A name must not begin like a hidden file or an option.
        let task = task.trim_start_matches(['.', '-']);
        format!("{}__{id}", if task.is_empty() { "task" } else { task })
    }

    /// Returns where the files of a trial are.
    #[must_use]
    pub fn trial_layout(&self, job: &Path, key: &TrialKey) -> TrialLayout {
        TrialLayout { dir: job.join(self.trial_name(key)) }
    }
}

impl JobStore {
    /// Writes the plan of a new job.
    ///
    /// # Errors
    /// There is a job already, or a file cannot be written.
    pub fn create(dir: &Path, plan: JobPlan) -> Result<Self, JobError> {
        fs::create_dir_all(dir).map_err(JobError::io("create", dir))?;
        let lock = take_lock(dir)?;
        let file = dir.join(PLAN);
        if file.exists() {
            return Err(JobError::Exists { path: dir.to_owned() });
        }
        if let Some(job_lock) = &plan.lock {
            write_json(&dir.join(LOCK_FILE), job_lock, dir)?;
        }
        write_json(&file, &plan, dir)?;
        Ok(Self { ledger: open_ledger(dir)?, dir: dir.to_owned(), plan, _lock: lock })
    }

    /// Opens a job to perform what is left of it.
    ///
    /// # Errors
    /// There is none, another process performs it, or a file cannot be read.
    pub fn open(dir: &Path) -> Result<Self, JobError> {
        let plan = read_plan(dir)?;
        let lock = take_lock(dir)?;
        Ok(Self { ledger: open_ledger(dir)?, dir: dir.to_owned(), plan, _lock: lock })
    }

    /// Returns the plan.
    #[must_use]
    pub const fn plan(&self) -> &JobPlan {
        &self.plan
    }

    /// Returns the folder of the job.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the folder of an attempt, which says that it began.
    ///
    /// # Errors
    /// It cannot be made, or is there already.
    pub fn begin_attempt(&self, key: &TrialKey, attempt: u32) -> Result<PathBuf, JobError> {
        let dir = self.plan.trial_layout(&self.dir, key).attempt(attempt);
        let parent = dir.parent().unwrap_or(&self.dir);
        fs::create_dir_all(parent).map_err(JobError::io("create", parent))?;
        // What an agent makes in it, such as programs that change the user, is for nobody else.
        let made = fs::DirBuilder::new().mode(OWNER_ONLY).create(&dir);
        made.map_err(JobError::io("create", &dir))?;
        Ok(dir)
    }

    /// Records how an attempt ended: first what it cost, then the attempt itself.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn end_attempt(
        &mut self,
        record: &TrialRecord,
        costs: &[LedgerEntry],
    ) -> Result<(), JobError> {
        let mut lines = Vec::new();
        for entry in costs {
            // What has only these fields can always be written.
            lines.extend(serde_json::to_vec(entry).unwrap_or_default());
            lines.push(b'\n');
        }
        if !lines.is_empty() {
            let path = self.dir.join(LEDGER);
            let written = self.ledger.write_all(&lines).and_then(|()| self.ledger.sync_data());
            written.map_err(JobError::io("write", &path))?;
        }
        let dir = self.plan.trial_layout(&self.dir, &record.key).attempt(record.attempt);
        write_json(&dir.join(RECORD), record, &self.dir)
    }
}

impl JobStore {
    /// Records what a repeated verification of an attempt gave, beside the attempt's record.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn record_regrading(
        &self,
        record: &TrialRecord,
        regrading: &Regrading,
    ) -> Result<(), JobError> {
        let dir = self.plan.trial_layout(&self.dir, &record.key).attempt(record.attempt);
        write_json(&dir.join(REGRADING), regrading, &self.dir)
    }
}

/// Reads the plan of a job.
///
/// # Errors
/// There is none, or it cannot be read.
pub(crate) fn read_plan(dir: &Path) -> Result<JobPlan, JobError> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let path = dir.join(PLAN);
    let Some(bytes) = read(&path)? else {
        return Err(JobError::NoJob { path: dir.to_owned() });
    };
    let version: Version = parse(&path, &bytes)?;
    if version.format != FORMAT {
        let (path, found) = (dir.to_owned(), version.format);
        return Err(JobError::Format { path, found, expected: FORMAT });
    }
    parse(&path, &bytes)
}

/// Reads the ledger. A last line that was cut is left out: what it says is written again when its attempt is found to
/// be lost.
///
/// # Errors
/// It cannot be read, or another line is damaged.
pub(crate) fn read_ledger(dir: &Path) -> Result<Vec<LedgerEntry>, JobError> {
    let path = dir.join(LEDGER);
    let bytes = read(&path)?.unwrap_or_default();
    let lines = whole_lines(&bytes).split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty()).map(|line| parse(&path, line)).collect()
}

/// Reads the attempts of all trials, in the order of the plan: records of those that ended, and those that did not.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read_attempts(
    dir: &Path,
    plan: &JobPlan,
) -> Result<(Vec<TrialRecord>, Vec<StartedTrial>), JobError> {
    let (mut ended, mut started) = (Vec::new(), Vec::new());
    for key in plan.trials() {
        let layout = plan.trial_layout(dir, &key);
        for attempt in 1.. {
            let folder = layout.attempt(attempt);
            let path = folder.join(RECORD);
            match read(&path)? {
                Some(bytes) => ended.push(read_regrading(&folder, parse(&path, &bytes)?)?),
                None if folder.is_dir() => {
                    started.push(StartedTrial { key: key.clone(), attempt, dir: folder });
                }
                None => break,
            }
        }
    }
    Ok((ended, started))
}

/// Returns the record of an attempt with what its last repeated verification gave.
fn read_regrading(folder: &Path, record: TrialRecord) -> Result<TrialRecord, JobError> {
    let path = folder.join(REGRADING);
    Ok(match read(&path)? {
        Some(bytes) => record.with_regrading(parse(&path, &bytes)?),
        None => record,
    })
}

/// Returns all lines that end.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or_default()
}

fn open_ledger(dir: &Path) -> Result<File, JobError> {
    let path = dir.join(LEDGER);
    let open = || -> io::Result<File> {
        let file = OpenOptions::new().create(true).append(true).read(true).open(&path)?;
        // A line that was cut would spoil the next one.
        let whole = whole_lines(&fs::read(&path)?).len();
        file.set_len(whole as u64)?;
        Ok(file)
    };
    open().map_err(JobError::io("open", &path))
}

fn take_lock(dir: &Path) -> Result<File, JobError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(JobError::io("open", &path))?;
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_POLL);
            }
            Err(TryLockError::WouldBlock) => return Err(JobError::Busy { path: dir.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(JobError::io("lock", &path)(error)),
        }
    }
}

/// Whether a process performs the job.
fn is_locked(dir: &Path) -> bool {
    let file = File::open(dir.join(LOCK));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// A job as it is on disk, for those who only look.
#[derive(Clone, Debug)]
pub struct JobContents {
    /// The plan.
    pub plan: JobPlan,
    /// All attempts that ended.
    pub records: Vec<TrialRecord>,
    /// Attempts without a record: they are being performed, or were lost.
    pub started: Vec<StartedTrial>,
    /// What was paid.
    pub ledger: Vec<LedgerEntry>,
    /// A process works on it.
    pub is_running: bool,
}

impl JobContents {
    /// Reads a job.
    ///
    /// # Errors
    /// There is none, or a file cannot be read.
    pub fn read(dir: &Path) -> Result<Self, JobError> {
        let plan = read_plan(dir)?;
        // First whether it goes on: what is read is then at least as new.
        let is_running = is_locked(dir);
        let (records, started) = read_attempts(dir, &plan)?;
        let ledger = read_ledger(dir)?;
        Ok(Self { plan, records, started, ledger, is_running })
    }

    /// Returns the last attempt of each trial that has ended.
    #[must_use]
    pub fn last_records(&self) -> BTreeMap<TrialKey, &TrialRecord> {
        let mut last = BTreeMap::new();
        for record in &self.records {
            let known = last.entry(record.key.clone()).or_insert(record);
            if record.attempt > known.attempt {
                *known = record;
            }
        }
        last
    }

    /// Returns when the last attempt ended, if any has.
    #[must_use]
    pub fn last_change(&self) -> Option<Timestamp> {
        self.records.iter().map(|record| record.finished).max()
    }
}
