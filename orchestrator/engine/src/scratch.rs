//! A private folder for the agent, outside the workspace and the state.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_store::StateError;

use super::error::EngineError;

/// The private folder of a run: made when it is first needed, empty at the start of each iteration, and
/// gone with the session.
#[derive(Debug, Default)]
pub struct ScratchDir {
    path: Option<PathBuf>,
}

impl ScratchDir {
    /// Returns the folder, empty.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn fresh(&mut self, run: &str) -> Result<&Path, EngineError> {
        if !self.path.as_deref().is_some_and(is_empty_dir) {
            self.remove();
            self.path = Some(make(run)?);
        }
        Ok(self.path.as_deref().unwrap_or(Path::new("")))
    }

    fn remove(&mut self) {
        if let Some(path) = self.path.take() {
            drop(fs::remove_dir_all(path));
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Creates a folder with a name that cannot be guessed: what cannot be emptied is left behind, and an agent
/// that knows the run could have created one with any other name. Its path has no link, whatever is put
/// in its place.
fn make(run: &str) -> Result<PathBuf, EngineError> {
    let above = std::env::temp_dir();
    let above = above.canonicalize().unwrap_or(above);
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| std::io::Error::other(error.to_string()))
        .map_err(StateError::io("make a folder in", &above))?;
    let path = above.join(format!("{}{:016x}", prefix(run), u64::from_ne_bytes(random)));
    let made = fs::DirBuilder::new().mode(0o700).create(&path);
    made.map_err(StateError::io("create", &path))?;
    Ok(path)
}

/// Returns whether this is a folder, not a link to one, with nothing in it.
fn is_empty_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
        && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

pub(super) fn prefix(run: &str) -> String {
    format!("ralph-{run}-")
}

/// Removes what killed orchestrators have left of the private folders of these runs. Only for who holds them, or
/// has deleted them.
pub fn remove_scratch_dirs(runs: &[String]) {
    let prefixes: Vec<String> = runs.iter().map(|run| prefix(run)).collect();
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn it_is_private_and_empty_whatever_was_done_to_it() {
        let run = format!("scratch-test-{}", std::process::id());
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("precious"), "x").unwrap();
        let mut scratch = ScratchDir::default();
        // An agent that knows the run creates what could be next.
        let guessed: Vec<PathBuf> =
            (0..9).map(|n| std::env::temp_dir().join(format!("{}{n}", prefix(&run)))).collect();
        guessed.iter().for_each(|path| fs::create_dir(path).unwrap());
        let first = scratch.fresh(&run).unwrap().to_owned();
        assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(scratch.fresh(&run).unwrap(), first, "nothing was done to it");
        fs::write(first.join("left"), "x").unwrap();
        let second = scratch.fresh(&run).unwrap().to_owned();
        assert!(is_empty_dir(&second) && !first.exists());
        fs::remove_dir(&second).unwrap();
        symlink(elsewhere.path(), &second).unwrap();
        let third = scratch.fresh(&run).unwrap().to_owned();
        assert!(is_empty_dir(&third) && fs::symlink_metadata(&second).is_err());
        fs::remove_dir(&third).unwrap();
        assert!(is_empty_dir(scratch.fresh(&run).unwrap()));
        assert!(elsewhere.path().join("precious").exists());
        let last = scratch.fresh(&run).unwrap().to_owned();
        drop(scratch);
        assert!(!last.exists());
        remove_scratch_dirs(&[run]);
        assert!(guessed.iter().all(|path| !path.exists()));
    }
}
