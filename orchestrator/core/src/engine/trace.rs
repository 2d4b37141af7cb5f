//! Trace events of the session: inputs, effects and records. The machine itself emits none.

use tracing::{Level, debug, info, warn};

use crate::machine::{Effect, Input, Record};

/// Traces an input to the machine.
pub(super) fn input(input: &Input) {
    if tracing::enabled!(Level::DEBUG) {
        let name = match input {
            Input::Started(_) => "started",
            Input::ClaimsFound(_) => "claims_found",
            Input::WorkspaceMade(_) => "workspace_made",
            Input::NotLooked => "not_looked",
            Input::Survived(_) => "survived",
            Input::BaselineChecked(_) => "baseline_checked",
            Input::Looked(_) => "looked",
            Input::ClaimSeen(_) => "claim_seen",
            Input::Used(_) => "used",
            Input::ContextSeen(_) => "context_seen",
            Input::ModelSeen(_) => "model_seen",
            Input::Noted(_) => "noted",
            Input::Judged { .. } => "judged",
            Input::AgentOut(_) => "agent_out",
            Input::Ended(_) => "ended",
            Input::Validated(_) => "validated",
            Input::Rested => "rested",
            Input::Prepared { .. } => "prepared",
            Input::Timer(_) => "timer",
            Input::Signal => "signal",
            Input::ArtefactsFound(_) => "artefacts_found",
            Input::Warn(_) => "warn",
        };
        debug!(input = name, "machine input");
    }
}

/// Traces an effect of the machine.
pub(super) fn effect(effect: &Effect) {
    match effect {
        Effect::Look => debug!("effect: look"),
        Effect::CheckBaseline => debug!("effect: check the baseline"),
        Effect::Validate(claim) => debug!(detector = claim.detector, "effect: validate"),
        Effect::Prepare(start) => debug!(iteration = start.iteration, "effect: prepare"),
        Effect::Start(start) => debug!(iteration = start.iteration, "effect: start"),
        Effect::Pause { failures } => debug!(failures, "effect: pause"),
        Effect::WaitUntil(until_ms) => debug!(until_ms, "effect: wait"),
        Effect::Cancel(reason) => info!(?reason, "effect: cancel"),
        Effect::Finish { reason, .. } => info!(reason = reason.word(), "effect: finish"),
        Effect::Latch => debug!("effect: latch"),
        Effect::Append(_) => {}
    }
}

/// Traces a record, which has no secrets any more.
pub(super) fn record(record: &Record) {
    match record {
        Record::RunStarted(started) => {
            info!(agent = started.agent, workspace = started.workspace, "run started");
        }
        Record::RunResumed { agent, .. } => info!(agent, "run resumed"),
        Record::Artefacts { validator, paths, .. } => {
            info!(validator, paths = paths.len(), "artefacts left");
        }
        Record::IterationStarted { iteration, attempt, trigger, fingerprint, .. } => {
            info!(iteration, attempt, ?trigger, fingerprint, "iteration started");
        }
        Record::IterationEnded { iteration, outcome, cost_usd, left_behind, .. } => {
            let left_behind = left_behind.len();
            info!(iteration, ?outcome, %cost_usd, left_behind, "iteration ended");
        }
        Record::Claimed { claim, .. } => {
            info!(detector = claim.detector, kind = ?claim.kind, "claim");
        }
        Record::Baseline { accepted, .. } => info!(accepted, "baseline checked"),
        Record::WorkspaceMade { .. } => warn!("the workspace was gone and was made again"),
        Record::Withdrawn { detector } => info!(detector, "claim withdrawn"),
        Record::Validated { accepted, tree, reasons, .. } => {
            info!(accepted, tree, reasons = reasons.len(), "validated");
        }
        Record::Completed { validated, tree, .. } => info!(validated, tree, "completed"),
        Record::Stopped { reason, message, .. } => {
            info!(reason = reason.word(), message = message.as_str(), "stopped");
        }
        Record::AgentChanged { from, to, reason } => {
            warn!(from, to, reason = reason.as_str(), "another agent takes over");
        }
        Record::Cancelling { reason } => info!(?reason, "the agent is cancelled"),
        Record::Waiting { until_ms, reason } => {
            info!(until_ms, reason = reason.as_str(), "waiting for the provider");
        }
        Record::Warning { message } => warn!("{message}"),
        Record::Judged { accepted, reasons, .. } => {
            info!(
                accepted,
                reasons = reasons.len(),
                "the agent was told what would become of its work"
            );
        }
        Record::Model { model, .. } => info!(model, "model"),
        Record::Looked { iteration, tree, .. } => debug!(iteration, tree, "workspace looked at"),
        Record::Note { .. } => debug!("note"),
        Record::Answered { .. } => info!("answered"),
        Record::Tick { .. } | Record::Usage { .. } | Record::Context { .. } => {}
    }
}
