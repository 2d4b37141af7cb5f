//! The run that is there: whether a start would go on with it.

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_machine::{StopKind, StopReason};
use ralph_orchestrator_store::{Lock, SeriesLock, read_current_run};

use super::Finding;
use crate::commands::run;
use crate::error::stop_exit_status;

/// How a start would end before an agent is started, if it would.
type Outlook = Result<Option<(StopReason, String)>, CommandError>;

/// Finds out how a start would go on with the run that is there. While one is active, that shows.
pub(super) async fn find(context: &Context) -> Outlook {
    let Ok(layout) = context.layout() else { return Ok(None) };
    if Lock::holder(&layout).or_else(|| SeriesLock::holder(&layout)).is_some() {
        return Ok(None);
    }
    let has_backlog = context.loaded.config.backlog.is_some();
    let current = read_current_run(&layout, |_| {}).ok().flatten();
    match current.filter(|found| has_backlog || found.state.completion().is_none()) {
        Some(_) => Box::pin(run::look::find_stop(context)).await,
        None => Ok(None),
    }
}

/// What `run` would say; of an error only where no other check has found its cause.
pub(super) fn finding(outlook: Outlook, is_sound: bool) -> Option<Finding> {
    match outlook {
        Ok(Some((reason, message))) if reason.kind() != StopKind::Done => {
            let detail = format!("no agent would be started: {message}; `why` says what helps");
            Some(Finding::new("run", Err(detail), stop_exit_status(reason, false, exit::OK)))
        }
        Err(error) if is_sound && error.code() != exit::BUSY => {
            Some(Finding::new("run", Err(error.render(false, None)), error.code()))
        }
        Ok(_) | Err(_) => None,
    }
}
