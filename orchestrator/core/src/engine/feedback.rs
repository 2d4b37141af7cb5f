//! What the agent is told before the prompt, when there is something to say.

use std::fmt::Write as _;

use crate::machine::{Answer, Latch, State};

/// After so many iterations that spoke of being done without a claim, the agent is told how to claim.
const SAYS_DONE_TOLD: u32 = 3;
const REASONS_TOLD: usize = 40;
const NEAR_MISSES_TOLD: usize = 5;

/// The block before the prompt; empty when there is nothing to say, so that the agent then reads the
/// prompt byte for byte.
pub(super) fn block(state: &State, instructions: &[String]) -> String {
    let mut text = String::new();
    if let Some(rejection) = &state.validation.rejection {
        let automatic =
            matches!(&state.latch, Latch::Claimed { claim, .. } if claim.is_automatic());
        text.push_str(if automatic {
            "The checks of your work do not accept it yet:\n"
        } else {
            "Your claim that the task is complete was checked and REJECTED:\n"
        });
        list(&mut text, rejection.reasons.iter().map(String::as_str), REASONS_TOLD);
        text.push_str(match &state.latch {
            Latch::Claimed { .. } if automatic => {
                "They run again when you stop. Fix the issues above.\n\n"
            }
            Latch::Claimed { .. } => {
                "The claim stands; it is checked again when you stop. Fix the issues above.\n\n"
            }
            _ => "Fix the issues above, then claim completion again.\n\n",
        });
    }
    if !state.claims.near_misses.is_empty() && !state.needs_no_claim() {
        text.push_str("This looked like a claim of completion but is none:\n");
        let lines: Vec<String> = state
            .claims
            .near_misses
            .iter()
            .map(|miss| format!("line {}: {}: {}", miss.line, miss.text, miss.hint))
            .collect();
        list(&mut text, lines.iter().map(String::as_str), NEAR_MISSES_TOLD);
        text.push('\n');
    }
    if state.claims.says_done >= SAYS_DONE_TOLD && !state.needs_no_claim() {
        text.push_str("You say that the work is done, but completion was not claimed.\n");
        list(&mut text, instructions.iter().map(String::as_str), instructions.len());
        text.push('\n');
    }
    if !state.notes.is_empty() {
        let last = state.notes.iter().all(|note| note.iteration == state.iterations);
        text.push_str(if last {
            "Notes that the iteration before left:\n"
        } else {
            "Notes that iterations before left:\n"
        });
        list(&mut text, state.notes.iter().map(|note| note.text.as_str()), usize::MAX);
        text.push('\n');
    }
    if !state.answers.is_empty() {
        answers(&mut text, &state.answers);
    }
    if text.is_empty() { text } else { format!("{text}---\n\n") }
}

/// Each answer after its question; then what nobody had asked for.
fn answers(text: &mut String, answers: &[Answer]) {
    for Answer { question, text: answer } in answers {
        let Some(question) = question else { continue };
        text.push_str("You asked for a human:\n");
        list(text, std::iter::once(question.as_str()), 1);
        text.push_str("The answer:\n");
        list(text, std::iter::once(answer.as_str()), 1);
        text.push('\n');
    }
    let guidance = answers.iter().filter(|answer| answer.question.is_none());
    let guidance: Vec<&str> = guidance.map(|answer| answer.text.as_str()).collect();
    if !guidance.is_empty() {
        text.push_str("Guidance from a human:\n");
        list(text, guidance.into_iter(), usize::MAX);
        text.push('\n');
    }
}

fn list<'a>(text: &mut String, items: impl ExactSizeIterator<Item = &'a str>, most: usize) {
    let total = items.len();
    for item in items.take(most) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {}", item.replace('\n', "\n  "));
    }
    if total > most {
        let _ = writeln!(text, "- and {} more", total - most);
    }
}
