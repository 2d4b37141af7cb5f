//! The summary of a run at its end: limits, iterations, cost, changes, verdicts.

use std::path::Path;

use ralph_orchestrator_contract::{Usd, Verdict};
use ralph_orchestrator_machine::{IterationOutcome, ValidatorVerdict};
use ralph_orchestrator_store::{Layout, StoredRun, read_run};
use ralph_orchestrator_story::run_summary::{IterationSummary, RunSummary};
use ralph_orchestrator_story::words::{changed_files, changes, cost, describe_execution};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::size::{USUAL_WIDTH, stderr_width};
use ralph_orchestrator_text::{
    NO_BREAK, cell_widths, count, duration, escape_line, fold, join_cells, len, local, one_line,
    shorten_home,
};

/// Where values begin.
const INDENT: usize = 14;
/// Iterations that have a row of their own; of more, the last ones.
const MOST_ROWS: usize = 10;
/// Characters of what a validator says.
const LONGEST_REASON: usize = 120;
/// Changed files that are named.
const MOST_FILES: usize = 8;

/// Prints the summary of a run for people, from its journal. If that cannot be read nothing is printed:
/// the next command says why.
pub(crate) fn print(layout: &Layout, run: &str) {
    let mut story = RunSummary::default();
    let Ok(stored) = read_run(layout, run, |entry| story.add(&entry.record)) else { return };
    let width = stderr_width().unwrap_or(USUAL_WIDTH);
    lines(&stored.found, &story, layout, width).iter().for_each(|line| output::report(line));
}

/// The summary in lines of this width; paths are never folded.
fn lines(found: &StoredRun, story: &RunSummary, layout: &Layout, width: usize) -> Vec<String> {
    let state = &found.state;
    let limits = &state.limits;
    let of = |max: Option<String>| max.map(|max| format!(" of {max}")).unwrap_or_default();
    let mut rows = Rows { lines: Vec::new(), width };
    if let Some(started) = found.started {
        rows.add("started", &local(started));
    }
    if let Some(ended) = found.ended {
        rows.add("ended", &local(ended));
    }
    let max = of(limits.max_runtime_ms.map(duration));
    rows.add("runtime", &format!("{}{max}", duration(state.budget.runtime_ms)));
    let iterations = match limits.max_iterations {
        // An earlier start had a higher limit.
        Some(max) if state.iterations > max => format!("{}, limit {max}", state.iterations),
        max => format!("{}{}", state.iterations, of(max.map(|max| max.to_string()))),
    };
    rows.add("iterations", &iterations);
    table(story).iter().for_each(|row| rows.below(row));
    let spent = cost(state.cost(), state.budget.cost_reported, state.budget.cost_estimated);
    let limit =
        limits.max_cost_usd.filter(|_| state.budget.cost_reported).map(|max| max.to_string());
    let spent = spent.strip_prefix("cost ").unwrap_or(&spent);
    rows.add("cost", &format!("{spent}{}", of(limit)));
    if let Some(unclaimed) = describe_unclaimed(story) {
        rows.add("claims", &unclaimed);
    }
    changed(story, &mut rows);
    let mut label = "verdicts";
    for named in &story.verdicts {
        rows.add(std::mem::take(&mut label), &verdict(named));
    }
    if let Some(explained) = &state.explained {
        rows.add("made green", &escape_line(&explained.summary));
    }
    let folder = layout.run(&found.run);
    if let Some(completion) = state.completion().filter(|done| !done.evidence.is_empty()) {
        rows.add("evidence", &format!("{} kept:", count(len(&completion.evidence), "file")));
        rows.path("", &layout.evidence(&found.run));
    }
    rows.path("state", &folder);
    rows.lines
}

/// Says that the agent spoke of being done without a claim, where only that has the work validated.
fn describe_unclaimed(story: &RunSummary) -> Option<String> {
    let stats = &story.claim_stats;
    let is_unclaimed = stats.needs_claims() && stats.claims == 0 && stats.says_done > 0;
    let line = stats.summary_line().filter(|_| is_unclaimed)?;
    Some(format!("{line}; `why` shows what a claim is"))
}

struct Rows {
    lines: Vec<String>,
    width: usize,
}

impl Rows {
    fn add(&mut self, label: &str, value: &str) {
        // The columns of labels take too much of a narrow terminal to leave all values their own.
        let indent = if self.width < 2 * INDENT + 20 { 4 } else { INDENT };
        self.lines.extend(fold(&format!("  {label:<10}  {value}"), indent, self.width));
    }

    fn below(&mut self, value: &str) {
        self.lines.extend(fold(&format!("    {value}"), 8, self.width));
    }

    fn path(&mut self, label: &str, path: &Path) {
        self.lines.push(format!("  {label:<10}  {}", shorten_home(path)));
    }
}

fn changed(story: &RunSummary, rows: &mut Rows) {
    let times = story.iterations.values().filter(|episode| episode.changes.is_some()).count();
    let unlisted = unlisted_changes(story);
    if times == 0 {
        if let Some(unlisted) = unlisted {
            rows.add("changed", &unlisted);
        }
        return;
    }
    let sum = if times > 1 && story.changes.counts_lines() {
        " (lines summed over the iterations)"
    } else {
        ""
    };
    rows.add("changed", &format!("{}{sum}", changes(&story.changes)));
    changed_files(&story.changes, MOST_FILES).iter().for_each(|file| rows.below(file));
    if let Some(unlisted) = unlisted {
        rows.below(&unlisted);
    }
}

/// What is missing in the changes of a run, if anything is.
pub(crate) fn unlisted_changes(story: &RunSummary) -> Option<String> {
    let iterations: Vec<String> =
        story.unlisted_iterations().iter().take(MOST_ROWS).map(ToString::to_string).collect();
    let noun = if iterations.len() == 1 { "iteration" } else { "iterations" };
    (!iterations.is_empty())
        .then(|| format!("files that {noun} {} changed are not listed", iterations.join(", ")))
}

/// A verdict in a line, with its first reason.
pub(crate) fn verdict(named: &ValidatorVerdict) -> String {
    let name = &named.validator;
    let time = describe_execution(named);
    let optional = if named.required { "" } else { " (not required)" };
    match &named.verdict {
        Verdict::Accepted { summary, .. } => {
            format!("{name} accepted{optional} ({time}): {}", one_line(summary, LONGEST_REASON))
        }
        Verdict::Rejected { reasons } => {
            let reason = reasons.first().map_or("", String::as_str);
            let first = reason.lines().next().unwrap_or_default();
            format!("{name} rejected{optional} ({time}): {}", one_line(first, LONGEST_REASON))
        }
        Verdict::Error { message } => {
            format!("{name} no verdict{optional}: {}", one_line(message, LONGEST_REASON))
        }
    }
}

/// One row for each iteration: how it ended, how long it took, what it cost and changed, its verdict.
fn table(story: &RunSummary) -> Vec<String> {
    let episodes: Vec<&IterationSummary> =
        story.iterations.values().filter(|episode| episode.attempts > 0).collect();
    let hidden = episodes.len().saturating_sub(MOST_ROWS);
    let (early, shown) = episodes.split_at(if hidden > 1 { hidden } else { 0 });
    let mut cells: Vec<[String; 6]> = Vec::new();
    cells.extend(earlier(early));
    cells.extend(shown.iter().map(|episode| iteration_cells(episode)));
    let widths = cell_widths(&cells);
    let padded = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).filter(|(_, width)| *width > 0);
        join_cells(cells.map(|(cell, width)| (cell.replace(' ', &NO_BREAK.to_string()), width)))
    };
    cells.iter().map(padded).collect()
}

/// All that have no row of their own.
fn earlier(episodes: &[&IterationSummary]) -> Option<[String; 6]> {
    let (first, last) = (episodes.first()?.iteration, episodes.last()?.iteration);
    let time = episodes.iter().map(|episode| episode.duration_ms).fold(0, u64::saturating_add);
    let spent: Usd = episodes.iter().map(|episode| episode.cost_usd).sum();
    let how = "`log` lists them".to_owned();
    let spent = if spent > Usd::ZERO { spent.to_string() } else { String::new() };
    Some([format!("{first}–{last}"), how, duration(time), spent, String::new(), String::new()])
}

/// An iteration in columns: number, end, time, cost, changes, verdict.
pub(crate) fn iteration_cells(episode: &IterationSummary) -> [String; 6] {
    let how = match &episode.outcome {
        None => "not ended",
        Some(IterationOutcome::Succeeded) => "ended",
        Some(IterationOutcome::AgentLimit { .. }) => "agent's limit",
        Some(IterationOutcome::Failed { .. }) => "FAILED",
        Some(IterationOutcome::Deferred { .. }) => "deferred",
        Some(IterationOutcome::Interrupted) => "interrupted",
        Some(IterationOutcome::StoppedEarly { .. }) => "stopped",
    };
    let spent = match (episode.cost_reported, episode.cost_usd) {
        (false, Usd::ZERO) => String::new(),
        (false, charged) => format!("{charged} charged"),
        (true, spent) => spent.to_string(),
    };
    let verdict = match episode.accepted {
        _ if episode.needs_human => "asks for a human",
        Some(true) => "accepted",
        Some(false) if episode.unchecked => "not checked",
        Some(false) => "rejected",
        None => "",
    };
    [
        episode.iteration.to_string(),
        how.to_owned(),
        duration(episode.duration_ms),
        spent,
        episode.changes.as_ref().map(changes).unwrap_or_default(),
        verdict.to_owned(),
    ]
}
