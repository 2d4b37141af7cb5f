//! What installs the dependencies of a project in the checkout that its checks run in.

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::probe::probe;
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_supervisor::find_program;

use super::lock_files::{LOCK_FILES, LockFile, NODE_MODULES};
use super::{ProjectDir, node, words};
use crate::toml_list::list;

const HEAD: &str = "\n# Checks run in a clean checkout, so what the agent installs is not there. This installs it, once one of the \
                    inputs was\n# changed.\n";

/// What installs the dependencies of a project, where git ignores the folder that they are in.
pub(crate) struct DependencySetup {
    folder: PathBuf,
    /// Whose programs are there.
    ready: Vec<&'static LockFile>,
    /// The others, each with why it is only proposed.
    proposed: Vec<(&'static LockFile, String)>,
    /// Whether all that the first install is there.
    is_installed: bool,
}

impl DependencySetup {
    /// Finds what installs the dependencies of the project in a folder.
    pub(crate) fn find(folder: &Path) -> Self {
        let project = ProjectDir { folder };
        let manager = node::find_manager(&project);
        let is_there = |lock: &&LockFile| {
            let is_other = lock.folder == NODE_MODULES && lock.install.first() != Some(&manager);
            project.has(lock.name) && project.text(lock.name).contains(lock.mark) && !is_other
        };
        let mut found = Self {
            folder: folder.to_owned(),
            ready: Vec::new(),
            proposed: Vec::new(),
            is_installed: true,
        };
        let mut folders = Vec::new();
        for lock in LOCK_FILES.iter().filter(is_there) {
            if folders.contains(&lock.folder) || !is_ignored(folder, lock.folder) {
                continue;
            }
            folders.push(lock.folder);
            match (lock.caveat, find_missing(folder, lock)) {
                (Some(caveat), _) => found.proposed.push((lock, caveat.to_owned())),
                (None, Some(program)) => {
                    found.proposed.push((lock, format!("{program} is not installed")));
                }
                (None, None) => {
                    found.is_installed &= project.has_folder(lock.folder);
                    found.ready.push(lock);
                }
            }
        }
        found
    }

    /// Returns the table of the configuration; empty if there is nothing to install.
    pub(crate) fn toml(&self) -> Result<String, CommandError> {
        if !self.ready.is_empty() {
            return Ok(format!("{HEAD}{}", self.table(&self.ready)?));
        }
        let Some((lock, caveat)) = self.proposed.first() else { return Ok(String::new()) };
        let table = self.table(&[lock])?;
        let lines: String = table.lines().map(|line| format!("# {line}\n")).collect();
        Ok(format!("{HEAD}# A comment only: {caveat}.\n{lines}"))
    }

    /// Describes it to the user.
    pub(crate) fn describe(&self, lines: &mut Vec<String>) {
        if !self.ready.is_empty() {
            let when = if self.is_installed {
                format!("once the agent has changed {}", self.inputs(&self.ready).join(" or "))
            } else {
                "first, as nothing is installed here yet".to_owned()
            };
            let installs = join_commands(&self.ready);
            lines.push(format!("  checks run in a clean checkout: `{installs}` runs there {when}"));
        } else if let Some((lock, caveat)) = self.proposed.first() {
            let installs = join_commands(&[lock]);
            lines
                .push(format!("  `{installs}` for checks is in ralph.toml as a comment: {caveat}"));
        }
    }

    fn table(&self, locks: &[&LockFile]) -> Result<String, CommandError> {
        let setup = match locks {
            [lock] => words(lock.install),
            _ => words(&["sh", "-c", &join_commands(locks)]),
        };
        let outputs: Vec<&str> = locks.iter().map(|lock| lock.folder).collect();
        let (setup, inputs, outputs) = (list(&setup)?, list(&self.inputs(locks))?, list(&outputs)?);
        Ok(format!(
            "[validation]\nsetup = {setup}\nsetup_inputs = {inputs}\nsetup_outputs = {outputs}\n"
        ))
    }

    fn inputs(&self, locks: &[&LockFile]) -> Vec<&'static str> {
        let mut inputs: Vec<&str> =
            locks.iter().flat_map(|lock| [lock.name, lock.manifest]).collect();
        inputs.retain(|name| self.folder.join(name).is_file());
        inputs.dedup();
        inputs
    }
}

fn join_commands(locks: &[&LockFile]) -> String {
    locks.iter().map(|lock| lock.install.join(" ")).collect::<Vec<_>>().join(" && ")
}

/// Returns the program that would install them, if it is not there.
fn find_missing(folder: &Path, lock: &LockFile) -> Option<&'static str> {
    let vars = variables();
    let path = vars.get("PATH").map(String::as_str).unwrap_or_default();
    lock.install.first().copied().filter(|name| find_program(name, path, folder).is_err())
}

/// Whether git ignores what is in a folder, which may not be there yet.
fn is_ignored(project: &Path, folder: &str) -> bool {
    let vars = variables();
    let path = vars.get("PATH").map(String::as_str).unwrap_or_default();
    let git = find_program("git", path, Path::new("/"));
    // The process is started from elsewhere.
    let (Ok(git), Ok(project)) = (git, project.canonicalize()) else { return false };
    // The index is not read: a program that its configuration names for that would be run.
    let inside = format!("{folder}/x");
    let arguments = ["check-ignore", "--quiet", "--no-index", "--", &inside];
    let output = block_on(async { Ok(probe(git, &arguments, &project, vars.clone()).await) });
    output.ok().flatten().is_some_and(|output| output.succeeded)
}
