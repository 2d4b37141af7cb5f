//! A copy of a run's workspace, which has taken its place: the run goes on in it once a person has accepted it, and is taken
//! back in the same way.

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
    let path = replaced.path.display();
    let begun = format!("{path} is another folder than the one in which run {}", replaced.run);
    let (what, question) = match &replaced.successor {
        Some(there) => (
            format!(
                "run {} goes on in {}, which was accepted for it",
                replaced.run,
                there.display()
            ),
            format!("is it to go on in {path} again? [y/N] "),
        ),
        None if replaced.is_complete => (
            format!("{begun} was completed"),
            "is it a copy of that, with the work in it? [y/N] ".to_owned(),
        ),
        None => (
            format!("{begun} began"),
            "is it a copy of that, such as from a backup, in which the run is to go on? [y/N] "
                .to_owned(),
        ),
    };
    output::report(&what);
    if question::confirmed(&question)? {
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
        "accepted {} as the workspace of run {}, which {}",
        replaced.path.display(),
        replaced.run,
        match &replaced.successor {
            Some(there) => format!("was that of {}", there.display()),
            None if replaced.is_complete => "was completed in another folder".to_owned(),
            None => "began in another folder".to_owned(),
        }
    ));
    Ok(true)
}
