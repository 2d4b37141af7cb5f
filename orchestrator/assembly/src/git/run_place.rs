//! Where a run works: in the workspace, or in a git worktree that is made for it.

use std::path::{Path, PathBuf};

use ralph_orchestrator_driver::read_ledger;
use ralph_orchestrator_engine::{EngineError, check_role_prompts, has_other_task};
use ralph_orchestrator_git::WorktreeStart;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{
    Disk, Layout, Lock, SeriesLock, StoredRun, WorktreeLock, WorktreeRecord, list_worktrees,
    read_current_run,
};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_text::count;
use serde_json::{Value, json};

use super::ended_request::{find_ended, follow_remote};
use super::moved_worktree::{find_disconnection, repair_command};
use super::process::blocking;
use super::worktree::{find_of, find_replaced, locate};
use super::worktree_maker::{PREFIX, WorktreeMaker, base_name, copy_own_files, task_digest};
use crate::backlog_view;
use crate::context::Context;
use crate::error::CommandError;
use crate::messages;
use crate::plugins::Plugins;
use crate::registry;

/// Where a run works.
pub struct RunPlace {
    /// The configuration as the run has it: in its worktree, if it has one.
    pub context: Context,
    /// What is there belongs to a run elsewhere: a new one begins.
    pub begins: bool,
    /// The worktree.
    record: Option<WorktreeRecord>,
    /// What would be made, were this no dry run.
    planned: Option<PlannedWorktree>,
    /// What the run that is resumed should be warned of.
    warning: Option<String>,
}

/// A worktree that a dry run does not make.
struct PlannedWorktree {
    folder: PathBuf,
    start: WorktreeStart,
}

/// Where the next run works.
enum Choice {
    /// In the workspace itself, where the run works that is to be resumed, if one is.
    Workspace { resumed: Option<String> },
    /// In the worktree of the run that is there, which is to be resumed, if one is.
    Existing { record: WorktreeRecord, resumed: Option<String> },
    /// In a worktree that is still to be made.
    New {
        /// Why the run that is there is not continued.
        reason: Option<&'static str>,
        /// It begins with what was merged at the remote meanwhile.
        follows_remote: bool,
        /// The newest worktree, if no run has begun in it.
        unused: Option<WorktreeRecord>,
    },
}

impl Choice {
    fn in_place(record: Option<WorktreeRecord>, resumed: Option<String>) -> Self {
        match record {
            Some(record) => Self::Existing { record, resumed },
            None => Self::Workspace { resumed },
        }
    }

    const fn begin_anew(reason: Option<&'static str>, unused: Option<WorktreeRecord>) -> Self {
        Self::New { reason, unused, follows_remote: false }
    }

    /// Says that a run goes on elsewhere than the configuration has runs work now.
    fn print_difference(&self, is_wanted: bool) {
        let (run, place, other) = match self {
            Self::Workspace { resumed: Some(run) } if is_wanted => {
                (run, "in the workspace itself", "in a worktree")
            }
            Self::Existing { resumed: Some(run), .. } if !is_wanted => {
                (run, "in its worktree", "in the workspace itself")
            }
            _ => return,
        };
        messages::info(&format!(
            "run {run} began with another value of `git.worktree` and goes on {place}; \
             `run --restart` begins one {other}"
        ));
    }
}

/// What a start asks of the place of its run.
#[derive(Clone, Debug, Default)]
pub struct PlaceRequest {
    /// A new run begins, whatever became of the one before.
    pub restart: bool,
    /// Nothing is made.
    pub dry_run: bool,
    /// What the user names as protected on the command line.
    pub protect: Vec<String>,
}

impl RunPlace {
    /// Decides where the run of a start works, and makes its worktree if it needs one.
    pub async fn find(
        context: Context,
        supervisor: Supervisor,
        request: PlaceRequest,
    ) -> Result<Self, CommandError> {
        let restart = request.restart;
        match Box::pin(Self::find_in(context.clone(), supervisor, request)).await {
            // What is wrong with a worktree is no wonder in another folder.
            Err(error) if !restart => match find_replaced(&context)? {
                Some(replaced) => Err(EngineError::from(replaced.error()).into()),
                None => Err(error),
            },
            found => found,
        }
    }

    async fn find_in(
        context: Context,
        supervisor: Supervisor,
        request: PlaceRequest,
    ) -> Result<Self, CommandError> {
        let PlaceRequest { restart, dry_run, protect } = request;
        let is_wanted = context.loaded.config.git.worktree;
        let layout = match context.layout_of_run(restart) {
            // Whoever opens the run says what is wrong.
            Err(_) if !is_wanted => return Ok(Self::at(context, None, false)),
            layout => layout?,
        };
        if !is_wanted && list_worktrees(&layout).is_empty() {
            return Ok(Self::at(context, None, false));
        }
        let needs_lock = is_wanted && !dry_run;
        let lock = if needs_lock { Some(take_lock(layout.clone()).await?) } else { None };
        let maker = WorktreeMaker { context, layout, supervisor, lock, protect };
        let choice = Box::pin(maker.choose(restart)).await?;
        choice.print_difference(is_wanted);
        match choice {
            Choice::Workspace { .. } => Ok(Self::at(maker.context, None, false)),
            Choice::Existing { record, resumed } => {
                maker.record_move(&record)?;
                let warning = resumed.and_then(|run| maker.describe_other_task(&run, &record));
                Ok(Self { warning, ..Self::at(maker.context, Some(record), false) })
            }
            // After a run in a worktree.
            Choice::New { .. } if !is_wanted => Ok(Self::at(maker.context, None, true)),
            Choice::New { reason, unused, follows_remote } => {
                maker.begin(reason, unused, follows_remote).await
            }
        }
    }

    fn at(mut context: Context, record: Option<WorktreeRecord>, begins: bool) -> Self {
        if let Some(record) = &record {
            context.loaded = context.loaded.in_folder(&record.workspace());
        }
        Self { context, begins, record, planned: None, warning: None }
    }

    /// Returns the worktree of the run, if it has one.
    pub(super) fn record(&self) -> Option<&WorktreeRecord> {
        self.record.as_ref()
    }

    /// Returns the id of the run, if it is the first one in its worktree.
    pub fn new_run(&self) -> Option<String> {
        let record = self.record.as_ref()?;
        let layout = self.context.layout_to_delete().ok()?;
        (!layout.run(&record.run).exists()).then(|| record.run.clone())
    }

    /// Returns what to warn of, for people: that the user's checkout asks for something else than the run that goes on.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Returns what agents have to read beside the worktree: the repository that it belongs to.
    pub fn repository(&self) -> Option<PathBuf> {
        self.record.as_ref().map(WorktreeRecord::repository)
    }

    /// Returns, for people, the worktree in which the run works or would work.
    pub fn describe(&self) -> Option<String> {
        if let Some(planned) = &self.planned {
            return Some(format!("to be made: {}", planned.describe()));
        }
        let record = self.record.as_ref()?;
        Some(format!("{} on branch {}", record.folder().display(), record.branch))
    }

    /// Returns the same for JSON.
    pub fn object(&self) -> Value {
        if let Some(PlannedWorktree { folder, start }) = &self.planned {
            return json!({
                "path": folder, "branch": format!("{PREFIX}/…"), "base": start.base,
                "exists": false, "uncommitted": start.uncommitted,
            });
        }
        self.record.as_ref().map_or(Value::Null, |record| {
            json!({
                "path": record.folder(), "branch": record.branch, "base": record.base,
                "exists": record.folder().exists(), "uncommitted": null,
            })
        })
    }
}

impl PlannedWorktree {
    fn describe(&self) -> String {
        let Self { folder, start } = self;
        let uncommitted = match start.uncommitted {
            0 => String::new(),
            files => format!("; {} of your checkout not committed", count(files, "file")),
        };
        format!(
            "a worktree {}-… on a new branch {PREFIX}/…, from {}{uncommitted}",
            folder.display(),
            base_name(start)
        )
    }
}

/// Fails if no worktree could be made, and says what would be. Writes nothing.
pub async fn check_worktree(context: &Context) -> Result<String, CommandError> {
    let layout = context.layout()?;
    if let Some((_, record)) = find_unfinished(context, &layout) {
        return Ok(format!("{} on branch {}", record.folder().display(), record.branch));
    }
    let maker = WorktreeMaker {
        context: context.clone(),
        layout,
        supervisor: Supervisor::this_binary(),
        lock: None,
        protect: Vec::new(),
    };
    let start = maker.find_start().await?;
    let folder = maker.folder(&start)?;
    Ok(PlannedWorktree { folder, start }.describe())
}

/// Fails if the run that the next start resumes could not go on in its worktree.
pub fn verify_worktree(context: &Context) -> Result<(), CommandError> {
    match find_unfinished(context, &context.layout()?) {
        Some((run, record)) => {
            verify_connected(&run, &record, context.loaded.configured_workspace())
        }
        None => Ok(()),
    }
}

/// Returns the unfinished run of the workspace and its worktree, if it has one.
fn find_unfinished(context: &Context, layout: &Layout) -> Option<(String, WorktreeRecord)> {
    let found = read_current_run(layout, |_| {}).ok().flatten()?;
    if found.state.completion().is_some() {
        return None;
    }
    let record = find_of(&locate(context, layout), &found)?.clone();
    Some((found.run, record))
}

/// Returns the newest worktree, if the newest run is an older one in another.
fn find_unused(records: &[WorktreeRecord], current: Option<&StoredRun>) -> Option<WorktreeRecord> {
    let latest = records.first()?;
    let is_used = current.is_some_and(|found| {
        find_of(std::slice::from_ref(latest), found).is_some() || latest.run < found.run
    });
    (!is_used).then(|| latest.clone())
}

/// Returns that the run which was found is continued, or is complete, where it has worked.
fn continue_in(
    found: &StoredRun,
    record: Option<WorktreeRecord>,
    checkout: &Path,
) -> Result<Choice, CommandError> {
    let resumed = found.state.completion().is_none().then(|| found.run.clone());
    if let (Some(record), Some(run)) = (&record, &resumed) {
        verify_connected(run, record, checkout)?;
    }
    Ok(Choice::in_place(record, resumed))
}

/// Fails unless an unfinished run's worktree is there, and it and its repository find each other.
fn verify_connected(
    run: &str,
    record: &WorktreeRecord,
    checkout: &Path,
) -> Result<(), CommandError> {
    let folder = record.folder();
    let whose = format!("the worktree {} of the unfinished run {run}", folder.display());
    let is_gone = !folder.join(".git").exists();
    let problem = match find_disconnection(&folder) {
        _ if is_gone => "does not exist any more".to_owned(),
        Some(problem) => problem,
        None => return Ok(()),
    };
    let place = if is_gone { Path::new("FOLDER") } else { &folder };
    let hint = match repair_command(record, checkout, place) {
        Some(command) if is_gone => format!(
            "if it was moved, `{command}` with the folder where it is now connects it again, and `run` goes on; otherwise \
             `run --restart` begins a new run in a new worktree; branch {} has what was committed",
            record.branch
        ),
        Some(command) => {
            format!("if one of them was moved, `{command}` connects them again, and `run` goes on")
        }
        None => format!(
            "the repository of {} has no such worktree: in the checkout that has it, if that is still somewhere, \
             `git worktree repair {}` connects them, and `run` goes on; here `run --restart` begins a new run",
            checkout.display(),
            quote_word(place)
        ),
    };
    Err(CommandError::config(format!("{whose} {problem}")).hinted(hint))
}

impl WorktreeMaker {
    /// Decides where the next run works.
    async fn choose(&self, restart: bool) -> Result<Choice, CommandError> {
        let records = locate(&self.context, &self.layout);
        let trunk = match self.find_trunk(&records) {
            Ok(trunk) => trunk,
            Err(_) if restart => None,
            Err(error) => return Err(error),
        };
        let current = match read_current_run(&self.layout, |_| {}) {
            Ok(current) => current,
            Err(_) if restart => return Ok(Choice::begin_anew(None, None)),
            // Whoever opens the run says what is wrong.
            Err(_) => {
                let record = records.into_iter().next();
                return Ok(Choice::in_place(record, None));
            }
        };
        // Another start works there: it is reported as soon as its lock is needed.
        let is_held =
            Lock::holder(&self.layout).or_else(|| SeriesLock::holder(&self.layout)).is_some();
        if let Some(record) = &trunk
            && (!restart || is_held)
        {
            return Ok(Choice::in_place(Some(record.clone()), None));
        }
        // Decided by what was read once: another start may begin its run at any moment.
        let unused =
            find_unused(&records, current.as_ref()).filter(|it| trunk.as_ref() != Some(it));
        if !restart && let Some(reason) = find_ended(&self.context, &self.layout).await? {
            return Ok(Choice::New { reason: Some(reason), unused, follows_remote: true });
        }
        let Some(found) = current else { return Ok(Choice::begin_anew(None, unused)) };
        let record = find_of(&records, &found).cloned();
        if restart {
            return Ok(match record {
                Some(record) if is_held => Choice::in_place(Some(record), None),
                _ => Choice::begin_anew(None, unused),
            });
        }
        match Box::pin(self.find_reason(&found, record.as_ref())).await? {
            Some(reason) => Ok(Choice::begin_anew(Some(reason), unused)),
            None => continue_in(&found, record, self.context.loaded.configured_workspace()),
        }
    }

    /// Returns the worktree onto whose branch items that are worked on at once are merged, if they are.
    fn find_trunk(
        &self,
        records: &[WorktreeRecord],
    ) -> Result<Option<WorktreeRecord>, CommandError> {
        let Some(trunk) = read_ledger(&self.layout)?.and_then(|ledger| ledger.trunk) else {
            return Ok(None);
        };
        let record = records.iter().find(|record| record.run == trunk.worktree);
        match record.filter(|record| record.folder().join(".git").exists()) {
            Some(record) => Ok(Some(record.clone())),
            None => Err(CommandError::config(format!(
                "the worktree of the backlog's run, on branch {}, does not exist any more",
                trunk.branch
            ))
            .hinted("`run --restart` begins a new run in a new worktree; the branch has what was merged")),
        }
    }

    /// Records where a worktree is now, if it was moved.
    fn record_move(&self, record: &WorktreeRecord) -> Result<(), CommandError> {
        if self.lock.is_some() && !list_worktrees(&self.layout).contains(record) {
            record.write(&Disk::default(), &self.layout)?;
        }
        Ok(())
    }

    /// Returns that the prompt in the user's checkout is another one since the worktree was made, and the worktree's is not that.
    fn describe_other_task(&self, run: &str, record: &WorktreeRecord) -> Option<String> {
        let loaded = &self.context.loaded;
        let inside = loaded.clone().in_folder(&record.workspace());
        let (now, of_run) =
            (loaded.config.run.prompt.as_ref()?, inside.config.run.prompt.as_ref()?);
        let task = task_digest(loaded);
        (task != record.task && task != task_digest(&inside)).then(|| {
            format!(
                "{} asks for something else than when the worktree of run {run} was made, which goes on with {}; \
                 `run --restart` begins a run of its own",
                now.display(),
                of_run.display()
            )
        })
    }

    /// Returns why a new run begins and not that is continued which was found, if one does.
    async fn find_reason(
        &self,
        found: &StoredRun,
        record: Option<&WorktreeRecord>,
    ) -> Result<Option<&'static str>, CommandError> {
        let context = &self.context;
        let loaded = match record {
            Some(record) => context.loaded.clone().in_folder(&record.workspace()),
            None => context.loaded.clone(),
        };
        // The items of a backlog are worked on in one worktree, one after the other.
        if loaded.config.backlog.is_some() {
            return Ok(None);
        }
        let registry = registry::unsupervised(&Plugins::none(&context.compiled_in));
        let state_home = context.state_home();
        let (vars, protect) = (&context.vars, &self.protect);
        if Box::pin(has_other_task(found.clone(), &loaded, &state_home, vars, &registry, protect))
            .await?
        {
            return Ok(Some("its task is another one now"));
        }
        let task = task_digest(&context.loaded);
        let is_complete = found.state.completion().is_some();
        let has_changed = is_complete && record.is_some_and(|record| record.task != task);
        Ok(has_changed.then_some("the prompt changed since its worktree was made"))
    }

    /// Makes the worktree of a new run, or completes one that was begun for a run that did not begin.
    async fn begin(
        self,
        reason: Option<&'static str>,
        unused: Option<WorktreeRecord>,
        follows_remote: bool,
    ) -> Result<RunPlace, CommandError> {
        self.refuse_nested()?;
        self.context.loaded.check_files()?;
        check_role_prompts(&self.context.loaded, &self.context.trust_store())?;
        backlog_view::check(&self.context).await?;
        if self.lock.is_some() {
            backlog_view::check_tracker(&self.context).await?;
        }
        let mut start = self.find_start().await?;
        if follows_remote && self.lock.is_some() {
            follow_remote(&self.context, &self.layout, &mut start).await?;
        }
        let folder = self.folder(&start)?;
        if self.lock.is_none() {
            let planned = Some(PlannedWorktree { folder, start });
            return Ok(RunPlace { planned, ..RunPlace::at(self.context, None, true) });
        }
        if let Some(reason) = reason {
            messages::info(&format!("{reason}: a new run begins in a new worktree"));
        }
        let record = match unused.filter(|unused| self.is_as_new(unused, &start)) {
            Some(record) => record,
            None => self.record(&start, &folder)?,
        };
        if record.is_made && record.folder().join(".git").exists() {
            copy_own_files(&self.context.loaded, &record, &self.context.trust_store())?;
            return Ok(RunPlace::at(self.context, Some(record), true));
        }
        let (made, warnings) = self.make(record, &start).await?;
        messages::info(&format!(
            "the run works in the new worktree {} on branch {}, from {}",
            made.folder().display(),
            made.branch,
            base_name(&start)
        ));
        warnings.iter().for_each(|warning| messages::info(warning));
        Ok(RunPlace::at(self.context, Some(made), true))
    }
}

async fn take_lock(layout: Layout) -> Result<WorktreeLock, CommandError> {
    Ok(blocking(move || WorktreeLock::take(&Disk::default(), &layout)).await??)
}
