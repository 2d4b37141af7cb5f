//! The order of the loop before the first iteration and after each one.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{Budget, Claim, ClaimSource, ErrorClass, NearMiss, Usd, Verdict};

use super::control::LimitOverrides;
use super::deferral::{self, Wait};
use super::during_iteration;
use super::escalate;
use super::failover;
use super::handoff;
use super::initializer;
use super::input::{
    Effect, IterationEnd, Observation, Refusal, SaveResult, SetupEnd, StartIteration,
};
use super::limits::RunLimits;
use super::outcome::IterationOutcome;
use super::reached_limits;
use super::record::{LaunchDigests, Record, RunStarted, Trigger};
use super::save;
use super::state::{ExplainedCompletion, Latch, Rejection, State};
use super::stop::{Stop, StopReason};
use super::transition::Transition;
use super::verdict::Validation;
use super::window_wait;

/// Why a run ends after an iteration.
const ONCE: &str = "stopped after one iteration (`--once`)";
/// The same where the agent works in a session of its own.
const GOES_ON: &str = "not accepted yet; the session goes on";
/// How often in a row a required validator may fail to come to a verdict.
const MOST_CHECK_ERRORS: u32 = 3;

pub(super) fn started(next: &mut Transition, fresh: RunStarted) {
    if let Some(completion) = next.state.completion() {
        let how = if completion.validated { "" } else { ", WITHOUT validation" };
        return next.finish(StopReason::Completed, format!("already complete{how}"));
    }
    if next.state.started.is_none() {
        next.record(Record::RunStarted(fresh));
    } else {
        // The orchestrator ended in the middle of this iteration.
        during_iteration::close(next, IterationEnd::new(IterationOutcome::Interrupted));
        let RunStarted { mut agent, mut fallback, limits, once, attached, .. } = fresh;
        let RunStarted { baseline, saves, identities, hooks, escalation, .. } = fresh;
        if let Some(step) = next.state.agent.resumed_step(escalation.as_ref()) {
            (agent, fallback) = (step.agent, step.fallback);
        }
        next.record(Record::RunResumed {
            agent,
            fallback,
            limits,
            once,
            attached,
            baseline,
            saves,
            identities,
            hooks,
            escalation,
        });
    }
    next.effect(Effect::Latch);
    next.effect(Effect::Observe);
}

/// Records the standing claims and those of the final message, before anything slow begins.
pub(super) fn claims_found(next: &mut Transition, claims: Vec<Claim>) {
    if next.state.started.is_none() || next.state.is_stopped() {
        return;
    }
    let is_standing = |detector: &String| {
        claims.iter().any(|claim| claim.source == ClaimSource::State && claim.detector == *detector)
    };
    let standing = next.state.claims.standing.keys();
    let removed: Vec<String> =
        standing.filter(|detector| !is_standing(detector)).cloned().collect();
    for detector in removed {
        next.record(Record::MarkerRemoved { detector });
    }
    for claim in claims {
        next.claim(claim);
    }
}

pub(super) fn observed(next: &mut Transition, observation: Observation) {
    if !next.state.is_between_iterations() {
        return;
    }
    let (iteration, runtime_ms) = (next.state.iterations, next.runtime_ms());
    let initial = &next.state.claims.initial_near_misses;
    // Lines move when the agent edits the file above them.
    let is_initial = |miss: &NearMiss| {
        initial.iter().any(|known| (&known.detector, &known.text) == (&miss.detector, &miss.text))
    };
    let mut near_misses = observation.near_misses;
    near_misses.retain(|miss| iteration == 0 || !is_initial(miss));
    next.record(Record::Observed {
        iteration,
        tree: observation.tree,
        work: observation.work,
        evidence_written: next
            .state
            .workspace
            .evidence_history
            .written_since(&observation.evidence),
        evidence_complete: observation.evidence.is_complete(),
        evidence: observation.evidence.digest(),
        near_misses,
        // An attached session has worked before its iteration began.
        changes: observation.changes.filter(|_| iteration > 0 && !next.state.process.attached),
        runtime_ms,
    });
    if let Some(missing) = observation.missing_products {
        initializer::products_checked(next, missing);
    }
    if !save::order(next) {
        decide(next);
    }
}

/// Records what was saved, and resumes where the order was made.
pub(super) fn saved(next: &mut Transition, result: SaveResult) {
    if !next.state.is_between_iterations() || !next.state.is_save_due() {
        return;
    }
    let tree_changed = result.tree_changed;
    save::record(next, result);
    if tree_changed {
        next.effect(Effect::Observe);
    } else {
        decide(next);
    }
}

/// Stops, validates or continues, once the workspace is observed, and saved if that is due.
fn decide(next: &mut Transition) {
    handoff::leave_note(next);
    if next.state.process.stop_requested {
        return finish_interrupted(next);
    }
    if initializer::ends_run(&next.state) {
        return next.finish(StopReason::Initialized, "the initializer's products are there");
    }
    if next.state.is_initializing() {
        // Nothing of the task can be done yet.
        return continue_run(next);
    }
    if next.state.process.attached && next.state.process.resumed {
        // A claim of before is about other work than that which is validated after this iteration.
        return continue_run(next);
    }
    let state = &next.state;
    if state.needs_no_claim()
        && state.workspace.changed_since_validation
        && state.latch == Latch::Open
    {
        next.claim(Claim::automatic());
    }
    match &next.state.latch {
        Latch::Claimed { claim, .. }
            if claim.is_automatic() && next.state.standing_rejection().is_some() =>
        {
            continue_run(next);
        }
        Latch::Claimed { claim, .. } => next.effect(Effect::Validate(claim.clone())),
        Latch::Open | Latch::Completed(_) if next.state.is_baseline_due() => {
            next.effect(Effect::CheckBaseline);
        }
        Latch::Open | Latch::Completed(_) => continue_run(next),
    }
}

impl State {
    /// Returns the last rejection if it is about the work as it is: nothing was changed since, and all validators came to a
    /// verdict.
    #[must_use]
    pub fn standing_rejection(&self) -> Option<&Rejection> {
        let is_current = !self.workspace.changed_since_validation
            && !self.process.resumed
            && self.validation.errors_in_a_row.is_empty();
        self.validation.rejection.as_ref().filter(|_| is_current)
    }
}

/// Ends the run for now, since nothing can be validated on a tree that was not observed: it was asked
/// to stop, or its time was used up. The workspace is observed when the run is resumed.
pub(super) fn observation_skipped(next: &mut Transition) {
    if !next.state.is_between_iterations() {
        return;
    }
    if next.state.process.stop_requested {
        finish_interrupted(next);
    } else {
        finish_out_of_time(next);
    }
}

/// Ends the run at `limits.max_runtime`. A claim stays pending: with more time it is validated first
/// of all.
fn finish_out_of_time(next: &mut Transition) {
    next.finish(StopReason::MaxRuntime, reached_limits::OUT_OF_TIME);
}

/// The message of a run that lost its terminal.
const HUNG_UP: &str = "the terminal was closed (SIGHUP); `run --detach` leads a session of its own, which no terminal ends";

pub(super) fn finish_interrupted(next: &mut Transition) {
    let cause = if next.state.process.hung_up { HUNG_UP } else { "stop requested" };
    next.finish(StopReason::Interrupted, cause);
}

/// Returns whether the verdicts of an execution of validators are to be ignored: it was broken off,
/// which ends the run for now, or the run is elsewhere by now.
pub(super) fn ignores_verdicts(
    next: &mut Transition,
    interrupted: bool,
    out_of_time: bool,
) -> bool {
    if next.state.running.is_some() || next.state.is_stopped() {
        return true;
    }
    if interrupted {
        finish_interrupted(next);
    } else if out_of_time {
        finish_out_of_time(next);
    }
    interrupted || out_of_time
}

/// Records that the setup begins, before it changes anything.
pub(super) fn setup_started(next: &mut Transition) {
    if next.state.is_between_iterations() {
        let iteration = next_attempt(&next.state).0;
        next.record(Record::SetupStarted { iteration });
    }
}

/// Records the end of the setup, and resumes where it was needed. One that was broken off is run again.
pub(super) fn setup_finished(next: &mut Transition, end: SetupEnd) {
    if !next.state.is_between_iterations()
        || ignores_verdicts(next, end.interrupted, end.out_of_time)
    {
        return;
    }
    let iteration = next_attempt(&next.state).0;
    let runtime_ms = next.runtime_ms();
    let SetupEnd { problem, tree, .. } = end;
    next.record(Record::SetupFinished { iteration, problem, tree, runtime_ms });
    if next.state.iterations == 0 && !next.state.process.stop_requested {
        // The checks before any work need it as well.
        decide(next);
    } else {
        wait_finished(next);
    }
}

/// Ends the run because processes of the agent survive: what they can still change is not validated.
pub(super) fn processes_survived(next: &mut Transition, message: String) {
    if !next.state.is_between_iterations() {
        return;
    }
    if next.state.process.stop_requested {
        return finish_interrupted(next);
    }
    next.finish(StopReason::NeedsHuman, message);
}

pub(super) fn validated(next: &mut Transition, mut validation: Validation) {
    let Latch::Claimed { .. } = &next.state.latch else { return };
    artefacts_of_validators(next, std::mem::take(&mut validation.artefacts));
    if ignores_verdicts(next, validation.interrupted, validation.out_of_time) {
        return;
    }
    let Some(policy) = next.state.policy().cloned() else { return };
    let reasons = validation.rejection_reasons(&policy);
    let accepted = reasons.is_empty();
    let (iteration, runtime_ms) = (next.state.iterations, next.runtime_ms());
    next.warn(validation.warnings);
    let tree_left = Some(&validation.tree_left).filter(|tree| **tree != next.state.workspace.tree);
    next.record(Record::Validated {
        iteration,
        accepted,
        tree: validation.tree_before,
        tree_left: tree_left.cloned(),
        verdicts: validation.verdicts,
        reasons,
        runtime_ms,
    });
    if !accepted {
        next.effect(Effect::Latch);
        warn_of_errors(next);
        return if next.state.process.stop_requested {
            finish_interrupted(next);
        } else {
            continue_run(next);
        };
    }
    let validated = policy.validates();
    next.record(Record::Completed {
        iteration,
        tree: validation.tree_after,
        evidence: validation.evidence,
        policy: policy.digest,
        task: validation.task,
        validated,
        runtime_ms,
    });
    if validated && validation.is_explained {
        // The completion is safe before anything else is run.
        next.effect(Effect::Latch);
        return next.effect(Effect::Explain);
    }
    finish_completed(next, validated);
}

/// Ends a complete run. What made the checks green is recorded once.
pub(super) fn explained(next: &mut Transition, found: Option<ExplainedCompletion>) {
    let Some(validated) = next.state.completion().map(|completion| completion.validated) else {
        return;
    };
    if let Some(ExplainedCompletion { summary, explanation }) = found
        && next.state.explained.is_none()
    {
        let runtime_ms = next.runtime_ms();
        next.record(Record::Explained { summary, explanation, runtime_ms });
    }
    finish_completed(next, validated);
}

fn finish_completed(next: &mut Transition, validated: bool) {
    let message = if validated { "validated" } else { "completed WITHOUT validation" };
    let note = completion_note(&next.state);
    next.finish(StopReason::Completed, format!("{message}{note}"));
}

/// Returns what the message of a completion adds about the baseline.
fn completion_note(state: &State) -> &'static str {
    match state.validation.baseline_accepted {
        Some(true) => ", but every check had accepted the unchanged workspace",
        Some(false) | None => "",
    }
}

/// Records the files that each validator left: they are no part of the work.
pub(super) fn artefacts_of_validators(
    next: &mut Transition,
    artefacts: BTreeMap<String, Vec<String>>,
) {
    for (validator, paths) in artefacts {
        record_artefacts(next, Some(validator).filter(|name| !name.is_empty()), paths);
    }
}

/// Records files that appeared during a validation whose end was not recorded.
pub(super) fn artefacts(next: &mut Transition, paths: Vec<String>) {
    if !paths.is_empty() {
        record_artefacts(next, None, paths);
    }
}

fn record_artefacts(next: &mut Transition, validator: Option<String>, paths: Vec<String>) {
    if next.state.started.is_some() && !next.state.is_stopped() {
        let iteration = next.state.iterations;
        next.record(Record::Artefacts { iteration, validator, paths });
    }
}

/// Whether the delay between two iterations is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delay {
    Due,
    Over,
}

/// Stops the run or begins the next iteration, once it is known that it is not complete.
pub(super) fn continue_run(next: &mut Transition) {
    continue_after(next, Delay::Due);
}

fn continue_after(next: &mut Transition, delay: Delay) {
    if let Some(stop) = open_question(&next.state) {
        return next.finish_with(stop);
    }
    failover::fail_over_if_needed(next);
    escalate::escalate_if_needed(next);
    if let Some(stop) = find_stop(&next.state) {
        return next.finish_with(stop);
    }
    let (process, retrying) = (&next.state.process, next.state.agent.retrying);
    let is_first = process.iterations_ended == 0;
    if process.attached && is_first && !process.resumed {
        return next.finish(StopReason::Once, "the session begins");
    }
    if process.once && !is_first && !retrying && !next.state.was_cancelled_by_pause() {
        return next.finish(StopReason::Once, if process.attached { GOES_ON } else { ONCE });
    }
    if next.state.is_pause_requested() {
        return begin_pause(next);
    }
    if let Some(outcome @ IterationOutcome::Deferred { message, .. }) = &next.state.last_outcome
        && !retrying
    {
        let (message, retry_at_ms) = (message.clone(), outcome.retry_at_ms());
        return if deferral::is_over(next) {
            hold_or_prepare(next);
        } else {
            deferral::defer(next, message, retry_at_ms);
        };
    }
    if !is_first && delay == Delay::Due {
        let failures = next.state.agent.failures;
        next.effect(Effect::Pause { failures });
    } else {
        hold_or_prepare(next);
    }
}

/// Waits for a rate window that is nearly used up, or begins the next iteration.
fn hold_or_prepare(next: &mut Transition) {
    if !window_wait::hold(next) {
        prepare(next);
    }
}

/// Returns the stop if the agent's question is still to be answered.
fn open_question(state: &State) -> Option<Stop> {
    state.question().map(|question| Stop::new(StopReason::NeedsHuman, question))
}

/// Returns the stop if no iteration may follow.
fn find_stop(state: &State) -> Option<Stop> {
    repeated_check_error(state)
        .or_else(|| unrecoverable_failure(state))
        .or_else(|| initializer::attempts_used(state))
        .or_else(|| reached_limits::find_exceeded(state))
}

impl State {
    /// Returns the state in which the run goes on with these limits.
    #[must_use]
    pub fn resumed_with(&self, limits: RunLimits) -> Self {
        let mut next = self.clone();
        next.apply(&Record::RunResumed {
            agent: self.agent.name.clone(),
            fallback: self.agent.fallback.clone(),
            limits,
            once: false,
            attached: self.process.attached,
            baseline: self.validation.baseline_mode,
            saves: self.saves.mode,
            identities: self.identities.clone(),
            hooks: self.hooks.events.clone(),
            escalation: self.agent.escalation.as_ref().map(|escalation| escalation.plan.clone()),
        });
        next
    }

    /// Returns the stop if no iteration may follow. A pending claim is validated before that.
    #[must_use]
    pub fn find_stop(&self) -> Option<Stop> {
        open_question(self).or_else(|| find_stop(self))
    }
}

/// Orders to wait for the end of the pause. That it is in effect is recorded once in each start.
fn begin_pause(next: &mut Transition) {
    if next.state.controls.pause.as_ref().is_some_and(|pause| !pause.in_effect) {
        let runtime_ms = next.runtime_ms();
        next.record(Record::Paused { runtime_ms });
    }
    next.effect(Effect::Hold);
}

/// Resumes where the pause began, or stops the run.
pub(super) fn hold_finished(next: &mut Transition) {
    if !next.state.is_between_iterations() {
        return;
    }
    if next.state.process.stop_requested {
        return finish_interrupted(next);
    }
    continue_after(next, Delay::Over);
}

/// Warns of required validators without a verdict. The error itself is in the record of the validation.
fn warn_of_errors(next: &mut Transition) {
    let Some(rejection) = &next.state.validation.rejection else { return };
    let messages: Vec<String> = rejection
        .verdicts
        .iter()
        .filter(|named| named.required_error().is_some())
        .map(|named| {
            format!(
                "the validator `{}` reached no verdict, so the work is neither accepted nor rejected; \
                 {MOST_CHECK_ERRORS} such errors in a row stop the run",
                named.validator
            )
        })
        .collect();
    next.warn(messages);
}

/// Returns the stop if a validator fails to come to a verdict time and again, which no iteration
/// will change.
fn repeated_check_error(state: &State) -> Option<Stop> {
    let validation = &state.validation;
    let message = validation.rejection.as_ref()?.verdicts.iter().find_map(|named| {
        let Verdict::Error { message } = &named.verdict else { return None };
        let times = validation.errors_in_a_row.get(&named.validator)?;
        (*times >= MOST_CHECK_ERRORS).then(|| {
            format!(
                "the validator `{}` reached no verdict {MOST_CHECK_ERRORS} times in a row: {message}",
                named.validator
            )
        })
    })?;
    Some(Stop::new(StopReason::NeedsHuman, message))
}

/// Returns the stop if the last iteration failed in a way that no further one can fix.
fn unrecoverable_failure(state: &State) -> Option<Stop> {
    // Whoever resumes the run has fixed it, or will get the same message again.
    if state.process.resumed || state.agent.retrying {
        return None;
    }
    let Some(IterationOutcome::Failed { class, message }) = &state.last_outcome else {
        return None;
    };
    let reason = match class {
        ErrorClass::Unauthenticated | ErrorClass::Billing => StopReason::NeedsHuman,
        ErrorClass::NotFound => StopReason::AgentUnavailable,
        _ => return None,
    };
    Some(Stop::new(reason, message))
}

/// Checks the limits once more after a pause or wait, since time has passed.
pub(super) fn wait_finished(next: &mut Transition) {
    if !next.state.is_between_iterations() {
        return;
    }
    if next.state.process.stop_requested {
        return finish_interrupted(next);
    }
    let runtime_ms = next.runtime_ms();
    // A pause of no time needs no record.
    if runtime_ms > next.state.budget.runtime_ms {
        next.record(Record::Clock { runtime_ms });
    }
    match reached_limits::find_exceeded(&next.state) {
        Some(stop) => next.finish_with(stop),
        None if next.state.is_pause_requested() => begin_pause(next),
        None if window_wait::has_waited(next) => prepare(next),
        None => hold_or_prepare(next),
    }
}

/// Waits until the budget of all runs of the user has room again, or stops the run.
pub(super) fn user_budget_reached(next: &mut Transition, reason: String, until_ms: u64) {
    if !next.state.is_between_iterations() {
        return;
    }
    if next.state.process.stop_requested {
        return finish_interrupted(next);
    }
    let too_long = StopReason::Budget;
    deferral::wait_until(next, Wait { reason, until_ms, is_named: true, too_long });
}

/// Waits for a provider that refused requests of another run, or lets the next agent take over, as after a refusal of its own.
pub(super) fn provider_refused(next: &mut Transition, refusal: Refusal) {
    let Refusal { reason, until_ms } = refusal;
    if !next.state.is_between_iterations() {
        return;
    }
    if next.state.process.stop_requested {
        return finish_interrupted(next);
    }
    if !failover::is_short(next, until_ms) && !next.state.agent.fallback.is_empty() {
        failover::fail_over(next, reason);
        return hold_or_prepare(next);
    }
    let too_long = StopReason::NeedsHuman;
    deferral::wait_until(next, Wait { reason, until_ms, is_named: true, too_long });
}

/// Returns the number of the iteration that is begun next, and of the attempt at it.
fn next_attempt(state: &State) -> (u64, u32) {
    if state.repeats_iteration() {
        (state.iterations, state.attempt.saturating_add(1))
    } else {
        (state.iterations.saturating_add(1), 1)
    }
}

fn prepare(next: &mut Transition) {
    let state = &next.state;
    let (iteration, attempt) = next_attempt(state);
    let runtime_ms = next.runtime_ms();
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
    next.effect(Effect::Prepare(start));
}

fn trigger(state: &State) -> Trigger {
    if state.iterations == 0 {
        Trigger::Initial
    } else if state.process.resumed {
        Trigger::Resumed
    } else if state.validation.rejection.as_ref().is_some_and(|last| !last.is_unchecked()) {
        Trigger::Rejected
    } else if state.agent.failures > 0 || state.agent.retrying {
        Trigger::Failed
    } else {
        Trigger::Continued
    }
}

/// Returns the largest charge so far, but no more than what is left. Never nothing for an agent that
/// costs: that earlier iterations cost nothing, because they failed at once, says nothing about this
/// one.
fn reservation(state: &State, left: Option<Usd>) -> Usd {
    let largest = state.budget.largest_charge;
    let guess = if largest > Usd::ZERO { largest } else { state.limits.first_reservation };
    left.map_or(guess, |left| guess.min(left))
}

/// Begins the iteration once its prompt is read, unless the run was asked to stop or to pause meanwhile, or a
/// limit was lowered.
pub(super) fn prepared(
    next: &mut Transition,
    start: StartIteration,
    prompt: String,
    given: LaunchDigests,
) {
    if !next.state.is_between_iterations() {
        return;
    }
    if next.state.process.stop_requested {
        return finish_interrupted(next);
    }
    if next.state.controls.limits != LimitOverrides::default()
        && let Some(stop) = reached_limits::find_exceeded_budget(&next.state)
    {
        return next.finish_with(stop);
    }
    if next.state.is_pause_requested() {
        return begin_pause(next);
    }
    let runtime_ms = next.runtime_ms();
    next.record(Record::IterationStarted {
        iteration: start.iteration,
        attempt: start.attempt,
        trigger: start.trigger,
        prompt,
        fingerprint: given.fingerprint,
        given: given.fields,
        agent: given.agent,
        version: given.version,
        model: given.model,
        role: given.role,
        prompt_file: given.prompt_file,
        controls: given.controls,
        reservation: start.reservation,
        runtime_ms,
    });
    next.effect(Effect::Start(start));
}
