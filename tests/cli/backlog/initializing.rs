//! A backlog that is still to be made: the initializer makes it, in a run of its own, once.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{CLAIM, WORK, environment, feature, feature_list, series, series_of, statuses, worked};
use crate::environment::{TestEnvironment, eventually};

const PROMPT: &str = "Prepare the project, and write feature-list.json.\n";

/// An agent that makes the list when its prompt is the initializer's, and what an item wants otherwise.
fn initializing(more: &str) -> TestEnvironment {
    let tables = format!("[prompts]\n[initializer]\n{more}");
    let env = environment("json", "feature-list.json", &tables);
    env.write("prompts/initializer.md", PROMPT).write("prompts/coding.md", "Do it.\n");
    env.write("list.json", feature_list(&[feature("a", 2, &[]), feature("b", 1, &[])]));
    env.agent.default_call().script(&format!(
        "if grep -q 'Prepare the project' \"$call.stdin\"; then\n\
         echo initializer >> ../roles; [ -e hold ] && sleep 1000; cp list.json feature-list.json\n\
         else\n{WORK}fi\n"
    ));
    env.agent.default_call().out(CLAIM);
    env
}

/// How often the initializer worked.
fn attempts(env: &TestEnvironment) -> usize {
    fs::read_to_string(env.root().join("roles")).map_or(0, |roles| roles.lines().count())
}

fn first_role(env: &TestEnvironment) -> Value {
    env.records("iteration_started")[0]["role"].clone()
}

#[test]
fn the_initializer_makes_the_backlog_in_a_run_of_its_own_and_the_items_follow() {
    let env = initializing("");
    env.run().expect(0);
    assert_eq!(worked(&env), ["a", "b"]);
    assert!(statuses(&env).iter().all(|(_, status)| status == "completed"));
    assert_eq!((attempts(&env), env.agent.calls()), (1, 3));
    assert_eq!(env.agent.stdin(1), PROMPT.as_bytes(), "it names the file itself");
    let kinds: Vec<String> =
        series(&env).iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        kinds[..4],
        ["series_started", "initializer_started", "initializer_stopped", "item_started"]
    );
    assert_eq!(series_of(&env, "initializer_stopped")[0]["reason"], "initialized");
    // Its claim is about no item.
    assert_eq!(series_of(&env, "item_finished").len(), 2);
    let listed = env.ralph(&["runs"]).expect(0);
    listed.says("the initializer").says("initialized");
    env.ralph(&["log"]).expect(0).says("the initializer (run ").says("item a: Make a (run ");
    env.run().expect(0).says("already completed");
    assert_eq!(env.agent.calls(), 3);
    // Whatever becomes of the file: it was made once.
    fs::remove_file(env.path("feature-list.json")).unwrap();
    env.run().expect(78).says("no backlog file");
    assert_eq!(env.agent.calls(), 3);
}

#[test]
fn what_it_wrote_wrongly_is_given_back_with_line_and_column() {
    let env = initializing("executables = [\"init.sh\"]\n");
    let bad = [
        ("{\n  \"features\": [,]\n}\n", "feature-list.json:2:"),
        (&*feature_list(&[]), "has no items"),
    ];
    let done = env.read("list.json").replace("pending", "completed");
    let calls = [bad[0].0, bad[1].0, &done];
    let config =
        env.read("ralph.toml").replace("[initializer]\n", "[initializer]\nmax_attempts = 5\n");
    env.write("ralph.toml", config);
    for (call, text) in (1..).zip(calls) {
        env.write(&format!("list{call}"), text);
        env.agent.call(call).script(&format!("cp list{call} feature-list.json\n"));
    }
    env.agent.call(4).script("cp list.json feature-list.json\n");
    env.agent.call(5).script("printf '#!/bin/sh\\n' > init.sh; chmod +x init.sh\n");
    env.run().expect(0).says("the initializer left products missing");
    let given = |call| String::from_utf8(env.agent.stdin(call)).unwrap();
    for (call, says) in
        [(2, bad[0].1), (3, bad[1].1), (4, "item `a` is completed; nobody has worked on it")]
    {
        assert!(given(call).contains("Still missing:"), "{}", given(call));
        assert!(given(call).contains(says), "expected {says:?} in {}", given(call));
    }
    assert!(
        !given(5).contains("feature-list.json:") && given(5).contains("init.sh: does not exist")
    );
    assert_eq!(worked(&env), ["a", "b"]);
}

#[test]
fn after_its_attempts_it_stops_and_what_a_person_writes_is_worked() {
    let env = initializing("max_attempts = 2\n");
    fs::remove_file(env.path("list.json")).unwrap();
    env.run().expect(1).says("init_failed").says("feature-list.json: no backlog file");
    assert_eq!(env.agent.calls(), 2);
    env.ralph(&["status"]).expect(0).says("feature-list.json: the initializer has to make it");
    env.run().expect(1).says("init_failed");
    assert_eq!(env.agent.calls(), 2);
    env.write("feature-list.json", feature_list(&[feature("mine", 1, &[])]));
    env.run().expect(0);
    assert_eq!((worked(&env), env.agent.calls()), (vec!["mine".to_owned()], 3));
}

#[test]
fn before_it_is_made_commands_say_who_makes_it() {
    let env = initializing("");
    let says = "feature-list.json: the initializer has to make it";
    for command in [&["next"][..], &["run", "--dry-run"], &["doctor"]] {
        env.ralph(command).expect(0).says(says);
    }
    env.ralph(&["config", "check"]).expect(0);
    let next: Value =
        serde_json::from_str(&env.ralph(&["next", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(next, json!({"next": "initializer", "path": "feature-list.json"}));
    assert_eq!(env.agent.calls(), 0);
    // Without an initializer nobody would make it.
    let config = env.read("ralph.toml").replace("[initializer]\n", "");
    env.write("ralph.toml", config);
    for command in [&["next"][..], &["run"], &["run", "--dry-run"]] {
        env.ralph(command).expect(78).says("no backlog file");
    }
}

/// What decides is whether there are items, not whether there is a file.
#[test]
fn the_items_of_the_backlog_decide_which_run_is_the_first() {
    let table = "CREATE TABLE features (id INTEGER PRIMARY KEY, name TEXT, passes BOOLEAN, in_progress BOOLEAN);";
    let row = "INSERT INTO features VALUES (1, 'One', 0, 0);";
    for (sql, role) in [
        (None, "initializer"),
        (Some(String::new()), "initializer"),
        (Some(table.to_owned()), "initializer"),
        (Some(format!("{table}{row}")), "coding"),
    ] {
        let env = environment(
            "sqlite",
            "features.db",
            "[prompts]\n[initializer]\nproducts = [\"notes\"]\n",
        );
        if let Some(sql) = &sql {
            let script =
                "import sqlite3, sys; sqlite3.connect('features.db').executescript(sys.argv[1])";
            env.write("features.db", "");
            let mut python = Command::new("python3");
            python.args(["-c", script, sql]).current_dir(env.workspace());
            assert!(python.status().unwrap().success());
        }
        let ended = env.ralph(&["run", "--once"]);
        assert!(env.has_state(), "{ended:?}");
        assert_eq!(first_role(&env), role, "{sql:?}");
        let given = String::from_utf8(env.agent.stdin(1)).unwrap();
        let is_shown =
            given.contains("# The list of work") && given.contains("CREATE TABLE features");
        assert_eq!(is_shown, role == "initializer", "{given}");
    }
    for (kind, path, text, role) in [
        ("json", "feature_list.json", "[]", "initializer"),
        ("json", "feature_list.json", " \n", "initializer"),
        (
            "json",
            "feature_list.json",
            r#"[{"name": "One", "description": "", "passes": false}]"#,
            "coding",
        ),
        ("plan-md", "plan.md", "# Plan\n", "initializer"),
        ("plan-md", "plan.md", "- [ ] One\n", "coding"),
    ] {
        let env = environment(kind, path, "[prompts]\n[initializer]\n");
        env.write(path, text);
        let ended = env.ralph(&["run", "--once"]);
        assert!(env.has_state(), "{ended:?}");
        assert_eq!(first_role(&env), role, "{path}: {text:?}");
    }
    // A broken one that somebody wrote is nothing to begin from.
    let env = environment("json", "feature-list.json", "[prompts]\n[initializer]\n");
    env.write("feature-list.json", "{\n  \"features\": [,]\n}\n");
    env.run().expect(78).says("feature-list.json:2:");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn its_iterations_count_against_the_limits_of_the_whole_backlog() {
    let env = initializing("");
    env.ralph(&["run", "--max-iterations", "2"]).expect(1).says("max_iterations");
    assert_eq!((worked(&env), env.agent.calls()), (vec!["a".to_owned()], 2));
    env.ralph(&["run", "--max-iterations", "3"]).expect(0);
    assert_eq!((worked(&env), env.agent.calls()), (vec!["a".to_owned(), "b".to_owned()], 3));
    let env = initializing("");
    env.ralph(&["run", "--once"]).expect(0).says("the initializer has made the backlog");
    assert_eq!(env.agent.calls(), 1);
    env.run().expect(0);
    assert_eq!((attempts(&env), worked(&env)), (1, vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn killed_while_the_initializer_works_it_begins_again_in_the_same_run() {
    let env = initializing("max_attempts = 1\n");
    env.write("hold", "");
    let mut running = env.start(&["run"]);
    eventually("the initializer", || attempts(&env) == 1);
    running.signal(Signal::KILL);
    running.wait();
    fs::remove_file(env.path("hold")).unwrap();
    env.run().expect(0);
    assert_eq!((attempts(&env), env.agent.calls()), (2, 4));
    assert_eq!(series_of(&env, "initializer_started").len(), 1);
    assert_eq!(worked(&env), ["a", "b"]);
}

#[test]
fn killed_after_any_record_it_is_made_exactly_once() {
    let whole = initializing("");
    whole.run().expect(0);
    let records = series(&whole).len();
    assert!(records >= 8, "{records}");
    for at in 1..records {
        let env = initializing("");
        let mut running = env.start(&["run"]);
        let path = env.root().join("home/.local/state/ralph-orchestrator");
        eventually("the record", || {
            let mut states = fs::read_dir(&path).into_iter().flatten();
            let is_state = |entry: &std::io::Result<fs::DirEntry>| {
                entry.as_ref().is_ok_and(|entry| entry.file_name() != ".trust")
            };
            let state = states.find(is_state);
            let journal = state.and_then(Result::ok).map(|s| s.path().join("series/journal.jsonl"));
            let text = journal.and_then(|path| fs::read_to_string(path).ok());
            text.is_some_and(|text| text.lines().count() >= at)
        });
        running.signal(Signal::KILL);
        running.wait();
        env.run().expect(0);
        let made = series_of(&env, "initializer_stopped");
        assert_eq!(made.len(), 1, "killed after record {at}: {made:?}");
        assert_eq!(series_of(&env, "item_finished").len(), 2, "killed after record {at}");
        let mut items = worked(&env);
        items.dedup();
        assert_eq!(items, ["a", "b"], "killed after record {at}");
    }
}
