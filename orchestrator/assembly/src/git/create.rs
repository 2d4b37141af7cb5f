//! A new repository, where a preset needs one and there is none.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_git::{GitExit, GitRequest, RunGit as _};
use ralph_orchestrator_supervisor::Supervisor;
use tokio::runtime::Handle;

use super::process::{SupervisedGit, blocking, environment};
use crate::block_on::block_on;
use crate::error::CommandError;
use crate::user_folders::variables;

const MOST_OUTPUT: usize = 64 << 10;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes a repository without a commit in a folder.
///
/// # Errors
/// git is missing, or what it says.
pub fn create_repository(folder: &Path) -> Result<(), CommandError> {
    // The process is started from elsewhere.
    let folder = folder.canonicalize()?;
    block_on(async move {
        let runtime = Handle::current();
        blocking(move || create(folder, runtime)).await?.map_err(|problem| {
            CommandError::user(format!("cannot make a git repository: {problem}"))
        })
    })
}

fn create(directory: PathBuf, runtime: Handle) -> Result<(), String> {
    let vars = variables();
    let git = SupervisedGit::find(
        Supervisor::this_binary(),
        &vars,
        std::slice::from_ref(&directory),
        runtime,
    )?;
    let request = GitRequest {
        arguments: ["init", "--quiet"].map(Into::into).to_vec(),
        directory,
        environment: environment(&vars),
        stdin: Vec::new(),
        max_output: MOST_OUTPUT,
        timeout: TIMEOUT,
        confined_to: None,
    };
    let output = git.run_git(&request).map_err(|error| error.to_string())?;
    match output.exit {
        GitExit::Status(0) => Ok(()),
        _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
