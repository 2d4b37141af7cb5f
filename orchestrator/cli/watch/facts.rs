//! A run as the view shows it: all of it from the fold of its journal, but for the last words of its agent.

use std::time::Duration;

use ralph_orchestrator_assembly::control::sender;
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_machine::{
    BudgetRow, IterationOutcome, Latch, Limit, LimitValue, RunUsage, State, StopKind,
    ValidatorVerdict,
};
use ralph_orchestrator_story::rate_windows;
use ralph_orchestrator_story::run_summary::{IterationSummary, RunSummary};
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_story::status::{headline, phase};
use ralph_orchestrator_story::words::{context_usage, short_tokens, short_usd};
use ralph_orchestrator_text::{
    clock, escape, local, one_line, short_duration, short_number, timestamp,
};
use ralph_orchestrator_watch::{
    IterationFacts, LimitFacts, Phase, RunFacts, Tone, VerdictFacts, VerdictWord,
};

use crate::render::summary::{iteration_cells, verdict};

/// Iterations that are shown, the newest.
const MOST_ITERATIONS: usize = 1000;
/// Characters of what happens.
const LONGEST_ACTIVITY: usize = 400;

/// Returns the phase for a word of `status`.
pub(super) fn phase_of(word: &str, is_deferred: bool) -> Phase {
    match word {
        "running" if is_deferred => Phase::Waiting,
        "running" => Phase::Running,
        "paused" => Phase::Paused,
        "needs_human" => Phase::NeedsHuman,
        "completed" => Phase::Completed,
        "interrupted" => Phase::Interrupted,
        "stopped" => Phase::Stopped,
        _ => Phase::Damaged,
    }
}

/// Returns what is known of a run. `words`: what its agent said or did last.
pub(super) fn facts(
    selected: &SelectedRun,
    story: &RunSummary,
    damage: Option<&str>,
    words: Option<&str>,
) -> RunFacts {
    let state = &selected.found.state;
    let is_running = selected.is_running();
    let phase = phase_of(phase(state, is_running), state.waiting.is_some());
    let (activity, activity_tone) = match damage {
        Some(damage) => (damage.to_owned(), Tone::Bad),
        None if is_running => active(state, words),
        None => ended(selected, phase),
    };
    let model = state.agent.model().map(|model| format!("/{model}"));
    RunFacts {
        run: selected.found.run.clone(),
        phase: if damage.is_some() { Phase::Damaged } else { phase },
        agent: one_line(&format!("{}{}", state.agent.name, model.unwrap_or_default()), 80),
        limits: Limit::budgets()
            .map(|(limit, row)| limit_facts(state, selected.runtime_ms(), limit, row))
            .collect(),
        usage: usage(state),
        activity: one_line(&activity, LONGEST_ACTIVITY),
        activity_tone,
        question: question(state),
        is_pause_requested: state.controls.pause.is_some(),
        verdicts: story.verdicts.iter().map(verdict_facts).collect(),
        iterations: iterations(state, story),
    }
}

/// Returns what there is to show of a run of which nothing can be read.
pub(super) fn unreadable(run: &str, why: &str) -> RunFacts {
    let none = |row: &BudgetRow| LimitFacts {
        name: row.label,
        used: "-".to_owned(),
        max: Some("-".to_owned()),
        share: None,
        value: String::new(),
    };
    RunFacts {
        run: run.to_owned(),
        phase: Phase::Damaged,
        agent: String::new(),
        limits: Limit::budgets().map(|(_, row)| none(row)).collect(),
        usage: String::new(),
        activity: one_line(why, LONGEST_ACTIVITY),
        activity_tone: Tone::Bad,
        question: None,
        is_pause_requested: false,
        verdicts: Vec::new(),
        iterations: Vec::new(),
    }
}

/// What a process does with the run.
fn active(state: &State, words: Option<&str>) -> (String, Tone) {
    let plain = |text: String| (text, Tone::Plain);
    if let Some(pause) = state.controls.pause.as_ref().filter(|pause| pause.in_effect) {
        let text = format!("paused by {}; p ends the pause", sender(&pause.origin));
        return (text, Tone::Warning);
    }
    if let Some(wait) = &state.waiting {
        let until = timestamp(wait.until_ms).map_or_else(|| "later".to_owned(), local);
        return (format!("waiting until {until}: {}", wait.reason), Tone::Warning);
    }
    if let Some(running) = &state.running {
        if running.cancelling.is_some() {
            return (format!("ending iteration {}", running.iteration), Tone::Warning);
        }
        let words = words.unwrap_or("the agent works");
        return plain(format!("iteration {}: {words}", running.iteration));
    }
    if state.setup.is_unobserved && !state.setup.is_done {
        return plain(format!("setup before iteration {}", state.iterations + 1));
    }
    match &state.latch {
        _ if state.progress.awaiting_observation => plain("scanning the workspace".to_owned()),
        Latch::Claimed { iteration, .. } => {
            plain(format!("validation of the work of iteration {iteration}"))
        }
        _ => plain("between iterations".to_owned()),
    }
}

/// How a run stands on which no process works.
fn ended(selected: &SelectedRun, phase: Phase) -> (String, Tone) {
    let state = &selected.found.state;
    if let Some(completion) = state.completion() {
        let how = if completion.validated { "accepted" } else { "completed WITHOUT validation" };
        let text =
            format!("{how} after iteration {}: {}", completion.iteration, completion.claim.text);
        return (text, Tone::Good);
    }
    let tone = if phase == Phase::NeedsHuman { Tone::Warning } else { Tone::Plain };
    (headline(state, None), tone)
}

/// The question that a person has not answered yet.
fn question(state: &State) -> Option<String> {
    let stop = state.stop.as_ref().filter(|stop| stop.reason.kind() == StopKind::Human)?;
    Some(one_line(&stop.message, 2000))
}

fn usage(state: &State) -> String {
    let context = state.agent.context.as_ref();
    let context = context.map(|own| format!("context {}", context_usage(own.used, own.window)));
    let tokens = state.tokens();
    let tokens = (tokens.total() > 0).then(|| format!("tokens {}", short_tokens(tokens)));
    let windows = rate_windows::shares(state);
    let known: Vec<String> = context.into_iter().chain(tokens).chain(windows).collect();
    if known.is_empty() { "no tokens reported".to_owned() } else { known.join("  ") }
}

fn limit_facts(state: &State, runtime_ms: u64, limit: Limit, row: &BudgetRow) -> LimitFacts {
    let usage = RunUsage { runtime_ms, ..RunUsage::from_state(state) };
    let used = limit.row().unit.to_value(row.used(&usage));
    let max = state.limits.value(limit);
    let share = max.map(|max| {
        let thousandths = used.amount().saturating_mul(1000) / max.amount().max(1);
        u16::try_from(thousandths.min(1000)).unwrap_or(1000)
    });
    let is_unknown = state.is_unreported(row);
    let used = if is_unknown { "not reported".to_owned() } else { shown(used, limit) };
    LimitFacts {
        name: row.label,
        used,
        max: max.map(|max| shown_limit(max, limit)),
        share: share.filter(|_| !is_unknown),
        value: max.map_or_else(|| "none".to_owned(), typed),
    }
}

fn shown(value: LimitValue, limit: Limit) -> String {
    match value {
        LimitValue::Count(count) if limit == Limit::Tokens => short_number(count),
        LimitValue::Count(count) => count.to_string(),
        LimitValue::Duration(ms) => clock(Duration::from_millis(ms)),
        LimitValue::Money(usd) => usd.to_string(),
    }
}

fn shown_limit(value: LimitValue, limit: Limit) -> String {
    match value {
        LimitValue::Count(_) => shown(value, limit),
        LimitValue::Duration(ms) => short_duration(ms),
        LimitValue::Money(usd) => short_usd(usd),
    }
}

/// A limit as a person types it.
fn typed(value: LimitValue) -> String {
    match value {
        LimitValue::Count(count) => count.to_string(),
        LimitValue::Duration(ms) => short_duration(ms),
        LimitValue::Money(usd) => short_usd(usd).trim_start_matches('$').to_owned(),
    }
}

fn verdict_facts(named: &ValidatorVerdict) -> VerdictFacts {
    let mut lines = vec![escape(&verdict(named))];
    let word = match &named.verdict {
        Verdict::Accepted { .. } => VerdictWord::Accepted,
        Verdict::Rejected { reasons } => {
            let reason =
                |reason: &String| format!("  - {}", escape(reason).replace('\n', "\n    "));
            lines.extend(reasons.iter().map(reason));
            VerdictWord::Rejected
        }
        Verdict::Error { message } => {
            lines.push(format!("  {}", escape(message).replace('\n', "\n  ")));
            VerdictWord::Error
        }
    };
    VerdictFacts { validator: one_line(&named.validator, 60), word, lines }
}

fn iterations(state: &State, story: &RunSummary) -> Vec<IterationFacts> {
    let running = state.running.as_ref().map(|running| running.iteration);
    let all = story.iterations.values().rev().filter(|own| own.attempts > 0).take(MOST_ITERATIONS);
    let mut all: Vec<IterationFacts> =
        all.map(|own| iteration(own, running == Some(own.iteration))).collect();
    all.reverse();
    all
}

fn iteration(own: &IterationSummary, is_running: bool) -> IterationFacts {
    let mut cells: Vec<String> = iteration_cells(own).into();
    if is_running && let [_, how, time, cost, ..] = cells.as_mut_slice() {
        (*how, *time, *cost) = ("running".to_owned(), String::new(), String::new());
    }
    let tone = match (own.accepted, &own.outcome) {
        (Some(true), _) => Tone::Good,
        (Some(false), _) if own.unchecked => Tone::Warning,
        (Some(false), _) => Tone::Bad,
        (None, Some(IterationOutcome::Failed { .. } | IterationOutcome::Interrupted)) => {
            Tone::Warning
        }
        _ => Tone::Plain,
    };
    IterationFacts { number: own.iteration, cells, tone }
}
