//! The schemas of `run --json` and `status --json`: real output fits them, and has nothing that they do not
//! describe.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::scratch::{Scratch, expect, repository};

fn schema(name: &str) -> Value {
    let path = repository().join("schemas").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn resolved<'a>(schema: &'a Value, node: &'a Value) -> &'a Value {
    let wrapped = ["allOf", "anyOf"].iter().find_map(|key| node.get(key)?.get(0)).unwrap_or(node);
    let target = wrapped["$ref"].as_str().and_then(|r| r.strip_prefix('#'));
    target.map_or(node, |pointer| schema.pointer(pointer).unwrap())
}

/// The rows of a table: each field, and those of the objects in it.
fn rows(schema: &Value, node: &Value, within: &str, out: &mut String) {
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        if within.is_empty()
            && ["event", "time", "run"].contains(&name.as_str())
            && node["properties"]["event"].is_object()
        {
            continue;
        }
        let target = resolved(schema, property);
        let items = property.get("items").map(|items| resolved(schema, items));
        let about = property["description"].as_str().or(target["description"].as_str()).unwrap();
        let words = target["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
        let words =
            if words.is_empty() { String::new() } else { format!(" {}.", words.join(", ")) };
        out.push_str(&format!("| `{within}{name}` | {} | {about}{words} |\n", kind(target)));
        rows(schema, target, &format!("{within}{name}."), out);
        if let Some(items) = items {
            rows(schema, items, &format!("{within}{name}[]."), out);
        }
    }
}

fn kind(node: &Value) -> String {
    match &node["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ if node.get("anyOf").is_some() => "object or null".to_owned(),
        _ => "any".to_owned(),
    }
}

const HEAD: &str = "| field | type | |\n|---|---|---|\n";

/// The events, for the reference.
pub(crate) fn events() -> String {
    let schema = schema("run-events.schema.json");
    let mut text = String::new();
    for one in schema["oneOf"].as_array().unwrap() {
        let node = resolved(&schema, one);
        let name = node["properties"]["event"]["const"].as_str().unwrap();
        let about = node["description"].as_str().unwrap();
        text.push_str(&format!("### `{name}`\n\n{about}\n\n{HEAD}"));
        rows(&schema, node, "", &mut text);
        text.push('\n');
    }
    text
}

/// The fields of a status, for the reference.
pub(crate) fn status() -> String {
    let schema = schema("status.schema.json");
    let mut text = HEAD.to_owned();
    rows(&schema, &schema, "", &mut text);
    text
}

/// Fails if the value has a field that its schema does not describe.
fn is_described(schema: &Value, node: &Value, value: &Value, at: &str) {
    let node = resolved(schema, node);
    match value {
        Value::Object(fields) if node["additionalProperties"] != Value::Bool(true) => {
            let Some(properties) = node["properties"].as_object() else {
                assert_eq!(node.get("type"), None, "the fields of {at} are described nowhere");
                return;
            };
            for (name, value) in fields {
                let Some(property) = properties.get(name) else {
                    panic!(
                        "`{name}` of {at} is new: describe it in schemas/, then run scripts/update-docs"
                    );
                };
                is_described(schema, property, value, &format!("{at}.{name}"));
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| is_described(schema, &node["items"], item, at));
        }
        _ => {}
    }
}

fn fits(schema: &Value, node: &Value, value: &Value, at: &str) {
    let mut whole = node.clone();
    whole["definitions"] = schema["definitions"].clone();
    let validator = jsonschema::validator_for(&whole).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert_eq!(errors, <[&str; 0]>::default(), "{at}: {value}");
    is_described(schema, node, value, at);
}

fn check_events(output: &str, seen: &mut BTreeSet<String>) {
    let schema = schema("run-events.schema.json");
    for line in output.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let name = event["event"].as_str().unwrap().to_owned();
        let Some(definition) = schema["definitions"].get(format!("event:{name}")) else {
            panic!("the event `{name}` is new: describe it in schemas/run-events.schema.json");
        };
        fits(&schema, definition, &event, &name);
        seen.insert(name);
    }
}

fn check_status(scratch: &Scratch) -> Value {
    let schema = schema("status.schema.json");
    let printed = expect(&scratch.ralph(&["status", "--json"]), 0);
    let status: Value = serde_json::from_str(&printed).unwrap();
    fits(&schema, &schema, &status, "status");
    status
}

/// An agent that works by a script, with a validator for the file `done`.
fn scripted(scratch: &Scratch, script: &str, more: &str) {
    scratch.program("agent", &format!("#!/bin/sh\ncat >/dev/null\n{script}"));
    scratch.write("PROMPT.md", "Make a file called done.\n").write(
        "ralph.toml",
        &format!(
            "{more}\n[run]\ndelay = '0s'\n[agent]\nadapter = 'command'\nunmetered = true\n\
             config = {{ program = ['agent'] }}\n[agents.spare]\nadapter = 'command'\n\
             unmetered = true\nconfig = {{ program = ['agent'] }}\n[[validator]]\n\
             kind = 'command'\nname = 'tests'\nprogram = ['test', '-e', 'done']\n"
        ),
    );
}

#[test]
fn real_events_and_states_fit_their_schemas() {
    let mut seen = BTreeSet::new();
    let scratch = Scratch::new();
    scripted(&scratch, "", "");
    assert_eq!(check_status(&scratch)["phase"], "none");
    // Refused, nearly claimed, asked for a human, and then done.
    let stops = [
        ("echo '<promise>COMPLETE: no</promise>'", 1, "thrashing"),
        ("echo '`<promise>COMPLETE: no</promise>`'; echo x >> x", 1, "max_iterations"),
        ("echo '<promise>NEEDS_HUMAN: which colour?</promise>'", 2, "needs_human"),
        ("exit 3", 1, "failures"),
        ("touch done; echo '<promise>COMPLETE: made it</promise>'", 0, "completed"),
    ];
    for (script, code, reason) in stops {
        scripted(
            &scratch,
            script,
            "limits = { max_iterations = 4, max_rejections = 2, max_failures = 2 }",
        );
        let restart = ["run", "--json", "--restart"];
        let output = expect(&scratch.ralph(&restart), code);
        check_events(&output, &mut seen);
        assert!(output.contains(&format!("\"stop_reason\":\"{reason}\"")), "{reason}: {output}");
        assert_eq!(check_status(&scratch)["stop_reason"], reason);
    }
    check_events(&expect(&scratch.ralph(&["run", "--json"]), 0), &mut seen);
    let expected = [
        "baseline",
        "claim",
        "iteration_finished",
        "iteration_started",
        "near_miss",
        "run_finished",
        "run_started",
        "validating",
        "verdict",
        "agent_text",
    ];
    for name in expected {
        assert!(seen.contains(name), "`{name}` was not seen: {seen:?}");
    }
}

#[test]
fn the_recorded_session_fits_the_schemas() {
    let scratch = Scratch::new();
    let status = std::process::Command::new("cp")
        .arg("-r")
        .args([repository().join("ralph.toml"), repository().join("examples"), scratch.work()])
        .status()
        .unwrap();
    assert!(status.success());
    let mut seen = BTreeSet::new();
    let once = expect(&scratch.ralph(&["run", "--once", "--json"]), 0);
    check_events(&once, &mut seen);
    assert_eq!(check_status(&scratch)["latch"]["state"], "claimed");
    check_events(&expect(&scratch.ralph(&["run", "--json"]), 0), &mut seen);
    assert_eq!(check_status(&scratch)["latch"]["state"], "completed");
    for name in ["agent_event", "agent_tool", "context", "run_resumed", "usage"] {
        assert!(seen.contains(name), "`{name}` was not seen: {seen:?}");
    }
}

/// Every event that the program knows is described. Those above are only those that are easily made.
#[test]
fn no_event_is_left_out() {
    let source = repository().join("orchestrator/engine/src/run_event.rs");
    let source = fs::read_to_string(source).unwrap();
    let (_, variants) = source.split_once("pub enum RunEvent {").unwrap();
    let (variants, _) = variants.split_once("\n}\n").unwrap();
    let schema = schema("run-events.schema.json");
    let mut count = 0;
    for line in variants.lines().filter_map(|line| line.strip_prefix("    ")) {
        if !line.starts_with(char::is_uppercase) {
            continue;
        }
        let name: String = line.chars().take_while(|c| c.is_alphanumeric()).collect();
        let mut snake = String::new();
        for c in name.chars() {
            if c.is_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.extend(c.to_lowercase());
        }
        let described = &schema["definitions"][format!("event:{snake}")];
        assert!(described.is_object(), "describe `{snake}` in schemas/run-events.schema.json");
        count += 1;
    }
    assert!(count >= 20, "{count}");
}
