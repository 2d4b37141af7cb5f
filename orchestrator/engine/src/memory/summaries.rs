//! What the last iteration did, in words, from the state alone: the same after a crash.

use ralph_orchestrator_contract::{CancelReason, Verdict};
use ralph_orchestrator_machine::{
    Changes, FileChange, IterationOutcome, Latch, State, StopKind, StopReason, ValidatorVerdict,
};
use ralph_orchestrator_memory::{HandoffNotes, Summary};
use ralph_orchestrator_text::plain_line;

/// The longest headline, in characters.
const LONGEST_HEADLINE: usize = 100;
/// How notes begin that belong to another section than what was accomplished.
const NEXT: [&str; 3] = ["next:", "next steps:", "what next:"];
const ISSUES: [&str; 4] = ["issue:", "issues:", "failed:", "tried:"];
const CHECKS: [&str; 4] = ["test:", "tests:", "check:", "checks:"];
const STATUS: [&str; 2] = ["status:", "completion status:"];

/// A failure for the file of failures.
pub(super) struct FailureText {
    pub(super) what: String,
    /// What was printed; `None` is what the agent printed as errors.
    pub(super) output: Option<String>,
}

/// Returns what the last iteration did, in sections.
pub(super) fn summarize(state: &State) -> Summary {
    let mut summary = Summary::default();
    for text in own_notes(state) {
        let begins = |words: &[&str]| {
            let text = text.trim_start().to_lowercase();
            words.iter().any(|word| text.starts_with(word))
        };
        let section = if begins(&NEXT) {
            &mut summary.next
        } else if begins(&ISSUES) {
            &mut summary.issues
        } else if begins(&CHECKS) {
            &mut summary.checks
        } else if begins(&STATUS) {
            &mut summary.status
        } else {
            &mut summary.accomplished
        };
        section.push(text.clone());
    }
    if let Some(claim) = claim_text(state) {
        summary.accomplished.push(format!("claimed completion: {claim}"));
    }
    summary
        .accomplished
        .extend(changed_files(state.last_changes.as_ref()).map(|file| format!("changed {file}")));
    summary.checks.extend(verdicts(state).iter().map(describe_verdict));
    summary.issues.extend(outcome_text(state));
    summary.issues.extend(rejection_reasons(state).iter().cloned());
    summary.next.extend(next_step(state));
    summary.status.push(status(state));
    summary
}

/// Returns what an iteration that was handed over leaves; `None` for any other.
pub(super) fn handoff_notes(state: &State) -> Option<HandoffNotes> {
    if !state.is_handed_off() {
        return None;
    }
    let iteration = state.iterations;
    let share = state.agent.context.map(|context| state.context_per_mille(context));
    let reason = match share {
        Some(share) => format!(
            "iteration {iteration} was ended at {}.{} % of its context",
            share / 10,
            share % 10
        ),
        None => format!("iteration {iteration} was ended after the time that an iteration has"),
    };
    let saved = state.saves.iteration == Some(iteration) && state.saves.committed;
    Some(HandoffNotes {
        reason,
        next: own_notes(state).cloned().collect(),
        files: changed_files(state.last_changes.as_ref()).collect(),
        commit: state.saves.commit.clone().filter(|_| saved),
    })
}

/// Returns what happened, in a few words, and what else is to be said.
pub(super) fn headline(state: &State) -> (String, Vec<String>) {
    let first = own_notes(state).next().cloned().or_else(|| claim_text(state));
    let headline = first.unwrap_or_else(|| match &state.last_changes {
        Some(changes) if !changes.is_empty() => {
            let files: Vec<String> = changed_files(Some(changes)).collect();
            format!("Changed {}", files.join(", "))
        }
        _ => "Changed nothing".to_owned(),
    });
    let mut lines: Vec<String> =
        changed_files(state.last_changes.as_ref()).map(|file| format!("changed {file}")).collect();
    lines.extend(outcome_text(state));
    lines.extend(verdicts(state).iter().map(describe_verdict));
    lines.push(format!("verdict: {}", status(state)));
    (plain_line(&headline, LONGEST_HEADLINE), lines)
}

/// Returns the text for a completed run.
pub(super) fn completion_text(state: &State) -> Option<String> {
    let completion = state.completion()?;
    let mut text = format!("Completed: {}\n", plain_line(&completion.claim.text, 400));
    for verdict in &completion.verdicts {
        text.push_str(&format!("- {}\n", describe_verdict(verdict)));
    }
    Some(text)
}

/// Returns what the file of failures has to say about the last iteration.
pub(super) fn failures(state: &State) -> Vec<FailureText> {
    let mut found = Vec::new();
    match &state.last_outcome {
        Some(IterationOutcome::Failed { class, message }) => found.push(FailureText {
            what: format!("the agent failed ({}): {message}", class.word()),
            output: None,
        }),
        Some(IterationOutcome::StoppedEarly {
            reason: reason @ (CancelReason::Timeout | CancelReason::Idle),
        }) => found.push(FailureText {
            what: format!("the agent was ended: {}", reason.because()),
            output: None,
        }),
        _ => {}
    }
    let reasons = rejection_reasons(state);
    if !reasons.is_empty() {
        let verdicts = verdicts(state).iter();
        let is_rejected =
            |verdict: &&ValidatorVerdict| !matches!(verdict.verdict, Verdict::Accepted { .. });
        let names: Vec<&str> =
            verdicts.filter(is_rejected).map(|verdict| verdict.validator.as_str()).collect();
        let what = format!("rejected: {}", names.join(", "));
        found.push(FailureText { what, output: Some(reasons.join("\n")) });
    }
    found
}

fn own_notes(state: &State) -> impl Iterator<Item = &String> {
    let iteration = state.iterations;
    state.notes.iter().filter(move |note| note.iteration == iteration).map(|note| &note.text)
}

fn claim_text(state: &State) -> Option<String> {
    let (claim, iteration) = match &state.latch {
        Latch::Claimed { claim, iteration } => (claim, *iteration),
        Latch::Completed(completion) => (&completion.claim, completion.iteration),
        Latch::Open => return None,
    };
    let is_own = iteration == state.iterations && !claim.is_automatic();
    is_own.then(|| claim.text.clone()).filter(|text| !text.trim().is_empty())
}

fn changed_files(changes: Option<&Changes>) -> impl Iterator<Item = String> {
    let paths = changes.into_iter().flat_map(|changes| &changes.paths);
    paths.map(|file| {
        let what = match file.change {
            FileChange::Added => " (new)",
            FileChange::Modified => "",
            FileChange::Removed => " (removed)",
        };
        format!("{}{what}", file.path)
    })
}

/// Whether the validators have run since the last iteration was observed.
fn is_validated(state: &State) -> bool {
    let is_stopped = matches!(
        state.last_outcome,
        Some(
            IterationOutcome::Interrupted
                | IterationOutcome::StoppedEarly { reason: CancelReason::Signal }
        )
    );
    !state.workspace.observed_since_validation && !is_stopped
}

fn verdicts(state: &State) -> &[ValidatorVerdict] {
    match (&state.completion(), &state.validation.rejection) {
        (Some(completion), _) => &completion.verdicts,
        (None, Some(rejection)) if is_validated(state) => &rejection.verdicts,
        _ => &[],
    }
}

fn rejection_reasons(state: &State) -> &[String] {
    match &state.validation.rejection {
        Some(rejection) if state.completion().is_none() && is_validated(state) => {
            &rejection.reasons
        }
        _ => &[],
    }
}

fn describe_verdict(verdict: &ValidatorVerdict) -> String {
    let name = &verdict.validator;
    match &verdict.verdict {
        Verdict::Accepted { summary, .. } => format!("{name}: accepted, {summary}"),
        Verdict::Rejected { .. } => format!("{name}: rejected"),
        Verdict::Error { .. } => format!("{name}: no verdict"),
    }
}

fn outcome_text(state: &State) -> Option<String> {
    match state.last_outcome.as_ref()? {
        IterationOutcome::Succeeded => None,
        IterationOutcome::Failed { message, .. } => Some(format!("the agent failed: {message}")),
        IterationOutcome::Deferred { message, .. } => {
            Some(format!("the provider refused requests: {message}"))
        }
        IterationOutcome::StoppedEarly { reason } => {
            Some(format!("the iteration was ended: {}", reason.because()))
        }
        IterationOutcome::AgentLimit { message } => {
            Some(format!("the agent reached a limit of its own: {message}"))
        }
        IterationOutcome::Interrupted => {
            Some("the orchestrator ended before the iteration did".to_owned())
        }
    }
}

fn next_step(state: &State) -> Option<String> {
    if state.completion().is_some() {
        return Some("nothing: the work is complete".to_owned());
    }
    if let Some(request) = &state.claims.human_request {
        return Some(format!("a human has to answer: {}", request.text));
    }
    let step = match &state.last_outcome {
        _ if !rejection_reasons(state).is_empty() => "fix what the checks report",
        Some(IterationOutcome::Succeeded) => return None,
        _ => "continue with the files as they are",
    };
    Some(step.to_owned())
}

fn status(state: &State) -> String {
    if let Some(completion) = state.completion() {
        let how = if completion.validated { "validated" } else { "WITHOUT validation" };
        return format!("complete, {how}");
    }
    let times = state.validation.rejections;
    let reason = match state.stop.as_ref().map(|stop| (stop.reason, stop.reason.kind())) {
        Some((StopReason::Initialized, _)) => return "the project is prepared".to_owned(),
        Some((_, StopKind::Human)) => ", waiting for a human",
        Some(_) => ", the run stopped",
        None => "",
    };
    match (&state.latch, times) {
        (Latch::Claimed { .. }, 1..) => {
            format!("not complete{reason}; a claim is pending, rejected {times} times so far")
        }
        (Latch::Claimed { .. }, 0) => format!("not complete{reason}; a claim is pending"),
        (_, 1..) => format!("not complete{reason}; claims were rejected {times} times so far"),
        _ => format!("not complete{reason}; nothing is claimed"),
    }
}
