//! The end of a run, requested from outside.

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_machine::{Control, ControlOrigin, ReceivedControl};
use ralph_orchestrator_store::{Holder, Layout, Lock, SeriesLock, read_current_run, send_control};
use rustix::process::{Pid, Signal, kill_process};

/// Requests the end of the run that a process holds, and returns that process and the id of the message that says
/// who does.
pub(crate) fn request(
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
pub(crate) fn other_work(holder: &Holder) -> String {
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
pub(crate) fn holder_of(layout: &Layout) -> Option<Holder> {
    SeriesLock::holder(layout).or_else(|| Lock::holder(layout))
}
