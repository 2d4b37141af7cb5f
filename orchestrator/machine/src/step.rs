//! One step of the machine.

use super::baseline;
use super::between_iterations;
use super::due_hooks;
use super::during_iteration;
use super::failover;
use super::input::{Effect, Input, Now};
use super::received_control;
use super::record::Record;
use super::review;
use super::state::State;
use super::transition::Transition;
use super::window_wait;

/// Returns the state after `input` and the effects to perform, in this order. The new state is always
/// the old one with every appended record applied.
#[must_use]
pub fn step(state: State, input: Input, now: Now) -> (State, Vec<Effect>) {
    let mut transition = Transition { state, effects: Vec::new(), now };
    let next = &mut transition;
    match input {
        Input::Started(options) => between_iterations::started(next, options.fresh),
        Input::ClaimsFound(claims) => between_iterations::claims_found(next, claims),
        Input::TaskChanged(task) if next.state.is_between_iterations() => {
            next.record(Record::TaskChanged { task });
            next.effect(Effect::Latch);
        }
        Input::WorkspaceMade(workspace) if next.state.started.is_some() => {
            next.record(Record::WorkspaceMade { workspace });
        }
        Input::Observed(observation) => between_iterations::observed(next, observation),
        Input::ObservationSkipped => between_iterations::observation_skipped(next),
        Input::Saved(result) => between_iterations::saved(next, result),
        Input::SetupStarted => between_iterations::setup_started(next),
        Input::SetupFinished(end) => between_iterations::setup_finished(next, end),
        Input::HookFinished(end, effect) => due_hooks::finished(next, end, *effect),
        Input::Baseline(check) => baseline::checked(next, check),
        Input::ProcessesSurvived(message) => {
            between_iterations::processes_survived(next, message);
        }
        Input::ReviewStarted(start) => review::started(next, start),
        Input::ReviewEnded(end) => review::ended(next, end),
        Input::Validated(validation) => between_iterations::validated(next, validation),
        Input::Explained(found) => between_iterations::explained(next, found),
        Input::WaitFinished => between_iterations::wait_finished(next),
        Input::UserBudgetReached { reason, until_ms } => {
            between_iterations::user_budget_reached(next, reason, until_ms);
        }
        Input::ProviderRefused(refusal) => between_iterations::provider_refused(next, refusal),
        Input::Control(control) => received_control::received(next, control),
        Input::GuidanceTaken(ids) => received_control::guidance_taken(next, ids),
        Input::HoldFinished => between_iterations::hold_finished(next),
        Input::Prepared { start, prompt, given } => {
            between_iterations::prepared(next, start, prompt, given);
        }
        Input::Artefacts(paths) => between_iterations::artefacts(next, paths),
        Input::AgentUnavailable(reason) => failover::fail_over(next, reason),
        Input::Claimed(claim) if next.state.running.is_some() && !next.state.runs_initializer() => {
            next.claim(claim);
        }
        Input::Usage(usage) => during_iteration::usage(next, usage),
        Input::Context(context) => during_iteration::context(next, context),
        Input::RateWindow(window) => window_wait::reported(next, window),
        Input::Model(model) => during_iteration::model(next, model),
        Input::Note(text) => during_iteration::note(next, &text),
        Input::Previewed { accepted, reasons } => {
            during_iteration::previewed(next, accepted, reasons);
        }
        Input::IterationEnded(end) => during_iteration::ended(next, end),
        Input::Timer(timer) => during_iteration::timer(next, timer),
        Input::Signal => during_iteration::signal(next, false),
        Input::Hangup => during_iteration::signal(next, true),
        Input::Warning(message) if next.state.started.is_some() => next.warn([message]),
        Input::WorkspaceMade(_) | Input::TaskChanged(_) | Input::Claimed(_) | Input::Warning(_) => {
        }
    }
    (transition.state, transition.effects)
}
