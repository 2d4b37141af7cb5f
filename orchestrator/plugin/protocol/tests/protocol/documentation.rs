//! `docs/dev/plugin-protocol.md` and the schema name and describe everything.

#![allow(clippy::disallowed_methods, reason = "the compiler is started as an author starts it")]

use std::path::{Path, PathBuf};
use std::process::Command;

use ralph_orchestrator_contract::Capabilities;
use serde_json::Value;

fn source(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")).join(path)
}

fn page() -> String {
    std::fs::read_to_string(source("docs/dev/plugin-protocol.md")).unwrap()
}

fn schema() -> Value {
    let text = std::fs::read_to_string(source("schemas/plugin-frames.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Calls `see` with the name and the schema of each property, whichever depth it is at.
fn properties(value: &Value, see: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| properties(value, see)),
        Value::Object(object) => {
            if let Some(all) = object.get("properties").and_then(Value::as_object) {
                all.iter().for_each(|(name, property)| see(name, property));
                all.values().for_each(|property| properties(property, see));
            }
            let others = object.iter().filter(|(key, _)| *key != "properties");
            others.for_each(|(_, value)| properties(value, see));
        }
        _ => {}
    }
}

#[test]
fn every_key_of_the_schema_is_described() {
    let mut count = 0;
    properties(&schema()["definitions"], &mut |name, property| {
        let text = property["description"].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "`{name}` has no description: {property}");
        count += 1;
    });
    assert!(count > 200, "{count} keys");
}

#[test]
fn the_page_has_every_event_capability_and_key_of_an_agent() {
    let (page, schema) = (page(), schema());
    let named = |name: &str| {
        let is_code = page.contains(&format!("`{name}`"));
        assert!(is_code, "docs/dev/plugin-protocol.md does not name `{name}`");
    };
    for event in schema["definitions"]["Event"]["oneOf"].as_array().unwrap() {
        let keys = event["properties"].as_object().unwrap();
        let kind = keys["type"]["const"].as_str().unwrap();
        // It stands for whatever a newer version sends.
        if kind != "unknown" {
            named(kind);
            keys.keys().for_each(|key| named(key));
        }
    }
    for definition in ["Capabilities", "Report", "Task", "Tokens", "Usage"] {
        let keys = schema["definitions"][definition]["properties"].as_object().unwrap();
        keys.keys().filter(|key| *key != "estimated").for_each(|key| named(key));
    }
    let Value::Object(all) = serde_json::to_value(Capabilities::default()).unwrap() else {
        panic!()
    };
    let described = &schema["definitions"]["Capabilities"]["properties"];
    assert!(all.keys().all(|name| described.get(name).is_some()), "{described}");
}

#[test]
fn the_queue_and_the_program_of_the_page_compile() {
    let page = page();
    let blocks = page.split("```c\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let code: String = blocks.collect();
    assert!(code.contains("my_send") && code.contains("run_program"));
    let folder = std::env::temp_dir().join(format!("ralph-protocol-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("queue.c");
    let head = "#define _GNU_SOURCE\n#include \"ralph_plugin.h\"\n#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n";
    let used = "int use(void *p, struct ralph_bytes b) { return my_send(p, b) + (next_frame() != 0) + run_program(p); }\n";
    std::fs::write(&file, format!("{head}{code}{used}")).unwrap();
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-Wno-unused-parameter", "-c", "-o"])
        .arg(folder.join("queue.o"))
        .arg("-I")
        .arg(source("orchestrator/plugin/abi/include"))
        .arg(&file)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
