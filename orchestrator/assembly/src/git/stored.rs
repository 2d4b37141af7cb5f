//! The repository of a stored run, for commands that read its checkpoints.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_config::CommitMode;
use ralph_orchestrator_engine::redactor_of_run;
use ralph_orchestrator_git::{CheckpointName, Repository, RunRef};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{Disk, Layout, Rollbacks, StoredRun};
use ralph_orchestrator_story::diff::StoredRepository;
use ralph_orchestrator_story::words::short_object_id;
use ralph_orchestrator_supervisor::Supervisor;
use tokio::runtime::Handle;

use super::process::{Confinement, SupervisedGit, blocking, environment};
use crate::context::Context;
use crate::error::CommandError;
use crate::messages;
use crate::run_selection;
use crate::run_selection::no_run_error;

/// Opens the repository that has the checkpoints of the workspace's run: those that its journal and the record of
/// rollbacks name, whatever the refs say; or of the earlier one whose id begins like this.
pub async fn open_stored(
    context: &Context,
    prefix: Option<&str>,
) -> Result<StoredRepository, CommandError> {
    let selected = run_selection::read(context, prefix, |_| {})?.ok_or_else(no_run_error)?;
    let configured = context.loaded.config.run.workspace.clone();
    let (layout, around) = (&selected.layout, (context.agent_places(), None));
    if !layout.git(&selected.found.run).exists() {
        return Err(missing_checkpoints(&selected.found.run, context.loaded.config.git.commit));
    }
    let stored = open_stored_run(layout, selected.found, configured, around, &context.vars).await?;
    let moved = {
        let (repository, run) = (stored.repository.clone(), stored.run.clone());
        blocking(move || repository.list_moved_refs(&run)).await??
    };
    for (name, now) in moved {
        let now = now.map_or_else(
            || "is gone".to_owned(),
            |now| format!("was set to {}", short_object_id(now.as_str())),
        );
        messages::info(&format!(
            "warning: {name} {now} from outside; the checkpoint that the run recorded is used"
        ));
    }
    Ok(stored)
}

/// Says that a run has no checkpoints, and what makes them where this is configured now.
fn missing_checkpoints(run: &str, mode: CommitMode) -> CommandError {
    let hint = match mode {
        CommitMode::Off => "`[git] commit = \"checkpoint\"` makes one after each iteration",
        CommitMode::Checkpoint | CommitMode::Iteration | CommitMode::Handoff => {
            "`git.commit` was set after this run had worked: the next `run` makes one after each iteration"
        }
    };
    CommandError::user(format!("run {run} has no checkpoints")).hinted(hint)
}

/// Opens the repository of a run whose workspace is the configured one if none was recorded. `places` is where its
/// agents can write beside it, `confinement` confines what runs programs that the repository names.
pub async fn open_stored_run(
    layout: &Layout,
    found: StoredRun,
    configured: PathBuf,
    (mut places, confinement): (Vec<PathBuf>, Option<Confinement>),
    vars: &BTreeMap<String, String>,
) -> Result<StoredRepository, CommandError> {
    let folder = layout.git(&found.run);
    if !folder.exists() {
        return Err(missing_checkpoints(&found.run, CommitMode::Off));
    }
    let rollbacks = Rollbacks::read(&Disk::default(), layout)?.saved_of(&found.run);
    let rollbacks = rollbacks
        .into_iter()
        .map(|(number, commit)| (CheckpointName::BeforeRollback(number), commit));
    let iterations = found.state.saves.checkpoints.into_iter();
    let checkpoints: Vec<_> = iterations
        .map(|(number, commit)| (CheckpointName::Iteration(number), commit))
        .chain(rollbacks)
        .collect();
    let recorded = found.state.started.map(|started| PathBuf::from(started.workspace));
    let workspace = recorded.filter(|recorded| recorded.exists()).unwrap_or(configured);
    let redactor = redactor_of_run(layout, &found.run, vars);
    let runtime = Handle::current();
    places.push(real_path(&workspace));
    let git = SupervisedGit::find(Supervisor::this_binary(), vars, &places, runtime)
        .map_err(CommandError::unavailable)?
        .confined(confinement, Vec::new());
    let (vars, run) = (environment(vars), RunRef::new(found.run)?);
    let open = move || Repository::discover_with(&workspace, &folder, Arc::new(git), vars);
    let repository = blocking(open).await??.with_recorded_checkpoints(checkpoints);
    Ok(StoredRepository { repository, run, redactor })
}
