//! Puts the files of steps, solutions and tests where they belong.

use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::real_path;

use super::copy::{CopyRules, clear_way, copy_tree, create_folder, replace_by_copy, set_mode};
use super::model::{FileCopy, Oracle, Step, Task, Verification};
use super::problem::TreeError;
use super::stage::StagedEnvironment;
use super::tree::find_plain;

impl Task {
    /// Puts the files of a step into the work directory, over what is there. Returns whether the step has a script
    /// `setup.sh`, which is then in the work directory and has to be run there by `bash`.
    ///
    /// # Errors
    /// Returns an error if a file is unsafe or cannot be copied.
    pub fn install_step_files(
        &self,
        step: &Step,
        staged: &StagedEnvironment,
    ) -> Result<bool, TreeError> {
        let Some(files) = &step.workdir_files else { return Ok(false) };
        let rules = CopyRules { replace: true, ..CopyRules::default() };
        copy_tree(files, &clear_workdir(staged)?, rules)?;
        Ok(find_plain(&files.join("setup.sh"))?.is_some())
    }

    /// Copies the tests of a step, once the agent has ended. Those of a script come into the folder `into`, which is
    /// created, must not exist, and is returned: it is what `/tests` is mounted from. Others come into the work
    /// directory, over what the agent made of them.
    ///
    /// # Errors
    /// Returns an error if a file is unsafe or cannot be copied, or `into` exists.
    pub fn install_tests(
        &self,
        step: &Step,
        staged: &StagedEnvironment,
        into: &Path,
    ) -> Result<Option<PathBuf>, TreeError> {
        match &step.verification {
            Verification::Script { folders, files, script, .. }
                if !folders.is_empty() || !files.is_empty() =>
            {
                let of_image = staged.find_covered("/tests").map(Path::to_owned);
                let folders: Vec<PathBuf> = of_image.into_iter().chain(folders.clone()).collect();
                install_scripts(&folders, files, script, into).map(Some)
            }
            Verification::Command { files, .. } => {
                install_files(files, &clear_workdir(staged)?)?;
                Ok(None)
            }
            Verification::Script { .. } | Verification::Validators { .. } => Ok(None),
        }
    }

    /// Copies the solution of a step. That of a script comes into the folder `into`, which is created, must not exist,
    /// and is returned: it is what `/solution` is mounted from. Others come into the work directory, which solves it.
    ///
    /// # Errors
    /// Returns an error if a file is unsafe or cannot be copied, or `into` exists.
    pub fn install_solution(
        &self,
        step: &Step,
        staged: &StagedEnvironment,
        into: &Path,
    ) -> Result<Option<PathBuf>, TreeError> {
        match &step.oracle {
            Some(Oracle::Script { folder, script }) => {
                let of_image = staged.find_covered("/solution").map(Path::to_owned);
                let folders: Vec<PathBuf> = of_image.into_iter().chain([folder.clone()]).collect();
                install_scripts(&folders, &[], script, into).map(Some)
            }
            Some(Oracle::Files(files)) => {
                install_files(files, &clear_workdir(staged)?)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }
}

/// Returns the work directory on this machine, once nothing on the way to it is a link of the agent's. The mount itself
/// cannot be one: the agent saw it as a mount.
fn clear_workdir(staged: &StagedEnvironment) -> Result<PathBuf, TreeError> {
    let workdir = host_workdir(staged)?;
    for mount in &staged.mounts {
        if let Ok(rest) = workdir.strip_prefix(&mount.folder) {
            clear_way(&mount.folder, rest, true)?;
        }
    }
    create_folder(&workdir)?;
    Ok(workdir)
}

/// Returns the work directory on this machine.
pub(super) fn host_workdir(staged: &StagedEnvironment) -> Result<PathBuf, TreeError> {
    let missing = || {
        let missing = std::io::Error::other("the work directory is in no mount");
        TreeError::from_io(Path::new(&staged.workdir), missing)
    };
    staged.host_path(".").ok_or_else(missing)
}

fn install_files(files: &[FileCopy], workdir: &Path) -> Result<(), TreeError> {
    files.iter().try_for_each(|file| replace_by_copy(&file.source, workdir, &file.target))
}

/// Copies folders and then files over each other, and makes the script executable.
fn install_scripts(
    folders: &[PathBuf],
    files: &[FileCopy],
    script: &Path,
    into: &Path,
) -> Result<PathBuf, TreeError> {
    let into = real_path(into);
    if find_plain(&into)?.is_some() {
        let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(TreeError::from_io(&into, exists));
    }
    for folder in folders {
        let rules = CopyRules { replace: true, ..CopyRules::default() };
        copy_tree(folder, &into, rules)?;
    }
    if !files.is_empty() {
        create_folder(&into)?;
        install_files(files, &into)?;
    }
    let script = into.join(script);
    if let Some(found) = find_plain(&script)? {
        set_mode(&script, found.mode | 0o111)?;
    }
    Ok(into)
}
