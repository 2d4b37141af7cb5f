//! What a start would do with the run that is there, for commands that only look: opened as `run --dry-run` opens it.

use std::fs::File;
use std::sync::Arc;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::own_locks::wait_for_own_locks;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_engine::{OpenOutcome, states_dir};
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_store::{Disk, lock_workspace};
use ralph_orchestrator_terminal::signals;

use super::{RunArgs, backlog, confine, open_run, prepare};
use crate::dry_run::DryRunTraces;
use crate::git::RunPlace;

/// Returns why a start would begin no iteration, if it would not. A run that is complete has none to begin.
///
/// # Errors
/// The start would be refused.
pub(crate) async fn find_stop(
    context: &Context,
) -> Result<Option<(StopReason, String)>, CommandError> {
    let args = RunArgs { dry_run: true, ..RunArgs::default() };
    let signals = signals::listen()?;
    let (policy, plugins) = prepare(context)?;
    let _traces = DryRunTraces::new(context.layout()?);
    let supervisor = registry::supervisor_of_one(signals.switch.clone());
    let place = RunPlace::find(context.clone(), supervisor.clone(), Vec::new(), false, true);
    let place = Box::pin(place).await?;
    let policy = confine(&place, policy)?;
    let found = if place.context.loaded.config.backlog.is_some() {
        Box::pin(backlog::find_stop(&place, &args, plugins, policy, &signals)).await
    } else {
        let opened = open_run(&place, &args, &plugins, policy.as_ref(), supervisor);
        Box::pin(opened).await.map(|opened| match opened {
            OpenOutcome::Complete { .. } => None,
            OpenOutcome::Ready(session) => session.plan().into_stop(),
        })
    };
    wait_for_workspace(&place.context).await?;
    found
}

/// Waits until no process that was started to look holds the workspace any more.
async fn wait_for_workspace(context: &Context) -> Result<(), CommandError> {
    let folder = Arc::new(File::open(&context.loaded.config.run.workspace)?);
    let states = states_dir(&context.state_home());
    let lock =
        || async { Ok(lock_workspace(&Disk::default(), Arc::clone(&folder), &states).map(drop)?) };
    Ok(wait_for_own_locks(lock).await?)
}
