//! The files that may steer checks, as they were when the run began: an accepted validation names what of them was changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use ralph_orchestrator_test_results::{SteeringChange, find_steering_changes, is_steering_file};
use ralph_orchestrator_workspace::TreeSnapshot;
use serde::{Deserialize, Serialize};

/// Files that are looked at.
const MOST_FILES: usize = 500;
/// Bytes of a file that is looked at.
const LONGEST_FILE: usize = 256 * 1024;
/// Changes that are named.
const MOST_NAMED: usize = 20;

/// The contents of steering files by path, relative to the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SteeringFiles {
    files: BTreeMap<String, String>,
}

impl SteeringFiles {
    /// Reads those of the work. One that cannot be read as text is left out.
    pub(super) fn read(workspace: &Path, work: &TreeSnapshot) -> Self {
        let paths = work.paths().filter_map(Path::to_str).filter(|path| is_steering_file(path));
        let files = paths.take(MOST_FILES).filter_map(|path| {
            let file = workspace.join(path);
            let bytes = read_file(&file, LONGEST_FILE, SymlinkPolicy::Refuse).ok()?;
            Some((path.to_owned(), String::from_utf8(bytes).ok()?))
        });
        Self { files: files.collect() }
    }

    /// Describes what steers checks in the differences to `now`.
    pub(super) fn describe_changes(&self, now: &Self) -> Vec<String> {
        let paths: BTreeSet<&String> = self.files.keys().chain(now.files.keys()).collect();
        let content = |files: &Self, path| files.files.get(path).cloned().map(String::into_bytes);
        let changes: Vec<SteeringChange> = paths
            .into_iter()
            .flat_map(|path| {
                let (base, now) = (content(self, path), content(now, path));
                find_steering_changes(path, base.as_deref(), now.as_deref())
            })
            .collect();
        let mut named: Vec<String> =
            changes.iter().take(MOST_NAMED).map(SteeringChange::describe).collect();
        if let Some(more) = changes.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
            named.push(format!("{more} more settings that steer the checks were changed"));
        }
        named
    }
}
