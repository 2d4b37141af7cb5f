//! A wrong configuration is refused with its place, and nothing is started.

use crate::environment::TestEnvironment;

const GOOD: &str = "[agent]
adapter = \"command\"
unmetered = true
[agent.config]
program = [\"@AGENT@\"]
[[validator]]
kind = \"command\"
program = [\"true\"]
";

#[track_caller]
fn refused(text: &str, place: &str, message: &str) {
    let env = TestEnvironment::new();
    env.raw_config(text);
    let ended = env.run().expect(78);
    ended.says(place).says(message);
    assert_eq!(env.agent.calls(), 0, "nothing was started");
    assert!(!env.has_state(), "no state was made");
}

#[test]
fn unknown_key() {
    refused(&format!("{GOOD}[limits]\nmax_cost_usdd = 5\n"), "ralph.toml:10:1", "max_cost_usd");
    refused(&format!("{GOOD}[limitss]\n"), "ralph.toml:9:", "limits");
}

#[test]
fn wrong_type() {
    refused(&format!("{GOOD}[limits]\nmax_iterations = \"ten\"\n"), "ralph.toml:10:18", "ten");
}

#[test]
fn missing_prompt() {
    let env = TestEnvironment::new();
    env.raw_config(&format!("[run]\nprompt = \"NOWHERE.md\"\n{GOOD}"));
    env.run().expect(78).says("ralph.toml:2:10").says("NOWHERE.md");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn unknown_adapter_detector_and_validator() {
    refused(
        &GOOD.replace("\"command\"\nunmetered", "\"comand\"\nunmetered"),
        "ralph.toml:2:11",
        "command",
    );
    refused(
        &format!("{GOOD}[completion]\ndetectors = [\"promis\"]\n"),
        "ralph.toml:10:",
        "promise",
    );
    refused(&GOOD.replace("kind = \"command\"", "kind = \"comand\""), "ralph.toml:7:8", "command");
}

#[test]
fn the_adapters_and_validators_own_keys() {
    refused(&GOOD.replace("program = [\"@", "programm = [\"@"), "ralph.toml:5:1", "program");
    refused(&GOOD.replace("[\"@AGENT@\"]", "7"), "ralph.toml:5:11", "program");
    refused(&format!("{GOOD}must_match = '('\n"), "ralph.toml:9:14", "must_match");
    refused(&format!("{GOOD}expect = 1\n"), "ralph.toml:9:1", "expect_exit");
}

#[test]
fn bad_duration() {
    refused(&format!("{GOOD}[limits]\nmax_runtime = \"4 hurs\"\n"), "ralph.toml:10:15", "4 hurs");
    refused(&format!("{GOOD}timeout = \"soon\"\n"), "ralph.toml:9:11", "soon");
}

#[test]
fn no_validator() {
    let text = GOOD.split("[[validator]]").next().unwrap();
    refused(text, "ralph.toml", "trust_agent");
    refused(&format!("{GOOD}required = false\n"), "ralph.toml", "trust_agent");
}

#[test]
fn empty_or_common_promise() {
    for tag in ["", "done", "abc"] {
        refused(
            &format!("{GOOD}[[completion.detector]]\nname = \"promise\"\ntag = \"{tag}\"\n"),
            "ralph.toml:11:7",
            "tag",
        );
    }
}

#[test]
fn limits_all_off() {
    refused(
        &format!(
            "{GOOD}[limits]\nmax_iterations = 0\nmax_runtime = \"none\"\nmax_cost_usd = \"none\"\n"
        ),
        "ralph.toml",
        "max_iterations",
    );
}

#[test]
fn variables_and_sets_are_named_as_the_source() {
    let mut env = TestEnvironment::new();
    env.ralph(&["run", "--set", "limits.max_failures=many"]).expect(78).says("--set");
    env.var("RALPH_LIMITS__MAX_FAILURES", "several");
    env.run().expect(78).says("RALPH_LIMITS__MAX_FAILURES");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn no_configuration_and_broken_toml() {
    let env = TestEnvironment::new();
    env.ralph(&["run", "-c", "nowhere.toml"]).expect(78).says("nowhere.toml");
    refused("[run\n", "ralph.toml:1:", "");
}

#[test]
fn a_state_directory_in_the_workspace_is_refused() {
    refused(&format!("{GOOD}[state]\ndir = \"state\"\n"), "ralph.toml:10:7", "workspace");
}

#[test]
fn the_committed_schema_is_the_one_that_is_printed() {
    let env = TestEnvironment::new();
    let printed = env.ralph(&["config", "schema"]).expect(0).stdout;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/ralph.schema.json");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(printed == committed, "run scripts/update-docs and commit the result");
}
