//! `log --diff`

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{JournalEntry, Layout};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::one_line;
use serde::Serialize;
use serde_json::Value;

/// So many lines of a prompt are shown on each side.
const MOST_LINES: usize = 12;
const LONGEST_LINE: usize = 160;

/// What two iterations were given in one respect.
#[derive(Debug, Serialize)]
struct FieldDiff {
    field: String,
    same: bool,
    /// What is different, a line each: `-` what only the first was given, `+` what only the second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<String>,
}

/// What was kept of one iteration.
struct RecordedInputs {
    fields: BTreeMap<String, String>,
    start: Value,
    prompt: Vec<u8>,
}

pub(super) fn diff(
    layout: &Layout,
    run: &str,
    entries: &[JournalEntry],
    (one, other): (u64, u64),
    json: bool,
) -> Result<(), CommandError> {
    let (before, after) = (
        recorded_inputs(layout, run, entries, one)?,
        recorded_inputs(layout, run, entries, other)?,
    );
    let names: BTreeSet<&String> = before.fields.keys().chain(after.fields.keys()).collect();
    let fields: Vec<FieldDiff> =
        names.into_iter().map(|name| compare(name, &before, &after)).collect();
    let same = fields.iter().all(|field| field.same);
    if json {
        output::json(&serde_json::json!({
            "run": run, "iterations": [one, other], "same": same, "fields": fields,
        }));
        return Ok(());
    }
    if same {
        output::result(&format!("iterations {one} and {other} were given the same"));
    }
    for FieldDiff { field, same, differences } in fields {
        output::result(&format!("{field:<10} {}", if same { "same" } else { "differs" }));
        for line in differences {
            output::result(&format!("  {}", one_line(&line, LONGEST_LINE)));
        }
    }
    Ok(())
}

fn recorded_inputs(
    layout: &Layout,
    run: &str,
    entries: &[JournalEntry],
    number: u64,
) -> Result<RecordedInputs, CommandError> {
    // The last attempt is the one that counted.
    let fields = entries.iter().rev().find_map(|entry| match &entry.record {
        Record::IterationStarted { iteration, given, .. } if *iteration == number => Some(given),
        _ => None,
    });
    let Some(fields) = fields else {
        let message = format!("run {run} has no iteration {number}");
        return Err(CommandError::user(message).hinted("`log` without a number lists them"));
    };
    if fields.is_empty() {
        let message = format!("iteration {number} was recorded by a version without this data");
        return Err(CommandError::user(message));
    }
    let read = |path: Option<std::path::PathBuf>| {
        path.and_then(|path| std::fs::read(path).ok()).unwrap_or_default()
    };
    Ok(RecordedInputs {
        fields: fields.clone(),
        start: serde_json::from_slice(&read(layout.kept_start(run, number))).unwrap_or_default(),
        prompt: read(layout.kept_prompt(run, number)),
    })
}

fn compare(name: &str, before: &RecordedInputs, after: &RecordedInputs) -> FieldDiff {
    let same = before.fields.get(name) == after.fields.get(name);
    let (one, other) = (&before.start, &after.start);
    let differences = match name {
        _ if same => Vec::new(),
        "prompt" => {
            lines(&String::from_utf8_lossy(&before.prompt), &String::from_utf8_lossy(&after.prompt))
        }
        "argv" => words(one.get("argv"), other.get("argv")),
        "env" => names(one.get("env"), other.get("env"), "another value"),
        "inputs" => names(one.get("inputs"), other.get("inputs"), "other content"),
        "program" => pair(one.get("program"), other.get("program")),
        "workspace" => pair(one.get("workspace"), other.get("workspace")),
        "agent" => ["agent", "version", "model"]
            .iter()
            .flat_map(|key| pair(one.get(key), other.get(key)))
            .collect(),
        _ => Vec::new(),
    };
    FieldDiff { field: name.to_owned(), same, differences }
}

/// The lines between what two texts have in common at their beginning and end.
fn lines(before: &str, after: &str) -> Vec<String> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let begin = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let (before, after) =
        (before.get(begin..).unwrap_or_default(), after.get(begin..).unwrap_or_default());
    let pairs = before.iter().rev().zip(after.iter().rev());
    let end = pairs.take_while(|(one, other)| one == other).count();
    let mut shown = Vec::new();
    for (sign, side) in [('-', before), ('+', after)] {
        let side = side.get(..side.len() - end).unwrap_or_default();
        shown.extend(side.iter().take(MOST_LINES).map(|line| format!("{sign}{line}")));
        if side.len() > MOST_LINES {
            shown.push(format!("{sign}… {} more lines", side.len() - MOST_LINES));
        }
    }
    shown
}

fn words(before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
    let list = |value: Option<&Value>| {
        let words = value.and_then(Value::as_array).into_iter().flatten();
        words.filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    };
    lines(&list(before), &list(after))
}

/// Names that are there once only, or whose digests differ.
fn names(before: Option<&Value>, after: Option<&Value>, other: &str) -> Vec<String> {
    let table =
        |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let (before, after) = (table(before), table(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let line = |name: &String| match (before.get(name), after.get(name)) {
        (Some(_), None) => Some(format!("-{name}")),
        (None, Some(_)) => Some(format!("+{name}")),
        (one, two) => (one != two).then(|| format!(" {name}: {other}")),
    };
    names.into_iter().filter_map(line).collect()
}

fn pair(before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if before == after {
        return Vec::new();
    }
    let side = |sign, value: Option<&Value>| value.map(|value| format!("{sign}{}", text(value)));
    side('-', before).into_iter().chain(side('+', after)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        assert_eq!(lines("a\nb\nc", "a\nx\ny\nc"), ["-b", "+x", "+y"]);
        assert_eq!(lines("a", "a\nb"), ["+b"]);
        assert_eq!(lines("a\na", "a"), ["-a"]);
        let long = "x\n".repeat(20);
        assert_eq!(lines("", &long).len(), MOST_LINES + 1);
        let (one, two) =
            (serde_json::json!({"A": "1", "B": "2"}), serde_json::json!({"B": "3", "C": "4"}));
        assert_eq!(
            names(Some(&one), Some(&two), "another value"),
            ["-A", " B: another value", "+C"]
        );
        assert_eq!(pair(None, Some(&serde_json::json!("v2"))), ["+v2"]);
    }
}
