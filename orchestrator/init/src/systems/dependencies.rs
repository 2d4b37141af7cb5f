//! What installs the dependencies of a project in the checkout that its checks run in.

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::probe::probe;
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_supervisor::find_program;
use ralph_orchestrator_terminal::output;

use super::lock_files::{LOCK_FILES, LockFile, NODE_MODULES};
use super::{ProjectDir, node, words};
use crate::toml_list::list;

/// Returns the keys by which checks in a folder find what the agent installs, for a run without a configuration, and says so;
/// none where nothing is installed yet.
///
/// # Errors
/// A command cannot be written as TOML.
pub fn implied_setup(folder: &Path) -> Result<Vec<(&'static str, String)>, CommandError> {
    let found = DependencySetup::find(folder);
    if found.ready.is_empty() || !found.is_installed {
        return Ok(Vec::new());
    }
    let mut lines = Vec::new();
    found.describe(&mut lines);
    lines.iter().for_each(|line| output::info(line.trim_start()));
    found.keys(&found.ready)
}

const HEAD: &str = "\n# Checks run in a clean checkout, so what the agent installs is not there. This installs it, once one of the \
                    inputs was\n# changed.\n";

/// What installs the dependencies of a project, where git ignores the folder that they are in.
pub(crate) struct DependencySetup {
    folder: PathBuf,
    /// Whose programs are there.
    ready: Vec<&'static LockFile>,
    /// Those whose programs are not, each with the program.
    proposed: Vec<(&'static LockFile, &'static str)>,
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
            if let Some(program) = find_missing(folder, lock) {
                found.proposed.push((lock, program));
            } else {
                found.is_installed &= project.has_folder(lock.folder);
                found.ready.push(lock);
            }
        }
        found
    }

    /// Returns what installs them as a shell's line, if their programs are there.
    pub(crate) fn command(&self) -> Option<String> {
        (!self.ready.is_empty()).then(|| join_commands(&self.ready))
    }

    /// Returns the table of the configuration; empty if there is nothing to install.
    pub(crate) fn toml(&self) -> Result<String, CommandError> {
        if !self.ready.is_empty() {
            return Ok(format!("{HEAD}{}", self.table(&self.ready)?));
        }
        let Some((lock, program)) = self.proposed.first() else { return Ok(String::new()) };
        let table = self.table(&[lock])?;
        let lines: String = table.lines().map(|line| format!("# {line}\n")).collect();
        Ok(format!("{HEAD}# A comment only: {program} is not installed.\n{lines}"))
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
        } else if let Some((lock, program)) = self.proposed.first() {
            let installs = join_commands(&[lock]);
            lines.push(format!(
                "  `{installs}` for checks is in ralph.toml as a comment: {program} is not installed"
            ));
        }
    }

    fn table(&self, locks: &[&LockFile]) -> Result<String, CommandError> {
        let lines = self
            .keys(locks)?
            .into_iter()
            .map(|(key, value)| format!("{} = {value}\n", key.trim_start_matches("validation.")));
        Ok(format!("[validation]\n{}", lines.collect::<String>()))
    }

    /// The keys that install what these name, with their values.
    fn keys(&self, locks: &[&LockFile]) -> Result<Vec<(&'static str, String)>, CommandError> {
        let setup = match locks {
            [lock] => words(lock.install),
            _ => words(&["sh", "-c", &join_commands(locks)]),
        };
        let outputs: Vec<&str> = locks.iter().map(|lock| lock.folder).collect();
        Ok(vec![
            ("validation.setup", list(&setup)?),
            ("validation.setup_inputs", list(&self.inputs(locks))?),
            ("validation.setup_outputs", list(&outputs)?),
        ])
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
