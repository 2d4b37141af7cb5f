//! What is generated is the same as what is there.

use std::fs;
use std::ops::Range;
use std::path::Path;

use ralph_orchestrator_machine::{Limit, LimitUnit, StopReason};
use serde_json::{Map, Value, json};

use crate::configuration;
use crate::events;
use crate::scratch::{Scratch, expect, repository};

/// Whether files are to be written instead of compared.
pub(crate) fn is_update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some_and(|value| !value.is_empty())
}

/// Compares a file with what it has to be, or writes it.
#[track_caller]
pub(crate) fn compare(path: &Path, text: &str) {
    let present = fs::read_to_string(path).unwrap_or_default();
    if present == text {
        return;
    }
    if is_update() {
        fs::write(path, text).unwrap();
        return;
    }
    let differs = present.lines().zip(text.lines()).position(|(one, other)| one != other);
    let line = differs.unwrap_or_else(|| present.lines().count().min(text.lines().count()));
    panic!(
        "{}:{} is out of date: run scripts/update-docs and commit the result\n  there: {}\n  now:   {}",
        path.display(),
        line + 1,
        present.lines().nth(line).unwrap_or("the end"),
        text.lines().nth(line).unwrap_or("the end"),
    );
}

/// The page with another text between the comments that mark what is generated.
pub(crate) fn replace_part(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- generated: {name} -->"), format!("<!-- end of {name} -->"));
    let (head, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
    format!("{head}{begin}\n\n{}\n\n{end}{tail}", text.trim())
}

/// The page `name` of the user's documentation, with what is generated in it.
fn page(name: &str, parts: &[(&str, String)]) {
    let path = repository().join("docs/user").join(name);
    let mut page = fs::read_to_string(&path).unwrap();
    for (part, text) in parts {
        page = replace_part(&page, part, text);
    }
    compare(&path, &page);
}

#[test]
fn the_schema_of_the_configuration_is_up_to_date() {
    let printed = expect(&Scratch::new().ralph(&["config", "schema"]), 0);
    compare(&repository().join("schemas/ralph.schema.json"), &printed);
}

/// The words of stop reasons, and the limits, in the schemas of JSON output.
#[test]
fn the_schemas_of_json_output_have_what_the_tables_have() {
    for name in ["run-events.schema.json", "status.schema.json"] {
        let path = repository().join("schemas").join(name);
        let mut text = fs::read_to_string(&path).unwrap();
        for list in lists(&text, "\"stop_reason\": {", "\"enum\": [", ']') {
            let mut words: Vec<Value> =
                StopReason::ALL.iter().map(|reason| Value::from(reason.word())).collect();
            if text[list.clone()].contains("null") {
                words.push(Value::Null);
            }
            text.replace_range(list.clone(), &pretty(&text, list.start, &Value::from(words)));
        }
        for object in lists(&text, "\"limits\": {", "{", '}') {
            // Those of a backlog are described in words.
            if text[object.clone()].contains("\"properties\"") {
                text.replace_range(object.clone(), &pretty(&text, object.start, &limits()));
            }
        }
        for object in lists(&text, "\"What was asked for.\"", "\"properties\": {", '}') {
            let mut fields: Map<String, Value> =
                serde_json::from_str(&text[object.clone()]).unwrap();
            fields.retain(|name, _| !name.starts_with("max_"));
            fields.extend(Limit::budgets().map(|(limit, _)| changed_limit(limit)));
            text.replace_range(object.clone(), &pretty(&text, object.start, &fields.into()));
        }
        compare(&path, &text);
    }
}

/// The places of the values between brackets that follow `key`, each after its own `mark`; the last one first.
fn lists(text: &str, mark: &str, key: &str, end: char) -> Vec<Range<usize>> {
    let marks = text.match_indices(mark).map(|(at, _)| at);
    let list = |at: usize| {
        let start = at + text[at..].find(key)? + key.len() - 1;
        let indent = indent(text, start);
        let close = text[start..].find(&format!("\n{indent}{end}"))?;
        Some(start..start + close + 1 + indent.len() + 1)
    };
    marks.filter_map(list).collect::<Vec<_>>().into_iter().rev().collect()
}

/// The spaces at the beginning of the line.
fn indent(text: &str, at: usize) -> String {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[line..].chars().take_while(|c| *c == ' ').collect()
}

fn pretty(text: &str, at: usize, value: &Value) -> String {
    let indent = indent(text, at);
    serde_json::to_string_pretty(value).unwrap().replace('\n', &format!("\n{indent}"))
}

/// A limit in a control that changes it.
fn changed_limit(limit: Limit) -> (String, Value) {
    let (kind, unit) = match limit.row().unit {
        LimitUnit::Count => ("integer", ""),
        LimitUnit::Duration => ("integer", ", in milliseconds"),
        LimitUnit::Money => ("number", ""),
    };
    let about =
        format!("Of `limits`: `{}`{unit}; null is no limit, missing is no change.", limit.key());
    let schema = json!({"type": [kind, "null"], "description": about, "minimum": 0});
    (limit.record_name(), schema)
}

/// The limits in a status. How long a run may wait is none of them.
fn limits() -> Value {
    let all = Limit::ALL.into_iter().filter(|limit| *limit != Limit::Wait);
    let property = |limit: Limit| {
        let unit = limit.row().unit;
        let kind = if unit == LimitUnit::Count { "integer" } else { "number" };
        let seconds = if unit == LimitUnit::Duration { ", in seconds" } else { "" };
        let about = format!("`{}`{seconds}.", limit.key());
        let schema = json!({"type": [kind, "null"], "description": about, "minimum": 0});
        (limit.json_name(), schema)
    };
    json!({
        "type": "object",
        "description": "The limits of the run; null is no limit.",
        "properties": all.clone().map(property).collect::<Value>(),
        "required": all.map(Limit::json_name).collect::<Vec<_>>(),
    })
}

#[test]
fn the_reference_of_the_configuration_is_up_to_date() {
    let printed = expect(&Scratch::new().ralph(&["config", "schema"]), 0);
    let schema: Value = serde_json::from_str(&printed).unwrap();
    page("configuration.md", &[("keys", configuration::reference(&schema))]);
}

#[test]
fn the_reference_of_the_commands_is_up_to_date() {
    let scratch = Scratch::new();
    let mut text = String::new();
    help(&scratch, &[], &mut text);
    assert!(text.contains("## `run`") && text.contains("## `config show`"), "{text}");
    page("commands.md", &[("commands", text)]);
}

/// Adds the help of a command, and of those that it lists.
fn help(scratch: &Scratch, command: &[&str], out: &mut String) {
    let printed = expect(&scratch.ralph(&[command, &["--help"]].concat()), 0);
    let title =
        if command.is_empty() { "ralph-orchestrator".to_owned() } else { command.join(" ") };
    out.push_str(&format!("## `{title}`\n\n```text\n{}\n```\n\n", printed.trim_end()));
    for line in printed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let name = line.split_whitespace().next().unwrap_or_default();
        let is_word = name.starts_with(|c: char| c.is_ascii_lowercase());
        let is_listed = command.is_empty() || printed.contains("<COMMAND>");
        if !is_word || !is_listed || name == "help" || name == "ralph-orchestrator" {
            continue;
        }
        // Whether it is a command is for the program to say.
        let own = [command, &[name]].concat();
        let output = scratch.ralph(&[own.as_slice(), &["--help"]].concat());
        let usage = format!("Usage: ralph-orchestrator {}", own.join(" "));
        if output.status.success() && String::from_utf8_lossy(&output.stdout).contains(&usage) {
            help(scratch, &own, out);
        }
    }
}

#[test]
fn the_reference_of_json_output_is_up_to_date() {
    page("json.md", &[("events", events::events()), ("status", events::status())]);
}
