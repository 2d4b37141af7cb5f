//! Earlier runs of a workspace.

use std::fs;

use serde_json::Value;

use crate::environment::TestEnvironment;

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// One run that a limit stopped, and after it one that completed. Returns their ids.
fn two_runs() -> (TestEnvironment, String, String) {
    let env = TestEnvironment::new();
    env.agent.call(1).script("echo 1 > first\n").out("only a beginning\n");
    env.agent.call(2).script("touch done\n").out(DONE);
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let first = env.status()["run"].as_str().unwrap().to_owned();
    env.write("PROMPT.md", "# Task\n\n## Build   the *second* thing\n\nMore.\n");
    env.ralph(&["run", "--restart"]).expect(0);
    let second = env.status()["run"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    (env, first, second)
}

fn begin(id: &str, len: usize) -> &str {
    id.get(..len).unwrap()
}

fn listed(env: &TestEnvironment) -> Vec<Value> {
    serde_json::from_str(&env.ralph(&["runs", "--json"]).expect(0).stdout).unwrap()
}

#[test]
fn lists_them_newest_first_with_task_and_result() {
    let env = TestEnvironment::new();
    env.ralph(&["runs"]).expect(0).says("no run in this workspace yet");
    assert_eq!(listed(&env), Vec::<Value>::new());
    let (env, first, second) = two_runs();
    let runs = listed(&env);
    assert_eq!(
        (&runs[0]["run"], &runs[1]["run"]),
        (&second.as_str().into(), &first.as_str().into())
    );
    assert_eq!((&runs[0]["current"], &runs[1]["current"]), (&true.into(), &false.into()));
    assert_eq!((&runs[0]["phase"], &runs[1]["phase"]), (&"completed".into(), &"stopped".into()));
    assert_eq!(runs[1]["stop_reason"], "max_iterations");
    assert_eq!(runs[0]["task"], "Build the *second* thing");
    assert_eq!(runs[1]["task"], "Make a file called done.");
    assert_eq!((&runs[1]["iterations"], &runs[1]["cost_reported"]), (&1.into(), &false.into()));
    let table = env.ralph(&["runs"]).expect(0).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("RUN ") && lines[0].ends_with("RESULT"), "{table}");
    assert!(
        lines[1].starts_with(begin(&second, 13)) && lines[1].ends_with("  completed"),
        "{table}"
    );
    assert!(
        lines[2].starts_with(begin(&first, 13)) && lines[2].ends_with("max_iterations"),
        "{table}"
    );
}

#[test]
fn an_earlier_run_is_reached_by_the_beginning_of_its_id() {
    let (env, first, second) = two_runs();
    let prefix = begin(&first, 13);
    let log = env.ralph(&["log", "--run", prefix]).expect(0);
    log.says("stopped: max_iterations")
        .says("iteration 1 changed 1 file, +1 -0: first (new) +1 -0");
    assert!(!log.stdout.contains("COMPLETED"), "{}", log.stdout);
    let lines = env.ralph(&["log", "--run", prefix, "--json"]).expect(0).stdout;
    assert!(lines.lines().next().unwrap().contains("\"kind\":\"run_started\""));
    env.ralph(&["log", "--run", prefix, "1"]).expect(0).says("only a beginning");
    env.ralph(&["log", "--run", prefix, "1", "--prompt"]).expect(0).says("called done");
    env.ralph(&["log", "--run", prefix, "2"]).expect(64).says("has no iteration 2");
    env.ralph(&["why", "--run", prefix])
        .expect(0)
        .says("max_iterations: the only iteration is used");
    let status = env.ralph(&["status", "--run", prefix]).expect(0);
    status.says("stopped (max_iterations)").says(&first);
    // The current one can be named like any other.
    env.ralph(&["log", "--run", &second]).expect(0).says("COMPLETED");
    assert_eq!(
        env.ralph(&["log", "--run", &second]).expect(0).stdout,
        env.ralph(&["log"]).expect(0).stdout
    );
    env.ralph(&["log", "--run", "ffff"]).expect(64).says("no run whose id begins with `ffff`");
    let both = begin(&first, 1);
    env.ralph(&["log", "--run", both]).expect(64).says("several runs begin with").says(prefix);
}

#[test]
fn of_a_damaged_earlier_run_only_what_is_sure_is_shown() {
    let (env, first, second) = two_runs();
    let journal = env.state().join("runs").join(&first).join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace("\"kind\":\"stopped\"", "\"kind\":\"completed\"")).unwrap();
    let log = env.ralph(&["log", "--run", &first]).expect(0);
    log.says("what follows in that run is not shown").says("iteration 1 ended");
    assert!(!log.stdout.contains("stopped"), "{}", log.stdout);
    let lines = env.ralph(&["log", "--run", &first, "--json"]).expect(0).stdout;
    assert_eq!(lines.lines().count(), text.lines().count() - 1, "nothing that was not verified");
    env.ralph(&["runs"]).expect(0).says("journal damaged").says("completed");
    fs::write(&journal, "not a journal\n").unwrap();
    env.ralph(&["log", "--run", &first]).expect(65);
    let runs = listed(&env);
    assert_eq!(
        (&runs[0]["run"], &runs[0]["phase"]),
        (&second.as_str().into(), &"completed".into())
    );
    assert_eq!(runs[1]["phase"], "damaged");
    // Nothing depends on it.
    assert_eq!(env.status()["phase"], "completed");
}
