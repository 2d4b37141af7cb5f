//! The table of attempts at trials.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use ralph_orchestrator_safe_fs::path_bytes;
use ralph_orchestrator_text::truncate;

use crate::report::figures::{format_duration, format_number, format_usd, name_cause, name_cheat};
use crate::report::html::TrialLinks;
use crate::report::html::table::{Cell, Part, Table};
use crate::report::html::tables::describe_omission;
use crate::summary::JobSummary;
use crate::trial::{Column, TrialRecord};

/// The most attempts with a row of their own.
pub(super) const MOST_ATTEMPTS: usize = 2_000;
/// The most characters of what happened in an attempt.
const LONGEST_REMARK: usize = 300;
/// The most characters of a name: the tables above have all of it.
const LONGEST_NAME: usize = 80;
/// The most trajectories that a row links to.
const MOST_TRAJECTORIES: usize = 20;
/// What is encoded in a part of a path.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the table.
pub(super) fn build_attempts(
    summary: &JobSummary,
    records: &[TrialRecord],
    find_links: &dyn Fn(&TrialRecord) -> TrialLinks,
) -> Table {
    let headings = [
        "column",
        "task",
        "trial",
        "reward",
        "cause",
        "cost",
        "iterations",
        "run",
        "remarks",
        "files",
    ];
    let mut table = Table::new("Attempts at trials", &headings);
    let shown = select_attempts(records);
    table.note = describe_omission(shown.len(), records.len(), "attempts").map(|omission| {
        format!(
            "{omission}: those with a fault or a cheating finding before others. The figures above are of all."
        )
    });
    let numbers: BTreeMap<&Column, usize> =
        summary.columns.iter().enumerate().map(|(at, column)| (&column.column, at + 1)).collect();
    for (at, record) in shown {
        let number = numbers.get(&record.key.column).copied();
        table.rows.push(build_row(at, record, number, &find_links(record)));
    }
    table
}

/// Returns the attempts to show, with their positions: all, or so many, those that need to be seen first.
fn select_attempts(records: &[TrialRecord]) -> Vec<(usize, &TrialRecord)> {
    let mut selected: Vec<_> = records.iter().enumerate().collect();
    if selected.len() > MOST_ATTEMPTS {
        selected.sort_by_key(|(_, record)| record.fault.is_none() && record.cheating.is_empty());
        selected.truncate(MOST_ATTEMPTS);
        selected.sort_by_key(|(at, _)| *at);
    }
    selected
}

fn build_row(
    at: usize,
    record: &TrialRecord,
    column: Option<usize>,
    links: &TrialLinks,
) -> Vec<Cell> {
    let path = format!("/trials/{at}");
    let mut trial = Cell::count(format!("{path}/trial"), u64::from(record.key.trial));
    if record.attempt > 1 {
        trial.parts.push(Part::text(", attempt "));
        trial.parts.push(Part::count(format!("{path}/attempt"), u64::from(record.attempt)));
    }
    let cause = record.fault.as_ref().map(|fault| {
        let name = name_cause(fault.cause);
        Part::figure(format!("{path}/fault/cause"), name, name.into())
    });
    let class = if record.fault.is_some() { "cause" } else { "" };
    vec![
        Cell { column, ..Cell::text(&truncate(&record.key.column.to_string(), LONGEST_NAME)) },
        Cell { class: "name".into(), ..Cell::text(&truncate(&record.key.task, LONGEST_NAME)) },
        trial,
        reward_cell(&path, record),
        Cell { class: class.into(), ..Cell::figure(cause) },
        Cell::figure(record.usage.cost.map(|cost| {
            Part::figure(format!("{path}/usage/cost"), cost, format_usd(cost.dollars()))
        })),
        Cell::count(format!("{path}/iterations"), record.iterations),
        Cell::figure(Some(Part::figure(
            format!("{path}/durations/run_ms"),
            record.durations.run_ms,
            format_duration(record.durations.run_ms),
        ))),
        Cell { class: "small".into(), ..Cell::text(&describe_attempt(record)) },
        links_cell(links),
    ]
}

/// Returns the cell with the reward, which the JSON has unless it is the mean of several.
fn reward_cell(path: &str, record: &TrialRecord) -> Cell {
    let Some(reward) = record.reward() else { return Cell::figure(None) };
    let text = format_number(reward, 2);
    let class = if record.is_solved() { "number solved" } else { "number" };
    let single = match record.rewards.keys().next() {
        Some(name) if record.rewards.len() == 1 => Some(name.as_str()),
        _ => record.rewards.get_key_value(crate::trial::REWARD).map(|(name, _)| name.as_str()),
    };
    let part = match single {
        // As the syntax of pointers wants it.
        Some(name) => {
            let name = name.replace('~', "~0").replace('/', "~1");
            Part::figure(format!("{path}/rewards/{name}"), reward, text)
        }
        None => Part::text(&format!("{text} (mean)")),
    };
    Cell { class: class.into(), ..Cell::figure(Some(part)) }
}

/// Returns what happened, and what was noticed, in a bounded number of characters.
fn describe_attempt(record: &TrialRecord) -> String {
    let mut remarks = Vec::new();
    if let Some(fault) = &record.fault {
        remarks.push(format!("{}: {}", fault.kind, fault.message));
    }
    for finding in &record.cheating {
        remarks.push(format!("{}: {}", name_cheat(finding.kind), finding.path));
    }
    if record.is_false_completion() {
        remarks.push("false completion".into());
    }
    remarks.extend(record.warnings.iter().cloned());
    truncate(&remarks.join("; "), LONGEST_REMARK)
}

fn links_cell(links: &TrialLinks) -> Cell {
    let folder = links.folder.iter().map(|path| ("folder".to_owned(), path));
    let trajectories = links.trajectories.iter().take(MOST_TRAJECTORIES).enumerate();
    let trajectories = trajectories.map(|(at, path)| (format!("trajectory {}", at + 1), path));
    let mut parts: Vec<Part> = Vec::new();
    for (text, path) in folder.chain(trajectories) {
        let Some(href) = build_href(path) else { continue };
        if !parts.is_empty() {
            parts.push(Part::text(", "));
        }
        parts.push(Part { text, href: Some(href), ..Part::default() });
    }
    Cell { parts, class: "small".into(), column: None }
}

/// Returns a relative reference to a path, which cannot be taken for one with a scheme or a host. None for an absolute
/// path.
fn build_href(path: &Path) -> Option<String> {
    let mut href = String::from(".");
    for part in path.components() {
        let part = match part {
            Component::Normal(name) => {
                percent_encode(path_bytes(Path::new(name)), IN_PATH).to_string()
            }
            Component::ParentDir => "..".into(),
            Component::CurDir => continue,
            Component::RootDir | Component::Prefix(_) => return None,
        };
        href = format!("{href}/{part}");
    }
    Some(href)
}
