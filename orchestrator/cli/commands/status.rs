//! `status`

use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_core::machine::{
    FrozenPolicy, Latch, Limit, RunSummary, SaveState, State, StopReason,
};
use ralph_orchestrator_core::store::{Holder, Layout, Lock, StoredRun};
use serde_json::{Value, json};

use super::run_selection::{self, SelectedRun};
use super::{block_on, rollback};
use crate::args::SetArgs;
use crate::backlog::{BacklogView, whole_state};
use crate::context::Context;
use crate::control::{progress, sender};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::git::{self, WorktreeView};
use crate::next_step;
use crate::output;
use crate::render::summary::unlisted_changes;
use crate::render::terminal::{fold, stdout_width};
use crate::render::text::{
    EVIDENCE_ONLY, changed_files, changes, context_usage, count, duration, local, one_line, saved,
    shorten_home, timestamp, tokens,
};

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Show an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn status(file: &ConfigFile, args: &StatusArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let layout = context.layout()?;
    if let Some(interrupted) = rollback::describe_interrupted(&layout)? {
        output::info(&format!("warning: {interrupted}"));
    }
    let story = run_selection::read_story(&context, args.run.as_deref())?;
    let backlog = BacklogView::read(&git::enter_existing(context.clone())?, &layout)?;
    let found = story.as_ref().map(|(stored, _)| stored);
    let worktree = match found {
        Some(stored) => block_on(WorktreeView::read(&context, &stored.layout, &stored.found))?,
        None => None,
    };
    if args.json {
        let mut status = match found {
            Some(stored) => object(stored),
            None => no_run(&layout),
        };
        if let (Some(worktree), Some(status)) = (&worktree, status.as_object_mut()) {
            status.insert("worktree".to_owned(), worktree.object());
        }
        if let (Some(backlog), Some(status)) = (&backlog, status.as_object_mut()) {
            let run = found.map(|stored| &stored.found);
            status.insert("backlog".to_owned(), backlog.object(run));
        }
        output::json(&status);
        return Ok(exit::OK);
    }
    let Some((stored, story)) = story else {
        let beginning = backlog.as_ref().and_then(BacklogView::beginning);
        output::result(&beginning.unwrap_or_else(|| run_selection::no_run(&context)));
        let about = backlog.iter().flat_map(|backlog| backlog.lines(None));
        about.for_each(|line| output::result(&line));
        return Ok(exit::OK);
    };
    let width = stdout_width().unwrap_or(usize::MAX);
    let mut all = lines(&stored, &story);
    let about = backlog.iter().flat_map(|backlog| backlog.lines(Some(&stored.found)));
    all.splice(1..1, about);
    let rows = worktree.iter().flat_map(WorktreeView::rows);
    all.extend(rows.map(|(label, value)| format!("  {label:<10}  {value}")));
    for line in all {
        let indent = if line.starts_with(' ') { INDENT } else { 2 };
        fold(&line, indent, width).iter().for_each(|line| output::result(line));
    }
    Ok(exit::OK)
}

/// Where values begin.
const INDENT: usize = 14;
/// Changed files that are named.
const MOST_FILES: usize = 5;
/// Answers and guidance that are shown, the newest ones.
const MOST_GUIDANCE: usize = 5;

/// One word for how the run stands. The same fold decides about it as about everything else.
pub(crate) fn phase(state: &State, held: bool) -> &'static str {
    if state.completion().is_some() {
        return "completed";
    }
    match state.stop.as_ref().map(|stop| stop.reason) {
        _ if held && state.controls.pause.as_ref().is_some_and(|pause| pause.in_effect) => "paused",
        _ if held => "running",
        Some(StopReason::NeedsHuman) if next_step::is_answered(state) => "stopped",
        Some(StopReason::NeedsHuman) => "needs_human",
        // Killed without a word, it can be gone on with just as well.
        Some(StopReason::Interrupted) | None => "interrupted",
        Some(_) => "stopped",
    }
}

fn no_run(layout: &Layout) -> Value {
    json!({
        "run": null,
        "phase": if Lock::holder(layout).is_some() { "running" } else { "none" },
        "stop_reason": null,
        "state_dir": layout.root(),
    })
}

/// Returns a run as `status --json` prints it.
pub(crate) fn object(stored: &SelectedRun) -> Value {
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
        "context": state.agent.context,
        "notes": state.notes,
        "latch": latch(state),
        "git": git(state),
        "cost_usd": state.cost(),
        "cost_estimated": state.budget.cost_estimated,
        "tokens": state.tokens(),
        "runtime_s": seconds(stored.runtime_ms()),
        "failures": state.agent.failures,
        "stagnant": state.progress.stagnant,
        "survived": state.agent.survivors,
        "waiting_until": waiting_until,
        "pause": state.controls.pause,
        "guidance": guidance(state),
        "limits": {
            "max_iterations": state.limits.max_iterations,
            "max_runtime_s": state.limits.max_runtime_ms.map(seconds),
            "max_cost_usd": state.limits.max_cost_usd,
            "max_tokens": state.limits.max_tokens,
            "max_failures": finite(state.limits.max_failures),
            "max_stagnant": finite(state.limits.max_stagnant),
            "max_rejections": finite(state.limits.max_rejections),
        },
        "state_dir": stored.layout.root(),
    })
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

/// Nothing where there is no limit.
fn finite(most: u32) -> Option<u32> {
    (most < u32::MAX).then_some(most)
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
pub(crate) fn headline(state: &State, holder: Option<&Holder>) -> String {
    let phase = phase(state, holder.is_some());
    let words = phase.replace('_', " ");
    if let Some(holder) = holder {
        let doing = if phase == "running" { doing(state) } else { String::new() };
        return format!("{words}{doing} ({holder})");
    }
    if next_step::is_answered(state) {
        return format!("{words}: the question is answered; `run` resumes");
    }
    let Some(stop) = state.stop.as_ref().filter(|stop| stop.reason != StopReason::Completed) else {
        let unchecked = state.completion().is_some_and(|completion| !completion.validated);
        return match phase {
            "interrupted" => "interrupted: the orchestrator died; `run` resumes".to_owned(),
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

/// What a run that goes on does.
fn doing(state: &State) -> String {
    match &state.latch {
        _ if state.running.is_some() => format!(": iteration {}", state.iterations),
        Latch::Claimed { .. } => format!(": checking the work of iteration {}", state.iterations),
        _ if state.iterations == 0 => ": before the first iteration".to_owned(),
        _ => format!(": after iteration {}", state.iterations),
    }
}

fn lines(stored: &SelectedRun, story: &RunSummary) -> Vec<String> {
    let StoredRun { run, state, started, .. } = &stored.found;
    let limit = |max: Option<String>| max.map_or(String::new(), |max| format!(" of {max}"));
    let limits = &state.limits;
    let whole = whole_state(&stored.layout, &stored.found);
    let mut lines = vec![headline(&whole, stored.holder.as_ref()), format!("  run         {run}")];
    if let Some(started) = started {
        lines.push(format!("  started     {}", local(*started)));
    }
    lines.extend([
        format!("  agent       {}{}", state.agent.name, instead(state)),
        format!(
            "  iterations  {}{}",
            state.iterations,
            limit(limits.max_iterations.map(|max| max.to_string()))
        ),
        cost(state),
    ]);
    if state.tokens().total() > 0 {
        let limit = limit(limits.max_tokens.map(|max| max.to_string()));
        lines.push(format!("  tokens      {}{limit}", tokens(state.tokens())));
    }
    lines.push(format!(
        "  runtime     {}{}",
        duration(stored.runtime_ms()),
        limit(limits.max_runtime_ms.map(duration))
    ));
    lines.extend(changed(story));
    lines.extend(saves(state));
    lines.extend(completion(state));
    if let Some(context) = &state.agent.context {
        lines.push(format!("  context     {}", context_usage(context.used, context.window)));
    }
    for note in &state.notes {
        let text = one_line(&note.text, 120);
        lines.push(format!("  note        (iteration {}) {text}", note.iteration));
    }
    for survivor in state.agent.survivors.iter().filter(|_| state.completion().is_none()) {
        let text = one_line(&survivor.to_string(), 120);
        lines.push(format!("  process     {text} could not be ended"));
    }
    lines.extend(controls(state));
    if let Some(wait) = &state.waiting {
        let until = timestamp(wait.until_ms).map_or_else(|| "later".to_owned(), local);
        lines.push(format!("  waiting     until {until}: {}", one_line(&wait.reason, 120)));
    }
    lines.push(format!("  state       {}", shorten_home(stored.layout.root())));
    lines
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

/// What people asked of the run that is still of interest.
fn controls(state: &State) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(pause) = &state.controls.pause {
        let how = if pause.in_effect { "paused" } else { "pause requested" };
        let by = sender(&pause.origin);
        lines.push(format!("  pause       {how} by {by}; `resume` ends it"));
    }
    let newest = state.answers.len().saturating_sub(MOST_GUIDANCE);
    for answer in state.answers.iter().skip(newest) {
        let (word, iteration) = progress(answer);
        let of = iteration.map(|iteration| format!(" in iteration {iteration}"));
        let text = one_line(&answer.text, 120);
        lines.push(format!("  guidance    {word}{}: {text}", of.unwrap_or_default()));
    }
    for limit in Limit::ALL {
        if let Some(origin) = state.controls.limits.origin(limit) {
            lines.push(format!("  limit       {} was set by {}", limit.key(), sender(origin)));
        }
    }
    lines
}

/// What the iterations changed in all, and what the last of them did.
fn changed(story: &RunSummary) -> Option<String> {
    let known = || {
        story.iterations.values().filter_map(|episode| Some((episode, episode.changes.as_ref()?)))
    };
    let unlisted = unlisted_changes(story);
    let Some((last, changed)) = known().next_back() else {
        return unlisted.map(|unlisted| format!("  changed     {unlisted}"));
    };
    let files = changed_files(changed, MOST_FILES).join(", ");
    let files = if files.is_empty() { files } else { format!(" ({files})") };
    let all =
        if known().count() > 1 { format!("{}; ", changes(&story.changes)) } else { String::new() };
    let last = format!("in iteration {}: {}{files}", last.iteration, changes(changed));
    let unlisted = unlisted.map_or(String::new(), |unlisted| format!("; {unlisted}"));
    Some(format!("  changed     {all}{last}{unlisted}"))
}

/// What was stored in git last, and what was not.
fn saves(state: &State) -> Vec<String> {
    let SaveState { iteration, checkpoint, commit, problems, .. } = &state.saves;
    let text = saved(checkpoint.as_deref(), commit.as_deref());
    let of = iteration.map(|iteration| format!(" (iteration {iteration})")).unwrap_or_default();
    let ids = (!text.is_empty()).then(|| format!("  git         {text}{of}"));
    let problems =
        problems.iter().map(|problem| format!("  git         {}", one_line(problem, 200)));
    ids.into_iter().chain(problems).collect()
}

/// Why it is not the first agent.
fn instead(state: &State) -> String {
    let changed = state.agent.last_change.as_ref();
    changed.map_or(String::new(), |changed| {
        format!(" (instead of {}: {})", changed.from, one_line(&changed.reason, 120))
    })
}

/// How often the work was rejected, and how often nobody could check it.
fn rejected_times(state: &State) -> String {
    let rejected = format!("rejected {}", count(state.validation.rejections, "time"));
    match (state.validation.rejections, state.claims.stats.unchecked) {
        (_, 0) => rejected,
        (0, unchecked) => format!("not checked {}", count(unchecked, "time")),
        (_, unchecked) => format!("{rejected}, not checked {}", count(unchecked, "time")),
    }
}

fn completion(state: &State) -> Vec<String> {
    let mut lines = vec![match &state.latch {
        Latch::Open if state.needs_no_claim() => "  completion  not checked yet".into(),
        Latch::Open => "  completion  not claimed".into(),
        Latch::Claimed { claim, iteration } if claim.is_automatic() => {
            match (state.validation.rejections, state.claims.stats.unchecked) {
                (0, 0) => format!("  completion  not checked yet since iteration {iteration}"),
                (times, 0) => {
                    format!("  completion  checked {}, rejected each time", count(times, "time"))
                }
                _ => format!("  completion  {}", rejected_times(state)),
            }
        }
        Latch::Claimed { claim, iteration } => format!(
            "  completion  claimed ({}, iteration {iteration}), {}",
            claim.detector,
            rejected_times(state)
        ),
        Latch::Completed(done) => format!(
            "  completion  accepted after iteration {}: {}",
            done.iteration,
            one_line(&done.claim.text, 120)
        ),
    }];
    if state.policy().is_some_and(FrozenPolicy::is_evidence_only) {
        lines.push(format!("  validation  {EVIDENCE_ONLY}"));
    }
    for reason in state.validation.rejection.iter().flat_map(|rejection| &rejection.reasons) {
        lines.push(format!("    - {}", one_line(reason, 200)));
    }
    lines
}

fn cost(state: &State) -> String {
    let limit = state.limits.max_cost_usd.map(|max| format!(" of {max}")).unwrap_or_default();
    if !state.budget.cost_reported && state.cost() == Usd::ZERO {
        return "  cost        not reported by the agent".into();
    }
    let estimated = if state.budget.cost_estimated { " (estimated)" } else { "" };
    format!("  cost        {}{limit}{estimated}", state.cost())
}
