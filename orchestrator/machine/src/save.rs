//! Saving: the work of each iteration is stored in git, once, after it was observed.

use super::changes::{Changes, FileChange};
use super::input::{Effect, SaveOrder, SaveResult};
use super::record::{Record, SaveMode};
use super::state::{Latch, State};
use super::transition::Transition;

/// The longest first line of a commit message, in characters.
const LONGEST_SUBJECT: usize = 72;
/// The longest line of its body, in characters.
const LONGEST_LINE: usize = 400;
/// The most lines of one kind in it: files, notes, reasons.
const MOST_LINES: usize = 20;
/// The most files that are named as not stored.
const MOST_SKIPPED: usize = 20;

impl State {
    /// Whether what the last iteration left is still to be saved.
    #[must_use]
    pub fn is_save_due(&self) -> bool {
        !self.saves.mode.is_off() && self.saves.iteration != Some(self.iterations)
    }
}

/// Orders to save what the last iteration left, if that is due. Returns whether it is.
pub(super) fn order(next: &mut Transition) -> bool {
    let state = &next.state;
    if !state.is_save_due() {
        return false;
    }
    let iteration = state.iterations;
    let commits = iteration > 0
        && match state.saves.mode {
            SaveMode::Off | SaveMode::Checkpoint => false,
            SaveMode::Iteration => true,
            SaveMode::Handoff => state.is_handed_off(),
        };
    let commit = commits.then(|| commit_message(state));
    next.effect(Effect::Save(SaveOrder { iteration, commit }));
    true
}

/// Records what was saved. A problem is warned of once, as long as it stays the same.
pub(super) fn record(next: &mut Transition, result: SaveResult) {
    let known = next.state.saves.problems.clone();
    let SaveResult { checkpoint, commit, mut skipped, problems, commit_problem, .. } = result;
    next.warn(problems.iter().filter(|problem| !known.contains(problem)).cloned());
    let more = skipped.len().saturating_sub(MOST_SKIPPED);
    skipped.truncate(MOST_SKIPPED);
    skipped.extend((more > 0).then(|| format!("and {more} more")));
    let iteration = next.state.iterations;
    next.record(Record::Saved { iteration, checkpoint, commit, skipped, problems, commit_problem });
}

/// Says what the last iteration did, and why, from what is recorded: the same after a crash.
fn commit_message(state: &State) -> String {
    let iteration = state.iterations;
    let own_notes =
        || state.notes.iter().rev().filter(|note| note.iteration == iteration).map(|n| &n.text);
    let claim = match &state.latch {
        Latch::Claimed { claim, iteration: at } if *at == iteration && !claim.is_automatic() => {
            Some(claim)
        }
        _ => None,
    };
    let headline = claim
        .map(|claim| &claim.text)
        .or_else(|| own_notes().next())
        .map(|text| line_of(text, LONGEST_LINE))
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| summarize(state.last_changes.as_ref()));
    let is_handoff = state.is_handed_off();
    let (before, after) = if is_handoff {
        ("wip: ".to_owned(), format!(" - iteration {iteration} handoff"))
    } else {
        (String::new(), format!(" (iteration {iteration})"))
    };
    let room = LONGEST_SUBJECT.saturating_sub(before.len() + after.len());
    let mut message = format!("{before}{}{after}\n", line_of(&headline, room));
    if is_handoff {
        message.push_str("\nAuto-committed by ralph-orchestrator at context threshold.\n");
        if let Some(share) = state.agent.context.map(|context| state.context_per_mille(context)) {
            message.push_str(&format!("Context usage: {}.{}%\n", share / 10, share % 10));
        }
    }
    if let Some(claim) = claim {
        let text = line_of(&claim.text, LONGEST_LINE);
        section(&mut message, &format!("Claimed ({})", claim.detector), [text]);
    }
    let rejection = state.validation.rejection.iter().flat_map(|rejection| &rejection.reasons);
    section(&mut message, "Rejected before", rejection.map(|text| line_of(text, LONGEST_LINE)));
    section(&mut message, "Notes", own_notes().map(|text| line_of(text, LONGEST_LINE)));
    let files = state.last_changes.iter().flat_map(|changes| &changes.paths);
    section(
        &mut message,
        "Changed",
        files.map(|file| {
            let what = match file.change {
                FileChange::Added => " (new)",
                FileChange::Modified => "",
                FileChange::Removed => " (removed)",
            };
            format!("{}{what}", line_of(&file.path, LONGEST_LINE))
        }),
    );
    message
}

/// Says which files were changed, in a few words.
fn summarize(changes: Option<&Changes>) -> String {
    let Some((changes, first)) =
        changes.and_then(|changes| Some((changes, changes.paths.first()?)))
    else {
        return "Work".to_owned();
    };
    let verb = match first.change {
        FileChange::Added => "Add",
        FileChange::Modified => "Change",
        FileChange::Removed => "Remove",
    };
    let path = line_of(&first.path, LONGEST_LINE);
    match changes.files.saturating_sub(1) {
        0 => format!("{verb} {path}"),
        1 => format!("{verb} {path} and 1 more file"),
        more => format!("{verb} {path} and {more} more files"),
    }
}

fn section(message: &mut String, title: &str, lines: impl IntoIterator<Item = String>) {
    let mut lines = lines.into_iter().filter(|line| !line.is_empty()).peekable();
    if lines.peek().is_some() {
        message.push_str(&format!("\n{title}:\n"));
        for line in lines.take(MOST_LINES) {
            message.push_str(&format!("- {line}\n"));
        }
    }
}

/// Returns a text as one line of at most so many characters, without control characters.
fn line_of(text: &str, most: usize) -> String {
    let harmless = text.replace(char::is_control, " ");
    let line = harmless.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let kept: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}
