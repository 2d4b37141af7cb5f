//! The files that agents read, pinned to what they were when the run first needed them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::Iteration;
use ralph_orchestrator_store::{Layout, StateError, Store};
use ralph_orchestrator_workspace::{PinRecord, PinnedFile};
use serde::{Deserialize, Serialize};

use super::agents::AgentPool;
use super::error::EngineError;

/// Options whose values are files that the agent reads, in the command lines of well-known agents.
const FILE_OPTIONS: [&str; 2] = ["--mcp-config", "--settings"];

/// The files that agents read, by the names of the agents.
#[derive(Debug, Default)]
pub(super) struct AgentInputs(Option<BTreeMap<String, Vec<PinnedFile>>>);

/// What is stored of them with the run.
#[derive(Serialize, Deserialize)]
struct StoredInputs {
    /// The run they belong to.
    run: String,
    files: Vec<PinRecord>,
}

impl AgentInputs {
    /// Restores the files that the current agent reads. Returns those that were changed since they were
    /// first needed in this run, by whichever start of it.
    pub(super) fn put_back(
        &mut self,
        agents: &AgentPool,
        agent: &str,
        task: &Iteration,
        config_dir: &Path,
        store: &mut Store,
    ) -> Result<Vec<String>, EngineError> {
        let inputs = match self.0.take() {
            Some(inputs) => inputs,
            None => pin_all(agents, task, config_dir, store)?,
        };
        let inputs = self.0.insert(inputs);
        let mut changed = Vec::new();
        for file in inputs.get_mut(agent).into_iter().flatten() {
            let path = file.path().display().to_string();
            let put_back =
                file.restore_if_changed().map_err(|error| cannot_put_back(&path, agent, &error))?;
            if put_back {
                changed.push(path);
            }
        }
        Ok(changed)
    }

    /// Returns the files that this agent reads.
    pub(super) fn of(&self, agent: &str) -> impl Iterator<Item = &PinnedFile> {
        self.0.iter().filter_map(|inputs| inputs.get(agent)).flatten()
    }
}

fn cannot_put_back(path: &str, agent: &str, error: &std::io::Error) -> EngineError {
    EngineError::Workspace(format!(
        "{path}, which the agent `{agent}` reads, was changed and cannot be put back: {error}; \
         nothing is started with it"
    ))
}

/// PathIdentities the files that each agent reads: to what is stored with the run, or else to what they are now,
/// which is then stored.
fn pin_all(
    agents: &AgentPool,
    task: &Iteration,
    config_dir: &Path,
    store: &mut Store,
) -> Result<BTreeMap<String, Vec<PinnedFile>>, EngineError> {
    let mut stored = read_stored(store, &task.run)?;
    let known: BTreeSet<PathBuf> = stored.iter().filter_map(PinRecord::path).collect();
    let mut all = BTreeMap::new();
    for one in agents.all() {
        let configured =
            one.configured.config.inputs.iter().map(|path| (config_dir.join(path), true));
        let launch = one.configured.agent.launch(task).unwrap_or_default();
        let named = files_in(&launch.argv);
        let named = named.into_iter().map(|path| (task.workspace.join(path), false));
        let mut files: Vec<PinnedFile> = Vec::new();
        for (path, needed) in configured.chain(named) {
            if files.iter().any(|file| file.path() == path) {
                continue;
            }
            let record = stored.iter().find(|record| record.path().as_ref() == Some(&path));
            if let Some(record) = record {
                let shown = path.display().to_string();
                let pinned = PinnedFile::from_record(record);
                files.push(pinned.map_err(|error| cannot_put_back(&shown, &one.name, &error))?);
            } else if let Some(file) = pin(&path, needed)? {
                stored.push(file.to_record());
                files.push(file);
            }
        }
        all.insert(one.name.clone(), files);
    }
    if stored.len() > known.len() {
        let stored = StoredInputs { run: task.run.clone(), files: stored };
        let object = serde_json::to_string(&stored)
            .map_err(|error| EngineError::Internal(error.to_string()))?;
        // Such files often have keys in them.
        store.write_sealed_file(Layout::INPUTS, &object)?;
    }
    Ok(all)
}

fn read_stored(store: &Store, run: &str) -> Result<Vec<PinRecord>, EngineError> {
    let Some(object) = store.read_signed_file(Layout::INPUTS)? else { return Ok(Vec::new()) };
    let damaged = |problem: String| StateError::Damaged { path: store.layout().run(run), problem };
    let stored: StoredInputs = serde_json::from_str(&object)
        .map_err(|error| damaged(format!("inputs.json is not what was written: {error}")))?;
    if stored.run != run {
        return Err(damaged(format!("inputs.json belongs to the run {}", stored.run)).into());
    }
    Ok(stored.files)
}

/// PathIdentities a file as it is now; `None` if it is not needed and cannot be pinned.
fn pin(path: &Path, needed: bool) -> Result<Option<PinnedFile>, EngineError> {
    let problem = match PinnedFile::pin(path) {
        Ok(Some(file)) => return Ok(Some(file)),
        // The agent reports it.
        Ok(None) | Err(_) if !needed => return Ok(None),
        Ok(None) => ", named in [agent] inputs, is not there".to_owned(),
        Err(error) => format!(", named in [agent] inputs: {error}"),
    };
    Err(EngineError::Workspace(format!("{}{problem}", path.display())))
}

/// Returns the files that a command line names. Such options take JSON as well, and some several values.
fn files_in(argv: &[String]) -> Vec<&str> {
    let mut files = Vec::new();
    let mut open = false;
    for word in argv {
        let option = word.split_once('=').map_or(word.as_str(), |(option, _)| option);
        let value = if FILE_OPTIONS.contains(&option) {
            open = true;
            word.split_once('=').map(|(_, value)| value)
        } else if word.starts_with('-') {
            open = false;
            None
        } else {
            Some(word.as_str()).filter(|_| open)
        };
        files.extend(value.filter(|value| !value.trim_start().starts_with('{')));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::files_in;

    #[test]
    fn files_of_options_are_found_and_json_is_none() {
        let argv = "-p --settings a.json --mcp-config b.json c/d.json --mcp-config={\"x\":1} \
                    --settings=e --model x last";
        let argv: Vec<String> = argv.split_whitespace().map(str::to_owned).collect();
        assert_eq!(files_in(&argv), ["a.json", "b.json", "c/d.json", "e"]);
    }
}
