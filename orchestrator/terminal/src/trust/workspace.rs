//! A copy of a run's workspace, which has taken its place: the run goes on in it once a person has accepted it.

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git;
use ralph_orchestrator_assembly::trust::Trust;
use ralph_orchestrator_engine::states_dir;

use crate::{output, question};

/// Asks on the terminal whether the run goes on in another folder than the one in which it began. Without a terminal its
/// start refuses that.
///
/// # Errors
/// As of [`git::find_replaced`]; the answer cannot be read or recorded.
pub fn ask_about_workspace(context: &Context) -> Result<(), CommandError> {
    if !question::is_possible() {
        return Ok(());
    }
    let Some(replaced) = git::find_replaced(context)? else { return Ok(()) };
    Trust::in_state(&context.state_home(), false).refuse_from_below()?;
    let (done, question) = match replaced.is_complete {
        true => ("was completed", "is it a copy of that, with the work in it? [y/N] "),
        false => (
            "began",
            "is it a copy of that, such as from a backup, in which the run is to go on? [y/N] ",
        ),
    };
    output::report(&format!(
        "{} is another folder than the one in which run {} {done}",
        replaced.path.display(),
        replaced.run
    ));
    if question::confirmed(question)? {
        replaced.accept(&states_dir(&context.state_home()))?;
    }
    Ok(())
}

/// Accepts the folder that has taken the place of the workspace of the configuration's run. Returns whether there is one.
///
/// # Errors
/// As of [`git::find_replaced`]; it cannot be recorded.
pub fn accept_workspace(context: &Context) -> Result<bool, CommandError> {
    let Some(replaced) = git::find_replaced(context)? else { return Ok(false) };
    replaced.accept(&states_dir(&context.state_home()))?;
    output::result(&format!(
        "accepted {} as the workspace of run {}, which {} in another folder",
        replaced.path.display(),
        replaced.run,
        if replaced.is_complete { "was completed" } else { "began" }
    ));
    Ok(true)
}
