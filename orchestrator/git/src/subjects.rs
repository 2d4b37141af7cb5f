//! The subjects of the last commits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use crate::command::GitCommand;
use crate::error::Result;
use crate::repository::Repository;
use crate::run_git::RunGit;
use crate::special::refuse_special_files;

impl Repository {
    /// Returns the first lines of the messages of the last commits of HEAD, the newest first. Writes
    /// nothing. They come into a prompt, so they are read with no more rights than the agent's.
    ///
    /// # Errors
    ///
    /// Fails if there is no repository that git can read, or no commit.
    pub fn recent_subjects(
        workspace: &Path,
        git: &dyn RunGit,
        environment: &BTreeMap<OsString, OsString>,
        most: u32,
    ) -> Result<Vec<String>> {
        refuse_special_files(workspace)?;
        let log = GitCommand::new(workspace, environment)
            // It would start another program for each commit.
            .configure("log.showSignature", "false")
            .confined_to(Vec::new())
            .args(["log", "--no-color", "--format=%s"])
            .arg(format!("--max-count={most}"))
            .args(["HEAD", "--"]);
        let subjects = log.read(git)?;
        Ok(String::from_utf8_lossy(&subjects).lines().map(str::to_owned).collect())
    }
}
