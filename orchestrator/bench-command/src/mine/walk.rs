//! Walks the commits of a repository and makes a task of each that is one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git::{SupervisedGit, environment};
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_bench_run::mining::{
    CommitParts, DropReason, IssueTexts, MinedTask, MiningOutcome, ProjectTests, TaskPrompt,
    VerifierCommands, name_task, sort_changes,
};
use ralph_orchestrator_git::{GitError, HistoryReader, ListedCommit, ObjectId};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::signals::Signals;
use tokio::runtime::Handle;

use super::MineArgs;
use super::log::MiningLog;
use super::summary::{WalkSummary, describe, is_named, shorten};
use super::trials::MiningTrials;
use crate::hidden_folder::HiddenFolder;

/// The word for dependencies that are not installed.
const SETUP_OFF: &str = "off";

/// A walk over the commits of a repository.
pub(super) struct MiningWalk<'a> {
    pub(super) args: &'a MineArgs,
    pub(super) project: &'a dyn ProjectTests,
    pub(super) issues: IssueTexts,
    pub(super) trials: MiningTrials<'a>,
    /// Where the tasks are.
    pub(super) out: PathBuf,
    pub(super) scratch: HiddenFolder,
    pub(super) log: MiningLog,
}

/// Why a commit makes no task, or the walk cannot continue.
enum MiningStop {
    Drop(DropReason),
    Error(CommandError),
}

impl From<DropReason> for MiningStop {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

impl From<CommandError> for MiningStop {
    fn from(error: CommandError) -> Self {
        Self::Error(error)
    }
}

impl From<std::io::Error> for MiningStop {
    fn from(error: std::io::Error) -> Self {
        Self::Error(error.into())
    }
}

impl From<GitError> for MiningStop {
    fn from(error: GitError) -> Self {
        match error {
            // Objects are missing, as in a partial clone.
            GitError::Failed { .. } => Self::Drop(DropReason::Refused(error.to_string())),
            other => Self::Error(other.into()),
        }
    }
}

/// Finds the repository, and makes what reads it in a folder of its own.
///
/// # Errors
/// There is none that can be read, or it has no commit.
pub(super) fn open_repository(
    repository: &Path,
    scratch: &Path,
    signals: &Signals,
) -> Result<HistoryReader, CommandError> {
    let vars = variables();
    let supervisor = registry::supervisor_of_one(signals.switch.clone());
    let git = SupervisedGit::find(supervisor, &vars, &[], Handle::current())
        .map_err(|problem| CommandError::user(format!("git: {problem}")))?;
    let folder = scratch.join("reader");
    fs::create_dir(&folder)?;
    HistoryReader::open(repository, &folder, Arc::new(git), environment(&vars)).map_err(|error| {
        match error {
            GitError::NotARepository(path) => {
                CommandError::config(format!("{}: expected a git repository", path.display()))
            }
            other => other.into(),
        }
    })
}

impl MiningWalk<'_> {
    /// Looks at the commits, the newest first.
    ///
    /// # Errors
    /// Something fails that is not about one commit.
    pub(super) fn perform(mut self, reader: &HistoryReader) -> Result<WalkSummary, CommandError> {
        let mut summary = WalkSummary::default();
        let since = self.args.since.unwrap_or(i64::MIN);
        let commits = reader.list_commits()?.into_iter();
        for commit in commits.filter(|commit| commit.committed >= since) {
            if self.args.max.is_some_and(|max| summary.count_tasks() as u64 >= u64::from(max)) {
                break;
            }
            if self.is_stopping() {
                summary.is_stopped = true;
                break;
            }
            let id = commit.id.as_str();
            let outcome = match self.log.find(id) {
                Some(known) => known.clone(),
                None => match self.look_at(reader, &commit)? {
                    Some(outcome) => outcome,
                    None => {
                        summary.is_stopped = true;
                        break;
                    }
                },
            };
            summary.add(id.to_owned(), outcome);
        }
        Ok(summary)
    }

    fn is_stopping(&self) -> bool {
        self.trials.signals.watch_requests().borrow().times > 0
    }

    /// Finds out what becomes of a commit, and records it; nothing if a stop was requested meanwhile.
    fn look_at(
        &mut self,
        reader: &HistoryReader,
        commit: &ListedCommit,
    ) -> Result<Option<MiningOutcome>, CommandError> {
        let outcome = match self.make_task(reader, commit) {
            Ok(Some(task)) => MiningOutcome::Taken(task),
            Ok(None) => return Ok(None),
            Err(MiningStop::Drop(reason)) => MiningOutcome::Dropped(reason),
            Err(MiningStop::Error(error)) => return Err(error),
        };
        for folder in ["task", "fix", "job"] {
            remove_folder(&self.scratch.path().join(folder))?;
        }
        self.log.record(commit.id.as_str(), &outcome)?;
        let id = commit.id.as_str();
        match &outcome {
            MiningOutcome::Taken(task) => output::info(&format!("{} {task}", shorten(id))),
            MiningOutcome::Dropped(reason) if was_verified(reason) => {
                output::info(&format!("dropped: {}", describe(id, reason)));
            }
            MiningOutcome::Dropped(_) => {}
        }
        Ok(Some(outcome))
    }

    /// Makes the task of a commit. Returns its name; nothing if a stop was requested meanwhile.
    fn make_task(
        &self,
        reader: &HistoryReader,
        commit: &ListedCommit,
    ) -> Result<Option<String>, MiningStop> {
        let base = commit.parents.first().ok_or(DropReason::NoParent)?;
        let parts = sort_changes(&reader.list_changes(base, &commit.id)?, self.project)?;
        let prompt = self.read_prompt(reader, base, commit)?;
        let drafts = self.scratch.path().join("task");
        let draft = drafts.join("draft");
        fs::create_dir_all(&draft)?;
        let fix = &commit.id;
        let mut task = MinedTask { reader, base, fix, parts: &parts, folder: &draft };
        task.write_base()?;
        let prompt = hide_later_commits(reader, &task.git_dir(), &prompt)?;
        let name = name_task(&prompt, base);
        let (place, folder) = (self.out.join(&name), drafts.join(&name));
        if is_task_of(&place, fix) {
            // A walk was killed after it had made it.
            return Ok(Some(name));
        }
        if place.symlink_metadata().is_ok() {
            let message = format!("{} is there already", place.display());
            let error = CommandError::user(message).hinted("`-o` names another folder");
            return Err(error.into());
        }
        fs::rename(&draft, &folder)?;
        task.folder = &folder;
        let (commands, setup) = self.find_tests(reader, &task)?;
        task.write_commit(&commands)?;
        task.write_settings(&prompt, &commands, setup.as_deref())?;
        let reason = self.trials.verify(&folder, &self.scratch.path().join("job"))?;
        if self.is_stopping() {
            return Ok(None);
        }
        if let Some(reason) = reason {
            return Err(reason.into());
        }
        fs::rename(&folder, &place)?;
        Ok(Some(name))
    }

    fn read_prompt(
        &self,
        reader: &HistoryReader,
        base: &ObjectId,
        commit: &ListedCommit,
    ) -> Result<TaskPrompt, MiningStop> {
        let message = reader.read_message(&commit.id)?;
        let merged = match commit.parents.len() {
            0 | 1 => Vec::new(),
            _ => reader.read_merged_messages(base, &commit.id)?,
        };
        let prompt = TaskPrompt::from_message(&message, &merged, &self.issues);
        Ok(prompt.ok_or(DropReason::NoPrompt)?)
    }

    /// Returns what runs the tests of a commit, and what installs the dependencies of its tree.
    fn find_tests(
        &self,
        reader: &HistoryReader,
        task: &MinedTask<'_>,
    ) -> Result<(VerifierCommands, Option<String>), MiningStop> {
        let tree = self.scratch.path().join("fix");
        fs::create_dir(&tree)?;
        reader.write_files(task.fix, None, &tree)?;
        // Git says there which folders are ignored.
        let git = format!("gitdir: {}\n", task.git_dir().display());
        let link = tree.join(".git");
        if link.symlink_metadata().is_err() {
            fs::write(link, git)?;
        }
        let commands = self.find_commands(task.parts, &tree).ok_or(DropReason::NoTestCommand)?;
        let is_wanted = self.args.setup != SETUP_OFF;
        let setup = is_wanted.then(|| self.project.find_setup(&tree)).flatten();
        Ok((commands, setup))
    }

    fn find_commands(&self, parts: &CommitParts, tree: &Path) -> Option<VerifierCommands> {
        let files = parts.list_test_files();
        if let Some(line) = &self.args.test {
            let is_source = |file: &String| self.project.is_source(Path::new(file));
            let sources: Vec<String> = files.into_iter().filter(is_source).collect();
            let is_possible = !sources.is_empty() || !VerifierCommands::names_files(line);
            return is_possible.then(|| VerifierCommands::from_line(line, &sources));
        }
        let commands = self.project.find_commands(tree, &files);
        (!commands.is_empty()).then_some(VerifierCommands::Found(commands))
    }
}

/// Removes ids of commits and other objects that the base's history does not have.
fn hide_later_commits(
    reader: &HistoryReader,
    git_dir: &Path,
    prompt: &TaskPrompt,
) -> Result<TaskPrompt, GitError> {
    let words = prompt.list_hashes();
    let borrowed: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_later = reader.find_later_objects(git_dir, &borrowed)?;
    let later = words.iter().zip(is_later).filter(|(_, is_later)| *is_later);
    Ok(prompt.without(&later.map(|(word, _)| word.clone()).collect()))
}

/// Whether it took trials to find that a commit is no task.
const fn was_verified(reason: &DropReason) -> bool {
    matches!(reason, DropReason::GreenBase) || is_named(reason)
}

/// Whether a folder is the task of a commit.
fn is_task_of(folder: &Path, fix: &ObjectId) -> bool {
    let settings = fs::read_to_string(folder.join("task.toml")).unwrap_or_default();
    settings.contains(&format!("commit = \"{fix}\""))
}

fn remove_folder(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
