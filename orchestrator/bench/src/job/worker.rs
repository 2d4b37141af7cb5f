//! Processes that perform trials of a job, on one machine or on several, and which of them live.
//!
//! Each has two files in `workers`: who it is, which it holds locked, and a count that it renews. It is gone if its count did
//! not change for the length of a lease, by the clock of who reads it; on the same boot of a machine also at once when its lock
//! is free, which the kernel gives back at the end of a process.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ralph_orchestrator_safe_fs::boot_id;
use serde::{Deserialize, Serialize};

use crate::host::host_name;

use super::error::JobError;
use super::files::{new_id, parse, read};

/// The folder of workers, in that of the job.
const WORKERS: &str = "workers";
/// How long nothing has to be heard of a worker of another machine until another one performs its trials, by default.
pub(super) const LEASE: Duration = Duration::from_secs(90);
/// Renewals within a lease: some may be lost, or be seen late.
const RENEWALS: u32 = 6;

/// Who a worker is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerIdentity {
    /// Its id, which no other worker of any job has.
    pub id: String,
    /// The name of its machine.
    pub host: String,
    /// The boot of the machine; empty where the system does not tell.
    pub boot: String,
    /// Its process id there.
    pub pid: u32,
    /// When it began, by its clock.
    pub started: Timestamp,
    /// Whether its lock says that it lives: on the file system of the job files can be locked.
    pub is_locked: bool,
}

/// What a worker renews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Heartbeat {
    /// How often it was renewed.
    count: u64,
    /// When, by the clock of the worker's machine: for people only.
    time: Timestamp,
}

/// This process, as a worker of a job. Others take it for dead once this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    identity: WorkerIdentity,
    stop: Option<Sender<()>>,
    renewing: Option<JoinHandle<()>>,
    lock: File,
}

fn identity_file(job: &Path, id: &str) -> PathBuf {
    job.join(WORKERS).join(format!("{id}.json"))
}

fn heartbeat_file(job: &Path, id: &str) -> PathBuf {
    job.join(WORKERS).join(format!("{id}.heartbeat"))
}

impl Worker {
    /// Makes this process a worker of a job.
    ///
    /// # Errors
    /// Its files cannot be written.
    pub(super) fn join(job: &Path, lease: Duration) -> Result<Self, JobError> {
        Self::join_as(job, lease, boot_id())
    }

    fn join_as(job: &Path, lease: Duration, boot: String) -> Result<Self, JobError> {
        let folder = job.join(WORKERS);
        fs::create_dir_all(&folder).map_err(JobError::io("create", &folder))?;
        let id = new_id();
        let path = identity_file(job, &id);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(JobError::io("create", &path))?;
        let (pid, started) = (std::process::id(), Timestamp::now());
        let is_locked = file.try_lock().is_ok();
        let identity = WorkerIdentity { id, host: host_name(), boot, pid, started, is_locked };
        let text = serde_json::to_vec(&identity).unwrap_or_default();
        file.write_all(&text)
            .and_then(|()| file.sync_all())
            .map_err(JobError::io("write", &path))?;
        let (stop, renewing) = renew(&heartbeat_file(job, &identity.id), lease)?;
        Ok(Self { identity, stop: Some(stop), renewing: Some(renewing), lock: file })
    }

    pub(super) fn id(&self) -> &str {
        &self.identity.id
    }

    /// Leaves the job, of which this worker performs nothing any more. Its files stay: they say so.
    pub(super) fn leave(&mut self) {
        self.stop_renewing();
        // Where it was not locked, there is nothing to unlock.
        let _ = self.lock.unlock();
    }

    fn stop_renewing(&mut self) {
        drop(self.stop.take());
        if let Some(renewing) = self.renewing.take() {
            let _ = renewing.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop_renewing();
    }
}

/// Renews a heartbeat until the sender is dropped. It has a thread of its own: whatever else is waited for, it goes on.
fn renew(path: &Path, lease: Duration) -> Result<(Sender<()>, JoinHandle<()>), JobError> {
    let (stop, stopped) = mpsc::channel::<()>();
    write_heartbeat(path, 0).map_err(JobError::io("write", path))?;
    let of_thread = path.to_owned();
    let renew = move || {
        let mut count: u64 = 0;
        while stopped.recv_timeout(lease / RENEWALS) == Err(RecvTimeoutError::Timeout) {
            count = count.saturating_add(1);
            // A full disk may have room again at the next time.
            let _ = write_heartbeat(&of_thread, count);
        }
    };
    let thread = thread::Builder::new().name("heartbeat".to_owned()).spawn(renew);
    thread.map(|thread| (stop, thread)).map_err(JobError::io("renew", path))
}

/// Writes a heartbeat in its place: who reads half of it sees that it has changed.
fn write_heartbeat(path: &Path, count: u64) -> std::io::Result<()> {
    let heartbeat = Heartbeat { count, time: Timestamp::now() };
    fs::write(path, serde_json::to_vec(&heartbeat).unwrap_or_default())
}

/// The other workers of a job, as this process has seen them.
#[derive(Debug)]
pub(super) struct Others {
    job: PathBuf,
    boot: String,
    lease: Duration,
    /// The last heartbeat of each that differed from the one before, and when that was seen.
    seen: BTreeMap<String, (Vec<u8>, Instant)>,
}

impl Others {
    pub(super) fn new(job: &Path, lease: Duration) -> Self {
        Self { job: job.to_owned(), boot: boot_id(), lease, seen: BTreeMap::new() }
    }

    /// Whether a worker has provably ended, or was not heard of for the length of a lease.
    pub(super) fn is_gone(&mut self, id: &str) -> bool {
        if is_unlocked(&identity_file(&self.job, id), &self.boot) == Some(true) {
            return true;
        }
        // Of a worker that has just joined files may not be visible yet: as if its heartbeat had not changed.
        let heartbeat = fs::read(heartbeat_file(&self.job, id)).unwrap_or_default();
        let now = Instant::now();
        let (known, since) =
            self.seen.entry(id.to_owned()).or_insert_with(|| (heartbeat.clone(), now));
        if *known != heartbeat {
            (*known, *since) = (heartbeat, now);
        }
        now.saturating_duration_since(*since) >= self.lease
    }
}

/// Whether a worker of this boot holds its lock no more. None where its lock says nothing here.
fn is_unlocked(path: &Path, boot: &str) -> Option<bool> {
    let bytes = read(path).ok()??;
    let identity: WorkerIdentity = parse(path, &bytes).ok()?;
    if !identity.is_locked || boot.is_empty() || identity.boot != boot {
        return None;
    }
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    match file.try_lock_shared() {
        Ok(()) => Some(true),
        Err(TryLockError::WouldBlock) => Some(false),
        Err(TryLockError::Error(_)) => None,
    }
}

/// A worker, for those who only look.
#[derive(Clone, Debug)]
pub struct KnownWorker {
    /// Who it is.
    pub identity: WorkerIdentity,
    /// When it last gave a sign of life, by its clock, if that can be read.
    pub last_sign: Option<Timestamp>,
    /// Whether it has provably ended; none if that cannot be known from this machine.
    pub has_ended: Option<bool>,
}

impl KnownWorker {
    /// Whether it performs trials, as far as that can be known at a glance: where its lock says nothing, by whether its last
    /// sign of life is younger than a lease, if the clocks of the two machines agree.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        let age = self.last_sign.map(|last| Timestamp::now().duration_since(last).unsigned_abs());
        self.has_ended.map_or_else(|| age.is_some_and(|age| age < LEASE), |ended| !ended)
    }
}

/// Removes what workers have left that have provably ended.
pub(super) fn remove_ended(job: &Path) {
    for worker in list_workers(job).iter().filter(|worker| worker.has_ended == Some(true)) {
        // They are a few bytes, and nobody asks for them again.
        let _ = fs::remove_file(identity_file(job, &worker.identity.id));
        let _ = fs::remove_file(heartbeat_file(job, &worker.identity.id));
    }
}

/// Returns the workers that have files in the folder of a job, in the order in which they joined.
pub(super) fn list_workers(job: &Path) -> Vec<KnownWorker> {
    let entries = fs::read_dir(job.join(WORKERS)).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let boot = boot_id();
    let known = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let mut workers: Vec<KnownWorker> = known
        .filter_map(|path| {
            let identity: WorkerIdentity = parse(&path, &read(&path).ok()??).ok()?;
            let heartbeat = fs::read(heartbeat_file(job, &identity.id)).unwrap_or_default();
            let heartbeat = serde_json::from_slice::<Heartbeat>(&heartbeat).ok();
            let has_ended = is_unlocked(&path, &boot);
            Some(KnownWorker { identity, last_sign: heartbeat.map(|found| found.time), has_ended })
        })
        .collect();
    workers.sort_by(|one, other| {
        let key = |worker: &KnownWorker| (worker.identity.started, worker.identity.id.clone());
        key(one).cmp(&key(other))
    });
    workers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_one_machine_a_worker_lives_as_long_as_its_process_holds_its_lock() {
        let job = tempfile::tempdir().unwrap();
        let worker = Worker::join(job.path(), LEASE).unwrap();
        let mut others = Others::new(job.path(), LEASE);
        assert!(!others.is_gone(worker.id()));
        let id = worker.id().to_owned();
        drop(worker);
        assert!(others.is_gone(&id), "at once");
    }

    #[test]
    fn of_another_machine_it_lives_until_its_heartbeat_has_not_changed_for_a_lease() {
        let job = tempfile::tempdir().unwrap();
        let worker = Worker::join_as(job.path(), LEASE, "another boot".to_owned()).unwrap();
        let id = worker.id().to_owned();
        drop(worker);
        let mut patient = Others::new(job.path(), LEASE);
        assert!(!patient.is_gone(&id), "its lock says nothing here");
        assert!(!patient.is_gone("unseen"), "nor does a file that is not to be seen yet");
        let mut others = Others::new(job.path(), Duration::ZERO);
        assert!(others.is_gone(&id));
        // A clock that was set has no part in it: a change is a sign of life, whatever it says.
        let old = Instant::now().checked_sub(LEASE * 2).unwrap();
        patient.seen.get_mut(&id).unwrap().1 = old;
        write_heartbeat(&heartbeat_file(job.path(), &id), 7).unwrap();
        assert!(!patient.is_gone(&id));
        patient.seen.get_mut(&id).unwrap().1 = old;
        assert!(patient.is_gone(&id));
    }

    #[test]
    fn a_heartbeat_is_renewed_whatever_else_is_waited_for() {
        let job = tempfile::tempdir().unwrap();
        let mut worker = Worker::join(job.path(), Duration::from_millis(60)).unwrap();
        let file = heartbeat_file(job.path(), worker.id());
        let first = fs::read(&file).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while fs::read(&file).unwrap() == first {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
        let [known] = list_workers(job.path()).try_into().unwrap();
        assert_eq!((known.identity.id.as_str(), known.has_ended), (worker.id(), Some(false)));
        worker.leave();
        assert_eq!(list_workers(job.path())[0].has_ended, Some(true));
        remove_ended(job.path());
        assert!(list_workers(job.path()).is_empty());
    }
}
