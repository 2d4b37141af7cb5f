//! Trace events of the session: inputs, effects and records. The machine itself emits none.

use ralph_orchestrator_machine::{Effect, HookCommand, HookEvent, Input, Record};
use tracing::{debug, info, warn};

/// Traces an input to the machine.
pub(super) fn input(input: &Input) {
    debug!(input = input.name(), "machine input");
}

/// Traces an effect of the machine.
pub(super) fn effect(effect: &Effect) {
    match effect {
        Effect::Observe => debug!("effect: observe"),
        Effect::Save(order) => debug!(iteration = order.iteration, "effect: save"),
        Effect::CheckBaseline => debug!("effect: check the baseline"),
        Effect::Validate(claim) => debug!(detector = claim.detector, "effect: validate"),
        Effect::Explain => debug!("effect: explain"),
        Effect::Prepare(start) => debug!(iteration = start.iteration, "effect: prepare"),
        Effect::Start(start) => debug!(iteration = start.iteration, "effect: start"),
        Effect::Pause { failures } => debug!(failures, "effect: pause"),
        Effect::WaitUntil(until_ms) => debug!(until_ms, "effect: wait"),
        Effect::Hold => debug!("effect: hold"),
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
        Record::Saved { iteration, checkpoint, commit, problems, .. } => {
            info!(iteration, checkpoint, commit, ?problems, "saved");
        }
        Record::Initialized { .. } | Record::ProductsMissing { .. } => initializer(record),
        Record::SetupStarted { .. } | Record::SetupFinished { .. } => setup(record),
        Record::HookFinished { event, commands, .. } => hook(*event, commands),
        Record::ReviewStarted { .. } | Record::ReviewEnded { .. } => review(record),
        Record::Baseline { accepted, .. } => info!(accepted, "baseline checked"),
        Record::TaskChanged { .. } => info!("a person changed the prompt"),
        Record::WorkspaceMade { .. } => warn!("the workspace was gone and was made again"),
        Record::MarkerRemoved { detector } => info!(detector, "marker removed"),
        Record::Validated { accepted, tree, reasons, .. } => {
            info!(accepted, tree, reasons = reasons.len(), "validated");
        }
        Record::Completed { validated, tree, .. } => info!(validated, tree, "completed"),
        Record::Explained { summary, .. } => info!(summary = summary.as_str(), "explained"),
        Record::Stopped { reason, message, .. } => {
            info!(reason = reason.word(), message = message.as_str(), "stopped");
        }
        Record::AgentChanged { from, to, reason, .. } => {
            warn!(from, to, reason = reason.as_str(), "another agent takes over");
        }
        Record::Cancelling { reason, .. } => info!(?reason, "the agent is cancelled"),
        Record::Waiting { until_ms, reason, .. } => {
            info!(until_ms, reason = reason.as_str(), "waiting for the provider");
        }
        Record::Warning { message } => warn!("{message}"),
        Record::Previewed { accepted, reasons, .. } => {
            info!(accepted, reasons = reasons.len(), "validation previewed");
        }
        Record::Model { model, .. } => info!(model, "model"),
        Record::Observed { iteration, tree, .. } => debug!(iteration, tree, "workspace observed"),
        Record::Note { .. } => debug!("note"),
        Record::Answered { .. } => info!("answered"),
        Record::ControlReceived { origin, control, refused } => {
            info!(control = control.name(), user = origin.user, refused, "control received");
        }
        Record::GuidanceDelivered { ids, .. } => info!(pieces = ids.len(), "guidance delivered"),
        Record::Paused { .. } => info!("paused"),
        Record::RateWindow(window) => debug!(window.name, window.used_per_mille, "rate window"),
        Record::Clock { .. } | Record::Usage { .. } | Record::Context { .. } => {}
    }
}

fn review(record: &Record) {
    match record {
        Record::ReviewStarted { agent, .. } => info!(agent, "review started"),
        Record::ReviewEnded { agent, cost_usd, .. } => info!(agent, %cost_usd, "review ended"),
        _ => {}
    }
}

fn initializer(record: &Record) {
    match record {
        Record::Initialized { iteration } => info!(iteration, "initialized"),
        Record::ProductsMissing { missing, .. } => {
            info!(missing = missing.len(), "products missing");
        }
        _ => {}
    }
}

fn hook(event: HookEvent, commands: &[HookCommand]) {
    let failed = commands.iter().filter(|command| command.problem.is_some()).count();
    info!(event = event.word(), commands = commands.len(), failed, "hook finished");
}

fn setup(record: &Record) {
    match record {
        Record::SetupStarted { iteration } => debug!(iteration, "setup started"),
        Record::SetupFinished { iteration, problem, .. } => {
            info!(iteration, failed = problem.is_some(), "setup finished");
        }
        _ => {}
    }
}
