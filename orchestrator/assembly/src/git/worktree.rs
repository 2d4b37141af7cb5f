//! `[git] worktree`: the git worktree in which a run works, as it was recorded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_driver::read_ledger;
use ralph_orchestrator_engine::ReplacedWorkspace;
use ralph_orchestrator_git::{Repository, WorktreeWork};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{Layout, StoredRun, WorktreeRecord, read_current_run};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_text::{count, escape};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::moved_worktree::{find_disconnection, locate_worktrees, repair_command};
use super::process::{Confinement, SupervisedGit, blocking, environment};
use super::saving::name_first;
use super::worktree_maker::{find_copies, shorten_commit, task_digest};
use crate::context::Context;
use crate::error::CommandError;
use crate::sandbox::SandboxPolicy;

/// Ignored files and folders that a command names.
const MOST_IGNORED: usize = 5;

/// Returns the folder in which a run has worked, as it was recorded.
pub(super) fn folder_of(found: &StoredRun) -> Option<PathBuf> {
    found.state.started.as_ref().map(|started| PathBuf::from(&started.workspace))
}

/// Returns the worktree in which a run has worked.
pub fn find_of<'a>(records: &'a [WorktreeRecord], found: &StoredRun) -> Option<&'a WorktreeRecord> {
    let folder = folder_of(found)?;
    records.iter().find(|record| record.is_at(&folder))
}

/// Returns the configuration as the run of the workspace has it: in its worktree, if it has one that is there.
pub fn enter_existing(context: Context) -> Result<Context, CommandError> {
    let record = find_current(&context)?.filter(|record| record.folder().exists());
    Ok(enter(context, record))
}

/// Returns the folder that has taken the place of the workspace of the configuration's run, and is not accepted.
///
/// # Errors
/// The state or what was accepted cannot be used.
pub fn find_replaced(context: &Context) -> Result<Option<ReplacedWorkspace>, CommandError> {
    let inside = enter_existing(context.clone())?;
    Ok(ReplacedWorkspace::find(&inside.loaded, &inside.state_home())?)
}

/// Returns the configuration as it is in the worktree of a run in which this command was started, if it was in one.
pub fn enter_here(context: Context) -> Result<Context, CommandError> {
    let here = std::env::current_dir().map(|here| real_path(&here))?;
    let records = context.layout().map(|layout| locate(&context, &layout)).unwrap_or_default();
    let record = records.into_iter().find(|record| here.starts_with(record.folder()));
    Ok(enter(context, record))
}

/// Returns the configuration as the run of the workspace has it, also if its worktree was removed, unless the prompt in
/// the user's checkout asks for something else than when that was made.
pub fn enter_for_task(context: Context) -> Result<Option<Context>, CommandError> {
    let record = find_current(&context)?;
    let is_other =
        record.as_ref().is_some_and(|record| record.task != task_digest(&context.loaded));
    Ok((!is_other).then(|| enter(context, record)))
}

/// Returns the worktrees of the workspace where they are now, the newest first.
pub(super) fn locate(context: &Context, layout: &Layout) -> Vec<WorktreeRecord> {
    locate_worktrees(layout, &context.state_home(), context.loaded.configured_workspace())
}

fn enter(mut context: Context, record: Option<WorktreeRecord>) -> Context {
    if let Some(record) = record {
        context.loaded = context.loaded.in_folder(&record.workspace());
    }
    context
}

/// Returns the worktree of the workspace's run, or of one that is about to begin.
fn find_current(context: &Context) -> Result<Option<WorktreeRecord>, CommandError> {
    let layout = context.layout()?;
    let records = locate(context, &layout);
    if records.is_empty() {
        return Ok(None);
    }
    let current = read_current_run(&layout, |_| {}).ok().flatten();
    let record = match &current {
        Some(found) => find_of(&records, found),
        None => records.first().filter(|record| record.is_made),
    };
    Ok(record.cloned())
}

/// A worktree and the work in it.
pub struct WorktreeView {
    record: WorktreeRecord,
    /// The user's workspace.
    home: PathBuf,
    exists: bool,
    /// The next start goes on in it.
    is_needed: bool,
    /// The backlog, relative to the workspace.
    backlog: Option<PathBuf>,
    /// `None` if it could not be found out.
    work: Option<WorktreeWork>,
}

impl WorktreeView {
    /// Reads the worktree in which a run has worked; `None` if it has none.
    pub async fn read(
        context: &Context,
        layout: &Layout,
        found: &StoredRun,
    ) -> Result<Option<Self>, CommandError> {
        let records = locate(context, layout);
        let Some(record) = find_of(&records, found).cloned() else { return Ok(None) };
        let is_needed = found.state.completion().is_none();
        Self::read_record(context, layout, record, is_needed).await.map(Some)
    }

    /// Reads the worktree onto whose branch items that are worked on at once are merged; `None` if there is none.
    pub async fn read_trunk(
        context: &Context,
        layout: &Layout,
    ) -> Result<Option<Self>, CommandError> {
        let ledger = read_ledger(layout)?.unwrap_or_default();
        let Some(trunk) = &ledger.trunk else { return Ok(None) };
        let records = locate(context, layout);
        let Some(record) = records.into_iter().find(|record| record.run == trunk.worktree) else {
            return Ok(None);
        };
        let is_needed = !ledger.is_complete();
        Self::read_record(context, layout, record, is_needed).await.map(Some)
    }

    async fn read_record(
        context: &Context,
        layout: &Layout,
        record: WorktreeRecord,
        is_needed: bool,
    ) -> Result<Self, CommandError> {
        let exists = record.folder().join(".git").exists();
        let home = context.loaded.configured_workspace().to_owned();
        let work = if exists { find_work(context, layout, &record, &home).await? } else { None };
        let backlog =
            context.loaded.config.backlog.as_ref().and_then(|backlog| backlog.path.clone());
        Ok(Self { record, home, exists, is_needed, backlog, work })
    }

    /// Returns lines that say where the work is, and what to do with it: a label and a value each.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let WorktreeRecord { branch, base, .. } = &self.record;
        let folder = self.record.folder();
        let gone = if self.exists { "" } else { " (does not exist any more)" };
        let mut rows = vec![("worktree", format!("{}{gone}", folder.display()))];
        let since = format!("since {}", shorten_commit(base));
        rows.push(match &self.work {
            Some(work) if work.commits == 0 => ("branch", format!("{branch}, no commit {since}")),
            Some(work) => {
                ("branch", format!("{branch}, {} {since}", count(work.commits, "commit")))
            }
            None => ("branch", branch.clone()),
        });
        let at = quote_word(&folder);
        // That it was moved is no change of an agent's.
        let work = self.work.as_ref();
        let is_elsewhere =
            work.is_some_and(|work| !work.is_on_branch) && find_disconnection(&folder).is_none();
        match work.filter(|work| work.is_on_branch).map(|work| work.uncommitted) {
            Some(Some(0)) => {}
            Some(Some(files)) => rows.push((
                "not in git",
                format!(
                    "{} there: `git -C {at} add -A`, then `git -C {at} commit`",
                    count(files, "file")
                ),
            )),
            Some(None) => rows.push((
                "not in git",
                format!(
                    "not known, since git's configuration was changed: see `git -C {at} status`"
                ),
            )),
            None if is_elsewhere => rows.push((
                "WARNING",
                "its HEAD or its .git file was changed: git would work on something else there, so look before \
                 you commit or merge"
                    .to_owned(),
            )),
            None => {}
        }
        if let Some(backlog) = self.backlog.as_ref().filter(|_| self.exists) {
            let backlog = backlog.display();
            rows.push((
                "backlog",
                format!(
                    "{backlog} there has the statuses: commit it before you remove the worktree"
                ),
            ));
        }
        rows.extend(self.advice());
        rows
    }

    /// Returns the commands that merge the branch and remove the worktree.
    fn advice(&self) -> Vec<(&'static str, String)> {
        let (branch, folder) = (&self.record.branch, self.record.folder());
        let (home, at) = (quote_word(&self.home), quote_word(&folder));
        if !self.home.exists() {
            let advice = format!(
                "the checkout is not at {home} any more: `git worktree repair {at}` in it, then `git merge {branch}`"
            );
            return vec![("merge", advice)];
        }
        let mut rows = Vec::new();
        if self.exists && find_disconnection(&folder).is_some() {
            match repair_command(&self.record, &self.home, &folder) {
                Some(command) => rows.push(("repair", command)),
                None => {
                    let home = self.home.display();
                    let advice = format!("the repository of {home} has no such worktree");
                    return vec![("WARNING", advice)];
                }
            }
        }
        rows.push(("merge", format!("git -C {home} merge {branch}")));
        if self.exists {
            rows.extend(self.ignored());
            // Git refuses for a file that is not committed, and a copy of the user's own is no loss.
            let work = self.work.as_ref();
            let has_copies_only =
                work.is_some_and(|work| work.uncommitted == Some(0) && work.left_out > 0);
            let force = if has_copies_only { " --force" } else { "" };
            let when = if self.is_needed { "not before `run` has completed: " } else { "" };
            rows.push(("remove", format!("{when}git -C {home} worktree remove{force} {at}")));
        }
        rows
    }

    /// Returns what is ignored there, and the command that copies it into the user's checkout, where nothing is overwritten.
    fn ignored(&self) -> Vec<(&'static str, String)> {
        let Some(ignored) = self.work.as_ref().map(|work| &work.ignored) else { return Vec::new() };
        if ignored.is_empty() {
            return Vec::new();
        }
        let names: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        let words: Vec<_> = ignored.iter().map(|path| quote_word(path.as_path())).collect();
        let inside = self.record.workspace();
        let depth =
            inside.strip_prefix(self.record.folder()).map_or(0, |it| it.components().count());
        let top = quote_word(self.home.ancestors().nth(depth).unwrap_or(&self.home));
        let at = quote_word(self.record.folder());
        let command = match names.len() <= MOST_IGNORED {
            true => format!("(cd {at} && cp -an --parents -t {top} -- {})", words.join(" ")),
            false => format!(
                "(cd {at} && git ls-files -oi --exclude-standard --directory -z | xargs -0 cp -an --parents -t {top} --)"
            ),
        };
        let named = escape(&name_first(names.into_iter()));
        let lost = format!("{named}: ignored, so in no commit; `worktree remove` deletes it");
        vec![("ignored", lost), ("keep", command)]
    }

    /// Returns the same for JSON.
    pub fn object(&self) -> Value {
        let work = self.work.as_ref();
        json!({
            "path": self.record.folder(),
            "branch": self.record.branch,
            "base": self.record.base,
            "exists": self.exists,
            "commits": work.map(|work| work.commits),
            "uncommitted": work.and_then(|work| work.uncommitted),
            "ignored": work.map(|work| &work.ignored),
            "on_branch": work.map(|work| work.is_on_branch),
        })
    }
}

/// Returns what is in a worktree, if git can be asked: a report never fails for that.
async fn find_work(
    context: &Context,
    layout: &Layout,
    record: &WorktreeRecord,
    home: &Path,
) -> Result<Option<WorktreeWork>, CommandError> {
    let runtime = Handle::current();
    let (private, record) = (layout.worktree_git(&record.run), record.clone());
    let (vars, home) = (context.vars.clone(), home.to_owned());
    let places = context.agent_places();
    let loaded = context.loaded.clone();
    let Ok(policy) = SandboxPolicy::from_context(context) else { return Ok(None) };
    let policy = policy.map(|policy| policy.without_workspace().with_readable([record.folder()]));
    let confinement = Confinement::new(policy.as_ref(), context);
    blocking(move || {
        let git = SupervisedGit::find(Supervisor::this_binary(), &vars, &places, runtime).ok()?;
        let git = git.confined(confinement, Vec::new());
        let opened = Repository::discover_with(&home, &private, Arc::new(git), environment(&vars));
        let WorktreeRecord { branch, base, .. } = &record;
        let copies = find_copies(&loaded, &record);
        opened.ok()?.find_worktree_work(&record.folder(), (branch, base), &copies).ok()
    })
    .await
}
