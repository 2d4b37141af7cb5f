//! What is generated is the same as what is there.

use std::fs;
use std::path::Path;

use serde_json::Value;

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
