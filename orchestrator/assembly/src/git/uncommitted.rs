//! What is in no commit: the user's own files when a run begins, the run's when it has ended.

use std::path::PathBuf;

use ralph_orchestrator_engine::{Redactor, redactor_of_run};
use ralph_orchestrator_git::{ChangedPaths, RepoPath, Repository};
use ralph_orchestrator_store::{Layout, StoredRun, read_current_run};
use ralph_orchestrator_story::run_summary::RunSummary;
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_text::{count, len, one_line};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

use super::process::{Confinement, SupervisedGit, blocking, environment};
use super::saving::{name_first, skip_reason};
use super::stored::open_stored_run;
use super::worktree_maker::own_files;
use crate::context::Context;
use crate::sandbox::SandboxPolicy;

/// Characters of the reason of the last commit that failed.
const LONGEST_PROBLEM: usize = 160;

/// Looks for which files of a user are not committed where a run begins in their checkout, while something else is done. The
/// prompt, the backlog and the configuration do not count.
pub struct DirtSearch {
    workspace: PathBuf,
    files: JoinHandle<Option<Vec<RepoPath>>>,
}

impl DirtSearch {
    /// Begins; nothing where work does not begin among a user's files in a repository.
    pub fn begin(context: &Context) -> Option<Self> {
        let config = &context.loaded.config;
        let workspace = config.run.workspace.clone();
        let real = workspace.canonicalize().ok()?;
        let has_repository = real.ancestors().any(|folder| folder.join(".git").exists());
        if config.git.worktree || !has_repository {
            return None;
        }
        let policy = SandboxPolicy::from_context(context).ok()?;
        let confinement = Confinement::new(policy.as_ref(), context);
        let mut own = own_files(&context.loaded);
        own.push(context.file.clone());
        let own: Vec<_> = own.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let (vars, places, runtime) =
            (context.vars.clone(), context.agent_places(), Handle::current());
        let at = workspace.clone();
        let files = spawn_blocking(move || {
            let git =
                SupervisedGit::find(Supervisor::this_binary(), &vars, &places, runtime).ok()?;
            let git = git.confined(confinement, Vec::new());
            let mut files = Repository::list_uncommitted(&at, &git, &environment(&vars)).ok()?;
            let is_own = |path: &RepoPath| {
                let path = at.join(path.as_path()).canonicalize();
                path.is_ok_and(|path| own.contains(&path))
            };
            files.retain(|path| !is_own(path));
            Some(files)
        });
        Some(Self { workspace, files })
    }

    /// Waits for what was found, and says it, with what to do about it; `None` if it is nothing, or git cannot be asked.
    pub async fn describe(self, redactor: &Redactor) -> Option<String> {
        let files = self.files.await.ok().flatten().filter(|files| !files.is_empty())?;
        Some(format!(
            "{} of yours in {} not committed ({}): an agent can overwrite them, and its own `git add -A` takes them along; \
             commit them first, or set `[git] worktree = true`, so that the run works in a worktree of its own",
            count(len(&files), "file"),
            self.workspace.display(),
            name_first(files.iter().map(|path| redactor.text(&path.to_string()).into_owned()))
        ))
    }
}

/// Whether the next start resumes a run.
pub fn has_unfinished_run(context: &Context) -> bool {
    let found =
        context.layout().ok().and_then(|layout| read_current_run(&layout, |_| {}).ok().flatten());
    found.is_some_and(|found| found.state.completion().is_none())
}

/// The files of a run without a worktree that are in no commit, although it makes commits.
pub struct UncommittedView {
    files: Vec<String>,
    /// Why the last commit failed.
    problem: Option<String>,
}

impl UncommittedView {
    /// Reads what a run that does not work now has left; `None` if it makes no commits, all is committed, or git cannot be
    /// asked: a report never fails for that.
    pub async fn read(
        context: &Context,
        layout: &Layout,
        found: &StoredRun,
        story: &RunSummary,
    ) -> Option<Self> {
        if !found.state.saves.mode.commits() {
            return None;
        }
        let paths = &story.changes.paths;
        let named = paths.iter().map(|file| RepoPath::from_bytes(file.path.as_bytes())).collect();
        let changed = ChangedPaths { named, has_more: story.changes.files > len(paths) };
        let configured = context.loaded.config.run.workspace.clone();
        let (places, vars) = (context.agent_places(), &context.vars);
        let policy = SandboxPolicy::from_context(context).ok()?;
        // Filters run, and an agent may have written what they run.
        let confinement = Confinement::new(policy.as_ref(), context);
        let around = (places, confinement);
        let stored = open_stored_run(layout, found.clone(), configured, around, vars).await.ok()?;
        let files = blocking(move || stored.repository.list_uncommitted_work(&changed)).await;
        let problem = found.state.saves.commit_problem.clone();
        let files = match files.ok()? {
            Ok(files) if files.is_empty() => return None,
            Ok(files) => files,
            // Git cannot be asked any more, but what was recorded is known.
            Err(_) if problem.is_some() => Vec::new(),
            Err(_) => return None,
        };
        let redactor = redactor_of_run(layout, &found.run, vars);
        let describe = |file: ralph_orchestrator_git::UncommittedFile| {
            let reason = file.reason.map(|reason| format!(" ({})", skip_reason(reason)));
            format!("{}{}", file.path, reason.unwrap_or_default())
        };
        let files = files.into_iter().map(describe);
        let files = files.map(|text| redactor.text(&text).into_owned()).collect();
        Some(Self { files, problem })
    }

    /// Returns what of the run is in no commit, and why.
    pub fn describe(&self) -> String {
        let why = self.problem.as_ref().map(|problem| {
            format!("the last commit failed: {}", one_line(problem, LONGEST_PROBLEM))
        });
        let named = name_first(self.files.iter().cloned());
        let named = (!self.files.is_empty())
            .then(|| format!("{} in no commit: {named}", count(len(&self.files), "file")));
        named.into_iter().chain(why).collect::<Vec<_>>().join("; ")
    }
}
