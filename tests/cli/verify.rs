//! `verify`: the checks once, without an agent.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{TestEnvironment, eventually, of_run};

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

/// A check that says its pid the first time, and then does not want to end.
fn with_a_deaf_check() -> (TestEnvironment, std::path::PathBuf) {
    let env = TestEnvironment::new();
    let up = env.fifo("up");
    let script = format!(
        "if mkdir ../first 2>/dev/null; then\n  trap '' INT TERM HUP\n  echo $$ > '{}'\n  \
         while :; do sleep 1; done\nfi\ntest -e done\n",
        up.display()
    );
    env.write("check.sh", script);
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n{AGENT}[[validator]]\nkind = \"command\"\nprogram = [\"sh\", \"check.sh\"]\n"
    ));
    env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    (env, up)
}

#[test]
fn no_run_begins_beside_what_an_ended_verify_has_left() {
    for (signal, code) in
        [(Signal::INT, Some(130)), (Signal::TERM, Some(143)), (Signal::KILL, None)]
    {
        let (env, up) = with_a_deaf_check();
        let mut running = env.start(&["verify"]);
        fs::read(&up).unwrap();
        running.signal(signal);
        assert_eq!(running.wait().code, code, "{signal:?}");
        env.run().expect(0).says("completed");
        assert_eq!(of_run(&env.root()), Vec::<i32>::new(), "{signal:?}");
    }
}

#[test]
fn checks_and_runs_exclude_each_other() {
    let (env, up) = with_a_deaf_check();
    let mut running = env.start(&["verify"]);
    fs::read(&up).unwrap();
    env.run().expect(75).says(&format!("pid {}", running.pid()));
    env.ralph(&["verify"]).expect(75).says(&format!("pid {}", running.pid()));
    env.ralph(&["doctor"]).says("the checks were not run: a run is active, or other checks");
    running.signal(Signal::TERM);
    running.wait().expect(143);
}
