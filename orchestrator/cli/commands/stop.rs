//! `stop`

use std::time::Duration;

use ralph_orchestrator_core::machine::{Control, ControlOrigin, ReceivedControl};
use ralph_orchestrator_core::store::{
    Holder, Layout, Lock, Owner, SeriesLock, read_current_run, send_control, withdraw_control,
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::run_selection::layouts;
use crate::args::SetArgs;
use crate::context::{self, Context};
use crate::control::{COMMAND_LINE, own_origin};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// Return at once instead of waiting until the run has ended
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

const POLL: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// How long a process is waited for that holds nothing any more: nobody may be there to reap it.
const LONGEST_END: Duration = Duration::from_secs(2);

pub(crate) fn stop(file: &ConfigFile, args: &StopArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let own = context.layout()?;
    if let Some(holder) = holder_of(&own).filter(|holder| !holder.work.is_run()) {
        output::result(&other_work(&holder));
        return Ok(exit::OK);
    }
    let (layout, holder, program) = match holder_of(&own) {
        Some(holder) => (own, holder, Some(context::invocation(file))),
        None => match active_run(&context)? {
            Some((layout, holder, None)) => (layout, holder, None),
            Some((_, holder, Some(file))) => {
                let program = context::invocation(&file);
                output::result(&format!(
                    "no run is active for this configuration; another one's is ({holder}): \
                     `{program} stop` stops it"
                ));
                return Ok(exit::OK);
            }
            None => {
                output::result("no run is active");
                return Ok(exit::OK);
            }
        },
    };
    let (pid, message) = request(&layout, &holder, own_origin(COMMAND_LINE))?;
    if args.no_wait {
        output::result(&format!("stop requested: {holder}"));
        return Ok(exit::OK);
    }
    let deadline = std::time::Instant::now() + LONGEST_WAIT;
    while holder_of(&layout).is_some_and(|now| now == holder) {
        if std::time::Instant::now() >= deadline {
            let seconds = LONGEST_WAIT.as_secs();
            return Err(CommandError::user(format!("{holder} did not end within {seconds} s")));
        }
        std::thread::sleep(POLL);
    }
    // It gives its locks back just before it ends.
    let deadline = std::time::Instant::now() + LONGEST_END;
    while test_kill_process(pid).is_ok() && std::time::Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    // Where the run ended before it could record it.
    if let Some(id) = message {
        withdraw_control(&layout, &id)?;
    }
    output::result(&match program {
        Some(program) => format!("stopped ({holder}); `{program} run` resumes"),
        None => format!(
            "stopped ({holder}), a run that was begun without a configuration file: the command that \
             began it resumes it where there is none"
        ),
    });
    Ok(exit::OK)
}

/// Requests the end of the run that a process holds, and returns that process and the id of the message that says
/// who does.
fn request(
    layout: &Layout,
    holder: &Holder,
    origin: ControlOrigin,
) -> Result<(Pid, Option<String>), CommandError> {
    let pid = i32::try_from(holder.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| CommandError::user("the run has only just started; try again"))?;
    let message = announce(layout, origin);
    kill_process(pid, Signal::TERM).map_err(std::io::Error::from)?;
    // An agent may have stopped it, or Ctrl-Z: then it would never receive the other one.
    kill_process(pid, Signal::CONT).map_err(std::io::Error::from)?;
    Ok((pid, message))
}

/// Requests the end of the run of a state directory, without waiting for it, and returns what to say of it.
///
/// # Errors
/// The process that holds the run cannot be reached.
pub(crate) fn request_stop(layout: &Layout, origin: ControlOrigin) -> Result<String, CommandError> {
    let Some(holder) = holder_of(layout) else { return Ok("no run is active".to_owned()) };
    if !holder.work.is_run() {
        return Ok(other_work(&holder));
    }
    request(layout, &holder, origin)?;
    Ok(format!("stop requested: {holder}"))
}

/// Says that a state is held for something else than a run, which is left to finish.
fn other_work(holder: &Holder) -> String {
    format!("no run is active; its state is held by {holder}, which is not stopped")
}

/// Lets the run record who stops it. That is not needed to stop it, so whatever keeps it from that is no
/// error. Returns the id of the message.
fn announce(layout: &Layout, origin: ControlOrigin) -> Option<String> {
    let found = read_current_run(layout, |_| {}).ok()??;
    if found.state.completion().is_some() {
        return None;
    }
    let control = ReceivedControl { origin, control: Control::Stop };
    send_control(layout, &found.run, &control).ok()?;
    Some(control.origin.id)
}

/// Returns who works in a state directory. Between two items of a backlog no run is held, but the series of
/// them is.
fn holder_of(layout: &Layout) -> Option<Holder> {
    SeriesLock::holder(layout).or_else(|| Lock::holder(layout))
}

/// Returns the active run of the workspace, whatever it was begun with, and its configuration file and task. One
/// without either has no command of its own that stops it.
fn active_run(
    context: &Context,
) -> Result<Option<(Layout, Holder, Option<ConfigFile>)>, CommandError> {
    let held = |layout: Layout| {
        let holder = holder_of(&layout).filter(|holder| holder.work.is_run())?;
        Some((layout, holder))
    };
    let Some((layout, holder)) = layouts(context)?.into_iter().find_map(held) else {
        return Ok(None);
    };
    let owner = Owner::read(&layout).ok().flatten();
    let file = owner.and_then(|owner| {
        let file = owner.configuration()?;
        Some(ConfigFile::named(file).with_task(owner.task().map(str::to_owned)))
    });
    Ok(Some((layout, holder, file)))
}
