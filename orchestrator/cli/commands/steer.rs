//! `steer`

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::control;
use ralph_orchestrator_assembly::control::{COMMAND_LINE, ControlTarget, own_origin};
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_machine::Control;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct SteerArgs {
    /// The text; it goes to the top of the next prompt, until an iteration that had it has ended well
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn steer(file: &ConfigFile, args: SteerArgs) -> Result<u8, CommandError> {
    send(file, &args.sets, &Control::Steer { text: args.text })
}

/// Sends a control to the run of a configuration, and says what became of it.
pub(super) fn send(
    file: &ConfigFile,
    sets: &SetArgs,
    control: &Control,
) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, sets)?;
    let target = ControlTarget::of_context(&context, file)?;
    let outcome = control::deliver(&target, own_origin(COMMAND_LINE), control)?;
    output::result(&outcome.message);
    Ok(exit::OK)
}
