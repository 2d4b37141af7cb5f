//! Runs of this workspace that a start does not find any more, because a path of theirs is another now.

use std::path::Path;

use crate::machine::FilePin;
use crate::store::{Owner, StateDir, state_dirs};

/// What to say, before a run begins, of runs that belong to a configuration of this workspace that is
/// gone, or to this very folder when it had another path. `own` is whose the run that begins is.
pub(super) fn notes(states: &Path, own: &Owner, folder: FilePin) -> Vec<String> {
    let others = state_dirs(states).into_iter().filter(|state| !state.owner.is_same(own));
    others.filter_map(|state| note(&state, own, folder)).collect()
}

fn note(state: &StateDir, own: &Owner, folder: FilePin) -> Option<String> {
    let (workspace, configuration) = (state.owner.workspace()?, state.owner.configuration());
    let what = if Some(&workspace) == own.workspace().as_ref() {
        let configuration = configuration.filter(|file| !file.exists())?;
        format!("of the configuration {}, which is no longer there", configuration.display())
    } else if state.owner.folder() == Some(folder) && !workspace.exists() {
        format!("from when this workspace was {}", workspace.display())
    } else {
        return None;
    };
    let run = state.run()?;
    Some(format!(
        "there is run {run} {what}; put that back to resume it. This is a run of its own (state of the \
         other: {})",
        state.layout.root().display()
    ))
}
