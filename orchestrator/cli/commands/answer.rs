//! `answer`

use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_machine::Control;
use ralph_orchestrator_terminal::set_args::SetArgs;

use super::steer::{ItemArgs, send};

#[derive(Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    /// The text; it goes to the top of the next prompt, after the question if one is open
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) of: ItemArgs,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn answer(file: &ConfigFile, args: AnswerArgs) -> Result<u8, CommandError> {
    send(file, (&args.sets, &args.of), &Control::Answer { text: args.text })
}
