//! What a start would do with the run that is there, for commands that only look: opened as `run --dry-run` opens it.

use std::fs::File;
use std::io;
use std::sync::Arc;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git::RunPlace;
use ralph_orchestrator_assembly::own_locks::wait_for_own_locks;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_engine::{OpenOutcome, states_dir};
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_store::{Disk, lock_workspace};
use ralph_orchestrator_terminal::signals;

use super::{RunArgs, backlog, confine, open_run, prepare};
use crate::dry_run::{DryRunTraces, ENDS_PAUSE};

/// What a start would do.
pub(crate) enum Outlook {
    /// A new run would begin.
    Begins,
    /// The run that is there would go on, or the backlog.
    GoesOn {
        /// What it would warn of.
        notes: Vec<String>,
    },
    /// A run is complete, so that nothing would be started.
    Complete {
        /// The run.
        run: String,
    },
    /// No iteration would begin, for this reason.
    Stops(StopReason, String),
}

/// Returns what a start would do.
///
/// # Errors
/// The start would be refused.
pub(crate) async fn look_ahead(context: &Context) -> Result<Outlook, CommandError> {
    let args = RunArgs { dry_run: true, ..RunArgs::default() };
    let signals = signals::listen()?;
    let (policy, plugins) = prepare(context)?;
    let _traces = DryRunTraces::new(context.layout()?);
    let supervisor = registry::supervisor_of_one(signals.switch.clone());
    let place = Box::pin(RunPlace::find(context.clone(), supervisor.clone(), args.place())).await?;
    let policy = confine(&place, policy)?;
    let found = if place.context.loaded.config.backlog.is_some() {
        let stop = Box::pin(backlog::find_stop(&place, &args, plugins, policy, &signals)).await;
        stop.map(|stop| match stop {
            Some((reason, message)) => Outlook::Stops(reason, message),
            None => Outlook::GoesOn { notes: Vec::new() },
        })
    } else {
        let opened = open_run(&place, &args, &plugins, policy.as_ref(), (supervisor, None));
        Box::pin(opened).await.map(|opened| match opened {
            OpenOutcome::Complete { found, .. } => Outlook::Complete { run: found.run },
            OpenOutcome::Ready(session) => match session.plan().into_stop() {
                Some((reason, message)) => Outlook::Stops(reason, message),
                None if session.is_resumed() => {
                    let mut notes: Vec<String> =
                        place.warning().map(str::to_owned).into_iter().collect();
                    notes.extend_from_slice(session.start_notes());
                    if session.state().is_pause_requested() {
                        notes.push(format!("`run` waits: the run is paused, and {ENDS_PAUSE}"));
                    }
                    Outlook::GoesOn { notes }
                }
                None => Outlook::Begins,
            },
        })
    };
    wait_for_workspace(&place.context).await?;
    found
}

/// Waits until no process that was started to look holds the workspace any more.
async fn wait_for_workspace(context: &Context) -> Result<(), CommandError> {
    let folder = match File::open(&context.loaded.config.run.workspace) {
        // That of a run that is complete may have been removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => Arc::new(opened?),
    };
    let states = states_dir(&context.state_home());
    let lock =
        || async { Ok(lock_workspace(&Disk::default(), Arc::clone(&folder), &states).map(drop)?) };
    Ok(wait_for_own_locks(lock).await?)
}
