//! The paths that an agent's own tools must not write.

use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{normalize_lexically, real_path};

use super::globs::{GlobError, PathGlobs};

/// A name that no pattern spells out: a glob that matches it matches anything there.
const ANY: &str = "\u{1}";

/// Paths that must not be written: what validators protect in the workspace, and places of the
/// orchestrator's own.
#[derive(Debug)]
pub struct GuardedPaths {
    workspace: PathBuf,
    globs: PathGlobs,
    paths: Vec<PathBuf>,
}

impl GuardedPaths {
    /// Guards what the globs, relative to the workspace, match, and these paths with all beneath them.
    ///
    /// # Errors
    /// Returns the first glob that cannot be used.
    pub fn new(workspace: &Path, globs: &[String], paths: &[PathBuf]) -> Result<Self, GlobError> {
        Ok(Self {
            workspace: workspace.to_owned(),
            globs: PathGlobs::new(globs)?,
            paths: paths.to_vec(),
        })
    }

    /// Whether this absolute path, or where it leads, must not be written. A folder all of whose
    /// content is guarded is guarded itself. Links are looked up as they are now.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        let plain = normalize_lexically(path);
        let (real, workspace) = (real_path(&plain), real_path(&self.workspace));
        let protected = |path: &Path, workspace: &Path| {
            path.strip_prefix(workspace)
                .is_ok_and(|path| self.globs.matches(path) || self.globs.matches(&path.join(ANY)))
        };
        let ours =
            |guarded: &PathBuf| plain.starts_with(guarded) || real.starts_with(real_path(guarded));
        protected(&plain, &self.workspace)
            || protected(&plain, &workspace)
            || protected(&real, &workspace)
            || self.paths.iter().any(ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_a_guarded_path_is_guarded() {
        let temp = tempfile::tempdir().unwrap();
        let ws = temp.path().join("ws");
        std::fs::create_dir_all(ws.join("tests")).unwrap();
        std::fs::create_dir(temp.path().join("state")).unwrap();
        std::os::unix::fs::symlink(ws.join("tests"), ws.join("link")).unwrap();
        std::os::unix::fs::symlink(temp.path(), temp.path().join("root")).unwrap();
        let globs = ["tests/**".to_owned(), "*.lock".to_owned()];
        let ours = [temp.path().join("state"), ws.join("ralph.toml")];
        let guard = GuardedPaths::new(&ws, &globs, &ours).unwrap();
        for guarded in [
            "tests/a.py",
            "tests/new/b.py",
            "tests",
            "./src/../tests/a.py",
            "link/a.py",
            "Cargo.lock",
            "../ws/tests/a.py",
            "../state/runs/x",
            "../state",
            "ralph.toml",
            "../root/state/key",
        ] {
            assert!(guard.contains(&ws.join(guarded)), "{guarded}");
        }
        for free in ["src/a.py", "tests2/a", "sub/Cargo.lock", "../state2", "", "..", "ralph.toml2"]
        {
            assert!(!guard.contains(&ws.join(free)), "{free}");
        }
        assert!(guard.contains(&temp.path().join("root/ws/tests/a.py")));
    }
}
