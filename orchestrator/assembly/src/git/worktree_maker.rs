//! Makes the git worktree of a run, once, whatever kills a start meanwhile.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_config::{LoadedConfig, Role, SandboxMode};
use ralph_orchestrator_engine::{new_run_id, states_dir};
use ralph_orchestrator_git::{Repository, WorktreeRequest, WorktreeStart};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{
    Disk, Layout, StateError, TrustStore, WorktreeLock, WorktreePaths, WorktreeRecord,
    lock_workspace,
};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_text::{count, escape};
use ralph_orchestrator_workspace::{PromptPlace, copy_if_other, is_same_content};
use tokio::runtime::Handle;

use super::moved_worktree::worktrees_dir;
use super::process::{Confinement, SupervisedGit, blocking, environment, kept_folder};
use crate::context::Context;
use crate::error::CommandError;
use crate::messages;
use crate::orphans::RUN_ID;
use crate::sandbox::SandboxPolicy;

/// Digits of a commit's id that are shown.
const SHORT_COMMIT: usize = 12;
/// What the names of all branches begin with.
pub(super) const PREFIX: &str = "ralph";
/// Characters of a run's id that tell runs apart: when it began, and twelve bits of chance for those that begin in the
/// same millisecond.
const SHORT_ID: usize = 18;
/// Characters of the repository's name in the name of a worktree's folder.
const LONGEST_NAME: usize = 60;
/// Submodules that are named.
const MOST_SUBMODULES: usize = 5;

/// What makes the worktree of a run.
pub(super) struct WorktreeMaker {
    pub(super) context: Context,
    pub(super) layout: Layout,
    pub(super) supervisor: Supervisor,
    /// None in a dry run.
    pub(super) lock: Option<WorktreeLock>,
    /// What the command line protects.
    pub(super) protect: Vec<String>,
}

impl WorktreeMaker {
    /// Returns whether a worktree in which no run has begun is the same as a new one would be. Names it if not.
    pub(super) fn is_as_new(&self, unused: &WorktreeRecord, start: &WorktreeStart) -> bool {
        let (folder, branch) = (unused.folder(), &unused.branch);
        if unused.base == start.base.as_str() && unused.task == task_digest(&self.context.loaded) {
            return true;
        }
        if folder.exists() {
            let folder = quote_word(&folder);
            messages::info(&format!(
                "the worktree {folder} on branch {branch} was made for a run that did not begin, and is \
                 not used: `git worktree remove {folder}` and `git branch -d {branch}` remove it"
            ));
        }
        false
    }

    /// Records a worktree before it is made.
    pub(super) fn record(
        &self,
        start: &WorktreeStart,
        folder: &Path,
    ) -> Result<WorktreeRecord, CommandError> {
        let run = new_run_id();
        let id = run.get(..SHORT_ID).unwrap_or(&run);
        let mut name = folder.as_os_str().to_owned();
        name.push(format!("-{id}"));
        let folder = PathBuf::from(name);
        let workspace = if start.inside.as_os_str().is_empty() {
            folder.clone()
        } else {
            folder.join(&start.inside)
        };
        let paths =
            WorktreePaths { folder: &folder, workspace: &workspace, repository: &start.common_dir };
        let branch = format!("{PREFIX}/{id}");
        let mut record = WorktreeRecord::new(paths, run, branch, start.base.to_string());
        record.task = task_digest(&self.context.loaded);
        record.write(&Disk::default(), &self.layout)?;
        Ok(record)
    }

    /// Returns how the repository's hooks and filters are confined: an agent of an earlier run can have written them.
    fn confinement(&self) -> Result<Option<Confinement>, CommandError> {
        let policy = SandboxPolicy::from_context(&self.context)?;
        let policy = policy.map(SandboxPolicy::without_workspace);
        Ok(Confinement::new(policy.as_ref(), &self.context))
    }

    pub(super) async fn find_start(&self) -> Result<WorktreeStart, CommandError> {
        let Context { loaded, vars, .. } = &self.context;
        let (workspace, vars) = (loaded.configured_workspace().to_owned(), vars.clone());
        let (supervisor, runtime) = (self.supervisor.clone(), Handle::current());
        let (confinement, protect) = (self.confinement()?, self.protect.clone());
        let places = self.context.agent_places();
        let found = blocking(move || {
            let git = SupervisedGit::find(supervisor, &vars, &places, runtime)?;
            let git = git.confined(confinement, protect);
            WorktreeStart::find(&workspace, PREFIX, &git, &environment(&vars))
                .map_err(|error| error.to_string())
        });
        found.await?.map_err(|problem| located(loaded, &problem))
    }

    /// Refuses a start by an agent in the worktree of its own run: each would begin another.
    pub(super) fn refuse_nested(&self) -> Result<(), CommandError> {
        let Context { loaded, vars, .. } = &self.context;
        let Some(run) = vars.get(RUN_ID) else { return Ok(()) };
        let workspace = Arc::new(File::open(loaded.configured_workspace())?);
        let states = states_dir(&self.context.state_home());
        match lock_workspace(&Disk::default(), workspace, &states) {
            Err(StateError::Busy { holder }) => {
                Err(StateError::Nested { run: run.clone(), holder }.into())
            }
            locked => Ok(locked.map(drop)?),
        }
    }

    /// Returns where the worktrees of this repository lie, as the beginning of their names.
    pub(super) fn folder(&self, start: &WorktreeStart) -> Result<PathBuf, CommandError> {
        let all = worktrees_dir(&self.context.state_home());
        let real = all.ancestors().find_map(|folder| folder.canonicalize().ok());
        if real.is_some_and(|real| real.starts_with(&start.top_level)) {
            let problem = format!(
                "the worktree would be made in {}, inside the repository {}; set XDG_STATE_HOME to a \
                 folder outside of it",
                all.display(),
                start.top_level.display()
            );
            return Err(located(&self.context.loaded, &problem));
        }
        let name = start.top_level.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = |letter: char| match letter {
            letter if letter.is_alphanumeric() || "._-".contains(letter) => letter,
            _ => '-',
        };
        let name: String = name.chars().map(plain).take(LONGEST_NAME).collect();
        // Git names its own files after it, by the rules for branches.
        let name = name.trim_start_matches('.').replace("..", "--");
        Ok(all.join(if name.is_empty() { "repository".to_owned() } else { name }))
    }

    /// Makes a worktree that is recorded, or finishes what a killed start began. Returns what to say of it.
    pub(super) async fn make(
        &self,
        record: WorktreeRecord,
        start: &WorktreeStart,
    ) -> Result<(WorktreeRecord, Vec<String>), CommandError> {
        let Context { loaded, vars, .. } = &self.context;
        let guard = self.lock.as_ref().map(WorktreeLock::guard);
        let supervisor = match guard {
            Some(guard) => self.supervisor.clone().with_guard(guard),
            None => self.supervisor.clone(),
        };
        let places = self.context.agent_places();
        let git = SupervisedGit::find(supervisor, vars, &places, Handle::current())
            .map_err(CommandError::unavailable)?;
        let git = git.confined(self.confinement()?, self.protect.clone());
        let mut environment = environment(vars);
        environment.insert(RUN_ID.into(), record.run.clone().into());
        let (loaded, layout, start) = (loaded.clone(), self.layout.clone(), start.clone());
        // Hooks of the checkout run with the user's rights.
        let confined = loaded.config.sandbox.mode != SandboxMode::Off;
        let (kept, trust) = (kept_folder(&self.context), self.context.trust_store());
        let work = move || {
            let all = record.folder();
            let all = all.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().recursive(true).mode(0o700).create(all)?;
            let private = layout.worktree_git(&record.run);
            let workspace = loaded.configured_workspace();
            let repository =
                Repository::discover_with(workspace, &private, Arc::new(git), environment)?;
            match confined {
                true => repository.trust_as_before(&kept)?,
                false => repository.trust_configuration()?,
            }
            let request = WorktreeRequest {
                path: record.folder(),
                branch: record.branch.clone(),
                start: Some(start.base.clone()),
            };
            let outcome = repository.create_worktree(&request)?;
            let problem = if outcome.is_new {
                outcome.problem
            } else {
                repository.repeat_checkout_hook(&outcome.worktree)?
            };
            let copied = copy_own_files(&loaded, &record, &trust)?;
            let submodules = repository.list_submodules(&record.folder())?;
            let submodules: Vec<String> = submodules.iter().map(ToString::to_string).collect();
            let warnings = describe(&record, &start, &copied, &submodules, problem);
            let mut record = record;
            record.is_made = true;
            record.write(&Disk::default(), &layout)?;
            Ok::<_, CommandError>((record, warnings))
        };
        blocking(work).await?
    }
}

/// Returns the files that are the user's to give: prompts and the backlog.
pub(super) fn own_files(loaded: &LoadedConfig) -> Vec<PathBuf> {
    let run = &loaded.config.run;
    let prompts = loaded.config.prompts.iter();
    let prompts = prompts.flat_map(|p| Role::ALL.into_iter().flat_map(|r| p.candidates(r)));
    let backlog = loaded.config.backlog.as_ref().and_then(|list| list.path.as_ref());
    let backlog = backlog.map(|path| run.workspace.join(path));
    run.prompt.clone().into_iter().chain(prompts).chain(backlog).collect()
}

/// Returns those of these files in a worktree, relative to its top, that are what the user's checkout has:
/// nothing is lost with them.
pub(super) fn find_copies(loaded: &LoadedConfig, record: &WorktreeRecord) -> Vec<PathBuf> {
    let (workspace, folder) = (record.workspace(), record.folder());
    let mut files = own_files(&loaded.clone().in_folder(&workspace));
    files.retain(|file| {
        let own = file.strip_prefix(&workspace).ok();
        let own = own.map(|inside| loaded.configured_workspace().join(inside));
        own.is_some_and(|own| is_same_content(&own, file))
    });
    let relative = |file: &PathBuf| file.strip_prefix(&folder).ok().map(Path::to_owned);
    files.iter().filter_map(relative).collect()
}

/// Copies the prompts and the backlog into a new worktree, whose commit may have others or none. Returns those
/// that were copied, relative to the workspace.
pub(super) fn copy_own_files(
    loaded: &LoadedConfig,
    record: &WorktreeRecord,
    trust: &TrustStore,
) -> Result<Vec<String>, CommandError> {
    let mut copied = Vec::new();
    let there = loaded.clone().in_folder(&record.workspace());
    for (from, to) in own_files(loaded).into_iter().zip(own_files(&there)) {
        if from == to {
            continue;
        }
        let from = trust.follow_links(&from)?.map_err(|stopping| {
            let (file, link) = (from.display(), quote_word(&stopping.link));
            let message =
                format!("{file} leads over a link that an agent could have made: not copied into the worktree");
            CommandError::config(message)
                .hinted(format!("if it is yours, `ralph-orchestrator trust {link}` accepts it"))
        })?;
        if from.is_file() && copy_if_other(&from, &to, &record.folder())? {
            let inside = to.strip_prefix(record.workspace()).unwrap_or(&to);
            copied.push(inside.display().to_string());
        }
    }
    Ok(copied)
}

/// Returns what is to be said of a new worktree.
fn describe(
    record: &WorktreeRecord,
    start: &WorktreeStart,
    copied: &[String],
    submodules: &[String],
    problem: Option<String>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let copied = escape(&copied.join(", "));
    if start.uncommitted > 0 {
        let but = if copied.is_empty() {
            String::new()
        } else {
            format!(", but for {copied}, copied as in your checkout")
        };
        lines.push(format!(
            "warning: {} in {} not committed: the worktree has what commit {} has{but}",
            count(start.uncommitted, "file"),
            start.top_level.display(),
            shorten_commit(start.base.as_str())
        ));
    } else if !copied.is_empty() {
        lines.push(format!("{copied}: copied into the worktree, since no commit has it"));
    }
    if let Some(operation) = start.operation {
        lines.push(format!(
            "warning: {operation} is in progress in {}: the worktree begins at HEAD's commit {}",
            start.top_level.display(),
            shorten_commit(start.base.as_str())
        ));
    }
    lines.extend(describe_submodules(record, submodules));
    lines.extend(problem.map(|problem| format!("warning: {problem}")));
    lines
}

/// Returns what to do about submodules, if there are any.
fn describe_submodules(record: &WorktreeRecord, submodules: &[String]) -> Option<String> {
    let first: Vec<&str> = submodules.iter().take(MOST_SUBMODULES).map(String::as_str).collect();
    let more = match submodules.len().saturating_sub(first.len()) {
        _ if first.is_empty() => return None,
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "warning: submodules are not checked out in the worktree ({}{more}): `git -C {} submodule \
         update --init` does that",
        escape(&first.join(", ")),
        quote_word(record.folder())
    ))
}

/// Returns the digest of the task's file in the user's workspace; empty if there is none.
pub(super) fn task_digest(loaded: &LoadedConfig) -> String {
    let prompt = loaded.config.run.prompt.as_deref().map(PromptPlace::locate);
    let prompt = prompt.and_then(|place| place.read().ok());
    prompt.map(|prompt| prompt.digest).unwrap_or_default()
}

/// Returns where a worktree begins, for people.
pub(super) fn base_name(start: &WorktreeStart) -> String {
    let commit = shorten_commit(start.base.as_str());
    match &start.branch {
        Some(branch) => format!("commit {commit} ({branch})"),
        None => format!("commit {commit} (HEAD is detached)"),
    }
}

fn located(loaded: &LoadedConfig, problem: &str) -> CommandError {
    CommandError::at_key(loaded, &["git", "worktree"], problem)
}

/// Returns the beginning of a commit's id.
pub(super) fn shorten_commit(commit: &str) -> &str {
    commit.get(..SHORT_COMMIT).unwrap_or(commit)
}
