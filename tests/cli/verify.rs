//! `verify`: the checks once, without an agent.

use serde_json::Value;

use crate::environment::{TestEnvironment, eventually};

const AGENT: &str = "[agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n";

/// Checks, the last of which is not required, and a validator that runs nothing.
fn environment() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "{AGENT}[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"style\"\nrequired = false\n\
         program = [\"sh\", \"-c\", \"echo $SECRET_TOKEN; exit 1\"]\n\
         [[validator]]\nkind = \"evidence-files\"\nname = \"proof\"\ndir = \"proof\"\n\
         [env]\nset = {{ SECRET_TOKEN = \"a-token-that-nobody-sees\" }}\n"
    ));
    env
}

#[test]
fn the_required_checks_decide() {
    let env = environment();
    let ended = env.ralph(&["verify"]).expect(1);
    ended.says("FAIL  tests (").says("`test -e done` failed").says("not verified: tests");
    ended.says("skip  proof: judges what the agent of a run has written");
    env.write("done", "");
    let ended = env.ralph(&["verify"]).expect(0);
    ended.says("ok    tests (").says("FAIL  style (").says(", not required)");
    ended.says("verified: the required validator accepts");
    assert!(!ended.stdout.contains("nobody-sees"), "{}", ended.stdout);
    assert_eq!(env.agent.calls(), 0);
    assert!(!env.has_state(), "nothing is recorded");
}

#[test]
fn verdicts_for_programs() {
    let env = environment();
    let ended = env.ralph(&["verify", "--json"]).expect(1);
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["verified"], false);
    assert_eq!(value["not_run"], serde_json::json!(["proof"]));
    let required: Vec<_> =
        value["verdicts"].as_array().unwrap().iter().map(|v| v["required"].clone()).collect();
    assert_eq!(required, [true, false]);
}

#[test]
fn nothing_that_proves_anything_is_no_proof() {
    let env = TestEnvironment::new();
    env.raw_config(&format!("{AGENT}[completion]\ntrust_agent = true\n"));
    let ended = env.ralph(&["verify"]).expect(78);
    ended.says("no required validator of this configuration runs anything");
}

#[test]
fn a_run_that_is_active_validates_by_itself() {
    let env = TestEnvironment::new();
    let go = env.fifo("go");
    env.agent.default_call().script(&format!("read x < {}\n", go.display()));
    let mut running = env.start(&["run"]);
    eventually("the agent works", || env.agent.calls() == 1);
    env.ralph(&["verify"]).expect(75).says("another orchestrator holds this workspace");
    env.ralph(&["stop"]).expect(0);
    running.wait();
}
