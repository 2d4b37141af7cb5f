//! The tools whose calls are refused, and what the paths in a call mean.

use std::path::PathBuf;

/// Tools that write the file that an argument names, and the argument.
pub(super) const WRITERS: [(&str, &str); 4] = [
    ("Write", "file_path"),
    ("Edit", "file_path"),
    ("MultiEdit", "file_path"),
    ("NotebookEdit", "notebook_path"),
];
/// The tool that runs a line of a shell.
pub(crate) const SHELL: &str = "Bash";

/// What the paths in a call of a tool are relative to.
#[derive(Clone, Debug)]
pub(crate) struct PathContext {
    pub(crate) workspace: PathBuf,
    /// Its current folder.
    pub(crate) cwd: PathBuf,
    pub(crate) home: Option<PathBuf>,
}

impl PathContext {
    /// Returns the absolute path that a word of the agent's means.
    pub(super) fn resolve(&self, word: &str) -> PathBuf {
        match (word.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.cwd.join(word),
        }
    }
}
