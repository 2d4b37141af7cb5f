//! A job on disk.
//!
//! ```text
//! bench.json                      the plan, written once
//! bench.lock.json                 what its results depend on
//! ledger.jsonl                    what was paid: a line for each iteration of each attempt, appended
//! lock                            held by the processes that perform the job, or by one that is to be alone
//! workers/<id>.json, .heartbeat   a process that performs trials; removed when all trials have ended
//! ledger-<id>.jsonl               as ledger.jsonl, of a process that has joined the one that began
//! cluster/<name>.json             workers that an engine of a cluster was asked for
//! claims/<k>/<number>.json        who performs which attempt, see `claims.rs`
//! <trial>/attempts/<n>/           an attempt; all of them are kept
//! <trial>/attempts/<n>/trial.json its record, made in one step by whoever says first how it has ended
//! <trial>/attempts/<n>/late.json  the record of one that was taken for lost, and ended all the same: it does not count
//! <trial>/attempts/<n>/regraded.json the last repeated verification; the record stays as it is
//! ```
//!
//! The folder of an attempt is made before anything is started, so an attempt without a record is one that is performed, or
//! was lost with the process that performed it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ralph_orchestrator_contract::Usd;
use serde::Deserialize;

use super::budget::SpentMoney;
use super::claims::{Claim, Claims};
use super::error::JobError;
use super::file_names::{LOCK_FILE, PLAN};
use super::files::{create_json, parse, read, write_json};
use super::ledger_entry::LedgerEntry;
use super::plan::{FORMAT, JobPlan, hash_key};
use super::worker::{KnownWorker, LEASE, Others, Worker, list_workers, remove_ended};
use crate::trial::{Regrading, TrialKey, TrialRecord};

const LEDGER: &str = "ledger.jsonl";
/// What the names of the ledgers of those begin with who have joined.
const JOINED_LEDGER: &str = "ledger-";
const LEDGER_SUFFIX: &str = ".jsonl";
const LOCK: &str = "lock";
const ATTEMPTS: &str = "attempts";
const RECORD: &str = "trial.json";
const LATE: &str = "late.json";
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

/// A job on disk, performed by this process: alone, until it is shared with others.
#[derive(Debug)]
pub struct JobStore {
    dir: PathBuf,
    plan: JobPlan,
    ledger: (PathBuf, File),
    lock: File,
    claims: Claims,
    worker: Worker,
    others: Others,
    /// Bytes of each ledger that were read, or written by this process.
    known_costs: BTreeMap<PathBuf, u64>,
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
        let lock = take_lock(dir, LockKind::Alone)?;
        let file = dir.join(PLAN);
        if file.exists() {
            return Err(JobError::Exists { path: dir.to_owned() });
        }
        if let Some(job_lock) = &plan.lock {
            write_json(&dir.join(LOCK_FILE), job_lock, dir)?;
        }
        write_json(&file, &plan, dir)?;
        Self::new(dir, plan, lock, None)
    }

    /// Opens a job to perform what is left of it.
    ///
    /// # Errors
    /// There is none, another process performs it, or a file cannot be read.
    pub fn open(dir: &Path) -> Result<Self, JobError> {
        let plan = read_plan(dir)?;
        let lock = take_lock(dir, LockKind::Alone)?;
        Self::new(dir, plan, lock, None)
    }

    /// Joins those who perform a job, if there are any.
    ///
    /// # Errors
    /// There is none, another process wants it for itself, or a file cannot be read.
    pub fn join(dir: &Path) -> Result<Self, JobError> {
        let plan = read_plan(dir)?;
        let lock = take_lock(dir, LockKind::Shared)?;
        let worker = Worker::join(dir, LEASE)?;
        Self::new(dir, plan, lock, Some(worker))
    }

    fn new(
        dir: &Path,
        plan: JobPlan,
        lock: File,
        joined: Option<Worker>,
    ) -> Result<Self, JobError> {
        let name = match &joined {
            Some(worker) => format!("{JOINED_LEDGER}{}{LEDGER_SUFFIX}", worker.id()),
            None => LEDGER.to_owned(),
        };
        Ok(Self {
            ledger: open_ledger(dir.join(name))?,
            claims: Claims::new(dir),
            worker: joined.map_or_else(|| Worker::join(dir, LEASE), Ok)?,
            others: Others::new(dir, LEASE),
            known_costs: BTreeMap::new(),
            dir: dir.to_owned(),
            plan,
            lock,
        })
    }

    /// Whether no other process of this machine performed the job when this one began.
    #[must_use]
    pub fn began_alone(&self) -> bool {
        self.ledger.0 == self.dir.join(LEDGER)
    }

    /// Lets others join.
    ///
    /// # Errors
    /// Somebody wants the job for itself in the same moment.
    pub fn share(&self) -> Result<(), JobError> {
        wait_for_lock(&self.dir, &self.lock, LockKind::Shared)
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

    /// Makes the folder of an attempt, which says that it began. Returns none if somebody has made it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin_attempt(&self, key: &TrialKey, attempt: u32) -> Result<Option<PathBuf>, JobError> {
        let dir = self.plan.trial_layout(&self.dir, key).attempt(attempt);
        let parent = dir.parent().unwrap_or(&self.dir);
        fs::create_dir_all(parent).map_err(JobError::io("create", parent))?;
        // What an agent makes in it, such as programs that change the user, is for nobody else.
        match fs::DirBuilder::new().mode(OWNER_ONLY).create(&dir) {
            Ok(()) => Ok(Some(dir)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(JobError::io("create", &dir)(error)),
        }
    }

    /// Records how an attempt ended: first what it cost, then the attempt itself. Returns the record that counts instead, if
    /// somebody has recorded the attempt as lost meanwhile, beside whose record this one is kept.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn end_attempt(
        &mut self,
        record: &TrialRecord,
        costs: &[LedgerEntry],
    ) -> Result<Option<TrialRecord>, JobError> {
        let mut lines = Vec::new();
        for entry in costs {
            // What has only these fields can always be written.
            lines.extend(serde_json::to_vec(entry).unwrap_or_default());
            lines.push(b'\n');
        }
        if !lines.is_empty() {
            let (path, file) = &mut self.ledger;
            let written = file.write_all(&lines).and_then(|()| file.sync_data());
            written.map_err(JobError::io("write", path))?;
            *self.known_costs.entry(path.clone()).or_default() += lines.len() as u64;
        }
        let dir = self.plan.trial_layout(&self.dir, &record.key).attempt(record.attempt);
        let counts = create_json(&dir.join(RECORD), record, self.worker.id())?;
        File::open(&dir).and_then(|dir| dir.sync_all()).map_err(JobError::io("sync", &dir))?;
        if counts {
            return Ok(None);
        }
        write_json(&dir.join(LATE), record, &self.dir)?;
        self.read_record(&record.key, record.attempt)
    }
}

/// What is done beside other workers.
impl JobStore {
    /// Claims an attempt for this process. Returns none where another one has made a claim meanwhile, which is to be read first.
    pub(super) fn claim(
        &mut self,
        key: &TrialKey,
        attempt: u32,
        max_cost: Option<Usd>,
    ) -> Result<Option<Claim>, JobError> {
        let (key, worker, time) = (key.clone(), self.worker.id().to_owned(), Timestamp::now());
        let claim = Claim { key, attempt, max_cost, worker, time };
        Ok(self.claims.append(&claim)?.then_some(claim))
    }

    /// Returns the next claim of another process that was not read yet.
    pub(super) fn read_claim(&mut self) -> Result<Option<Claim>, JobError> {
        while let Some(claim) = self.claims.read_next()? {
            if claim.worker != self.worker.id() {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }

    /// Returns how an attempt has ended, if it has.
    pub(super) fn read_record(
        &self,
        key: &TrialKey,
        attempt: u32,
    ) -> Result<Option<TrialRecord>, JobError> {
        let path = self.plan.trial_layout(&self.dir, key).attempt(attempt).join(RECORD);
        read(&path)?.map(|bytes| parse(&path, &bytes)).transpose()
    }

    /// Whether whoever made a claim has provably ended, or was not heard of for long.
    pub(super) fn is_abandoned(&mut self, claim: &Claim) -> bool {
        self.others.is_gone(&claim.worker)
    }

    /// Returns the lines of all ledgers that this process has neither read nor written.
    pub(super) fn read_new_costs(&mut self) -> Result<Vec<LedgerEntry>, JobError> {
        let mut entries = Vec::new();
        for path in list_ledgers(&self.dir)? {
            let known = self.known_costs.entry(path.clone()).or_default();
            let bytes = read_from(&path, *known).map_err(JobError::io("read", &path))?;
            let whole = whole_lines(&bytes);
            parse_lines(&path, whole, &mut entries)?;
            *known += whole.len() as u64;
        }
        Ok(entries)
    }

    /// Returns how many workers perform the job, this one included.
    pub(super) fn count_workers(&self) -> u32 {
        let heard = list_workers(&self.dir).iter().filter(|worker| worker.is_heard()).count();
        u32::try_from(heard).unwrap_or(u32::MAX)
    }

    /// Says that this process performs nothing of the job any more. If `is_last`, no attempt is left whose record anybody might
    /// wait for, and what workers have left that ended is removed.
    pub fn leave(&mut self, is_last: bool) {
        self.worker.leave();
        if is_last {
            remove_ended(&self.dir);
        }
    }

    /// Performs so many trials at the same time in this process.
    pub const fn set_concurrency(&mut self, concurrency: u32) {
        self.plan.options.concurrency = concurrency;
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

/// Reads the ledgers. A last line that was cut is left out: what it says is written again when its attempt is found to
/// be lost.
///
/// # Errors
/// One cannot be read, or another line is damaged.
pub(crate) fn read_ledger(dir: &Path) -> Result<Vec<LedgerEntry>, JobError> {
    let mut entries = Vec::new();
    for path in list_ledgers(dir)? {
        let bytes = read(&path)?.unwrap_or_default();
        parse_lines(&path, whole_lines(&bytes), &mut entries)?;
    }
    Ok(entries)
}

/// Returns the ledgers that there are, in the order of their names.
fn list_ledgers(dir: &Path) -> Result<Vec<PathBuf>, JobError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            let text = name.to_string_lossy();
            let is_joined = text.starts_with(JOINED_LEDGER) && text.ends_with(LEDGER_SUFFIX);
            if is_joined || text == LEDGER {
                paths.push(dir.join(&name));
            }
        }
        paths.sort();
        Ok(paths)
    };
    list().map_err(JobError::io("list", dir))
}

fn parse_lines(path: &Path, lines: &[u8], into: &mut Vec<LedgerEntry>) -> Result<(), JobError> {
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        into.push(parse(path, line)?);
    }
    Ok(())
}

/// Returns what a file has from this byte on.
fn read_from(path: &Path, start: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    if file.metadata()?.len() > start {
        file.seek(SeekFrom::Start(start))?;
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
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

fn open_ledger(path: PathBuf) -> Result<(PathBuf, File), JobError> {
    let open = || -> io::Result<File> {
        let file = OpenOptions::new().create(true).append(true).read(true).open(&path)?;
        // A line that was cut would spoil the next one.
        let whole = whole_lines(&fs::read(&path)?).len();
        file.set_len(whole as u64)?;
        Ok(file)
    };
    let file = open().map_err(JobError::io("open", &path))?;
    Ok((path, file))
}

/// Whom the lock of a job lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockKind {
    Alone,
    /// With others who perform it.
    Shared,
}

fn take_lock(dir: &Path, kind: LockKind) -> Result<File, JobError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
    let file = file.map_err(JobError::io("open", &path))?;
    wait_for_lock(dir, &file, kind)?;
    Ok(file)
}

fn wait_for_lock(dir: &Path, file: &File, kind: LockKind) -> Result<(), JobError> {
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        let taken = match kind {
            LockKind::Alone => file.try_lock(),
            LockKind::Shared => file.try_lock_shared(),
        };
        match taken {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_POLL);
            }
            Err(TryLockError::WouldBlock) => return Err(JobError::Busy { path: dir.to_owned() }),
            Err(TryLockError::Error(error)) => {
                return Err(JobError::io("lock", &dir.join(LOCK))(error));
            }
        }
    }
}

/// Whether a process of this machine performs the job.
fn is_locked(dir: &Path) -> bool {
    let file = OpenOptions::new().read(true).write(true).open(dir.join(LOCK));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
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
    /// The processes that have performed it, until all of its trials have ended.
    pub workers: Vec<KnownWorker>,
    /// The id of the worker who claimed each attempt that has no record.
    holders: BTreeMap<(TrialKey, u32), String>,
}

impl JobContents {
    /// Reads a job.
    ///
    /// # Errors
    /// There is none, or a file cannot be read.
    pub fn read(dir: &Path) -> Result<Self, JobError> {
        let plan = read_plan(dir)?;
        // First whether it goes on: what is read is then at least as new.
        let workers = list_workers(dir);
        let is_running = is_locked(dir) || workers.iter().any(KnownWorker::is_heard);
        let (records, started) = read_attempts(dir, &plan)?;
        let mut holders = BTreeMap::new();
        if !started.is_empty() {
            let open: BTreeSet<_> =
                started.iter().map(|started| (started.key.clone(), started.attempt)).collect();
            let mut claims = Claims::new(dir);
            while let Some(claim) = claims.read_next()? {
                let attempt = (claim.key, claim.attempt);
                if open.contains(&attempt) {
                    holders.insert(attempt, claim.worker);
                }
            }
        }
        let ledger = read_ledger(dir)?;
        Ok(Self { plan, records, started, ledger, is_running, workers, holders })
    }

    /// Returns the worker who performs an attempt, or has left it, if that is known.
    #[must_use]
    pub fn worker_of(&self, started: &StartedTrial) -> Option<&KnownWorker> {
        let holder = self.holders.get(&(started.key.clone(), started.attempt))?;
        self.workers.iter().find(|worker| worker.identity.id == *holder)
    }

    /// Whether somebody performs an attempt, as far as that can be known at a glance.
    #[must_use]
    pub fn is_performed(&self, started: &StartedTrial) -> bool {
        self.worker_of(started).map_or(self.is_running, KnownWorker::is_heard)
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

    /// Returns what was spent on attempts.
    #[must_use]
    pub fn spent(&self) -> SpentMoney {
        let mut spent = SpentMoney::default();
        self.ledger.iter().for_each(|entry| spent.add(entry));
        spent
    }

    /// Whether nothing is left of the money of the job, of which so much was spent.
    #[must_use]
    pub fn is_money_used_up(&self, spent: &SpentMoney) -> bool {
        self.plan.budgets.job.is_some_and(|most| spent.total() >= most)
    }

    /// Returns when the last attempt ended, if any has.
    #[must_use]
    pub fn last_change(&self) -> Option<Timestamp> {
        self.records.iter().map(|record| record.finished).max()
    }
}
