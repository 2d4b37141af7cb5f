//! `steer`

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::control;
use ralph_orchestrator_assembly::control::{COMMAND_LINE, ControlTarget, own_origin};
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_machine::Control;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_text::one_line;

#[derive(Debug, clap::Args)]
pub(crate) struct SteerArgs {
    /// The text; it goes to the top of the next prompt, until an iteration that had it has ended well
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) of: ItemArgs,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

// A documentation comment would take the place of the command's own help.
#[derive(Debug, clap::Args)]
pub(crate) struct ItemArgs {
    /// The item of the backlog whose run is meant, where several are worked on at once
    #[arg(long, value_name = "ITEM")]
    pub(crate) item: Option<String>,
}

pub(crate) fn steer(file: &ConfigFile, args: SteerArgs) -> Result<u8, CommandError> {
    send(file, (&args.sets, &args.of), &Control::Steer { text: args.text })
}

/// Sends a control to the run of a configuration, or to all that go on at once, and says what became of it.
pub(super) fn send(
    file: &ConfigFile,
    (sets, of): (&SetArgs, &ItemArgs),
    control: &Control,
) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, sets)?;
    let targets = ControlTarget::find(&context, file, (of.item.as_deref(), control))?;
    let mut failure: Option<CommandError> = None;
    for target in targets {
        let whose = target.item.as_ref().map(|item| format!("item {}: ", one_line(item, 80)));
        let whose = whose.unwrap_or_default();
        match control::deliver(&target, own_origin(COMMAND_LINE), control) {
            Ok(outcome) => output::result(&format!("{whose}{}", outcome.message)),
            // It may be complete by now; the others are still meant.
            Err(error) if failure.is_none() => failure = Some(error),
            Err(error) => output::info(&format!("{whose}{}", error.detail())),
        }
    }
    failure.map_or(Ok(exit::OK), Err)
}
