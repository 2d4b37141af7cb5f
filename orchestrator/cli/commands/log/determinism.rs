//! `log --determinism`

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_core::machine::{Record, RunSummary, TreeChange};
use ralph_orchestrator_core::store::JournalEntry;
use serde::Serialize;

use crate::output;
use crate::render::text::{count, len, one_line};

/// What is the same for every agent that was started.
const CREATION: [&str; 6] = ["program", "argv", "env", "config", "inputs", "workspace"];
/// So many iterations are named.
const MOST_NAMED: usize = 8;

/// How much of a component varied in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Finding {
    Identical,
    Varies,
    /// Varies, as it has to: work was done.
    ExpectedVariance,
    /// There is nothing to compare.
    NotRecorded,
}

impl Finding {
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
struct Row {
    component: &'static str,
    finding: Finding,
    notes: String,
}

/// One start of an agent.
struct Started<'a> {
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
    for Row { component, finding, notes } in rows {
        output::result(&format!(
            "{component:<18} {:<20} {}",
            finding.word(),
            one_line(&notes, 200)
        ));
    }
}

fn rows(entries: &[JournalEntry]) -> Vec<Row> {
    let starts: Vec<Started<'_>> =
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

fn started(record: &Record) -> Option<Started<'_>> {
    match record {
        Record::IterationStarted { iteration, attempt, prompt, given, agent, version, .. } => {
            Some(Started {
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

fn row(component: &'static str, finding: Finding, notes: impl Into<String>) -> Row {
    Row { component, finding, notes: notes.into() }
}

/// The iterations whose value is another than that of the start before.
fn changes<T: PartialEq>(starts: &[Started<'_>], value: impl Fn(&Started<'_>) -> T) -> Vec<u64> {
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

fn creation(entries: &[JournalEntry], starts: &[Started<'_>]) -> Row {
    const ROW: &str = "client creation";
    if starts.is_empty() || starts.iter().any(|start| start.given.is_empty()) {
        return row(ROW, Finding::NotRecorded, "no start, or of a version that did not note this");
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
        return row(ROW, Finding::Identical, notes);
    }
    row(ROW, Finding::Varies, varied.join("; "))
}

fn prompt(starts: &[Started<'_>]) -> Row {
    const ROW: &str = "prompt loading";
    if starts.is_empty() {
        return row(ROW, Finding::NotRecorded, "no iteration was started");
    }
    let changed = changes(starts, |start| start.prompt.to_owned());
    if changed.is_empty() {
        return row(
            ROW,
            Finding::Identical,
            "the prompt was read anew each time and never changed",
        );
    }
    row(ROW, Finding::Varies, format!("the prompt was edited before iteration {}", at(&changed)))
}

fn scoping(entries: &[JournalEntry], starts: &[Started<'_>]) -> Row {
    const ROW: &str = "session scoping";
    if starts.is_empty() {
        return row(ROW, Finding::NotRecorded, "no iteration was started");
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
        let notes = "each iteration was a process and a session of its own, and left none behind";
        return row(ROW, Finding::Identical, notes);
    }
    let notes = format!("processes were left behind, and ended, in iteration {}", at(&left));
    row(ROW, Finding::Varies, notes)
}

fn continuing(starts: &[Started<'_>]) -> Row {
    const ROW: &str = "auto-continue loop";
    let (Some(first), Some(last)) = (starts.first(), starts.last()) else {
        return row(ROW, Finding::NotRecorded, "no iteration was started");
    };
    let again: Vec<u64> =
        starts.iter().filter(|start| start.attempt > 1).map(|start| start.iteration).collect();
    let mut notes = format!("iterations {} to {} without a gap", first.iteration, last.iteration);
    if !again.is_empty() {
        notes.push_str(&format!("; tried again: {}", at(&again)));
    }
    let in_order = starts.windows(2).all(|pair| match pair {
        [one, other] => {
            other.iteration == one.iteration + 1
                || (other.iteration == one.iteration && other.attempt > one.attempt)
        }
        _ => true,
    });
    let finding = if in_order { Finding::Identical } else { Finding::Varies };
    row(ROW, finding, if in_order { notes } else { "numbers are missing".to_owned() })
}

fn workspace(entries: &[JournalEntry]) -> Row {
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
        return row(ROW, Finding::NotRecorded, "it was never scanned after an iteration");
    }
    let changed = scanned.iter().filter(|change| **change != TreeChange::Unchanged).count();
    match changed {
        0 => row(ROW, Finding::Identical, "nothing was changed"),
        changed => {
            let all = count(len(&scanned), "iteration");
            row(ROW, Finding::ExpectedVariance, format!("{changed} of {all} changed it"))
        }
    }
}

/// What one iteration tells the next beside the workspace.
fn notes(entries: &[JournalEntry], starts: &[Started<'_>]) -> Row {
    const ROW: &str = "progress notes";
    if starts.is_empty() || starts.iter().any(|start| start.given.is_empty()) {
        return row(ROW, Finding::NotRecorded, "no start, or of a version that did not note this");
    }
    let noted = entries.iter().filter(|entry| matches!(entry.record, Record::Note { .. })).count();
    let told = changes(starts, |start| start.given.get("feedback").cloned());
    if noted == 0 && told.is_empty() {
        let notes = "what stood before the prompt, if anything did, was the same each time";
        return row(ROW, Finding::Identical, notes);
    }
    let mut parts = Vec::new();
    if !told.is_empty() {
        parts.push(format!("what stood before the prompt changed at iteration {}", at(&told)));
    }
    if noted > 0 {
        parts.push(format!("agents left {noted} notes"));
    }
    row(ROW, Finding::Varies, parts.join("; "))
}
