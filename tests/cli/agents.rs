//! Which adapters there are, what each can do, and whether what it drives is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::environment::TestEnvironment;

fn rows(env: &TestEnvironment) -> Vec<Value> {
    let listed = env.ralph(&["agents", "--json"]).expect(0).stdout;
    serde_json::from_str(&listed).unwrap()
}

fn row(env: &TestEnvironment, name: &str) -> Value {
    rows(env).into_iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn what_is_installed_is_found_and_not_started() {
    let mut env = TestEnvironment::new();
    let folder = env.root().join("bin");
    fs::create_dir(&folder).unwrap();
    env.var("PATH", &folder.display().to_string());
    assert_eq!(row(&env, "claude-cli")["installed"], false);
    env.ralph(&["agents"]).expect(0).says("not installed");

    let (program, started) = (folder.join("claude"), env.root().join("started"));
    fs::write(&program, format!("#!/bin/sh\n: > '{}'\n", started.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let claude = row(&env, "claude-cli");
    assert_eq!(claude["installed"], true);
    assert_eq!(claude["program"], program.display().to_string());
    env.ralph(&["agents"]).expect(0).says(&format!("installed: {}", program.display()));
    assert!(!started.exists(), "a list starts nothing");
}

#[test]
fn every_row_says_what_the_adapter_can_do() {
    let env = TestEnvironment::new();
    let rows = rows(&env);
    for name in ["claude-cli", "command", "replay"] {
        assert!(rows.iter().any(|row| row["name"] == name), "{name}");
    }
    for row in &rows {
        assert!(!row["summary"].as_str().unwrap().is_empty(), "{row}");
        let can = row["capabilities"].as_object().unwrap();
        let keys = ["cost", "tokens", "context", "interrupt", "handoff", "in_session_validation"];
        assert!(keys.iter().all(|key| can[*key].is_boolean()), "{row}");
    }
    assert_eq!(row(&env, "replay")["installed"], true);
    env.ralph(&["agents"]).expect(0).says("can: cost, tokens");
}
