//! Before the first iteration and after each one: the order of the loop.

use super::change;
use super::input::{Effect, Ended, Look, StartIteration, Validation};
use super::limits::{self, StopReason};
use super::record::{Outcome, Record, RunStarted, Trigger};
use super::running;
use super::state::{Latch, State};
use super::step::Turn;
use crate::contract::{Budget, ClaimSource, NearMiss, Usage, Usd};

/// Wait after the first refusal by the provider that did not say until when; doubled each time.
const FIRST_DEFERRAL_MS: u64 = 30_000;
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
                left_behind: Vec::new(),
            },
        );
        let RunStarted { agent, fallback, limits, once, .. } = fresh;
        turn.record(Record::RunResumed { agent, fallback, limits, once });
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

pub(super) fn looked(turn: &mut Turn, look: Look) {
    if turn.state.started.is_none() || turn.state.current.is_some() || finished(&turn.state) {
        return;
    }
    let gone: Vec<String> = turn
        .state
        .standing
        .keys()
        .filter(|detector| {
            !look
                .claims
                .iter()
                .any(|claim| claim.source == ClaimSource::State && claim.detector == **detector)
        })
        .cloned()
        .collect();
    for detector in gone {
        turn.record(Record::Withdrawn { detector });
    }
    for claim in look.claims {
        turn.claim(claim);
    }
    let evidence = digest_of(&look.evidence);
    let new_evidence = look
        .evidence
        .into_iter()
        .filter(|digest| !turn.state.first_seen.contains_key(digest))
        .collect();
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
        new_evidence,
        evidence,
        near_misses,
        runtime_ms,
    });
    if turn.state.stopping {
        return interrupted(turn);
    }
    if look.out_of_time {
        // On a tree that nobody knows nothing can be validated. A claim stays pending.
        return turn.finish(StopReason::MaxRuntime, limits::OUT_OF_TIME.into());
    }
    match &turn.state.latch {
        Latch::Claimed { claim, .. } => {
            let claim = claim.clone();
            turn.effect(Effect::Validate(claim));
        }
        Latch::Open | Latch::Completed(_) => go_on(turn),
    }
}

/// One digest over sorted digests.
fn digest_of(evidence: &[String]) -> String {
    let mut hasher = blake3::Hasher::new();
    for digest in evidence {
        hasher.update(digest.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

const fn finished(state: &State) -> bool {
    state.stop.is_some() || state.completion().is_some()
}

fn interrupted(turn: &mut Turn) {
    turn.finish(StopReason::Interrupted, "interrupted; `run` goes on from here".into());
}

pub(super) fn validated(turn: &mut Turn, validation: Validation) {
    let Latch::Claimed { .. } = &turn.state.latch else { return };
    if turn.state.current.is_some() || finished(&turn.state) {
        return;
    }
    if validation.interrupted {
        return interrupted(turn);
    }
    if validation.out_of_time {
        // The claim stays pending: with more time it is validated first of all.
        return turn.finish(StopReason::MaxRuntime, limits::OUT_OF_TIME.into());
    }
    let Some(policy) = turn.state.policy().cloned() else { return };
    let reasons = validation.objections(&policy, &turn.state.tree);
    let accepted = reasons.is_empty();
    let (iteration, runtime_ms) = (turn.state.iterations, turn.runtime_ms());
    turn.record(Record::Validated {
        iteration,
        accepted,
        tree: validation.tree_after.clone(),
        verdicts: validation.verdicts,
        reasons,
        runtime_ms,
    });
    if !accepted {
        turn.effect(Effect::Latch);
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
    turn.finish(StopReason::Completed, message.into());
}

/// No accepted completion: is a human needed, is a limit reached, or does it go on?
fn go_on(turn: &mut Turn) {
    if let Some(claim) = &turn.state.human {
        let message = claim.text.clone();
        return turn.finish(StopReason::NeedsHuman, message);
    }
    change::agent(turn);
    if let Some((reason, message)) = blocked(&turn.state).or_else(|| limits::exceeded(&turn.state))
    {
        return turn.finish(reason, message);
    }
    if turn.state.once && turn.state.ended_here > 0 && !turn.state.again {
        return turn.finish(StopReason::Once, "one iteration, as asked for".into());
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
    turn.record(Record::Tick { runtime_ms });
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

/// As much as the dearest iteration so far, but no more than what is left.
fn reservation(state: &State, left: Option<Usd>) -> Usd {
    let guess = if state.largest_charge > Usd::ZERO {
        state.largest_charge
    } else if state.last_outcome.is_none() {
        state.limits.first_reservation
    } else {
        Usd::ZERO
    };
    left.map_or(guess, |left| guess.min(left))
}

/// The prompt is read: the iteration begins, unless a signal came first.
pub(super) fn prepared(
    turn: &mut Turn,
    start: StartIteration,
    prompt: String,
    fingerprint: String,
) {
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
        fingerprint,
        reservation: start.reservation,
        runtime_ms,
    });
    turn.effect(Effect::Start(start));
}
