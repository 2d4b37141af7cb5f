//! What is said of a control that was delivered, the same wherever it came from.

use ralph_orchestrator_engine::RecordedControl;
use ralph_orchestrator_machine::Control;
use ralph_orchestrator_text::one_line;

use super::Delivery;
use crate::error::CommandError;

/// The message of a control that the run has not taken yet.
const QUEUED: &str =
    "queued: the run does not take messages at the moment; it takes this one as soon as it can";

/// Returns what to say of a control. `program` is the shell command that invokes this program for the run.
///
/// # Errors
/// The run has refused it.
pub(super) fn describe(
    control: &Control,
    delivery: &Delivery,
    program: &str,
) -> Result<String, CommandError> {
    let Some((recorded, is_active)) = delivery.recorded() else { return Ok(QUEUED.to_owned()) };
    match control {
        Control::Pause { now } => pause(recorded, is_active, *now, program),
        Control::Resume => Ok(resume(recorded, is_active, program)),
        _ => {
            if let Some(reason) = &recorded.refused {
                return Err(CommandError::user(reason.clone()));
            }
            Ok(match control {
                Control::Steer { .. } => steer(recorded, is_active, program),
                Control::Answer { .. } => answer(recorded, is_active, program),
                Control::Limits(_) if is_active => "the limits are set".to_owned(),
                Control::Limits(_) => format!("the limits are set; `{program} run` resumes"),
                _ => "stop requested".to_owned(),
            })
        }
    }
}

fn steer(recorded: &RecordedControl, is_active: bool, program: &str) -> String {
    match is_active {
        _ if recorded.state.process.attached => {
            "queued: the session reads this when it stops next".to_owned()
        }
        true => "queued: this goes to the top of the next prompt".to_owned(),
        false => {
            format!("queued: this goes to the top of the next prompt; `{program} run` resumes")
        }
    }
}

fn answer(recorded: &RecordedControl, is_active: bool, program: &str) -> String {
    let resumes = match is_active {
        true => String::new(),
        false => format!(": `{program} run` resumes"),
    };
    let question = recorded.state.answers.last().and_then(|answer| answer.question.as_deref());
    match question {
        Some(question) => format!(
            "answered the question \"{}\"; both go to the top of the next prompt{resumes}",
            one_line(question, 200)
        ),
        None => format!(
            "no question is open: this is guidance, and goes to the top of the next prompt{resumes}"
        ),
    }
}

fn pause(
    recorded: &RecordedControl,
    is_active: bool,
    now: bool,
    program: &str,
) -> Result<String, CommandError> {
    Ok(match &recorded.refused {
        Some(reason) if recorded.state.is_pause_requested() => {
            format!("{reason}; `{program} resume` ends the pause")
        }
        Some(reason) => return Err(CommandError::user(reason.clone())),
        None if is_active => {
            let when = begins(recorded.iteration, now);
            format!("pausing {when}; `{program} resume` ends the pause")
        }
        None => format!(
            "paused: no run is active, and the next `{program} run` waits for `{program} resume`"
        ),
    })
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

fn resume(recorded: &RecordedControl, is_active: bool, program: &str) -> String {
    match (recorded.refused.as_deref(), is_active) {
        // Whoever wanted it resumed has what was wanted.
        (Some(reason), true) => reason.to_owned(),
        (Some(reason), false) => {
            format!("{reason}; `{program} run` resumes a run that was stopped")
        }
        (None, true) => "the pause is over".to_owned(),
        (None, false) => format!("the pause is over; `{program} run` resumes"),
    }
}
