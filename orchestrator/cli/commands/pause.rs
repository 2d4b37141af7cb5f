//! `pause` and `resume`

use ralph_orchestrator_core::machine::Control;

use crate::args::SetArgs;
use crate::context::{self, Context};
use crate::control::{Delivery, QUEUED, Sender, refuse};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    /// Cancel the running iteration, which is begun again after the pause, instead of waiting for its end
    #[arg(long)]
    pub(crate) now: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn pause(file: &ConfigFile, args: &PauseArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let delivery = Sender::new(&context, file, Control::Pause { now: args.now })?.deliver()?;
    let program = context::invocation(file);
    let Some((recorded, is_active)) = delivery.recorded() else {
        output::result(QUEUED);
        return Ok(exit::OK);
    };
    output::result(&match &recorded.refused {
        Some(reason) if recorded.state.is_pause_requested() => {
            format!("{reason}; `{program} resume` ends the pause")
        }
        Some(reason) => return Err(refuse(reason)),
        None if is_active => {
            let when = begins(recorded.iteration, args.now);
            format!("pausing {when}; `{program} resume` ends the pause")
        }
        None => format!(
            "paused: no run is active, and the next `{program} run` waits for `{program} resume`"
        ),
    });
    Ok(exit::OK)
}

/// When the pause begins.
fn begins(running: Option<u64>, now: bool) -> String {
    match running {
        Some(iteration) if now => {
            format!("now: iteration {iteration} is cancelled, and begun again")
        }
        Some(iteration) => format!("after iteration {iteration}"),
        None => "before the next iteration".to_owned(),
    }
}

pub(crate) fn resume(file: &ConfigFile, args: &ResumeArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let delivery = Sender::new(&context, file, Control::Resume)?.deliver()?;
    let program = context::invocation(file);
    let refused = delivery.recorded().and_then(|(recorded, _)| recorded.refused.as_deref());
    output::result(&match (refused, &delivery) {
        // Whoever wanted it resumed has what was wanted.
        (Some(reason), Delivery::Taken(_)) => reason.to_owned(),
        (Some(reason), _) => format!("{reason}; `{program} run` resumes a run that was stopped"),
        (None, Delivery::Taken(_)) => "the pause is over".to_owned(),
        (None, Delivery::Stored(_)) => format!("the pause is over; `{program} run` resumes"),
        (None, Delivery::Queued) => QUEUED.to_owned(),
    });
    Ok(exit::OK)
}
