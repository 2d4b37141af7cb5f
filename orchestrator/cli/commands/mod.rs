//! One file per command.

pub(crate) mod add;
pub(crate) mod agents;
pub(crate) mod answer;
pub(crate) mod budget;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod go;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod new;
pub(crate) mod next;
pub(crate) mod notify;
pub(crate) mod pause;
pub(crate) mod prompts;
pub(crate) mod receipt;
pub(crate) mod rehearse;
pub(crate) mod report;
pub(crate) mod reset;
pub(crate) mod rollback;
pub(crate) mod run;
pub(crate) mod runs;
#[cfg(feature = "web")]
pub(crate) mod serve;
pub(crate) mod skip;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod stop;
pub(crate) mod trust;
pub(crate) mod verify;
#[cfg(feature = "watch")]
pub(crate) mod watch;
pub(crate) mod why;

use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;

use crate::args::ControlCommand;

/// Runs a command that asks something of a run.
pub(crate) fn control(file: &ConfigFile, command: ControlCommand) -> Result<u8, CommandError> {
    match command {
        ControlCommand::Steer(args) => steer::steer(file, args),
        ControlCommand::Answer(args) => answer::answer(file, args),
        ControlCommand::Pause(args) => pause::pause(file, &args),
        ControlCommand::Resume(args) => pause::resume(file, &args),
        ControlCommand::Limits(args) => limits::limits(file, &args),
        ControlCommand::Stop(args) => stop::stop(file, &args),
    }
}
