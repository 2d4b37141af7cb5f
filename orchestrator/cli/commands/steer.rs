//! `steer`

use ralph_orchestrator_core::machine::Control;

use super::run_selection;
use crate::args::SetArgs;
use crate::context::{self, Context};
use crate::control::Sender;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct SteerArgs {
    /// The text; it goes to the top of the next prompt, until an iteration that had it has ended well
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn steer(file: &ConfigFile, args: SteerArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    if args.text.trim().is_empty() {
        return Err(CommandError::user("the text is empty"));
    }
    let delivery = Sender::new(&context, file, Control::Steer { text: args.text })?.deliver()?;
    let Some((_, is_active)) = delivery.accepted()? else { return Ok(exit::OK) };
    let run = run_selection::read(&context, None, |_| {})?;
    let is_attached = run.is_some_and(|run| run.found.state.process.attached);
    output::result(&match is_active {
        _ if is_attached => "queued: the session reads this when it stops next".to_owned(),
        true => "queued: this goes to the top of the next prompt".to_owned(),
        false => format!(
            "queued: this goes to the top of the next prompt; `{} run` resumes",
            context::invocation(file)
        ),
    });
    Ok(exit::OK)
}
