//! `why --what-if`, and what all runs of a backlog have used by agent

use std::collections::BTreeMap;

use ralph_orchestrator_assembly::backlog_view::BacklogView;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::run_selection::{RunLocation, layouts_with_lanes, list_all};
use ralph_orchestrator_machine::{AgentUse, State};
use ralph_orchestrator_store::{Layout, read_run};
use ralph_orchestrator_story::what_if::WhatIf;
use ralph_orchestrator_story::words::describe_uses;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{count, fold};
use serde_json::json;

/// Prints what starts with other agents would have cost.
pub(super) fn print(context: &Context, width: usize, is_json: bool) -> Result<u8, CommandError> {
    let all = list_all(&layouts_with_lanes(context)?)?;
    let (states, unreadable) = read_states(&all);
    let what_if = WhatIf::from_runs(&states);
    if unreadable > 0 {
        let runs = count(unreadable, "run");
        output::info(&format!("warning: {runs} could not be read: `runs` names them"));
    }
    if is_json {
        output::json(&json!(what_if));
    } else {
        let lines = what_if.lines().into_iter().flat_map(|line| fold(&line, 4, width));
        lines.for_each(|line| output::result(&line));
    }
    Ok(exit::OK)
}

/// Returns what each agent has used in all runs of a backlog; nothing if there was only one.
pub(super) fn describe_backlog(backlog: &BacklogView, own: &Layout) -> Option<String> {
    let entries = backlog.ledger.runs.iter();
    let locations: Vec<RunLocation> = entries
        .map(|entry| RunLocation { layout: entry.layout(own), run: entry.run.clone() })
        .collect();
    if locations.len() < 2 {
        return None;
    }
    let (states, _) = read_states(&locations);
    let mut all: BTreeMap<String, AgentUse> = BTreeMap::new();
    for (name, used) in states.iter().flat_map(|state| &state.agent.used) {
        let sum = all.entry(name.clone()).or_default();
        *sum = sum.plus(*used);
    }
    let is_reported = states.iter().any(|state| state.budget.cost_reported);
    describe_uses(&all, is_reported)
}

/// Returns the states of these runs, and of how many nothing could be read.
fn read_states(runs: &[RunLocation]) -> (Vec<State>, u64) {
    let mut unreadable = 0;
    let mut states = Vec::new();
    for location in runs {
        match read_run(&location.layout, &location.run, |_| {}) {
            Ok(stored) => states.push(stored.found.state),
            Err(_) => unreadable += 1,
        }
    }
    (states, unreadable)
}
