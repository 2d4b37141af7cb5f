//! The run that is there: whether a start would go on with it.

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_machine::StopKind;
use ralph_orchestrator_store::{Lock, SeriesLock, StateError, read_current_run};

use super::Finding;
use crate::commands::run;
use crate::commands::run::look::Outlook;
use crate::error::stop_exit_status;

/// Finds out what a start would do, where a run is there already.
pub(super) async fn find(context: &Context) -> Result<Outlook, CommandError> {
    let Ok(layout) = context.layout() else { return Ok(Outlook::Begins) };
    if let Some(holder) = Lock::holder(&layout).or_else(|| SeriesLock::holder(&layout)) {
        return Err(StateError::Busy { holder }.into());
    }
    match read_current_run(&layout, |_| {}).ok().flatten() {
        Some(_) => Box::pin(run::look::look_ahead(context)).await,
        None => Ok(Outlook::Begins),
    }
}

/// What `run` would say; of an error only where no other check has found its cause, or one for which `run` would end otherwise.
pub(super) fn findings(
    outlook: &Result<Outlook, CommandError>,
    others: &[Finding],
) -> Vec<Finding> {
    let failed: Vec<u8> = others.iter().filter_map(Finding::failure).collect();
    let is_new = |code: u8| {
        failed.is_empty() || (matches!(code, exit::BUSY | exit::DAMAGED) && !failed.contains(&code))
    };
    let finding = |result, code| vec![Finding::new("run", result, code)];
    match outlook {
        Ok(Outlook::Stops(reason, message)) if reason.kind() != StopKind::Done => {
            let detail = format!("no agent would be started: {message}; `why` says what helps");
            finding(Err(detail), stop_exit_status(*reason, false, exit::OK))
        }
        Ok(Outlook::Complete { run }) => {
            vec![complete(run)]
        }
        Ok(Outlook::GoesOn { notes }) => {
            notes.iter().map(|note| Finding::warning("run", note.clone())).collect()
        }
        Err(error) if is_new(error.code()) => finding(Err(error.detail()), error.code()),
        Ok(Outlook::Begins | Outlook::Stops(..)) | Err(_) => Vec::new(),
    }
}

/// What `run` says where nothing may be started with the configuration, but the run is complete.
pub(super) fn completed_despite(run: &str, error: &CommandError) -> Vec<Finding> {
    let refused = format!("a new run would be refused: {}", error.summary());
    vec![complete(run), Finding::warning("configuration", refused)]
}

fn complete(run: &str) -> Finding {
    Finding::new("run", Ok(format!("run {run} is complete: `run` starts no agent")), exit::OK)
}
