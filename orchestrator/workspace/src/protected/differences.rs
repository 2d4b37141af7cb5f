//! What of a baseline is not as in one that was taken before, and what has it carried on.

use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::Change;

use super::{Baseline, ProtectedError};

/// What is different in a later baseline.
#[derive(Debug, Default)]
pub struct Differences {
    /// What was protected in both.
    pub changes: Vec<Change>,
    /// Reserved globs that something matches now.
    pub appeared: Vec<String>,
    /// Paths that checks go through and that lead elsewhere.
    pub redirected: Vec<PathBuf>,
    /// Files outside of the workspace.
    pub outside: Vec<PathBuf>,
}

impl Differences {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.appeared.is_empty()
            && self.redirected.is_empty()
            && self.outside.is_empty()
    }
}

impl Baseline {
    /// Returns what is different in one that was taken of this workspace now, as far as these globs go that both were taken of.
    ///
    /// # Errors
    /// If a glob is wrong.
    pub fn differences(
        &self,
        workspace: &Path,
        now: &Self,
        globs: &[String],
    ) -> Result<Differences, ProtectedError> {
        let appeared = self.reserved.difference(&now.reserved).cloned().collect();
        // A path that leads to nothing protected now is one that the later baseline does not have.
        let moved = self.passed.iter().filter(|(path, real)| {
            let leads_to = workspace.join(path).canonicalize();
            leads_to.is_ok_and(|now| now != workspace.join(real))
        });
        Ok(Differences {
            changes: self.changes(now, globs)?,
            appeared,
            redirected: moved.map(|(path, _)| path.clone()).collect(),
            outside: self.list_changed_outside(),
        })
    }

    /// Makes it what it was `before`, as far as these differences go.
    pub fn carry_on(&mut self, before: &Self, differences: &Differences) {
        for Change { path, .. } in &differences.changes {
            match before.paths.get(path) {
                Some(state) => drop(self.paths.insert(path.clone(), state.clone())),
                None => drop(self.paths.remove(path)),
            }
        }
        self.reserved.extend(differences.appeared.iter().cloned());
        let passed = differences.redirected.iter().filter_map(|it| before.passed.get_key_value(it));
        self.passed.extend(passed.map(|(path, real)| (path.clone(), real.clone())));
        let outside = differences.outside.iter().filter_map(|it| before.outside.get_key_value(it));
        self.outside.extend(outside.map(|(path, state)| (path.clone(), state.clone())));
    }
}
