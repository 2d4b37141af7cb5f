//! Before the first iteration and after each one: the order of the loop.

use std::collections::BTreeMap;

use super::baseline;
use super::change;
use super::input::{Effect, Ended, Look, StartIteration, Validation};
use super::limits::{self, StopReason};
use super::record::{Given, Outcome, Record, RunStarted, Trigger};
use super::running;
use super::state::{Latch, State};
use super::step::Turn;
use ralph_orchestrator_contract::{Budget, Claim, ClaimSource, NearMiss, Usage, Usd, Verdict};

/// Wait after the first refusal by the provider that did not say until when; doubled each time.
const FIRST_DEFERRAL_MS: u64 = 30_000;
/// How often in a row a required validator may fail to come to a verdict.
const MOST_CHECK_ERRORS: u32 = 3;
/// The longest such wait.
const LONGEST_DEFERRAL_MS: u64 = 30 * 60_000;

pub(super) fn started(turn: &mut Turn, fresh: RunStarted) {
    if let Some(completion) = turn.state.completion() {
        let message = already(completion.validated);
        turn.effect(Effect::Latch);
        return turn.effect(Effect::Finish { reason: StopReason::Completed, message });
    }
    if turn.state.started.is_none() {
        turn.record(Record::RunStarted(fresh));
    } else {
        // The orchestrator went away in the middle of this iteration.
        running::close(
            turn,
            Ended {
                outcome: Outcome::Lost,
                usage: Usage::default(),
                says_done: false,
                says_all_done: false,
                tool_calls: None,
                left_behind: Vec::new(),
                survived: Vec::new(),
            },
        );
        let RunStarted { agent, fallback, limits, once, baseline, pins, .. } = fresh;
        turn.record(Record::RunResumed { agent, fallback, limits, once, baseline, pins });
    }
    turn.effect(Effect::Latch);
    turn.effect(Effect::Look);
}

fn already(validated: bool) -> String {
    if validated {
        "already complete".into()
    } else {
        "already complete, WITHOUT validation".into()
    }
}

/// What stands in files, or was said in the final message. Recorded before anything slow begins.
pub(super) fn claims_found(turn: &mut Turn, claims: Vec<Claim>) {
    if turn.state.started.is_none() || finished(&turn.state) {
        return;
    }
    let stands = |detector: &String| {
        claims.iter().any(|claim| claim.source == ClaimSource::State && claim.detector == *detector)
    };
    let gone: Vec<String> =
        turn.state.standing.keys().filter(|detector| !stands(detector)).cloned().collect();
    for detector in gone {
        turn.record(Record::Withdrawn { detector });
    }
    for claim in claims {
        turn.claim(claim);
    }
}

pub(super) fn looked(turn: &mut Turn, look: Look) {
    if turn.state.started.is_none() || turn.state.current.is_some() || finished(&turn.state) {
        return;
    }
    let (iteration, runtime_ms) = (turn.state.iterations, turn.runtime_ms());
    let own = &turn.state.own_misses;
    // Lines move when the agent edits the file above them.
    let known = |miss: &NearMiss| {
        own.iter().any(|own| (&own.detector, &own.text) == (&miss.detector, &miss.text))
    };
    let near_misses =
        look.near_misses.into_iter().filter(|miss| iteration == 0 || !known(miss)).collect();
    turn.record(Record::Looked {
        iteration,
        tree: look.tree,
        work: look.work,
        evidence_written: turn.state.evidence_history.written_since(&look.evidence),
        evidence_complete: look.evidence.is_complete(),
        evidence: look.evidence.digest(),
        near_misses,
        changes: look.changes.filter(|_| iteration > 0),
        runtime_ms,
    });
    if turn.state.stopping {
        return interrupted(turn);
    }
    if turn.state.needs_no_claim() && turn.state.work_changed && turn.state.latch == Latch::Open {
        turn.claim(Claim::automatic());
    }
    match &turn.state.latch {
        Latch::Claimed { claim, .. } if claim.is_automatic() && is_known(&turn.state) => {
            go_on(turn);
        }
        Latch::Claimed { claim, .. } => {
            let claim = claim.clone();
            turn.effect(Effect::Validate(claim));
        }
        Latch::Open | Latch::Completed(_) if baseline::is_due(&turn.state) => {
            turn.effect(Effect::CheckBaseline);
        }
        Latch::Open | Latch::Completed(_) => go_on(turn),
    }
}

/// Whether it is known what the validators say of the work as it is: nothing was changed since they ran,
/// and all of them could.
fn is_known(state: &State) -> bool {
    !state.work_changed
        && !state.resumed
        && state.rejection.is_some()
        && state.check_errors.is_empty()
}

/// The run was asked to stop, or its time was used up, before it was known what the workspace looks like:
/// that is looked at when the run goes on. On a tree that nobody knows nothing can be validated.
pub(super) fn not_looked(turn: &mut Turn) {
    if turn.state.started.is_none() || turn.state.current.is_some() || finished(&turn.state) {
        return;
    }
    if turn.state.stopping { interrupted(turn) } else { out_of_time(turn) }
}

/// `limits.max_runtime` broke off what was going on. A claim stays pending: with more time it is validated
/// first of all.
pub(super) fn out_of_time(turn: &mut Turn) {
    turn.finish(StopReason::MaxRuntime, limits::OUT_OF_TIME.into());
}

/// Whether what validators say is of no use: the run has gone on without it, or it was broken off, which
/// ends the run for now.
pub(super) fn broken_off(turn: &mut Turn, was_interrupted: bool, is_out_of_time: bool) -> bool {
    if turn.state.current.is_some() || finished(&turn.state) {
        return true;
    }
    if was_interrupted {
        interrupted(turn);
    } else if is_out_of_time {
        out_of_time(turn);
    }
    was_interrupted || is_out_of_time
}

/// Processes of the agent live on: what they can still change is not validated.
pub(super) fn survived(turn: &mut Turn, message: String) {
    if turn.state.started.is_none() || turn.state.current.is_some() || finished(&turn.state) {
        return;
    }
    if turn.state.stopping {
        return interrupted(turn);
    }
    turn.finish(StopReason::NeedsHuman, message);
}

pub(super) const fn finished(state: &State) -> bool {
    state.stop.is_some() || state.completion().is_some()
}

pub(super) fn interrupted(turn: &mut Turn) {
    turn.finish(StopReason::Interrupted, "stop requested".into());
}

pub(super) fn validated(turn: &mut Turn, mut validation: Validation) {
    let Latch::Claimed { .. } = &turn.state.latch else { return };
    artefacts_left(turn, std::mem::take(&mut validation.artefacts));
    if broken_off(turn, validation.interrupted, validation.out_of_time) {
        return;
    }
    let Some(policy) = turn.state.policy().cloned() else { return };
    let reasons = validation.objections(&policy);
    let accepted = reasons.is_empty();
    let (iteration, runtime_ms) = (turn.state.iterations, turn.runtime_ms());
    for message in validation.warnings {
        turn.record(Record::Warning { message });
    }
    let tree_left = Some(&validation.tree_left).filter(|tree| **tree != turn.state.tree);
    turn.record(Record::Validated {
        iteration,
        accepted,
        tree: validation.tree_before,
        tree_left: tree_left.cloned(),
        verdicts: validation.verdicts,
        reasons,
        runtime_ms,
    });
    if !accepted {
        turn.effect(Effect::Latch);
        warn_of_errors(turn);
        return if turn.state.stopping { interrupted(turn) } else { go_on(turn) };
    }
    let validated = policy.validates();
    turn.record(Record::Completed {
        iteration,
        tree: validation.tree_after,
        evidence: validation.evidence,
        policy: policy.digest,
        task: validation.task,
        validated,
        runtime_ms,
    });
    let message = if validated { "validated" } else { "completed WITHOUT validation" };
    let note = baseline::note(&turn.state);
    turn.finish(StopReason::Completed, format!("{message}{note}"));
}

/// What validators left that was not there before is no part of the work.
pub(super) fn artefacts_left(turn: &mut Turn, artefacts: BTreeMap<String, Vec<String>>) {
    if turn.state.started.is_none() || finished(&turn.state) {
        return;
    }
    let iteration = turn.state.iterations;
    for (validator, paths) in artefacts {
        let validator = Some(validator).filter(|name| !name.is_empty());
        turn.record(Record::Artefacts { iteration, validator, paths });
    }
}

/// Files that were not there when a validation began whose end nobody saw.
pub(super) fn artefacts_found(turn: &mut Turn, paths: Vec<String>) {
    if turn.state.started.is_none() || finished(&turn.state) || paths.is_empty() {
        return;
    }
    let iteration = turn.state.iterations;
    turn.record(Record::Artefacts { iteration, validator: None, paths });
}

/// No accepted completion: is a human needed, is a limit reached, or does it go on?
pub(super) fn go_on(turn: &mut Turn) {
    if let Some(claim) = &turn.state.human {
        let message = claim.text.clone();
        return turn.finish(StopReason::NeedsHuman, message);
    }
    change::agent(turn);
    if let Some((reason, message)) = unchecked(&turn.state)
        .or_else(|| blocked(&turn.state))
        .or_else(|| limits::exceeded(&turn.state))
    {
        return turn.finish(reason, message);
    }
    if turn.state.once && turn.state.ended_here > 0 && !turn.state.again {
        return turn.finish(StopReason::Once, "stopped after one iteration (`--once`)".into());
    }
    if let Some(Outcome::Deferred { message, until_ms, .. }) = turn.state.last_outcome.clone()
        && !turn.state.again
    {
        return defer(turn, message, until_ms);
    }
    if turn.state.ended_here > 0 {
        let failures = turn.state.failures;
        turn.effect(Effect::Pause { failures });
    } else {
        prepare(turn);
    }
}

/// Warns the user at once of a required validator without a verdict. The error itself is in the record of the
/// validation.
fn warn_of_errors(turn: &mut Turn) {
    let Some(rejection) = &turn.state.rejection else { return };
    let errors = rejection
        .verdicts
        .iter()
        .filter(|named| named.required && matches!(named.verdict, Verdict::Error { .. }));
    let messages: Vec<String> = errors
        .map(|named| {
            format!(
                "the validator `{}` reached no verdict, so the work is neither accepted nor rejected; \
                 {MOST_CHECK_ERRORS} such errors in a row stop the run",
                named.validator
            )
        })
        .collect();
    for message in messages {
        turn.record(Record::Warning { message });
    }
}

/// A validator that cannot come to a verdict time and again: no iteration will change that.
fn unchecked(state: &State) -> Option<(StopReason, String)> {
    let rejection = state.rejection.as_ref()?;
    let message = rejection.verdicts.iter().find_map(|named| match &named.verdict {
        Verdict::Error { message }
            if state
                .check_errors
                .get(&named.validator)
                .is_some_and(|n| *n >= MOST_CHECK_ERRORS) =>
        {
            Some(format!(
                "the validator `{}` reached no verdict {MOST_CHECK_ERRORS} times in a row: {message}",
                named.validator
            ))
        }
        _ => None,
    })?;
    Some((StopReason::NeedsHuman, message))
}

/// Failures that no further iteration can mend.
fn blocked(state: &State) -> Option<(StopReason, String)> {
    // Whoever starts the run again has mended it, or will be told again.
    if state.resumed || state.again {
        return None;
    }
    match &state.last_outcome {
        Some(Outcome::Failed { class, message })
            if class == "unauthenticated" || class == "billing" =>
        {
            Some((StopReason::NeedsHuman, message.clone()))
        }
        Some(Outcome::Failed { class, message }) if class == "not_found" => {
            Some((StopReason::AgentUnavailable, message.clone()))
        }
        _ => None,
    }
}

/// The provider refuses requests: waits, if it is not too long.
fn defer(turn: &mut Turn, reason: String, until_ms: Option<u64>) {
    let now = turn.now.unix_ms;
    if let Some(wait) = turn.state.waiting.clone() {
        if wait.until_ms > now {
            return turn.effect(Effect::WaitUntil(wait.until_ms));
        }
        return prepare(turn);
    }
    let until_ms = worth_trying(turn, until_ms);
    let wait_ms = until_ms.saturating_sub(now);
    if wait_ms > turn.state.limits.max_wait_ms {
        let message = format!("{reason}; the wait would be longer than limits.max_wait");
        return turn.finish(StopReason::NeedsHuman, message);
    }
    let left = turn.state.limits.max_runtime_ms.map(|max| max.saturating_sub(turn.runtime_ms()));
    if left.is_some_and(|left| wait_ms >= left) {
        let message = format!("{reason}; the wait would last beyond limits.max_runtime");
        return turn.finish(StopReason::MaxRuntime, message);
    }
    turn.record(Record::Waiting { until_ms, reason });
    turn.effect(Effect::WaitUntil(until_ms));
}

/// When it is worth trying again: when the provider said, or later each time.
pub(super) fn worth_trying(turn: &Turn, until_ms: Option<u64>) -> u64 {
    let now = turn.now.unix_ms;
    let doubled = FIRST_DEFERRAL_MS
        .saturating_mul(1 << turn.state.deferrals.saturating_sub(1).min(16))
        .min(LONGEST_DEFERRAL_MS);
    // A time that is past means to go on at once. To be told one again means that the clocks differ.
    until_ms
        .filter(|until| *until > now || turn.state.deferrals <= 1)
        .unwrap_or_else(|| now.saturating_add(doubled))
        .max(now)
}

/// A pause or wait is over. Limits are looked at again: time has passed.
pub(super) fn rested(turn: &mut Turn) {
    if turn.state.started.is_none() || turn.state.current.is_some() || finished(&turn.state) {
        return;
    }
    if turn.state.stopping {
        return interrupted(turn);
    }
    let runtime_ms = turn.runtime_ms();
    // A pause of no time needs no note of it.
    if runtime_ms > turn.state.runtime_ms {
        turn.record(Record::Tick { runtime_ms });
    }
    match limits::exceeded(&turn.state) {
        Some((reason, message)) => turn.finish(reason, message),
        None => prepare(turn),
    }
}

fn prepare(turn: &mut Turn) {
    let state = &turn.state;
    let (iteration, attempt) = if state.repeats() {
        (state.iterations, state.attempt.saturating_add(1))
    } else {
        (state.iterations.saturating_add(1), 1)
    };
    let runtime_ms = turn.runtime_ms();
    let limits = &state.limits;
    let cost = limits.max_cost_usd.map(|max| max.saturating_sub(state.cost()));
    let budget = Budget {
        cost,
        tokens: limits.max_tokens.map(|max| max.saturating_sub(state.tokens().total())),
        time: limits
            .max_runtime_ms
            .map(|max| std::time::Duration::from_millis(max.saturating_sub(runtime_ms))),
    };
    let start = StartIteration {
        iteration,
        attempt,
        trigger: trigger(state),
        budget,
        reservation: reservation(state, cost),
    };
    turn.effect(Effect::Prepare(start));
}

fn trigger(state: &State) -> Trigger {
    if state.iterations == 0 {
        Trigger::Initial
    } else if state.resumed {
        Trigger::Resumed
    } else if state.rejection.is_some() {
        Trigger::Rejected
    } else if state.failures > 0 || state.again {
        Trigger::Failed
    } else {
        Trigger::Continued
    }
}

/// As much as the dearest iteration so far, but no more than what is left. Never nothing for an agent that
/// costs: that iterations before cost nothing, because they failed at once, says nothing about this one.
fn reservation(state: &State, left: Option<Usd>) -> Usd {
    let guess = if state.largest_charge > Usd::ZERO {
        state.largest_charge
    } else {
        state.limits.first_reservation
    };
    left.map_or(guess, |left| guess.min(left))
}

/// The prompt is read: the iteration begins, unless a signal came first.
pub(super) fn prepared(turn: &mut Turn, start: StartIteration, prompt: String, given: Given) {
    if turn.state.started.is_none() || turn.state.current.is_some() || finished(&turn.state) {
        return;
    }
    if turn.state.stopping {
        return interrupted(turn);
    }
    let runtime_ms = turn.runtime_ms();
    turn.record(Record::IterationStarted {
        iteration: start.iteration,
        attempt: start.attempt,
        trigger: start.trigger,
        prompt,
        fingerprint: given.fingerprint,
        given: given.fields,
        agent: given.agent,
        version: given.version,
        model: given.model,
        reservation: start.reservation,
        runtime_ms,
    });
    turn.effect(Effect::Start(start));
}
