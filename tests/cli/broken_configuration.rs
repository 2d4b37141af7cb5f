//! Commands that only read or control a stored run, beside a configuration that is wrong.

use std::fs;

use crate::detached::waiting;
use crate::environment::{TestEnvironment, eventually, of_run};

/// A configuration that is wrong, and what is said of it.
type Mistake = (&'static str, fn(&str) -> String, &'static str);

const MISTAKES: [Mistake; 6] = [
    ("an unknown key", |good| format!("{good}\n[nonsense]\nx = 1\n"), "nonsense"),
    (
        "a wrong type",
        |good| format!("{good}\n[limits]\nmax_iterations = \"x\"\n"),
        "max_iterations",
    ),
    ("a syntax error", |good| format!("{good}\n[limits\n"), "ralph.toml"),
    ("a missing program", |good| good.replace("program = [\"test\"", "prog = [\"test\""), "prog"),
    ("no validator", |good| good.split("[[validator]]").next().unwrap().to_owned(), "validator"),
    ("no agent", |_| "[agent]\nadapter = \"nobody\"\n".to_owned(), "validator"),
];

/// A run that was stopped after one iteration.
fn stopped() -> (TestEnvironment, String) {
    let env = TestEnvironment::new();
    env.agent.call(1).script("touch other\n");
    env.ralph(&["run", "--once"]).expect(0);
    let run = env.status()["run"].as_str().unwrap().to_owned();
    (env, run)
}

#[test]
fn commands_that_read_a_run_only_warn_of_a_mistake() {
    let (env, run) = stopped();
    let short = run.split('-').next().unwrap();
    let good = env.read("ralph.toml");
    for (what, make, word) in MISTAKES {
        env.write("ralph.toml", make(&good));
        for args in [
            &["status"][..],
            &["status", "--json"],
            &["status", "--run", &run],
            &["log"],
            &["log", "1"],
            &["log", "--json"],
            &["log", "--follow"],
            &["why"],
            &["why", "--json"],
            &["runs"],
            &["runs", "--json"],
            &["stop"],
        ] {
            let ended = env.ralph(args).expect(0);
            assert!(!ended.stdout.contains("warning"), "{what} {args:?}: {}", ended.stdout);
            if args.last() == Some(&"--json") {
                assert!(!ended.events().is_empty(), "{what} {args:?}");
            }
            if let ["status" | "runs", ..] = args {
                assert!(ended.stdout.contains(short), "{what} {args:?}: {}", ended.stdout);
            }
        }
        let warned = env.ralph(&["status"]);
        let expected = "warning: `run` would refuse the configuration";
        if env.ralph(&["config", "check"]).code != Some(0) && what != "a missing program" {
            assert!(warned.stderr.contains(expected), "{what}: {}", warned.stderr);
            assert!(warned.stderr.contains(word), "{what}: {}", warned.stderr);
        }
        env.ralph(&["export", "out"]).expect(0);
        assert_ne!(env.ralph(&["run"]).code, Some(0), "{what}");
    }
}

#[test]
fn an_answer_and_a_reset_need_no_correct_configuration() {
    let (env, run) = stopped();
    let good = env.read("ralph.toml");
    for (what, make, _) in MISTAKES {
        env.write("ralph.toml", make(&good));
        env.ralph(&["answer", what]).expect(0).says("guidance");
    }
    assert_eq!(env.records("answered").len(), MISTAKES.len());
    env.ralph(&["reset", "--yes"]).expect(0).says("deleted");
    env.ralph(&["status"]).expect(0).says("no run in this workspace yet");
    assert!(!env.state().join("runs").join(run).exists());
}

#[test]
fn a_run_is_found_by_its_configuration_file_where_its_paths_cannot_be_read() {
    let (env, up, _go) = waiting();
    let good = env.read("ralph.toml");
    let elsewhere = env.root().join("state");
    let config = format!(
        "{}\n[state]\ndir = \"{}\"\n",
        good.replace("[run]", "[run]\nworkspace = \"work\""),
        elsewhere.display()
    );
    fs::create_dir(env.path("work")).unwrap();
    env.write("ralph.toml", &config);
    env.ralph(&["run", "--detach"]).expect(0);
    fs::read(&up).unwrap();
    for wrong in [
        format!("{config}[["),
        config.replace("workspace =", "workspce =").replace("dir =", "dirr ="),
    ] {
        env.write("ralph.toml", wrong);
        env.ralph(&["status"]).expect(0).says("running").says("warning");
    }
    env.ralph(&["stop"]).expect(0).says("stopped");
    eventually("the run is over", || of_run(&env.root()).is_empty());
}

#[test]
fn a_mistake_on_the_command_line_is_an_error() {
    let (env, _) = stopped();
    env.ralph(&["status", "--set", "run.workspce=x"]).expect(78).says("workspce");
    env.ralph(&["reset", "--yes", "--set", "state.dri=x"]).expect(78);
    assert_eq!(env.status()["iterations"], 1);
}
