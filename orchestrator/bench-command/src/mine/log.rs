//! What became of commits, in a file beside the tasks that were made of them.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::{CommandError, ErrorKind};
use ralph_orchestrator_bench_run::mining::MiningOutcome;
use serde::{Deserialize, Serialize};

/// The file. A walk that comes again does not find out again what is in it.
pub(super) const FILE: &str = "mine.jsonl";
/// The version of its form.
const FORMAT: u32 = 1;

/// What decides what becomes of a commit, beside the commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MiningSettings {
    /// The version of the file's form.
    pub(super) format: u32,
    /// The command that runs the tests, where the user names one.
    pub(super) test: Option<String>,
    /// Whether, and how, dependencies are installed.
    pub(super) setup: String,
}

/// A line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct MinedCommit {
    commit: String,
    outcome: MiningOutcome,
}

/// The open file.
pub(super) struct MiningLog {
    file: File,
    path: PathBuf,
    known: BTreeMap<String, MiningOutcome>,
}

impl MiningSettings {
    pub(super) fn new(test: Option<String>, setup: String) -> Self {
        Self { format: FORMAT, test, setup }
    }
}

impl MiningLog {
    /// Opens the file in a folder, and reads what is in it. A line that was not written to its end is removed.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or was written with other settings.
    pub(super) fn open(folder: &Path, settings: &MiningSettings) -> Result<Self, CommandError> {
        let path = folder.join(FILE);
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(&path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        file.set_len(u64::try_from(whole).map_err(CommandError::internal)?)?;
        let mut lines = text.get(..whole).unwrap_or_default().lines().enumerate();
        let mut log = Self { file, path, known: BTreeMap::new() };
        match lines.next() {
            None => log.append(settings)?,
            Some((_, line)) => log.require_settings(line, settings)?,
        }
        for (at, line) in lines {
            let MinedCommit { commit, outcome } = log.parse(at, line)?;
            log.known.insert(commit, outcome);
        }
        Ok(log)
    }

    fn require_settings(&self, line: &str, now: &MiningSettings) -> Result<(), CommandError> {
        let before: MiningSettings = self.parse(0, line)?;
        if before == *now {
            return Ok(());
        }
        let message = format!(
            "{}: the tasks there were made with other values of `--test` or `--setup`: {line}",
            self.path.display()
        );
        Err(CommandError::user(message).hinted("`-o` names another folder for other tasks"))
    }

    fn parse<T: serde::de::DeserializeOwned>(
        &self,
        at: usize,
        line: &str,
    ) -> Result<T, CommandError> {
        serde_json::from_str(line).map_err(|error| {
            let message = format!("{}:{}: {error}", self.path.display(), at + 1);
            CommandError::new(ErrorKind::Damaged, message)
                .hinted("remove the line, and its commit is tried again")
        })
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), CommandError> {
        let mut text = serde_json::to_string(line).map_err(CommandError::internal)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        Ok(())
    }

    /// Returns what became of a commit in an earlier walk.
    pub(super) fn find(&self, commit: &str) -> Option<&MiningOutcome> {
        self.known.get(commit)
    }

    /// Records what became of a commit, unless another machine or another setting could change that.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn record(
        &mut self,
        commit: &str,
        outcome: &MiningOutcome,
    ) -> Result<(), CommandError> {
        if matches!(outcome, MiningOutcome::Dropped(reason) if !reason.is_final()) {
            return Ok(());
        }
        self.append(&MinedCommit { commit: commit.to_owned(), outcome: outcome.clone() })
    }
}
