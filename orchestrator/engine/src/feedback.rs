//! The feedback before the prompt, if there is any.

use std::fmt::Write as _;

use ralph_orchestrator_contract::{GUIDANCE, REJECTED_CLAIM, Verdict};
use ralph_orchestrator_machine::{Answer, Latch, State};

/// After so many iterations that said they were done without a claim, the feedback says how to claim.
const UNCLAIMED_DONE_LIMIT: u32 = 3;
const MAX_REASONS: usize = 40;
const MAX_NEAR_MISSES: usize = 5;

/// Returns the block before the prompt; empty without feedback, so that the agent then reads the prompt byte for
/// byte. `memory` is what is said of iterations before the last.
pub(super) fn block(state: &State, instructions: &[String], memory: &str) -> String {
    let mut text = String::new();
    unprepared(&mut text, state);
    uncommitted(&mut text, state);
    if let Some(rejection) = &state.validation.rejection {
        let automatic =
            matches!(&state.latch, Latch::Claimed { claim, .. } if claim.is_automatic());
        let unchecked = rejection.is_unchecked();
        text.push_str(if unchecked {
            "Your work could not be checked. That is not held against it, and no fault of yours is known:"
        } else if automatic {
            "Your work is not accepted yet. The checks report:"
        } else {
            REJECTED_CLAIM
        });
        text.push('\n');
        list(&mut text, rejection.reasons.iter().map(String::as_str), MAX_REASONS);
        text.push_str(match &state.latch {
            Latch::Claimed { .. } if unchecked => "It is checked again when you stop.\n\n",
            _ if unchecked => "Claim completion again when you stop.\n\n",
            Latch::Claimed { .. } if automatic => {
                "The checks run again when you stop. Fix the issues above.\n\n"
            }
            Latch::Claimed { .. } => {
                "The claim is still pending; it is checked again when you stop. Fix the issues above.\n\n"
            }
            _ => "Fix the issues above, then claim completion again.\n\n",
        });
    }
    reviewed(&mut text, state);
    if !state.claims.near_misses.is_empty() && !state.needs_no_claim() {
        text.push_str("Near miss: this resembles a claim of completion, but is not a valid one:\n");
        let lines: Vec<String> = state
            .claims
            .near_misses
            .iter()
            .map(|miss| format!("line {}: {}: {}", miss.line, miss.text, miss.hint))
            .collect();
        list(&mut text, lines.iter().map(String::as_str), MAX_NEAR_MISSES);
        text.push('\n');
    }
    if state.claims.says_done >= UNCLAIMED_DONE_LIMIT && !state.needs_no_claim() {
        text.push_str("You said that the work is done, but did not claim completion:\n");
        list(&mut text, instructions.iter().map(String::as_str), instructions.len());
        text.push('\n');
    }
    ended_background(&mut text, state);
    if !state.notes.is_empty() {
        let last = state.notes.iter().all(|note| note.iteration == state.iterations);
        text.push_str(if last {
            "Notes from the previous iteration:\n"
        } else {
            "Notes from previous iterations:\n"
        });
        list(&mut text, state.notes.iter().map(|note| note.text.as_str()), usize::MAX);
        text.push('\n');
    }
    answers(&mut text, state);
    text.push_str(memory);
    if text.is_empty() { text } else { format!("{text}---\n\n") }
}

/// Returns the ids of the controls whose text is in the block.
pub(super) fn controls(state: &State) -> Vec<String> {
    let origins = state.open_answers().filter_map(|answer| answer.origin.as_ref());
    origins.map(|origin| origin.id.clone()).collect()
}

/// Appends what reviews found that decide nothing, once.
fn reviewed(text: &mut String, state: &State) {
    let validation = &state.validation;
    let Some(rejection) = &validation.rejection else { return };
    if validation.iterated_since_rejection {
        return;
    }
    let of_reviews = rejection
        .verdicts
        .iter()
        .filter(|named| !named.required && validation.reviews.contains(named.validator.as_str()));
    let found = of_reviews.flat_map(|named| match &named.verdict {
        Verdict::Rejected { reasons } => reasons.clone(),
        Verdict::Accepted { .. } | Verdict::Error { .. } => Vec::new(),
    });
    let found: Vec<String> = found.collect();
    if !found.is_empty() {
        text.push_str(
            "A reviewer of your last work reports, which does not decide whether it is accepted:\n",
        );
        list(text, found.iter().map(String::as_str), MAX_REASONS);
        text.push('\n');
    }
}

/// Appends what keeps the workspace from being as it should be.
fn unprepared(text: &mut String, state: &State) {
    if state.is_initializing() && !state.initializer.missing.is_empty() {
        text.push_str("The project is not prepared yet. Still missing:\n");
        list(text, state.initializer.missing.iter().map(String::as_str), MAX_REASONS);
        text.push('\n');
    }
    if let Some(problem) = &state.setup.problem {
        text.push_str("The setup of the workspace failed:\n");
        list(text, std::iter::once(problem.as_str()), 1);
        text.push('\n');
    }
}

/// Appends why what the last iteration left could not be committed.
fn uncommitted(text: &mut String, state: &State) {
    if let Some(problem) = &state.saves.commit_problem {
        text.push_str("What the last iteration left could not be committed:\n");
        list(text, std::iter::once(problem.as_str()), 1);
        text.push_str("Fix what this reports. The work goes with the next commit.\n\n");
    }
}

/// Appends what the last session left running, for nothing comes of it.
fn ended_background(text: &mut String, state: &State) {
    let ended = &state.agent.left_behind;
    if !ended.is_empty() {
        text.push_str("What your last session left running in the background was ended with it:\n");
        list(text, ended.iter().map(String::as_str), MAX_REASONS);
        text.push_str(
            "Nothing runs on between sessions. Wait within the session for what you start, or stop it yourself.\n\n",
        );
    }
}

/// Appends each answer after its question, then guidance that no question asked for.
fn answers(text: &mut String, state: &State) {
    for Answer { question, text: answer, .. } in state.open_answers() {
        let Some(question) = question else { continue };
        text.push_str("You asked for a human:\n");
        list(text, std::iter::once(question.as_str()), 1);
        text.push_str("The answer:\n");
        list(text, std::iter::once(answer.as_str()), 1);
        text.push('\n');
    }
    let guidance = state.open_answers().filter(|answer| answer.question.is_none());
    let guidance: Vec<&str> = guidance.map(|answer| answer.text.as_str()).collect();
    if !guidance.is_empty() {
        text.push_str(GUIDANCE);
        text.push('\n');
        list(text, guidance.into_iter(), usize::MAX);
        text.push('\n');
    }
}

pub(super) fn list<'a>(
    text: &mut String,
    items: impl ExactSizeIterator<Item = &'a str>,
    most: usize,
) {
    let total = items.len();
    for item in items.take(most) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {}", item.replace('\n', "\n  "));
    }
    if total > most {
        let _ = writeln!(text, "- and {} more", total - most);
    }
}
