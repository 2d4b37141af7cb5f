//! What people ask for in the view: controls, changes, transcripts.

use ralph_orchestrator_assembly::control::own_origin;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_machine::{Control, Limit, LimitChanges};
use ralph_orchestrator_story::located_run::LocatedRun;
use ralph_orchestrator_terminal::values;
use ralph_orchestrator_text::{count, escape, len};
use ralph_orchestrator_watch::{RequestedControl, StoryLine, Tone, Update};

use crate::user_runs;

/// The name of the view in controls.
const PROGRAM: &str = "watch";

/// Checks a limit as the options of `limits` do.
pub(super) fn check_limit(at: usize, text: &str) -> Result<(), String> {
    let (limit, _) = Limit::budgets().nth(at).ok_or_else(|| "there is no such limit".to_owned())?;
    values::limit(limit.row().unit, text).map(drop)
}

/// Returns the control; texts of limits are those that were checked.
fn to_control(control: RequestedControl) -> Result<Control, CommandError> {
    Ok(match control {
        RequestedControl::Steer(text) => Control::Steer { text },
        RequestedControl::Answer(text) => Control::Answer { text },
        RequestedControl::Pause => Control::Pause { now: false },
        RequestedControl::Resume => Control::Resume,
        RequestedControl::Stop => Control::Stop,
        RequestedControl::Limits(texts) => {
            let mut changes = LimitChanges::default();
            for ((limit, _), text) in Limit::budgets().zip(texts) {
                let Some(text) = text else { continue };
                let max = values::limit(limit.row().unit, &text).map_err(CommandError::user)?;
                changes = changes.with(limit, max);
            }
            Control::Limits(changes)
        }
    })
}

/// Sends a control, and returns what became of it. Blocks until the run has recorded it, or for some seconds.
pub(super) fn send(run: &LocatedRun, control: RequestedControl) -> Update {
    let sent =
        to_control(control).and_then(|control| user_runs::send(run, own_origin(PROGRAM), &control));
    Update::Outcome(match sent {
        Ok(message) => Ok(escape(&message)),
        Err(error) => Err(error.summary()),
    })
}

/// Returns what an iteration changed, or without a number the last one.
pub(super) fn diff(run: &LocatedRun, iteration: Option<u64>) -> Update {
    let (from, to, diff) = match user_runs::diff(run, iteration) {
        Ok(compared) => compared,
        Err(error) => {
            let hint = "`[git] commit = \"checkpoint\"` stores what each iteration changed";
            return text("changes", &format!("{}\n\n{hint}", error.summary()), |_| Tone::Plain);
        }
    };
    let title = format!("changes of iteration {to}: {}", count(len(&diff.files), "file"));
    let title = if from + 1 == to { title } else { format!("{title}, since iteration {from}") };
    let mut patch = escape(&String::from_utf8_lossy(&diff.patch));
    if diff.files.is_empty() {
        patch = "nothing was changed".to_owned();
    }
    if diff.is_patch_truncated {
        patch.push_str("\n… `diff` prints the rest");
    }
    text(&title, patch.trim_end(), patch_tone)
}

fn patch_tone(line: &str) -> Tone {
    if line.starts_with("diff ") || line.starts_with("+++ ") || line.starts_with("--- ") {
        return Tone::Heading;
    }
    match line.chars().next() {
        Some('+') => Tone::Good,
        Some('-') => Tone::Bad,
        Some('@') => Tone::Dim,
        _ => Tone::Plain,
    }
}

/// Returns what the agent of an iteration said and did.
pub(super) fn transcript(run: &LocatedRun, iteration: u64) -> Update {
    let title = format!("iteration {iteration}");
    match run.transcript(iteration) {
        Ok(transcript) => {
            let begin = "… `log N` prints what is before\n";
            let begin = if transcript.is_truncated { begin } else { "" };
            let lines: Vec<String> = transcript.lines.into();
            let lines = if lines.is_empty() { "nothing yet".to_owned() } else { lines.join("\n") };
            text(&title, &format!("{begin}{lines}"), |line| match line.chars().next() {
                Some('[') => Tone::Heading,
                _ if line.starts_with("  failed:") => Tone::Bad,
                _ if line.starts_with("  ->") => Tone::Dim,
                _ => Tone::Plain,
            })
        }
        Err(error) => {
            text(&title, &format!("its transcript cannot be read: {error}"), |_| Tone::Bad)
        }
    }
}

fn text(title: &str, text: &str, tone: fn(&str) -> Tone) -> Update {
    let lines = text.lines().map(|line| StoryLine { text: line.to_owned(), tone: tone(line) });
    Update::Text { title: title.to_owned(), lines: lines.collect() }
}

#[cfg(test)]
mod tests {
    use ralph_orchestrator_contract::Usd;
    use ralph_orchestrator_machine::LimitValue;

    use super::*;

    #[test]
    fn limits_are_those_that_the_command_accepts() {
        for (at, right, wrong) in
            [(0, "7", "0"), (1, "90m", "90"), (2, "$2.50", "-1"), (3, "none", "many")]
        {
            assert_eq!(check_limit(at, right), Ok(()), "{right}");
            assert!(check_limit(at, wrong).is_err(), "{wrong}");
        }
        assert!(check_limit(4, "1").is_err());
        let typed =
            vec![Some("7".to_owned()), Some("90m".to_owned()), Some("$2.5".to_owned()), None];
        let Control::Limits(changes) = to_control(RequestedControl::Limits(typed)).unwrap() else {
            panic!("limits");
        };
        assert_eq!(changes.change(Limit::Iterations), Some(Some(LimitValue::Count(7))));
        assert_eq!(changes.change(Limit::Runtime), Some(Some(LimitValue::Duration(5_400_000))));
        let usd = Usd::from_dollars(2.5).map(LimitValue::Money);
        assert_eq!(changes.change(Limit::Cost), Some(usd));
        assert_eq!(changes.change(Limit::Tokens), None);
        assert!(to_control(RequestedControl::Limits(vec![None; 4])).is_ok());
        let wrong = vec![Some("0".to_owned()), None, None, None];
        assert!(to_control(RequestedControl::Limits(wrong)).is_err());
    }
}
