//! Which run is meant: a workspace and a configuration tell it from all others.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::detached::waiting;
use crate::environment::TestEnvironment;

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// The state directories.
fn states(env: &TestEnvironment) -> Vec<PathBuf> {
    let parent = env.root().join("home/.local/state/ralph-orchestrator");
    let mut found: Vec<PathBuf> =
        fs::read_dir(parent).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| !path.ends_with(".trust"));
    found.sort();
    found
}

fn owner(state: &Path) -> Value {
    serde_json::from_slice(&fs::read(state.join("owner.json")).unwrap()).unwrap()
}

fn status(env: &TestEnvironment, file: &str) -> Value {
    serde_json::from_str(&env.ralph(&["-c", file, "status", "--json"]).expect(0).stdout).unwrap()
}

/// Another configuration in the same folder, with a prompt of its own.
fn second(env: &TestEnvironment, name: &str) {
    let config = env.read("ralph.toml").replace("[run]\n", "[run]\nprompt = \"OTHER.md\"\n");
    env.write(name, config);
    env.write("OTHER.md", "# Another task\n\nMake a file called done.\n");
}

#[test]
fn two_configurations_in_one_workspace_are_two_runs() {
    let env = TestEnvironment::new();
    second(&env, "other.toml");
    env.agent.default_call().out("hm\n");
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    assert_eq!(status(&env, "other.toml")["run"], Value::Null);
    let began = env.ralph(&["-c", "other.toml", "run", "--max-iterations", "1"]).expect(1);
    began.says("Iteration 1/1 started (initial)");
    let (one, two) = (status(&env, "ralph.toml"), status(&env, "other.toml"));
    assert_ne!(one["run"], two["run"]);
    assert_eq!((&one["iterations"], &two["iterations"]), (&2.into(), &1.into()));
    // Every command finds its own.
    for (file, state) in [("ralph.toml", &one), ("other.toml", &two)] {
        let run = state["run"].as_str().unwrap();
        let why: Value =
            serde_json::from_str(&env.ralph(&["-c", file, "why", "--json"]).expect(0).stdout)
                .unwrap();
        assert_eq!(why["run"], run);
        let log = env.ralph(&["-c", file, "log", "--json"]).expect(0).stdout;
        assert!(log.lines().count() > 3);
        let out = env.root().join(file).with_extension("exported").display().to_string();
        env.ralph(&["-c", file, "export", &out]).expect(0).says(run);
    }
    env.ralph(&["-c", "other.toml", "answer", "left"]).expect(0);
    env.ralph(&["-c", "other.toml", "reset", "--yes"]).expect(0);
    assert_eq!(status(&env, "other.toml")["run"], Value::Null);
    assert_eq!(status(&env, "ralph.toml")["run"], one["run"]);
    // The first goes on where it was, without the other's answer.
    env.agent.call(4).script("touch done\n").out(DONE);
    env.run().expect(0);
    assert_eq!(env.status()["iterations"], 3);
    assert!(!String::from_utf8(env.agent.stdin(4)).unwrap().contains("left"));
}

#[test]
fn each_state_directory_says_whose_it_is() {
    let env = TestEnvironment::new();
    second(&env, "other.toml");
    env.agent.default_call().out("hm\n");
    for file in ["ralph.toml", "other.toml"] {
        env.ralph(&["-c", file, "run", "--max-iterations", "1"]).expect(1);
    }
    let states = states(&env);
    assert_eq!(states.len(), 2);
    let mut configurations: Vec<String> = states
        .iter()
        .map(|state| {
            let owner = owner(state);
            assert_eq!(owner["version"], 1);
            assert_eq!(owner["workspace"], env.workspace().display().to_string());
            owner["configuration"].as_str().unwrap().to_owned()
        })
        .collect();
    configurations.sort();
    let expected = ["other.toml", "ralph.toml"].map(|name| env.path(name).display().to_string());
    assert_eq!(configurations, expected);
}

#[test]
fn a_link_to_a_configuration_is_that_configuration() {
    let env = TestEnvironment::new();
    symlink("ralph.toml", env.path("link.toml")).unwrap();
    env.agent.call(1).out("hm\n");
    env.agent.call(2).script("touch done\n").out(DONE);
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    env.ralph(&["-c", "link.toml", "run"]).expect(0);
    assert_eq!((states(&env).len(), &env.status()["iterations"]), (1, &2.into()));
}

#[test]
fn two_configurations_still_take_turns_in_their_workspace() {
    let (env, up, go) = waiting();
    second(&env, "other.toml");
    let mut first = env.start(&["run"]);
    fs::read(&up).unwrap();
    let busy = env.ralph(&["-c", "other.toml", "run"]).expect(75);
    busy.says(&format!("pid {}", first.pid()));
    env.ralph(&["-c", "other.toml", "stop"]).expect(0).says("no run is active");
    assert_eq!(status(&env, "other.toml")["phase"], "none");
    fs::write(&go, "x").unwrap();
    first.wait().expect(0);
}

#[test]
fn a_state_directory_of_another_configuration_is_refused_by_every_command() {
    let env = TestEnvironment::new();
    second(&env, "other.toml");
    env.agent.default_call().out("hm\n");
    let set = format!("state.dir={}", env.root().join("mine").display());
    env.ralph(&["run", "--max-iterations", "1", "--set", &set]).expect(1);
    let calls = env.agent.calls();
    for args in [
        &["run"][..],
        &["run", "--restart"],
        &["status"],
        &["log"],
        &["why"],
        &["answer", "yes"],
        &["stop"],
        &["reset", "--yes"],
        &["export", "out"],
    ] {
        let refused =
            env.ralph(&[&["-c", "other.toml"], args, &["--set", &set]].concat()).expect(78);
        refused
            .says("state.dir")
            .says(&env.path("ralph.toml").display().to_string())
            .says(&env.path("other.toml").display().to_string());
    }
    assert_eq!(env.agent.calls(), calls);
    // Its own goes on; once its runs are deleted it is free.
    env.ralph(&["status", "--set", &set]).expect(0).says("max_iterations");
    env.ralph(&["reset", "--yes", "--set", &set]).expect(0);
    env.ralph(&["-c", "other.toml", "run", "--max-iterations", "1", "--set", &set]).expect(1);
}

#[test]
fn a_state_directory_of_another_workspace_is_refused() {
    let env = TestEnvironment::new();
    env.agent.default_call().out("hm\n");
    let set = format!("state.dir={}", env.root().join("mine").display());
    env.ralph(&["run", "--max-iterations", "1", "--set", &set]).expect(1);
    let elsewhere = env.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let workspace = format!("run.workspace={}", elsewhere.display());
    for args in [&["run"][..], &["status"]] {
        env.ralph(&[args, &["--set", &set, "--set", &workspace]].concat())
            .expect(78)
            .says(&elsewhere.display().to_string())
            .says(&env.workspace().display().to_string());
    }
}

#[test]
fn a_moved_configuration_begins_a_run_of_its_own_and_says_where_the_other_is() {
    let env = TestEnvironment::new();
    env.agent.default_call().out("hm\n");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let old = env.status()["run"].as_str().unwrap().to_owned();
    fs::rename(env.path("ralph.toml"), env.path("moved.toml")).unwrap();
    let began = env.ralph(&["-c", "moved.toml", "run", "--max-iterations", "1"]).expect(1);
    began.says(&env.path("ralph.toml").display().to_string()).says(&old);
    assert_ne!(status(&env, "moved.toml")["run"], old.as_str());
    // Moved back, it goes on.
    fs::rename(env.path("moved.toml"), env.path("ralph.toml")).unwrap();
    assert_eq!(env.status()["run"], old.as_str());
}

#[test]
fn another_configuration_that_is_still_there_is_no_reason_to_warn() {
    let env = TestEnvironment::new();
    second(&env, "other.toml");
    env.agent.default_call().out("hm\n");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let began = env.ralph(&["-c", "other.toml", "run", "--max-iterations", "1"]).expect(1);
    assert!(!began.stderr.contains("no longer there"), "{}", began.stderr);
}

/// One iteration of a run whose configuration lies in its workspace, then this instead of `from`.
fn edited(env: &TestEnvironment, from: &str, to: &str) -> String {
    env.agent.default_call().out("hm\n");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let run = env.status()["run"].as_str().unwrap().to_owned();
    let config = env.read("ralph.toml");
    assert!(config.contains(from), "{config}");
    env.write("ralph.toml", config.replacen(from, to, 1));
    run
}

/// What was spent is not forgotten because a file in the agent's reach leads elsewhere.
#[test]
fn an_edited_place_begins_no_run_beside_an_unfinished_one() {
    for (key, table) in [("state.dir", "[state]\ndir"), ("run.workspace", "[run]\nworkspace")] {
        let env = TestEnvironment::new();
        let there = env.root().join("there");
        fs::create_dir(&there).unwrap();
        let edit = format!("{table} = {:?}\n", there.display());
        let (from, to) = if key == "state.dir" {
            ("[run]\n", format!("{edit}[run]\n"))
        } else {
            ("[run]\n", edit)
        };
        let run = edited(&env, from, &to);
        for _ in 0..2 {
            let refused = env.ralph(&["run", "--max-iterations", "2"]).expect(78);
            refused.says(&run).says(key).says("--restart");
        }
        assert_eq!(env.agent.calls(), 1, "{key}");
        env.ralph(&["run", "--restart", "--max-iterations", "1"]).expect(1);
        assert_eq!(env.agent.calls(), 2, "{key}");
        // It has a run of its own now.
        env.ralph(&["run", "--max-iterations", "2"]).expect(1);
        let config = env.read("ralph.toml").replacen(&to, from, 1);
        env.write("ralph.toml", config);
        assert_eq!(env.status()["run"], run.as_str());
    }
}

#[test]
fn a_state_directory_that_is_the_default_again_is_an_edit_too() {
    let env = TestEnvironment::new();
    let there = env.root().join("there");
    let table = format!("[state]\ndir = {:?}\n", there.display());
    env.write("ralph.toml", format!("{table}{}", env.read("ralph.toml")));
    let run = edited(&env, &table, "");
    env.ralph(&["run"]).expect(78).says(&run).says("state.dir").says(&there.display().to_string());
    let elsewhere = format!("[state]\ndir = {:?}\n", env.root().join("third").display());
    env.write("ralph.toml", format!("{elsewhere}{}", env.read("ralph.toml")));
    env.ralph(&["run"]).expect(78).says(&run).says("state.dir");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_place_that_the_command_line_gives_is_meant() {
    let env = TestEnvironment::new();
    let there = env.root().join("there");
    fs::create_dir(&there).unwrap();
    edited(&env, "[run]", "[run]");
    let set = format!("state.dir={}", env.root().join("state").display());
    let began = env.ralph(&["run", "--max-iterations", "1", "--set", &set]).expect(1);
    assert!(!began.stderr.contains("there is run"), "{}", began.stderr);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_complete_run_elsewhere_is_named_and_another_begins() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("touch done\n").out(DONE);
    env.ralph(&["run"]).expect(0);
    let run = env.status()["run"].as_str().unwrap().to_owned();
    let table = format!("[state]\ndir = {:?}\n", env.root().join("state").display());
    env.write("ralph.toml", format!("{table}{}", env.read("ralph.toml")));
    env.agent.default_call().out("hm\n");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1).says(&run).says("state.dir");
}
