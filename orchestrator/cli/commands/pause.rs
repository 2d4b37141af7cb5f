//! `pause` and `resume`

use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_machine::Control;
use ralph_orchestrator_terminal::set_args::SetArgs;

use super::steer::{ItemArgs, send};

#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    /// Cancel the running iteration, which is begun again after the pause, instead of waiting for its end
    #[arg(long)]
    pub(crate) now: bool,
    #[command(flatten)]
    pub(crate) of: ItemArgs,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) of: ItemArgs,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn pause(file: &ConfigFile, args: &PauseArgs) -> Result<u8, CommandError> {
    send(file, (&args.sets, &args.of), &Control::Pause { now: args.now })
}

pub(crate) fn resume(file: &ConfigFile, args: &ResumeArgs) -> Result<u8, CommandError> {
    send(file, (&args.sets, &args.of), &Control::Resume)
}
