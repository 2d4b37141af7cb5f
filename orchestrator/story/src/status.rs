//! How a run stands, as a phase, a line and an object.

use ralph_orchestrator_machine::{
    AgentUse, Answer, FrozenPolicy, Latch, Limit, State, StopKind, StopReason,
};
use ralph_orchestrator_store::{Holder, Layout, Lock, StoredRun};
use ralph_orchestrator_text::{one_line, timestamp};
use serde_json::{Map, Value, json};

use crate::next_step;
use crate::rate_windows;
use crate::selected_run::SelectedRun;
use crate::whole_state::whole_state;
use crate::words::limit_json;

/// One word for how the run stands. The same fold decides about it as about everything else.
pub fn phase(state: &State, held: bool) -> &'static str {
    if state.completion().is_some() {
        return "completed";
    }
    match state.stop.as_ref().map(|stop| stop.reason.kind()) {
        _ if held && state.controls.pause.as_ref().is_some_and(|pause| pause.in_effect) => "paused",
        _ if held => "running",
        Some(StopKind::Human) if !next_step::is_answered(state) => "needs_human",
        // Killed without a word, it can be gone on with just as well.
        Some(StopKind::Interrupted) | None => "interrupted",
        Some(
            StopKind::Human
            | StopKind::Done
            | StopKind::Once
            | StopKind::Limit
            | StopKind::Stuck
            | StopKind::Refused
            | StopKind::Unavailable,
        ) => "stopped",
    }
}

/// Returns what `status --json` prints where there is no run.
pub fn no_run(layout: &Layout) -> Value {
    json!({
        "run": null,
        "phase": if Lock::holder(layout).is_some() { "running" } else { "none" },
        "stop_reason": null,
        "state_dir": layout.root(),
    })
}

/// Returns a run as `status --json` prints it.
pub fn object(stored: &SelectedRun) -> Value {
    let StoredRun { run, state, started, .. } = &stored.found;
    let holder = stored.holder.as_ref();
    let whole = whole_state(&stored.layout, &stored.found);
    let waiting_until = state.waiting.as_ref().and_then(|wait| timestamp(wait.until_ms));
    json!({
        "run": run,
        "phase": phase(&whole, holder.is_some()),
        "stop_reason": whole.stop.as_ref().map(|stop| stop.reason),
        "message": whole.stop.as_ref().map(|stop| stop.message.as_str()),
        "started": started,
        "pid": holder.map(|holder| holder.pid),
        "iterations": state.iterations,
        "agent": state.agent.name,
        "agent_changed": state.agent.last_change,
        "fallback": state.agent.fallback,
        "agents": used_by_agents(state),
        "context": state.agent.context,
        "rate_windows": rate_windows::objects(state),
        "notes": state.notes,
        "latch": latch(state),
        "git": git(state),
        "cost_usd": state.known_cost(),
        "cost_estimated": state.budget.cost_estimated,
        "tokens": state.tokens(),
        "runtime_s": seconds(stored.runtime_ms()),
        "failures": state.agent.failures,
        "stagnant": state.progress.stagnant,
        "survived": state.agent.survivors,
        "waiting_until": waiting_until,
        "pause": state.controls.pause,
        "guidance": guidance(state),
        "limits": limits(state),
        "state_dir": stored.layout.root(),
    })
}

/// What each agent has used in iterations that are over.
fn used_by_agents(state: &State) -> Vec<Value> {
    let row = |(name, used): (&String, &AgentUse)| {
        let AgentUse { attempts, cost_usd, tokens, .. } = used;
        json!({"name": name, "attempts": attempts, "cost_usd": cost_usd, "tokens": tokens})
    };
    state.agent.used.iter().map(row).collect()
}

/// What was stored in git last; nothing if nothing is stored.
fn git(state: &State) -> Option<Value> {
    let saves = &state.saves;
    (!saves.mode.is_off()).then(|| {
        json!({
            "commit_mode": saves.mode,
            "iteration": saves.iteration,
            "checkpoint": saves.checkpoint,
            "commit": saves.commit,
            "problems": saves.problems,
        })
    })
}

/// The limits on what the run may use and do. How long it may wait is no such limit.
fn limits(state: &State) -> Map<String, Value> {
    let all = Limit::ALL.into_iter().filter(|limit| *limit != Limit::Wait);
    all.map(|limit| (limit.json_name(), state.limits.value(limit).map_or(Value::Null, limit_json)))
        .collect()
}

fn latch(state: &State) -> Value {
    let (word, claim, iteration) = match &state.latch {
        Latch::Open => ("open", None, None),
        // The orchestrator's own reason to validate is no claim of the agent.
        Latch::Claimed { claim, .. } if claim.is_automatic() => ("open", None, None),
        Latch::Claimed { claim, iteration } => ("claimed", Some(claim), Some(*iteration)),
        Latch::Completed(done) => ("completed", Some(&done.claim), Some(done.iteration)),
    };
    // Nothing is called validated before a completion was.
    let validated = state.completion().is_some_and(|completion| completion.validated);
    json!({
        "state": word,
        "claim": claim.map(|claim| json!({
            "detector": claim.detector,
            "iteration": iteration,
            "text": claim.text,
        })),
        "rejections": state.validation.rejections,
        "reasons": state.validation.rejection.as_ref().map(|r| r.reasons.clone()).unwrap_or_default(),
        "validated": validated,
        "validation_required": state.policy().is_some_and(FrozenPolicy::validates),
        "evidence_only": state.policy().is_some_and(FrozenPolicy::is_evidence_only),
    })
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

/// How the run stands, and why, each said once.
pub fn headline(state: &State, holder: Option<&Holder>) -> String {
    let phase = phase(state, holder.is_some());
    let words = phase.replace('_', " ");
    if let Some(holder) = holder {
        let doing = if phase == "running" { doing(state) } else { String::new() };
        return format!("{words}{doing} ({holder})");
    }
    if next_step::is_answered(state) {
        return format!("{words}: the question is answered; {}", what_follows(state));
    }
    let Some(stop) = state.stop.as_ref().filter(|stop| stop.reason != StopReason::Completed) else {
        let unchecked = state.completion().is_some_and(|completion| !completion.validated);
        return match phase {
            "interrupted" => {
                format!("interrupted: the orchestrator died; {}", what_follows(state))
            }
            _ if unchecked => format!("{words} WITHOUT validation"),
            _ => words,
        };
    };
    let message = one_line(&stop.message, 300);
    if message.starts_with(phase) {
        message
    } else if stop.reason.word() == phase {
        format!("{words}: {message}")
    } else {
        format!("{words} ({}): {message}", stop.reason.word())
    }
}

/// Says that `run` resumes, unless a limit does not let it.
fn what_follows(state: &State) -> String {
    match state.used_up(&state.next_limits(None)).next() {
        Some(limit) => format!("{} is used up", limit.key()),
        None => "`run` resumes".to_owned(),
    }
}

/// What a run that goes on does.
fn doing(state: &State) -> String {
    match &state.latch {
        _ if state.running.is_some() => format!(": iteration {}", state.iterations),
        Latch::Claimed { .. } => format!(": checking the work of iteration {}", state.iterations),
        _ if state.iterations == 0 => ": before the first iteration".to_owned(),
        _ => format!(": after iteration {}", state.iterations),
    }
}

/// Answers and guidance, and how far each has come.
fn guidance(state: &State) -> Vec<Value> {
    let each = state.answers.iter().map(|answer| {
        let (word, iteration) = progress(answer);
        let origin = answer.origin.as_ref();
        json!({
            "id": origin.map(|origin| origin.id.as_str()),
            "user": origin.map(|origin| origin.user.as_str()),
            "program": origin.map(|origin| origin.program.as_str()),
            "sent": origin.and_then(|origin| timestamp(origin.sent_ms)),
            "question": answer.question,
            "text": answer.text,
            "state": word,
            "iteration": iteration,
        })
    });
    each.collect()
}

/// How far an answer or guidance has come, in a word, and in which iteration.
pub fn progress(answer: &Answer) -> (&'static str, Option<u64>) {
    let word = match (answer.is_seen, answer.delivered_in) {
        (true, _) => "seen",
        (false, Some(_)) => "delivered",
        (false, None) => "queued",
    };
    (word, answer.delivered_in)
}
