//! `status`

use ralph_orchestrator_assembly::backlog_view::BacklogView;
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::control::sender;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git;
use ralph_orchestrator_assembly::git::{UncommittedView, WorktreeView};
use ralph_orchestrator_assembly::run_selection;
use ralph_orchestrator_assembly::user_budget::{describe_user_budget, read_user_budget};
use ralph_orchestrator_machine::{
    BudgetRow, FrozenPolicy, Latch, Limit, RunUsage, SaveState, State,
};
use ralph_orchestrator_store::{Layout, StoredRun};
use ralph_orchestrator_story::rate_windows;
use ralph_orchestrator_story::run_summary::RunSummary;
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_story::status::{headline, no_run, object, progress};
use ralph_orchestrator_story::whole_state::whole_state;
use ralph_orchestrator_story::words::{
    EVIDENCE_ONLY, changed_files, changes, context_usage, limit_value, saved, tokens,
    used_by_agents,
};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::size::stdout_width;
use ralph_orchestrator_text::{count, fold, local, one_line, shorten_home, timestamp};
use serde_json::{Value, json};

use super::rollback;
use crate::render::summary::unlisted_changes;

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
    let backlog = BacklogView::read(&git::enter_existing(context.clone())?, &layout)?;
    let in_lanes = backlog.as_ref().and_then(|backlog| backlog.in_lanes(&layout));
    // Of runs that go on at once, none is the run.
    let story = match in_lanes.is_some() && args.run.is_none() {
        true => None,
        false => run_selection::read_story(&context, args.run.as_deref())?,
    };
    let found = story.as_ref().map(|(stored, _)| stored);
    let worktree = match found {
        Some(stored) => block_on(WorktreeView::read(&context, &stored.layout, &stored.found))?,
        None => block_on(WorktreeView::read_trunk(&context, &layout))?,
    };
    let uncommitted = match &story {
        Some((stored, story)) if worktree.is_none() && !stored.is_running() => block_on(async {
            Ok(UncommittedView::read(&context, &stored.layout, &stored.found, story).await)
        })?,
        _ => None,
    };
    if args.json {
        let mut status = match found {
            Some(stored) => object(stored),
            None => without_run(&layout, backlog.as_ref(), in_lanes.as_ref()),
        };
        if let (Some(worktree), Some(status)) = (&worktree, status.as_object_mut()) {
            status.insert("worktree".to_owned(), worktree.object());
        }
        if let (Some(backlog), Some(status)) = (&backlog, status.as_object_mut()) {
            let run = found.map(|stored| &stored.found);
            status.insert("backlog".to_owned(), backlog.object(run));
        }
        add_user_budget(&mut status);
        output::json(&status);
        return Ok(exit::OK);
    }
    let Some((stored, story)) = story else {
        show_without_run(&context, in_lanes, (backlog.as_ref(), worktree.as_ref()));
        return Ok(exit::OK);
    };
    let width = stdout_width().unwrap_or(usize::MAX);
    let mut all = lines(&stored, &story);
    let about = backlog.iter().flat_map(|backlog| backlog.lines(Some(&stored.found)));
    all.splice(1..1, about);
    all.extend(describe_user_budget().into_iter().map(|text| format!("  all runs    {text}")));
    let rows = worktree.iter().flat_map(WorktreeView::rows);
    all.extend(rows.map(|(label, value)| format!("  {label:<10}  {value}")));
    all.extend(uncommitted.map(|view| format!("  {:<10}  {}", "not in git", view.describe())));
    for line in all {
        let indent = if line.starts_with(' ') { INDENT } else { 2 };
        fold(&line, indent, width).iter().for_each(|line| output::result(line));
    }
    Ok(exit::OK)
}

/// Returns what there is where the state directory has no run of its own: items may be worked on at once, in others.
fn without_run(
    layout: &Layout,
    backlog: Option<&BacklogView>,
    in_lanes: Option<&(&'static str, String)>,
) -> Value {
    let mut status = no_run(layout);
    if let (Some((phase, _)), Some(status)) = (in_lanes, status.as_object_mut()) {
        let stop = backlog.and_then(|backlog| backlog.ledger.stop.as_ref());
        let reason = stop.map(|(reason, _)| *reason).filter(|_| *phase != "running");
        status.insert("phase".to_owned(), (*phase).into());
        status.insert("stop_reason".to_owned(), json!(reason));
    }
    status
}

/// Prints the same for people.
fn show_without_run(
    context: &Context,
    in_lanes: Option<(&'static str, String)>,
    (backlog, worktree): (Option<&BacklogView>, Option<&WorktreeView>),
) {
    let beginning = in_lanes.map(|(_, text)| text);
    let beginning = beginning.or_else(|| backlog.and_then(BacklogView::beginning));
    output::result(&beginning.unwrap_or_else(|| run_selection::no_run(context)));
    let about = backlog.iter().flat_map(|backlog| backlog.lines(None));
    let rows = worktree.iter().flat_map(|worktree| worktree.rows());
    let rows = rows.map(|(label, value)| format!("  {label:<10}  {value}"));
    let width = stdout_width().unwrap_or(usize::MAX);
    let folded = about.chain(rows).flat_map(|line| fold(&line, INDENT, width));
    folded.for_each(|line| output::result(&line));
}

/// Adds what is left of the budget of all runs, if there is one.
fn add_user_budget(status: &mut Value) {
    match (read_user_budget(), status.as_object_mut()) {
        (Ok(Some(budget)), Some(status)) => {
            status.insert("user_budget".to_owned(), budget.limit_objects().into());
        }
        (Err(error), _) => output::info(&format!("warning: {}", error.detail())),
        _ => {}
    }
}

/// Where values begin.
const INDENT: usize = 14;

/// Changed files that are named.
const MOST_FILES: usize = 5;

/// Answers and guidance that are shown, the newest ones.
const MOST_GUIDANCE: usize = 5;

fn lines(stored: &SelectedRun, story: &RunSummary) -> Vec<String> {
    let StoredRun { run, state, started, .. } = &stored.found;
    let whole = whole_state(&stored.layout, &stored.found);
    let mut lines = vec![headline(&whole, stored.holder.as_ref()), format!("  run         {run}")];
    if let Some(started) = started {
        lines.push(format!("  started     {}", local(*started)));
    }
    lines.push(format!("  agent       {}{}", state.agent.name, instead(state)));
    let usage = RunUsage { runtime_ms: stored.runtime_ms(), ..RunUsage::from_state(state) };
    let (others, runtime): (Vec<_>, Vec<_>) =
        Limit::budgets().partition(|(limit, _)| *limit != Limit::Runtime);
    let used = others.into_iter().chain(runtime).filter_map(|(limit, row)| {
        let text = used_text(state, limit, row, &usage)?;
        Some(format!("  {:<10}  {text}", row.label))
    });
    lines.extend(used);
    lines.extend(used_by_agents(state).map(|text| format!("  by agent    {text}")));
    lines.extend(changed(story));
    lines.extend(saves(state));
    lines.extend(saving(stored));
    lines.extend(completion(state));
    if let Some(context) = &state.agent.context {
        lines.push(format!("  context     {}", context_usage(context.used, context.window)));
    }
    let windows = rate_windows::describe(state).into_iter();
    lines.extend(windows.map(|window| format!("  window      {window}")));
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

/// That git works, or what it runs: a hook, or a program that waits for a person to sign.
fn saving(stored: &SelectedRun) -> Option<String> {
    let state = &stored.found.state;
    let is_between = state.running.is_none() && state.iterations > 0 && state.is_save_due();
    (stored.is_running() && state.saves.mode.commits() && is_between).then(|| {
        format!(
            "  waiting     for the commit of iteration {}: hooks run, and a signature may wait for a person until \
             `[git] timeout`",
            state.iterations
        )
    })
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

/// What is used of a limit, and the limit; nothing for tokens of an agent that reports none.
fn used_text(state: &State, limit: Limit, row: &BudgetRow, usage: &RunUsage) -> Option<String> {
    let of = state.limits.value(limit).map(|max| format!(" of {}", limit_value(Some(max))));
    let of = of.unwrap_or_default();
    let used = limit_value(Some(limit.row().unit.to_value(row.used(usage))));
    Some(match limit {
        Limit::Cost if state.is_unreported(row) => "not reported by the agent".to_owned(),
        Limit::Cost if state.budget.cost_estimated => format!("{used}{of} (estimated)"),
        Limit::Tokens if usage.tokens.total() == 0 => return None,
        Limit::Tokens => format!("{}{of}", tokens(usage.tokens)),
        _ => format!("{used}{of}"),
    })
}
