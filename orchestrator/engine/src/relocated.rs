//! Runs that a start does not find any more, because a path of theirs is another now.

use std::path::PathBuf;

use ralph_orchestrator_machine::FileIdentity;
use ralph_orchestrator_store::{Layout, Owner, StateDir, StateError, record_elsewhere, state_dirs};

use super::paths::{default_state_dir, find_moved_away};
use super::request::Request;

/// A run that is about to begin, for lack of one to resume.
pub(super) struct Beginning<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) layout: &'a Layout,
    pub(super) owner: &'a Owner,
    pub(super) folder: FileIdentity,
}

impl Beginning<'_> {
    /// Returns what to say of runs that belong to this configuration with another workspace or state
    /// directory, to a configuration of this workspace that is gone, or to this very folder when it had
    /// another path.
    ///
    /// # Errors
    /// [`StateError::Elsewhere`] if an agent can have changed where its own unfinished run is looked for.
    pub(super) fn notes(&self) -> Result<Vec<String>, StateError> {
        let mut notes = Vec::new();
        for state in state_dirs(&self.request.states()) {
            if state.layout == *self.layout {
                continue;
            }
            if let Some(note) = self.note_of_other_folder(&state) {
                notes.push(note);
                continue;
            }
            let key = self.changed_key(&state);
            if let Some(key) = key {
                // Whoever gives another place on the command line means it.
                if self.request.loaded.is_given_outside_files(key) {
                    continue;
                }
                self.verify(&state, key)?;
            }
            notes.extend(self.note(&state, key).or_else(|| self.note_of_moved(&state)));
        }
        Ok(notes)
    }

    /// Records where the state is, for those who look where it is by default. That it cannot be written
    /// there must not keep a run from beginning whose state is meant to be elsewhere.
    pub(super) fn record(&self) {
        let loaded = &self.request.loaded;
        if loaded.config.state.dir.is_some() {
            let default = default_state_dir(loaded, &self.request.state_home);
            let _ = record_elsewhere(&self.request.disk, &default, self.layout);
        }
    }

    /// The key of this configuration that makes the other run another.
    fn changed_key(&self, state: &StateDir) -> Option<&'static str> {
        let configuration = self.owner.configuration()?;
        if state.owner.configuration().as_ref() != Some(&configuration)
            || state.owner.task() != self.owner.task()
        {
            return None;
        }
        let is_here = state.owner.workspace() == self.owner.workspace();
        Some(if is_here { "state.dir" } else { "run.workspace" })
    }

    /// A file that the agent can write does not decide that what was spent is forgotten.
    fn verify(&self, state: &StateDir, key: &'static str) -> Result<(), StateError> {
        let (request, Some(run)) = (self.request, state.unfinished_run()) else { return Ok(()) };
        let (Some(configuration), Some(workspace)) =
            (self.owner.configuration(), state.owner.workspace())
        else {
            return Ok(());
        };
        if request.restart || !configuration.starts_with(&workspace) {
            return Ok(());
        }
        let state = state.layout.root().to_owned();
        Err(StateError::Elsewhere { configuration, run, state, workspace, key })
    }

    fn note(&self, state: &StateDir, changed_key: Option<&str>) -> Option<String> {
        let what = self.relation(state, changed_key)?;
        let run = state.run()?;
        Some(format!(
            "there is run {run} {what}; put that back to resume it. This is a run of its own (state of \
             the other: {})",
            state.layout.root().display()
        ))
    }

    fn note_of_other_folder(&self, state: &StateDir) -> Option<String> {
        let before = state.owner.folder().filter(|_| state.owner.is_same(self.owner))?;
        let run = state.run().filter(|_| !before.is_same(self.folder))?;
        Some(format!(
            "run {run} belongs to another folder that had this path, and stays with that; this is a run of its own"
        ))
    }

    fn note_of_moved(&self, state: &StateDir) -> Option<String> {
        let here = self.owner.workspace()?;
        let there = find_moved_away(&state.layout, &here)?;
        let run = state.run()?;
        Some(format!(
            "run {run} began in the folder that had this path and is {} now, and stays with that; this is a run of \
             its own",
            there.display()
        ))
    }

    fn relation(&self, state: &StateDir, changed_key: Option<&str>) -> Option<String> {
        let (workspace, configuration) = (state.owner.workspace()?, state.owner.configuration());
        let is_here = Some(&workspace) == self.owner.workspace().as_ref();
        if changed_key.is_some() {
            return Some(if is_here {
                "of this configuration with another `state.dir`".to_owned()
            } else {
                format!("of this configuration with the workspace {}", workspace.display())
            });
        }
        if is_here {
            let configuration: PathBuf = configuration.filter(|file| !file.exists())?;
            return Some(format!(
                "of the configuration {}, which is no longer there",
                configuration.display()
            ));
        }
        // One that lies in the workspace is found where that is now.
        let outside = state.owner.distinct_configuration()?;
        (state.owner.has_same_folder(self.owner)
            && !workspace.exists()
            && !outside.starts_with(&workspace)
            && !outside.exists())
        .then(|| {
            format!(
                "of the configuration {}, which is no longer there, from when this workspace was {}",
                outside.display(),
                workspace.display()
            )
        })
    }
}
