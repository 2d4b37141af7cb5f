//! Where the paths lead that a check goes through: a folder that became a link, or a link that was led elsewhere,
//! makes `app/../ci/check.sh` another file, although no protected one was touched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::{Change, ChangeKind};
use ralph_orchestrator_safe_fs::normalize_lexically;

use super::Baseline;

/// How many folders above a path are looked at for the sign of an environment of Python.
const MAX_ABOVE: usize = 3;
/// The sign.
const ENVIRONMENT: &str = "pyvenv.cfg";
/// Where the dependencies of JavaScript lie.
const MODULES: &str = "node_modules";

impl Baseline {
    /// Remembers where these paths lead, which are absolute and as they are written: all folders, and files that are
    /// protected or lie outside of the workspace. A path that leads nowhere yet shall lead where it would without
    /// links. Dependencies are the agent's to install.
    pub fn add_passed(&mut self, workspace: &Path, paths: impl IntoIterator<Item = PathBuf>) {
        for path in paths {
            let Ok(real) =
                path.canonicalize().or_else(|_| normalize_lexically(&path).canonicalize())
            else {
                continue;
            };
            if path != workspace && self.is_fixed(workspace, &path, &real) {
                let real = real.strip_prefix(workspace).unwrap_or(&real).to_owned();
                self.passed.insert(relative(workspace, &path), real);
            }
        }
    }

    fn is_fixed(&self, workspace: &Path, path: &Path, real: &Path) -> bool {
        let plain = normalize_lexically(path);
        let inside = real.strip_prefix(workspace).ok();
        let is_protected = inside.is_some_and(|inside| {
            let first = self.paths.range(inside.to_owned()..).next();
            first.is_some_and(|(path, _)| path.starts_with(inside))
        });
        if is_protected {
            return true;
        }
        let concerns = match inside {
            Some(_) => real.is_dir() && !self.paths.is_empty(),
            None => plain.starts_with(workspace) || real.is_dir(),
        };
        concerns && !is_dependency(&plain, workspace) && !is_dependency(real, workspace)
    }

    /// Returns which of these paths lead elsewhere than remembered. One stands for all that begin with it; what leads
    /// nowhere does no harm.
    #[must_use]
    pub fn passed_changes(&self, workspace: &Path, paths: &[PathBuf]) -> Vec<Change> {
        let mut changed = BTreeSet::new();
        for path in paths {
            let name = relative(workspace, path);
            let Some(before) = self.passed.get(&name) else { continue };
            let is_other = |real: PathBuf| real != workspace.join(before);
            if path.canonicalize().is_ok_and(is_other) {
                changed.insert(name);
            }
        }
        let mut changes: Vec<Change> = Vec::new();
        for path in changed {
            if !changes.iter().any(|change| path.starts_with(&change.path)) {
                changes.push(Change { path, kind: ChangeKind::Redirected });
            }
        }
        changes
    }
}

fn relative(workspace: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(workspace).unwrap_or(path).to_owned()
}

/// Whether a path lies in a folder of dependencies.
fn is_dependency(path: &Path, workspace: &Path) -> bool {
    let mut above =
        path.ancestors().take(MAX_ABOVE).filter(|folder| !workspace.starts_with(folder));
    path.components().any(|name| name.as_os_str() == MODULES)
        || above.any(|folder| folder.join(ENVIRONMENT).exists())
}
