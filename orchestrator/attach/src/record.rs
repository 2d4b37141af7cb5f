//! What is stored of a session: its goal, to which session it belongs, and what it has used of its limits.

use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_safe_fs::read_if_exists;
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_supervisor::ProcessId;
use ralph_orchestrator_workspace::state_dir_name_of_link;
use serde::{Deserialize, Serialize};

use super::transcript::TranscriptPosition;

/// The version of the format.
const VERSION: u32 = 1;
/// How often a session is blocked unless somebody says otherwise.
pub(crate) const MAX_BLOCKS: u64 = 20;
/// Longer than any record.
const LONGEST: usize = 1 << 20;
/// Records of sessions that nobody uses are removed after this time.
const KEPT: jiff::SignedDuration = jiff::SignedDuration::from_hours(7 * 24);

/// A session that may not end as done before the validators accept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    version: u32,
    /// The configuration file.
    pub(crate) config: PathBuf,
    /// The workspace, without links.
    pub(crate) workspace: PathBuf,
    /// What shall be reached; without one, the task of the configuration.
    pub(crate) goal: Option<String>,
    /// Where the run's state is, if not where the configuration says.
    pub(crate) state: Option<PathBuf>,
    /// Every stop is checked. Otherwise only one with a claim is, and every one after it.
    pub(crate) is_armed: bool,
    /// When it was armed, or began.
    pub(crate) since: Timestamp,
    /// When the session is let go whatever the validators say.
    pub(crate) until: Option<Timestamp>,
    /// How often it may be blocked.
    pub(crate) max_blocks: u64,
    /// How often it was.
    pub(crate) blocks: u64,
    /// The session that it is for; the first that asks, if there is none yet.
    pub(crate) session: Option<BoundSession>,
    /// What the person typed last, cut.
    pub(crate) prompt: String,
    /// The session has been told its goal.
    pub(crate) is_announced: bool,
    /// What was counted of its transcript.
    pub(crate) counted: TranscriptPosition,
}

/// A session of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundSession {
    /// The agent's name for it.
    pub(crate) id: String,
    /// The agent's process.
    pub(crate) process: Option<ProcessId>,
}

impl BoundSession {
    /// Whether both are the same session, by its name or as the same process.
    fn is(&self, other: &Self) -> bool {
        self.id == other.id || (self.process.is_some() && self.process == other.process)
    }
}

impl SessionRecord {
    pub(crate) fn new(config: PathBuf, workspace: PathBuf) -> Self {
        Self {
            version: VERSION,
            config,
            workspace,
            goal: None,
            state: None,
            is_armed: false,
            since: Timestamp::now(),
            until: None,
            max_blocks: MAX_BLOCKS,
            blocks: 0,
            session: None,
            prompt: String::new(),
            is_announced: false,
            counted: TranscriptPosition::default(),
        }
    }

    /// Returns whether it is bound to a session of this name.
    pub(crate) fn is_named(&self, session: &BoundSession) -> bool {
        self.session.as_ref().is_some_and(|bound| bound.id == session.id)
    }

    /// Returns whether this session is the one that is meant: by its name, as the same process, or because there is
    /// none yet, or none that lives.
    pub(crate) fn belongs_to(&self, session: &BoundSession) -> bool {
        let Some(bound) = &self.session else { return true };
        bound.is(session) || bound.process.as_ref().is_some_and(|process| !process.is_alive())
    }
}

/// The folder of these records, in the user's folder for state.
pub(crate) struct SessionRecords {
    folder: PathBuf,
}

/// A record and where it is stored.
pub(crate) struct StoredSession {
    pub(crate) path: PathBuf,
    pub(crate) record: SessionRecord,
}

impl SessionRecords {
    pub(crate) fn new(state_home: &Path) -> Self {
        Self { folder: states_dir(state_home).join("sessions") }
    }

    /// Where the goal of a workspace is stored.
    pub(crate) fn armed_path(&self, workspace: &Path) -> PathBuf {
        self.folder.join(format!("{}.json", state_dir_name_of_link(workspace)))
    }

    /// Where a session of a workspace is stored that has no goal.
    pub(crate) fn session_path(&self, workspace: &Path, session: &str) -> PathBuf {
        let key = blake3::hash(session.as_bytes()).to_hex();
        let name = state_dir_name_of_link(workspace);
        self.folder.join(format!("{name}-{}.json", key.get(..16).unwrap_or_default()))
    }

    /// Returns the record of this session, wherever it works by now, or else that of the innermost folder that has one
    /// for it.
    ///
    /// # Errors
    /// A record of these folders cannot be read.
    pub(crate) fn find(
        &self,
        cwd: &Path,
        session: &BoundSession,
    ) -> Result<Option<StoredSession>, CommandError> {
        let bound = self.find_bound(session);
        let (with_goal, without): (Vec<_>, Vec<_>) =
            bound.into_iter().partition(|stored| stored.record.goal.is_some());
        let (by_name, by_process): (Vec<_>, Vec<_>) =
            with_goal.into_iter().partition(|stored| stored.record.is_named(session));
        if let Some(stored) = by_name.into_iter().next() {
            return Ok(Some(stored));
        }
        // A goal that was set since, or for another session of the same process.
        if let Some(stored) = self.find_in(cwd, session, |folder| self.armed_path(folder))? {
            return Ok(Some(stored));
        }
        let rank =
            |stored: &StoredSession| (stored.record.is_named(session), stored.record.is_armed);
        match by_process.into_iter().next().or_else(|| without.into_iter().max_by_key(rank)) {
            Some(stored) => Ok(Some(stored)),
            None => self.find_in(cwd, session, |folder| self.session_path(folder, &session.id)),
        }
    }

    fn find_in(
        &self,
        cwd: &Path,
        session: &BoundSession,
        path: impl Fn(&Path) -> PathBuf,
    ) -> Result<Option<StoredSession>, CommandError> {
        for path in cwd.ancestors().map(path) {
            if let Some(record) = read(&path)?
                && record.belongs_to(session)
            {
                return Ok(Some(StoredSession { path, record }));
            }
        }
        Ok(None)
    }

    /// Returns the records of a session, wherever it works: by its name, or by its process as well where every stop is
    /// checked. One that cannot be read may be any session's.
    fn find_bound(&self, session: &BoundSession) -> Vec<StoredSession> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let records = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let stored = records.filter_map(|path| {
            let record = read(&path).ok().flatten()?;
            Some(StoredSession { path, record })
        });
        let is_bound = |stored: &StoredSession| {
            let record = &stored.record;
            let bound = record.session.as_ref();
            record.is_named(session)
                || (record.is_armed && bound.is_some_and(|bound| bound.is(session)))
        };
        stored.filter(is_bound).collect()
    }

    /// Takes the lock of all records until the file is dropped.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn lock(&self) -> Result<File, CommandError> {
        let disk = Disk::default();
        std::fs::create_dir_all(&self.folder)?;
        let path = self.folder.join("lock");
        if !path.exists() {
            disk.write_private(&path, b"")?;
        }
        let lock = File::options().write(true).open(&path)?;
        lock.lock()?;
        Ok(lock)
    }

    /// Removes the records and the states of sessions without a goal that are long over.
    pub(crate) fn remove_old(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let Ok(Some(record)) = read(&path) else { continue };
            let is_old = Timestamp::now().duration_since(record.since) > KEPT;
            if record.goal.is_none() && is_old {
                remove(&path, &record);
            }
        }
    }
}

impl StoredSession {
    /// Stores the record, whole or not at all.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn write(&self) -> Result<(), CommandError> {
        let bytes = serde_json::to_vec_pretty(&self.record).map_err(CommandError::internal)?;
        Ok(Disk::default().write_private(&self.path, &bytes)?)
    }

    /// Removes it: the session is no longer checked.
    pub(crate) fn remove(&self) {
        remove(&self.path, &self.record);
    }
}

fn remove(path: &Path, record: &SessionRecord) {
    drop(std::fs::remove_file(path));
    // Only a state of its own, which lies beside the record.
    if let Some(state) = record.state.as_deref().filter(|state| state.parent() == path.parent()) {
        drop(std::fs::remove_dir_all(state));
    }
}

/// Returns a record, if it is there.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read(path: &Path) -> Result<Option<SessionRecord>, CommandError> {
    let unreadable = |problem: String| {
        CommandError::user(format!("{}: {problem}", path.display())).hinted(
            "delete this file if no session shall be checked; `hook arm` writes another one",
        )
    };
    let bytes = read_if_exists(path, LONGEST).map_err(|error| unreadable(error.to_string()))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let record: SessionRecord =
        serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
    if record.version != VERSION {
        let problem = format!("has version {}, expected {VERSION}", record.version);
        return Err(unreadable(problem));
    }
    Ok(Some(record))
}
