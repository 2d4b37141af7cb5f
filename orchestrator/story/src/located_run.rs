//! A run, current or not, and the state directory that it lies in.

use ralph_orchestrator_store::{StateDir, list_runs};

/// A run of some state directory.
#[derive(Clone, Debug)]
pub struct LocatedRun {
    /// The state directory.
    pub state_dir: StateDir,
    /// The run's id.
    pub run: String,
    /// It is the run that its workspace has now.
    pub is_current: bool,
}

impl LocatedRun {
    /// Finds a run by its whole id in these state directories.
    pub fn find(run: &str, mut states: Vec<StateDir>) -> Option<Self> {
        let current = states.iter().position(|state| state.run().is_some_and(|own| own == run));
        let is_current = current.is_some();
        let has = |state: &StateDir| {
            list_runs(&state.layout).is_ok_and(|runs| runs.iter().any(|own| own == run))
        };
        let at = current.or_else(|| states.iter().position(has))?;
        Some(Self { state_dir: states.swap_remove(at), run: run.to_owned(), is_current })
    }

    /// Returns a run of a state directory.
    pub fn from_state_dir(state_dir: &StateDir, run: &str) -> Self {
        let is_current = state_dir.run().is_some_and(|own| own == run);
        Self { state_dir: state_dir.clone(), run: run.to_owned(), is_current }
    }
}
