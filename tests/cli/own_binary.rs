//! `examples/own-binary`: every command knows what another program has compiled in.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::environment::{OWN_BINARY, TestEnvironment};
use crate::plugins::built_example;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/own-binary");

fn environment() -> TestEnvironment {
    OWN_BINARY.set(true);
    TestEnvironment::new()
}

/// The example in a workspace of its own.
fn example() -> TestEnvironment {
    let env = environment();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    for file in ["ralph.toml", "template/README.md"] {
        env.write(file, fs::read(Path::new(EXAMPLE).join(file)).unwrap());
    }
    env
}

#[test]
fn the_example_works() {
    let env = example();
    let ended = env.run().expect(0);
    ended.says("rejected by finished").says("hello.txt still has a TODO in it");
    ended.says("completed: 2 iterations");
    assert_eq!(env.status()["latch"]["state"], "completed");
    env.run().expect(0).says("already completed in 2 iterations");
}

#[test]
fn agents_and_doctor_show_it() {
    let env = example();
    env.ralph(&["agents"]).expect(0).says("compiled in; ralph.toml has to set program");
    let agents: Value =
        serde_json::from_str(&env.ralph(&["agents", "--json"]).expect(0).stdout).unwrap();
    let names: Vec<&str> =
        agents.as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"piped") && names.contains(&"claude-cli"), "{names:?}");
    let doctor = env.ralph(&["doctor"]);
    doctor.says("found /").says("finished");
}

#[test]
fn the_schema_has_its_keys() {
    let env = environment();
    let schema: Value =
        serde_json::from_str(&env.ralph(&["config", "schema"]).expect(0).stdout).unwrap();
    let agent = &schema["definitions"]["adapter:piped"];
    assert_eq!(agent["required"], serde_json::json!(["program"]), "{agent}");
    assert_eq!(agent["additionalProperties"], false, "{agent}");
    let validator = &schema["definitions"]["validator:no-todo"];
    let what = validator["properties"]["file"]["description"].as_str().unwrap();
    assert!(what.contains("relative to the workspace"), "{validator}");
    let schema = jsonschema::validator_for(&schema).unwrap();
    let of = |keys: Value| {
        serde_json::json!({
            "run": {"prompt_text": "x"},
            "agent": {"adapter": "piped", "config": keys},
            "validator": [{"kind": "no-todo", "name": "t", "file": "x"}],
        })
    };
    assert!(schema.is_valid(&of(serde_json::json!({"program": ["a"]}))));
    assert!(!schema.is_valid(&of(serde_json::json!({"progam": ["a"]}))));
}

#[test]
fn mistakes_are_shown_where_they_are_with_the_nearest_name() {
    let env = example();
    let text = env.read("ralph.toml");
    for (right, wrong, message) in [
        ("\"piped\"", "\"pipd\"", "did you mean `piped`?"),
        ("\"no-todo\"", "\"no-tudo\"", "did you mean `no-todo`?"),
        ("program =", "progam =", "did you mean `program`?"),
        ("file = \"hello.txt\"", "file = \"/hello.txt\"", "expected a path relative"),
    ] {
        let broken = text.replacen(right, wrong, 1);
        assert_ne!(broken, text, "{right}");
        env.write("ralph.toml", broken);
        let ended = env.ralph(&["config", "check"]).expect(78);
        ended.says(message).says("ralph.toml:");
    }
}

#[test]
fn init_and_completion_offer_it() {
    let env = environment();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let init = ["init", "--agent", "piped", "--test", "test -e done", "--no-run"];
    env.ralph(&init).expect(0).says("the agent is piped; set program in [agent.config]");
    let written = env.read("ralph.toml");
    env.ralph(&["config", "check"]).expect(78).says("missing").says("program");
    env.write("ralph.toml", written.replace("# program = …", "program = [\"true\"]"));
    env.ralph(&["config", "check"]).expect(78).says("unmetered");
    env.ralph(&["init", "--force", "--agent", "pipd"]).expect(64).says("claude-sdk, piped");

    let mut command = env.command(&["--", "ralph-orchestrator", "init", "--agent", "pi"]);
    let found = command.env("_RALPH_ORCHESTRATOR_COMPLETE", "fish").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), "piped");
}

#[test]
fn the_name_of_a_plugin_cannot_be_that_of_what_is_compiled_in() {
    let env = example();
    let mut text = env.read("ralph.toml");
    text.push_str("[plugins.piped]\ncommand = [\"true\"]\n");
    env.write("ralph.toml", text);
    env.ralph(&["config", "check"]).expect(78).says("plugins.piped").says("choose another name");
    env.ralph(&["plugin", "new", "--kind", "agent", "piped"]).expect(64).says("built in");
}

/// `examples/embedded` runs a loop by itself.
#[test]
fn the_example_of_an_embedded_run_works() {
    let program = built_example("embedded", "embedded");
    let env = TestEnvironment::new();
    let folder = env.root().join("embedded");
    fs::create_dir(&folder).unwrap();
    let output = env.program(&program).arg(&folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    assert_eq!(lines.first(), Some(&"iteration 1 begins"), "{said}");
    assert!(lines.contains(&"rejected") && lines.contains(&"accepted"), "{said}");
    assert!(said.trim_end().ends_with("2 iterations"), "{said}");
    assert_eq!(fs::read_to_string(folder.join("hello.txt")).unwrap(), "hello\n");
}

/// Another program, whose agent has the name of one that is built in.
#[test]
fn a_name_that_is_taken_keeps_the_program_from_starting() {
    let program = built_example("taken", "taken");
    let env = TestEnvironment::new();
    for args in [&["run"][..], &["--help"], &["agents"]] {
        let output = env.program(&program).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(70), "{said}");
        assert!(
            said.contains("the agent `codex` cannot be compiled in: one of that name"),
            "{said}"
        );
    }
    assert!(!env.has_state());
}
