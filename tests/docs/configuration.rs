//! The reference of `ralph.toml`, made of its JSON Schema and of `configuration-examples.toml`.
//!
//! Examples of words, numbers and durations are found in the schema. Text and lists need one in that file:
//! the names of its tables are those of the definitions in the schema.

use std::fs;

use serde_json::Value;
use toml::Table;

use crate::scratch::{Scratch, expect, repository};

/// Stands in the place of a default where there can be none.
const REQUIRED: &str = "required";

/// Where the rules of the adapter `command` are.
const RULE: [&str; 4] = ["agent", "config", "stream", "rule"];

/// A table of `ralph.toml` and its keys.
struct Section<'a> {
    /// As it is written, such as `[limits]`.
    heading: String,
    /// The definition in the schema, which names its examples.
    name: String,
    /// Where it is in the file.
    path: Vec<&'static str>,
    /// The key and the value by which its kind is known.
    kind: Option<(&'static str, String)>,
    node: &'a Value,
}

struct Key {
    /// With the names of the tables within the section.
    name: String,
    default: String,
    example: toml::Value,
    meaning: String,
}

pub(crate) fn reference(schema: &Value) -> String {
    let examples = examples();
    let sections = sections(schema);
    let lines = sections.iter().map(|section| {
        let mut text = format!("### {}\n\n", section.heading);
        // Of a kind its heading says it all.
        let about = section.node["description"].as_str().filter(|_| section.kind.is_none());
        if let Some(about) = about {
            text.push_str(&format!("{}\n\n", sentence(about)));
        }
        text.push_str("| key | default | example | meaning |\n|---|---|---|---|\n");
        for Key { name, default, example, meaning } in keys(schema, section, &examples) {
            let default = match default.as_str() {
                "" | REQUIRED => default,
                _ => code(&default),
            };
            let example = code(&example.to_string());
            text.push_str(&format!("| `{name}` | {default} | {example} | {meaning} |\n"));
        }
        text
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn examples() -> Table {
    let path = repository().join("tests/docs/configuration-examples.toml");
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// Everything that a file may have, in the order of the schema.
fn sections(schema: &Value) -> Vec<Section<'_>> {
    let section = |heading: &str, name: &str, path: &[&'static str]| Section {
        heading: heading.to_owned(),
        name: name.to_owned(),
        path: path.to_vec(),
        kind: None,
        node: &schema["definitions"][name],
    };
    let kinds = |heading: &str, of: &str, key: &'static str, path: &[&'static str]| {
        let prefix = format!("{of}:");
        let definitions = schema["definitions"].as_object().unwrap().iter();
        definitions
            .filter_map(|(name, node)| Some((name.strip_prefix(&prefix)?, name, node)))
            // The detector of a backlog has no keys.
            .filter(|(.., node)| node.get("properties").is_some())
            .map(|(kind, name, node)| Section {
                heading: format!("{heading} with `{key} = \"{kind}\"`"),
                name: name.clone(),
                path: path.to_vec(),
                kind: Some((key, kind.to_owned())),
                node,
            })
            .collect::<Vec<_>>()
    };
    let mut all = vec![
        section("`[run]`", "Run", &["run"]),
        section("`[agent]` and `[agents.NAME]`", "AgentConfig", &["agent"]),
    ];
    all.extend(kinds("`[agent.config]`", "adapter", "adapter", &["agent", "config"]));
    all.push(Section {
        heading: "`[[agent.config.stream.rule]]` with `adapter = \"command\"`".to_owned(),
        name: "StreamRule".to_owned(),
        path: RULE.to_vec(),
        kind: Some(("adapter", "command".to_owned())),
        node: &schema["definitions"]["adapter:command"]["properties"]["stream"]["properties"]["rule"]["items"],
    });
    all.push(section("`[prompts]`", "Prompts", &["prompts"]));
    all.push(section("`[initializer]`", "Initializer", &["initializer"]));
    all.push(section("`[completion]`", "Completion", &["completion"]));
    all.push(section("`[[completion.detector]]`", "Detector", &["completion", "detector"]));
    all.extend(kinds("`[[completion.detector]]`", "detector", "name", &["completion", "detector"]));
    all.push(section("`[validation]`", "Validation", &["validation"]));
    all.push(section("`[[validator]]`", "Validator", &["validator"]));
    all.extend(kinds("`[[validator]]`", "validator", "kind", &["validator"]));
    all.push(section("`[limits]`", "Limits", &["limits"]));
    all.push(section("`[budget]`, in your own configuration", "UserBudget", &["budget"]));
    all.push(section("`[git]`", "Git", &["git"]));
    all.push(section("`[handoff]`", "Handoff", &["handoff"]));
    all.push(section("`[memory]`", "Memory", &["memory"]));
    all.push(section("`[backlog]`", "Backlog", &["backlog"]));
    all.push(section("`[parallel]`", "Parallel", &["parallel"]));
    all.push(section("`[[notify]]`", "Notify", &["notify"]));
    all.push(section("`[hooks]`", "Hooks", &["hooks"]));
    all.push(section("`[context]`", "ContextCommand", &["context"]));
    all.push(section("`[telemetry]`", "Telemetry", &["telemetry"]));
    all.push(section("`[bench]`", "Bench", &["bench"]));
    all.push(section("`[bench.variant.NAME]`", "BenchVariant", &["bench", "variant", "notes"]));
    all.push(section("`[env]`", "Env", &["env"]));
    all.push(section("`[sandbox]`", "Sandbox", &["sandbox"]));
    all.push(section("`[state]`", "StateConfig", &["state"]));
    all.push(section("`[plugins.NAME]`", "PluginConfig", &["plugins", "mine"]));
    all
}

/// The definition that a node refers to.
fn resolved<'a>(schema: &'a Value, node: &'a Value) -> &'a Value {
    let wrapped = node.get("allOf").and_then(|all| all.get(0)).unwrap_or(node);
    let target = wrapped.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
    target.and_then(|pointer| schema.pointer(pointer)).unwrap_or(node)
}

fn keys(schema: &Value, section: &Section<'_>, examples: &Table) -> Vec<Key> {
    let mut keys = Vec::new();
    let given = examples.get(&section.name).and_then(toml::Value::as_table);
    collect(schema, section.node, "", given, &section.name, &mut keys);
    keys
}

fn collect(
    schema: &Value,
    table: &Value,
    within: &str,
    examples: Option<&Table>,
    section: &str,
    keys: &mut Vec<Key>,
) {
    let required: Vec<&str> = table["required"]
        .as_array()
        .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
    for (name, property) in table["properties"].as_object().unwrap() {
        let target = resolved(schema, property);
        let whole = format!("{within}{name}");
        let given = examples.and_then(|examples| examples.get(name));
        // A table of its own, told in a section of its own or as keys with a dot.
        if target.get("properties").is_some() {
            collect(
                schema,
                target,
                &format!("{whole}."),
                given.and_then(|g| g.as_table()),
                section,
                keys,
            );
            continue;
        }
        let is_section = ["detector", "config"].contains(&name.as_str());
        if is_section && ["AgentConfig", "Completion"].contains(&section) {
            continue;
        }
        let words = words(target);
        let example = given.cloned().or_else(|| derived(property, target, &words));
        let example = example.unwrap_or_else(|| {
            panic!("add an example of `{whole}` to [{section:?}] in tests/docs/configuration-examples.toml")
        });
        let default = property.get("default").or_else(|| target.get("default"));
        let mut default = default.map(|value| toml_of(value).to_string()).unwrap_or_default();
        if default.is_empty() && required.contains(&name.as_str()) {
            default = REQUIRED.to_owned();
        }
        let meaning = meaning(property, target, &words);
        keys.push(Key { name: whole, default, example, meaning });
    }
}

/// The words that a key takes, each with what it means if that is said.
fn words(node: &Value) -> Vec<(String, Option<String>)> {
    if let Some(words) = node["enum"].as_array() {
        return words.iter().filter_map(|word| Some((word.as_str()?.to_owned(), None))).collect();
    }
    let mut found = Vec::new();
    for one in node["oneOf"].as_array().into_iter().flatten() {
        let about = one["description"].as_str().map(sentence);
        let several = one["enum"].as_array().into_iter().flatten();
        for word in several.chain(one.get("const")).filter_map(Value::as_str) {
            found.push((word.to_owned(), about.clone()));
        }
    }
    found
}

fn meaning(property: &Value, target: &Value, words: &[(String, Option<String>)]) -> String {
    let about = property["description"].as_str().or_else(|| target["description"].as_str());
    let mut meaning = sentence(about.unwrap_or_else(|| panic!("no description: {property}")));
    if !words.is_empty() {
        let words: Vec<String> = words
            .iter()
            .map(|(word, about)| match about {
                Some(about) => format!("`\"{word}\"`: {}", about.trim_end_matches('.')),
                None => format!("`\"{word}\"`"),
            })
            .collect();
        let separator = if words.iter().any(|word| word.contains(": ")) { "; " } else { ", " };
        meaning.push_str(&format!(" One of {}.", words.join(separator)));
    }
    meaning.replace('|', "\\|")
}

/// An example that needs nobody's invention: another value than the default.
fn derived(
    property: &Value,
    target: &Value,
    words: &[(String, Option<String>)],
) -> Option<toml::Value> {
    let default = property.get("default").or_else(|| target.get("default"));
    if !words.is_empty() {
        let other = words.iter().find(|(word, _)| default.is_none_or(|default| default != word));
        return Some(toml::Value::String(other?.0.clone()));
    }
    if let Some(listed) = property["examples"].as_array() {
        let other = listed.iter().find(|value| default.is_none_or(|default| default != *value))?;
        return Some(toml_of(other));
    }
    match default? {
        Value::Bool(default) => Some(toml::Value::Boolean(!default)),
        Value::Number(number) if number.is_u64() => {
            // Twice as much, or 1 where the default is 0.
            Some(toml::Value::Integer(number.as_i64()?.checked_mul(2)?.max(1)))
        }
        _ => None,
    }
}

fn toml_of(value: &Value) -> toml::Value {
    toml::Value::try_from(value).unwrap()
}

/// One line that ends in a full stop.
fn sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.ends_with(['.', ':']) { text } else { format!("{text}.") }
}

/// Code in a cell of a table.
fn code(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// Tables by which a configuration is complete, whatever an example adds.
const BASE: &str = r#"
[run]
prompt = "PROMPT.md"

[agent]
adapter = "command"
unmetered = true
config = { program = ["true"] }

[agents.spare]
adapter = "command"
config = { program = ["true"] }

[[validator]]
kind = "command"
program = ["true"]
"#;

/// A configuration in which the example stands.
fn with_example(section: &Section<'_>, key: &str, example: &toml::Value, all: &Table) -> Table {
    let mut config: Table = BASE.parse().unwrap();
    if key == "prompt_text" {
        config["run"].as_table_mut().unwrap().remove("prompt");
    }
    // What a key needs beside itself is in the examples of the same table.
    let beside = ["program", "session", "path", "paths", "kind", "name", "library", "products"];
    if key == "role" || section.name == "Initializer" {
        config.insert("prompts".to_owned(), Table::new().into());
    }
    if section.name == "Parallel" {
        let beside = "[backlog]\nkind = \"json\"\npath = \"a.json\"\n[git]\nworktree = true\ncommit = \"iteration\"\n";
        config.extend(beside.parse::<Table>().unwrap());
    }
    let mut table = Table::new();
    if key == "on_complete" {
        table.extend([
            ("worktree".to_owned(), true.into()),
            ("commit".to_owned(), "iteration".into()),
        ]);
    }
    let given = all.get(&section.name).and_then(toml::Value::as_table);
    for (name, value) in given.into_iter().flatten() {
        if beside.contains(&name.as_str()) && !(key == "command" && name == "library") {
            table.insert(name.clone(), value.clone());
        }
    }
    if let Some((key, kind)) = &section.kind {
        let of_agent = section.path.starts_with(&["agent", "config"]);
        if of_agent {
            config["agent"].as_table_mut().unwrap().insert((*key).to_owned(), kind.clone().into());
        } else {
            table.insert((*key).to_owned(), kind.clone().into());
        }
    }
    if section.name == "Notify" {
        table = receiver_with(key);
    }
    if section.path == RULE {
        table = rule_with(key);
    }
    // All figures of a table of prices belong together.
    let (top, dotted) = key.split_once('.').map_or((key, false), |(top, _)| (top, true));
    let value = if dotted { given.unwrap()[top].clone() } else { example.clone() };
    table.insert(top.to_owned(), value);
    insert(&mut config, &section.path, table);
    config
}

/// A receiver of the kind that has this key, with all that it needs beside it.
fn receiver_with(key: &str) -> Table {
    let kind = match key {
        "command" | "pass" => "command",
        "secret_env" => "webhook",
        _ => "ntfy",
    };
    let mut table = Table::from_iter([("kind".to_owned(), kind.into())]);
    if kind == "command" {
        table.insert("command".to_owned(), vec!["./tell-me.sh"].into());
    } else if key != "url_env" {
        table.insert("url".to_owned(), "https://ntfy.sh/topic".into());
    }
    table
}

/// A rule that has all that this key needs beside it.
fn rule_with(key: &str) -> Table {
    let text = if key == "each" { "@.text" } else { "$.text" };
    let has = toml::Value::from(vec!["$.type"]);
    Table::from_iter([("has".to_owned(), has), ("text".to_owned(), text.into())])
}

fn insert(config: &mut Table, path: &[&str], table: Table) {
    match path {
        ["validator"] => {
            // One that is required stays, whatever the example says.
            config["validator"].as_array_mut().unwrap().push(table.into());
        }
        ["notify"] => {
            config.insert("notify".to_owned(), toml::Value::Array(vec![table.into()]));
        }
        ["completion", "detector"] => {
            let list = toml::Value::Array(vec![table.into()]);
            config.insert(
                "completion".to_owned(),
                Table::from_iter([("detector".to_owned(), list)]).into(),
            );
        }
        path if path == RULE => {
            let rules = toml::Value::Array(vec![table.into()]);
            let stream = Table::from_iter([("rule".to_owned(), rules)]);
            config["agent"]["config"]
                .as_table_mut()
                .unwrap()
                .insert("stream".to_owned(), stream.into());
        }
        ["agent", "config"] => {
            config["agent"].as_table_mut().unwrap().insert("config".to_owned(), table.into());
        }
        path => {
            let mut at = config;
            for name in path {
                let next = at.entry(*name).or_insert_with(|| Table::new().into());
                at = next.as_table_mut().unwrap();
            }
            at.extend(table);
        }
    }
}

/// Writes a configuration; what belongs into the user's own is written there.
fn write_config(scratch: &Scratch, mut config: Table) {
    let of_user: Table = config.remove_entry("budget").into_iter().collect();
    scratch.write("../home/.config/ralph-orchestrator/config.toml", &of_user.to_string());
    scratch.write("ralph.toml", &config.to_string());
}

#[test]
fn every_example_is_accepted() {
    let scratch = Scratch::new();
    scratch.write("PROMPT.md", "Do it.\n").write("session.jsonl", "");
    // What the examples protect.
    scratch.write("tests/it.rs", "").write("Cargo.toml", "").write(".github/ci.yml", "");
    let printed = expect(&scratch.ralph(&["config", "schema"]), 0);
    let schema: Value = serde_json::from_str(&printed).unwrap();
    let examples = examples();
    for section in sections(&schema) {
        for key in keys(&schema, &section, &examples) {
            let config = with_example(&section, &key.name, &key.example, &examples);
            write_config(&scratch, config.clone());
            // Keys of kinds are checked by them; for all others the files need not exist.
            let is_of_kind = section.kind.is_some() || section.name == "Validator";
            let command = if is_of_kind { "check" } else { "show" };
            let output = scratch.ralph(&["config", command]);
            assert_eq!(
                output.status.code(),
                Some(0),
                "{} `{}`\n{config}\n{}",
                section.heading,
                key.name,
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

/// A misspelt key of each example's table is refused, so the check above can fail.
#[test]
fn a_key_that_does_not_exist_is_refused() {
    let scratch = Scratch::new();
    scratch.write("PROMPT.md", "Do it.\n").write("session.jsonl", "");
    let printed = expect(&scratch.ralph(&["config", "schema"]), 0);
    let schema: Value = serde_json::from_str(&printed).unwrap();
    let examples = examples();
    for section in sections(&schema).iter().filter(|section| section.name != "Detector") {
        let config = with_example(section, "no_such_key", &true.into(), &examples);
        write_config(&scratch, config.clone());
        let output = scratch.ralph(&["config", "check"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("no_such_key"), "{}\n{config}\n{said}", section.heading);
    }
}
