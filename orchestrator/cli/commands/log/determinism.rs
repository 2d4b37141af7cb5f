//! `log --determinism`

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::JournalEntry;
use ralph_orchestrator_story::run_summary::{RunSummary, TreeChange};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{count, len, one_line};
use serde::Serialize;

/// What is the same for every agent that was started.
const CREATION: [&str; 6] = ["program", "argv", "env", "config", "inputs", "workspace"];
/// So many iterations are named.
const MOST_NAMED: usize = 8;

/// How much of a component varied in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Comparison {
    Identical,
    Varies,
    /// Varies, as it has to: work was done.
    ExpectedVariance,
    /// There is nothing to compare.
    NotRecorded,
}

impl Comparison {
    const fn word(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Varies => "varies",
            Self::ExpectedVariance => "varies as expected",
            Self::NotRecorded => "not recorded",
        }
    }
}

#[derive(Debug, Serialize)]
struct ComponentRow {
    component: &'static str,
    finding: Comparison,
    notes: String,
}

/// One start of an agent.
struct IterationStart<'a> {
    iteration: u64,
    attempt: u32,
    agent: &'a str,
    version: Option<&'a str>,
    prompt: &'a str,
    given: &'a BTreeMap<String, String>,
}

pub(super) fn determinism(entries: &[JournalEntry], json: bool) {
    let rows = rows(entries);
    if json {
        return output::json(&rows);
    }
    for ComponentRow { component, finding, notes } in rows {
        output::result(&format!(
            "{component:<18} {:<20} {}",
            finding.word(),
            one_line(&notes, 200)
        ));
    }
}

fn rows(entries: &[JournalEntry]) -> Vec<ComponentRow> {
    let starts: Vec<IterationStart<'_>> =
        entries.iter().filter_map(|entry| started(&entry.record)).collect();
    vec![
        creation(entries, &starts),
        prompt(&starts),
        scoping(entries, &starts),
        continuing(&starts),
        workspace(entries),
        notes(entries, &starts),
    ]
}

fn started(record: &Record) -> Option<IterationStart<'_>> {
    match record {
        Record::IterationStarted { iteration, attempt, prompt, given, agent, version, .. } => {
            Some(IterationStart {
                iteration: *iteration,
                attempt: *attempt,
                agent,
                version: version.as_deref(),
                prompt,
                given,
            })
        }
        _ => None,
    }
}

fn row(component: &'static str, finding: Comparison, notes: impl Into<String>) -> ComponentRow {
    ComponentRow { component, finding, notes: notes.into() }
}

/// The iterations whose value is another than that of the start before.
fn changes<T: PartialEq>(
    starts: &[IterationStart<'_>],
    value: impl Fn(&IterationStart<'_>) -> T,
) -> Vec<u64> {
    let pairs = starts.windows(2).filter_map(|pair| match pair {
        [one, other] => (value(one) != value(other)).then_some(other.iteration),
        _ => None,
    });
    pairs.collect()
}

fn at(iterations: &[u64]) -> String {
    let named: Vec<String> = iterations.iter().take(MOST_NAMED).map(u64::to_string).collect();
    let more = if iterations.len() > MOST_NAMED { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}

fn creation(entries: &[JournalEntry], starts: &[IterationStart<'_>]) -> ComponentRow {
    const ROW: &str = "client creation";
    if starts.is_empty() || starts.iter().any(|start| start.given.is_empty()) {
        return row(
            ROW,
            Comparison::NotRecorded,
            "nothing started, or recorded by a version without this data",
        );
    }
    let mut varied: Vec<String> = Vec::new();
    let agents =
        changes(starts, |start| (start.agent.to_owned(), start.version.map(str::to_owned)));
    if !agents.is_empty() {
        varied.push(format!("agent (iteration {})", at(&agents)));
    }
    for field in CREATION {
        let changed = changes(starts, |start| start.given.get(field).cloned());
        if !changed.is_empty() {
            varied.push(format!("{field} (iteration {})", at(&changed)));
        }
    }
    let models: BTreeSet<&str> = entries
        .iter()
        .filter_map(|entry| match &entry.record {
            Record::Model { model, .. } => Some(model.as_str()),
            _ => None,
        })
        .collect();
    if models.len() > 1 {
        let models: Vec<&str> = models.into_iter().collect();
        varied.push(format!("model ({})", models.join(", ")));
    }
    if varied.is_empty() {
        let notes = "program, arguments, environment, configuration and files were the same";
        return row(ROW, Comparison::Identical, notes);
    }
    row(ROW, Comparison::Varies, varied.join("; "))
}

fn prompt(starts: &[IterationStart<'_>]) -> ComponentRow {
    const ROW: &str = "prompt loading";
    if starts.is_empty() {
        return row(ROW, Comparison::NotRecorded, "no iteration was started");
    }
    let changed = changes(starts, |start| start.prompt.to_owned());
    if changed.is_empty() {
        return row(
            ROW,
            Comparison::Identical,
            "the prompt was read for each iteration and did not change",
        );
    }
    row(ROW, Comparison::Varies, format!("the prompt was edited before iteration {}", at(&changed)))
}

fn scoping(entries: &[JournalEntry], starts: &[IterationStart<'_>]) -> ComponentRow {
    const ROW: &str = "session scoping";
    if starts.is_empty() {
        return row(ROW, Comparison::NotRecorded, "no iteration was started");
    }
    let left: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match &entry.record {
            Record::IterationEnded { iteration, left_behind, .. } if !left_behind.is_empty() => {
                Some(*iteration)
            }
            _ => None,
        })
        .collect();
    if left.is_empty() {
        let notes = "each iteration had its own process and session, and left none behind";
        return row(ROW, Comparison::Identical, notes);
    }
    let notes = format!("leftover processes were ended in iteration {}", at(&left));
    row(ROW, Comparison::Varies, notes)
}

fn continuing(starts: &[IterationStart<'_>]) -> ComponentRow {
    const ROW: &str = "auto-continue loop";
    let (Some(first), Some(last)) = (starts.first(), starts.last()) else {
        return row(ROW, Comparison::NotRecorded, "no iteration was started");
    };
    let again: Vec<u64> =
        starts.iter().filter(|start| start.attempt > 1).map(|start| start.iteration).collect();
    let mut notes = format!("iterations {} to {} without a gap", first.iteration, last.iteration);
    if !again.is_empty() {
        notes.push_str(&format!("; retried: {}", at(&again)));
    }
    let in_order = starts.windows(2).all(|pair| match pair {
        [one, other] => {
            other.iteration == one.iteration + 1
                || (other.iteration == one.iteration && other.attempt > one.attempt)
        }
        _ => true,
    });
    let finding = if in_order { Comparison::Identical } else { Comparison::Varies };
    row(ROW, finding, if in_order { notes } else { "numbers are missing".to_owned() })
}

fn workspace(entries: &[JournalEntry]) -> ComponentRow {
    const ROW: &str = "workspace state";
    // By iteration: after a restart the workspace is scanned once more.
    let story: RunSummary = entries.iter().map(|entry| &entry.record).collect();
    let scanned: Vec<TreeChange> = story
        .iterations
        .values()
        .filter(|episode| episode.iteration > 0 && episode.tree != TreeChange::Unknown)
        .map(|episode| episode.tree)
        .collect();
    if scanned.is_empty() {
        return row(ROW, Comparison::NotRecorded, "it was never scanned after an iteration");
    }
    let changed = scanned.iter().filter(|change| **change != TreeChange::Unchanged).count();
    match changed {
        0 => row(ROW, Comparison::Identical, "nothing was changed"),
        changed => {
            let all = count(len(&scanned), "iteration");
            row(ROW, Comparison::ExpectedVariance, format!("{changed} of {all} changed it"))
        }
    }
}

/// What one iteration tells the next beside the workspace.
fn notes(entries: &[JournalEntry], starts: &[IterationStart<'_>]) -> ComponentRow {
    const ROW: &str = "progress notes";
    if starts.is_empty() || starts.iter().any(|start| start.given.is_empty()) {
        return row(
            ROW,
            Comparison::NotRecorded,
            "nothing started, or recorded by a version without this data",
        );
    }
    let noted = entries.iter().filter(|entry| matches!(entry.record, Record::Note { .. })).count();
    let changed = changes(starts, |start| start.given.get("feedback").cloned());
    if noted == 0 && changed.is_empty() {
        let notes = "the feedback before the prompt did not change";
        return row(ROW, Comparison::Identical, notes);
    }
    let mut parts = Vec::new();
    if !changed.is_empty() {
        parts.push(format!("the feedback before the prompt changed at iteration {}", at(&changed)));
    }
    if noted > 0 {
        parts.push(format!("agents left {noted} notes"));
    }
    row(ROW, Comparison::Varies, parts.join("; "))
}
