//! What all runs of a user have used together: one ledger that every run appends to.
//!
//! ```text
//! .budget/lock          held while a line is appended; says how long the ledger is at least
//! .budget/ledger.key    32 random bytes, 0600; keys the chain of the lines
//! .budget/ledger.jsonl  one signed line for each change, each naming the one before it
//! ```
//!
//! An entry says what its run has used since it began, so that recording the same once more charges nothing: what was
//! charged is the difference to the run's entry before. The first entry of a run charges nothing.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ralph_orchestrator_contract::Usd;
use serde::{Deserialize, Serialize};

use super::disk::{Disk, File, private_open_flags};
use super::error::StateError;
use super::key::Key;
use super::lock;
use super::signed_line::{START, sign, verify};

const FORMAT_VERSION: u32 = 1;
/// How long another process may hold the lock, which it does for one line.
const LONGEST_LOCK: Duration = Duration::from_secs(30);
const LOCK_RETRY: Duration = Duration::from_millis(2);
/// The digits of the least length in the lock file.
const DIGITS: usize = 20;

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedAmount {
    /// US dollars, as the run was charged.
    pub cost_usd: Usd,
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Sessions of agents: attempts at iterations, and reviews.
    pub sessions: u64,
    /// Those whose cost the agent did not report: `cost_usd` has at most an estimate of it.
    #[serde(default)]
    pub unreported_costs: u64,
    /// Those whose tokens the agent did not report.
    #[serde(default)]
    pub unreported_tokens: u64,
}

impl UsedAmount {
    /// Returns both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cost_usd: self.cost_usd + other.cost_usd,
            tokens: self.tokens.saturating_add(other.tokens),
            sessions: self.sessions.saturating_add(other.sessions),
            unreported_costs: self.unreported_costs.saturating_add(other.unreported_costs),
            unreported_tokens: self.unreported_tokens.saturating_add(other.unreported_tokens),
        }
    }

    /// Returns what was used since `before`.
    fn since(self, before: Self) -> Self {
        Self {
            cost_usd: self.cost_usd.saturating_sub(before.cost_usd),
            tokens: self.tokens.saturating_sub(before.tokens),
            sessions: self.sessions.saturating_sub(before.sessions),
            unreported_costs: self.unreported_costs.saturating_sub(before.unreported_costs),
            unreported_tokens: self.unreported_tokens.saturating_sub(before.unreported_tokens),
        }
    }
}

/// What an iteration that goes on is expected to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedAmount {
    /// US dollars.
    pub cost_usd: Usd,
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Whether iterations of this agent were charged before, from which it is known what one may use.
    pub is_known: bool,
}

/// What a run has used, and what is reserved for its next iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendingEntry {
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The run.
    pub run: String,
    /// Its state directory.
    pub state: PathBuf,
    /// Where its agents work.
    pub workspace: PathBuf,
    /// The agent that has worked last, or is about to.
    pub agent: String,
    /// Its model, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What each agent has used since the run began.
    pub used: BTreeMap<String, UsedAmount>,
    /// What is reserved, while an iteration may go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ReservedAmount>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum LedgerRecord {
    LedgerStarted { version: u32 },
    Entry(SpendingEntry),
}

#[derive(Serialize, Deserialize)]
struct ChainedRecord {
    prev: String,
    #[serde(flatten)]
    record: LedgerRecord,
}

/// A part of what a run has used, from one entry to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// When it was recorded, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The run.
    pub run: String,
    /// Where its agents work.
    pub workspace: PathBuf,
    /// The agent that used it.
    pub agent: String,
    /// Its model, if that is known.
    pub model: Option<String>,
    /// What was used.
    pub used: UsedAmount,
}

/// What the entries say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    charges: Vec<Charge>,
    /// The last entry of each run.
    runs: BTreeMap<String, SpendingEntry>,
    /// The largest charge of each agent.
    largest: BTreeMap<String, UsedAmount>,
}

impl Spending {
    /// Returns all charges, in the order in which they were recorded.
    #[must_use]
    pub fn charges(&self) -> &[Charge] {
        &self.charges
    }

    /// Returns the last entry of a run.
    #[must_use]
    pub fn entry(&self, run: &str) -> Option<&SpendingEntry> {
        self.runs.get(run)
    }

    /// Returns the entries of runs for which something is reserved.
    pub fn reservations(&self) -> impl Iterator<Item = (&SpendingEntry, ReservedAmount)> {
        self.runs.values().filter_map(|entry| Some((entry, entry.reserved?)))
    }

    /// Returns the largest charges of cost and tokens of an agent, if it was ever charged.
    #[must_use]
    pub fn largest_charge(&self, agent: &str) -> Option<UsedAmount> {
        self.largest.get(agent).copied()
    }

    fn apply(&mut self, entry: SpendingEntry) {
        let before = self.runs.get(&entry.run).map(|before| &before.used);
        for (agent, used) in entry.used.iter().filter(|_| before.is_some()) {
            let before = before.and_then(|before| before.get(agent)).copied();
            let used = used.since(before.unwrap_or_default());
            if used == UsedAmount::default() {
                continue;
            }
            let largest = self.largest.entry(agent.clone()).or_default();
            largest.cost_usd = largest.cost_usd.max(used.cost_usd);
            largest.tokens = largest.tokens.max(used.tokens);
            self.charges.push(Charge {
                at_ms: entry.at_ms,
                run: entry.run.clone(),
                workspace: entry.workspace.clone(),
                agent: agent.clone(),
                model: entry.model.clone().filter(|_| *agent == entry.agent),
                used,
            });
        }
        self.runs.insert(entry.run.clone(), entry);
    }
}

/// The ledger, open to be continued, as far as it was read.
#[derive(Debug)]
pub struct SpendingLedger {
    disk: Disk,
    paths: LedgerPaths,
    key: Key,
    lines: ReadLines,
}

/// What was read of the ledger.
#[derive(Debug, Default)]
struct ReadLines {
    spending: Spending,
    bytes: u64,
    count: u64,
    /// The code of the last line.
    code: String,
}

#[derive(Clone, Debug)]
struct LedgerPaths {
    folder: PathBuf,
}

impl LedgerPaths {
    fn new(states: &Path) -> Self {
        Self { folder: states.join(".budget") }
    }

    fn ledger(&self) -> PathBuf {
        self.folder.join("ledger.jsonl")
    }

    fn key(&self) -> PathBuf {
        self.folder.join("ledger.key")
    }

    fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    fn damaged(&self, problem: &str) -> StateError {
        StateError::damaged(
            &self.ledger(),
            format!(
                "{problem}, so it is not known what the runs have used. Put it back as it was; or, if what was \
                 recorded is to count no more, move the folder {} away while no run works: then a new \
                 ledger begins",
                self.folder.display()
            ),
        )
    }
}

impl SpendingLedger {
    /// Opens the ledger in the folder of all states, creating it if there is none, and reads it.
    ///
    /// # Errors
    /// It is damaged, or cannot be read or written.
    pub fn open(disk: &Disk, states: &Path) -> Result<Self, StateError> {
        let paths = LedgerPaths::new(states);
        disk.make_dir(&paths.folder).map_err(StateError::io("create", &paths.folder))?;
        let lock = LedgerLock::take(disk, &paths)?;
        let least = lock.least_bytes()?;
        let key = match find_key(disk, &paths)? {
            Some(key) => key,
            None if least > 0 => return Err(paths.damaged("was removed")),
            None => create(disk, &paths)?,
        };
        let lines = ReadLines::default();
        let mut ledger = Self { disk: disk.clone(), paths, key, lines };
        ledger.read_on(least)?;
        Ok(ledger)
    }

    /// Returns what the ledger in the folder of all states says, without changing anything; `None` if there is none.
    ///
    /// # Errors
    /// It is damaged or cannot be read.
    pub fn read(states: &Path) -> Result<Option<Spending>, StateError> {
        // A line that a crash has cut short may be replaced while it is read.
        Self::read_once(states).or_else(|_| Self::read_once(states))
    }

    fn read_once(states: &Path) -> Result<Option<Spending>, StateError> {
        let (disk, paths) = (Disk::default(), LedgerPaths::new(states));
        let least = match disk.read_if_exists(&paths.lock(), DIGITS)? {
            Some(text) => parse_bytes(&text),
            None => 0,
        };
        let Some(key) = find_key(&disk, &paths)? else {
            return if least > 0 { Err(paths.damaged("was removed")) } else { Ok(None) };
        };
        let mut ledger = Self { disk, paths, key, lines: ReadLines::default() };
        ledger.read_on(least)?;
        Ok(Some(ledger.lines.spending))
    }

    /// Returns what was read last.
    #[must_use]
    pub const fn spending(&self) -> &Spending {
        &self.lines.spending
    }

    /// Reads what others have appended meanwhile.
    ///
    /// # Errors
    /// The ledger is damaged or cannot be read.
    pub fn refresh(&mut self) -> Result<&Spending, StateError> {
        self.update(|_| (None, ()))?;
        Ok(&self.lines.spending)
    }

    /// Appends the entry that `decide` returns, if it returns one, and `decide`'s answer. No other process appends between
    /// what `decide` is shown and that entry.
    ///
    /// # Errors
    /// The ledger is damaged, or cannot be read or written.
    pub fn update<T>(
        &mut self,
        decide: impl FnOnce(&Spending) -> (Option<SpendingEntry>, T),
    ) -> Result<T, StateError> {
        let lock = LedgerLock::take(&self.disk, &self.paths)?;
        let torn = self.read_on(lock.least_bytes()?)?;
        let (entry, answer) = decide(&self.lines.spending);
        if let Some(entry) = entry {
            self.append(entry, torn)?;
            lock.pin(self.lines.bytes)?;
        }
        Ok(answer)
    }

    fn append(&mut self, entry: SpendingEntry, torn: bool) -> Result<(), StateError> {
        let path = self.paths.ledger();
        let failed = || StateError::io("write", &path);
        let record = LedgerRecord::Entry(entry.clone());
        let (line, code) = sign_record(&self.key, &self.lines.code, record, &path)?;
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(private_open_flags());
        let file = self.disk.open_regular(&path, &options).map_err(failed())?;
        if torn {
            file.set_len(self.lines.bytes).map_err(failed())?;
        }
        (&file).write_all(line.as_bytes()).and_then(|()| file.sync_data()).map_err(failed())?;
        self.lines.bytes = self.lines.bytes.saturating_add(line.len() as u64);
        self.lines.count = self.lines.count.saturating_add(1);
        self.lines.code = code;
        self.lines.spending.apply(entry);
        Ok(())
    }

    /// Reads from where it was read to. Returns whether a line follows that a crash has cut short, or that another process
    /// is about to write.
    fn read_on(&mut self, least: u64) -> Result<bool, StateError> {
        let path = self.paths.ledger();
        let failed = || StateError::io("read", &path);
        let file = match self.disk.open_regular(&path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.paths.damaged("was removed"));
            }
            Err(error) => return Err(failed()(error)),
        };
        let bytes = file.inner().metadata().map_err(failed())?.len();
        if bytes < least.max(self.lines.bytes) {
            return Err(self.paths.damaged("is shorter than it was"));
        }
        let mut inner = file.inner();
        inner.seek(SeekFrom::Start(self.lines.bytes)).map_err(failed())?;
        let mut added = Vec::new();
        (&file).read_to_end(&mut added).map_err(failed())?;
        let mut rest = added.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end.saturating_add(1));
            self.read_line(line)?;
            rest = after;
        }
        // Whole lines that were there are not torn.
        if self.lines.bytes < least || self.lines.count == 0 {
            return Err(self.paths.damaged("has lost its end"));
        }
        Ok(!rest.is_empty())
    }

    fn read_line(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let number = self.lines.count.saturating_add(1);
        let damaged = |problem: &str| self.paths.damaged(&format!("line {number} {problem}"));
        let line = std::str::from_utf8(bytes).ok().and_then(|line| line.strip_suffix('\n'));
        let (line, code) = line
            .and_then(|line| Some((line, verify(&self.key, line)?)))
            .ok_or_else(|| damaged("is not as it was written"))?;
        let chained: ChainedRecord =
            serde_json::from_str(line).map_err(|_| damaged("is of a newer version"))?;
        if chained.prev != self.lines.code {
            return Err(damaged("does not follow the one before it"));
        }
        match chained.record {
            LedgerRecord::LedgerStarted { version } if version > FORMAT_VERSION => {
                return Err(damaged("is of a newer version"));
            }
            LedgerRecord::LedgerStarted { .. } => {}
            LedgerRecord::Entry(entry) => self.lines.spending.apply(entry),
        }
        code.clone_into(&mut self.lines.code);
        self.lines.bytes = self.lines.bytes.saturating_add(bytes.len() as u64);
        self.lines.count = number;
        Ok(())
    }
}

/// Returns the key of the ledger; `None` if there is no ledger, or only one that a crash kept from being begun.
fn find_key(disk: &Disk, paths: &LedgerPaths) -> Result<Option<Key>, StateError> {
    let key = Key::read(disk, &paths.key())?;
    if key.is_none()
        && let Some(content) = disk.read_if_exists(&paths.ledger(), usize::MAX)?
        && content.iter().filter(|byte| **byte == b'\n').count() > 1
    {
        return Err(paths.damaged("has lost its key (ledger.key)"));
    }
    Ok(key)
}

/// Creates the ledger with its first line, then the key without which that counts for nothing.
fn create(disk: &Disk, paths: &LedgerPaths) -> Result<Key, StateError> {
    let path = paths.ledger();
    let new_key = paths.folder.join("ledger.key.new");
    let key = Key::create(disk, &new_key)?;
    let record = LedgerRecord::LedgerStarted { version: FORMAT_VERSION };
    let (line, _) = sign_record(&key, START, record, &path)?;
    disk.write_private(&path, line.as_bytes())?;
    disk.rename(&new_key, &paths.key()).map_err(StateError::io("write", &paths.key()))?;
    disk.sync_folder(&paths.folder).map_err(StateError::io("sync", &paths.folder))?;
    Ok(key)
}

fn sign_record(
    key: &Key,
    prev: &str,
    record: LedgerRecord,
    path: &Path,
) -> Result<(String, String), StateError> {
    let chained = ChainedRecord { prev: prev.to_owned(), record };
    let object = serde_json::to_string(&chained)
        .map_err(|error| StateError::io("write", path)(io::Error::other(error)))?;
    let (line, code) = sign(key, &object);
    Ok((line + "\n", code))
}

/// The lock of the ledger, whose file says how long the ledger is at least.
struct LedgerLock {
    file: File,
    path: PathBuf,
}

impl LedgerLock {
    fn take(disk: &Disk, paths: &LedgerPaths) -> Result<Self, StateError> {
        let path = paths.lock();
        if paths.folder.symlink_metadata().is_err() {
            return Err(paths.damaged("was removed"));
        }
        let file = lock::open(disk, &path)?;
        let began = Instant::now();
        loop {
            match file.inner().try_lock() {
                Ok(()) => return Ok(Self { file, path }),
                Err(fs::TryLockError::WouldBlock) if began.elapsed() < LONGEST_LOCK => {
                    std::thread::sleep(LOCK_RETRY);
                }
                Err(error) => return Err(StateError::io("lock", &path)(error.into())),
            }
        }
    }

    fn least_bytes(&self) -> Result<u64, StateError> {
        let mut text = [0; DIGITS];
        let read = self.file.inner().read_at(&mut text, 0);
        let read = read.map_err(StateError::io("read", &self.path))?;
        Ok(parse_bytes(text.get(..read).unwrap_or_default()))
    }

    fn pin(&self, bytes: u64) -> Result<(), StateError> {
        let text = format!("{bytes:0DIGITS$}");
        let written = self.file.inner().write_all_at(text.as_bytes(), 0);
        written.map_err(StateError::io("write", &self.path))
    }
}

/// Returns the least length; without one that can be read, none is known.
fn parse_bytes(text: &[u8]) -> u64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
