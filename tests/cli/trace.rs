//! What the program says of itself.

use std::fs;

use serde_json::Value;

use crate::environment::TestEnvironment;

fn log(env: &TestEnvironment) -> Vec<Value> {
    let text = fs::read_to_string(env.journal_path().with_file_name("log.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The names of the spans around a line, from the outermost.
fn spans(line: &Value) -> Vec<&str> {
    let spans = line["spans"].as_array().map(Vec::as_slice).unwrap_or_default();
    spans.iter().map(|span| span["name"].as_str().unwrap()).collect()
}

fn said<'a>(log: &'a [Value], message: &str) -> &'a Value {
    let found = log.iter().find(|line| line["message"] == message);
    found.unwrap_or_else(|| panic!("nobody said {message:?} in {log:#?}"))
}

#[test]
fn each_run_has_a_log_of_its_decisions() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("echo '<promise>COMPLETE: not yet</promise>'\n");
    env.agent.call(2).script("touch done\n");
    let ended = env.run().expect(0);
    let run = env.status()["run"].as_str().unwrap().to_owned();
    let lines = log(&env);
    for line in &lines {
        assert_eq!(line["spans"][0]["run"], *run, "{line}");
        assert!(line["timestamp"].is_string() && line["level"] != "DEBUG", "{line}");
    }
    said(&lines, "run started");
    let started: Vec<u64> = lines
        .iter()
        .filter(|line| line["message"] == "iteration started")
        .map(|line| line["iteration"].as_u64().unwrap())
        .collect();
    assert_eq!(started, [1, 2]);
    said(&lines, "iteration ended");
    let over = said(&lines, "session is over");
    assert_eq!(spans(over), ["run", "iteration"]);
    assert_eq!(over["spans"][1]["iteration"], 1);
    assert_eq!(said(&lines, "validated")["accepted"], false);
    said(&lines, "completed");
    assert!(!ended.stderr.contains("iteration started"), "{}", ended.stderr);
}

#[test]
fn what_is_asked_for_is_shown_and_kept() {
    let mut env = TestEnvironment::new();
    env.agent.default_call().script("touch done; echo '<promise>COMPLETE: ok</promise>'\n");
    let ended = env.ralph(&["run", "-vv"]).expect(0);
    ended.says("DEBUG").says("machine input").says("process started").says("COMPLETE: ok");
    let lines = log(&env);
    let of_session = said(&lines, "agent is started");
    assert_eq!(spans(of_session), ["run", "iteration", "session"]);
    assert_eq!(of_session["spans"][2]["agent"], "command");
    let validation = lines.iter().find(|line| spans(line) == ["run", "validation"]);
    assert!(validation.is_some(), "{lines:#?}");
    for event in ["process started", "process tree is gone", "agent has ended", "effect: observe"] {
        said(&lines, event);
    }
    let ended = env.ralph(&["run", "--restart", "-v"]).expect(0);
    assert!(!ended.stderr.contains("DEBUG"), "{}", ended.stderr);

    env.var("RALPH_LOG", "ralph_orchestrator_engine=info");
    let ended = env.ralph(&["run", "--restart"]).expect(0);
    ended.says(" INFO run{run=").says("iteration started");
    assert!(!ended.stderr.contains("process started"), "{}", ended.stderr);
}

#[test]
fn a_filter_that_cannot_be_read_is_a_warning() {
    let mut env = TestEnvironment::new();
    env.agent.default_call().script("touch done; echo '<promise>COMPLETE: ok</promise>'\n");
    env.var("RALPH_LOG", "ralph_orchestrator=loud");
    let ended = env.run().expect(0);
    ended.says("warning: RALPH_LOG is ignored").says("expected a filter such as");
    env.unset("RALPH_LOG");
    env.var("RALPH_LOG", "");
    let ended = env.ralph(&["run", "--restart"]).expect(0);
    assert!(!ended.stderr.contains("RALPH_LOG"), "{}", ended.stderr);
}

#[test]
fn no_secret_is_in_it() {
    const SECRET: &str = "Kq7Zr2-never-to-be-seen-9Xw4";
    let mut env = TestEnvironment::new();
    env.config("\n[env]\npass = [\"MINE\"]\n[limits]\nmax_failures = 1\n");
    env.var("MINE", SECRET);
    env.var("RALPH_LOG", "trace");
    env.agent.default_call().script("echo \"no access with $MINE\" >&2; echo \"$MINE\"; exit 3\n");
    let ended = env.run().expect(1);
    let text = fs::read_to_string(env.journal_path().with_file_name("log.jsonl")).unwrap();
    assert!(text.contains("no access with ***"), "{text}");
    for shown in [&text, &ended.stdout, &ended.stderr] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
}
