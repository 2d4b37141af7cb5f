//! Programs that trials need and do not see: named before anything is paid, and never a reward of 0.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::{SOLVES, add_task, environment, trial_files};
use crate::environment::TestEnvironment;

/// Puts a program into a folder of the home that is in `PATH`, and that no trial sees.
fn add_tool(env: &mut TestEnvironment, name: &str, script: &str) {
    let path = format!("home/tools/bin/{name}");
    env.write(&path, script).write_mode(&path, 0o755);
    let path = env.path("home/tools/bin");
    env.var("PATH", &format!("{}:/usr/bin:/bin", path.display()));
    env.var("HOME", &env.path("home").display().to_string());
}

/// What `bench check` says, which exits with `code`.
fn check(env: &TestEnvironment, agents: &str, more: &[&str], code: i32) -> String {
    let args = ["bench", "check", "--agents", agents];
    env.ralph(&[&args[..], more].concat()).expect(code).stderr
}

/// The fault of each attempt of a job of these agents, as cause and kind, and its message.
fn faults(env: &TestEnvironment, agents: &str, job: &str) -> Vec<(String, String)> {
    env.ralph(&["bench", "run", "--agents", agents, "--out", job]).expect(1);
    let trials = trial_files(env, job);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = |trial: &Value| {
        assert_eq!(trial["rewards"], serde_json::json!({}), "{trial:#}");
        let fault = &trial["fault"];
        (format!("{} {}", text(&fault["cause"]), text(&fault["kind"])), text(&fault["message"]))
    };
    trials.iter().map(kind).collect()
}

#[test]
fn a_program_of_the_tests_that_only_the_user_sees_is_named_with_the_line_to_add() {
    let mut env = environment(&[("solves", SOLVES), ("fails", "echo bye > out.txt\n")]);
    add_task(&env, "one", 600);
    env.write(
        "tasks/one/tests/test.sh",
        "if mytool run && [ \"$(cat /app/out.txt)\" = hello ]; then echo 1; else echo 0; fi \
         > /logs/verifier/reward.txt\n",
    );
    add_tool(&mut env, "mytool", "#!/bin/sh\n");
    let tools = env.path("home/tools").canonicalize().unwrap();
    let line = format!("read = [{:?}, {tools:?}]", env.path("agents").canonicalize().unwrap());
    let said = check(&env, "solves", &[], 69);
    assert!(said.contains("trials do not see `mytool`") && said.contains(&line), "{said}");
    assert!(said.contains("1 task would lack a program: test/one"), "{said}");
    // The agent is paid once, and `regrade` verifies what it left.
    let found = faults(&env, "solves", "job");
    let [(kind, message)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(kind, "verifier MissingProgramError");
    assert!(message.contains("mytool") && message.contains(&line), "{message}");
    env.ralph(&["bench", "check", "--agents", "solves", &format!("--set=sandbox.{line}")])
        .expect(0);
    // Where the line is there, the same work is judged.
    let run = [
        "bench",
        "run",
        "--agents",
        "solves,fails",
        "--out",
        "seen",
        &format!("--set=sandbox.{line}"),
    ];
    env.ralph(&run).expect(0);
    let rewards: Vec<f64> = trial_files(&env, "seen")
        .iter()
        .filter_map(|trial| trial["rewards"]["reward"].as_f64())
        .collect();
    assert_eq!(rewards.iter().sum::<f64>(), 1.0, "{rewards:?}");
    assert_eq!(rewards.len(), 2);
}

#[test]
fn tests_that_end_since_a_program_is_missing_everywhere_judge_nothing() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let script = "echo 0 > /logs/verifier/reward.txt\nexec no-such-tool-anywhere run\n";
    env.write("tasks/one/tests/test.sh", script);
    let found = faults(&env, "solves", "job");
    assert_eq!(found[0].0, "verifier MissingProgramError");
    assert!(found[0].1.contains("no-such-tool-anywhere"), "{found:?}");
}

/// Writes an exercise in Rust whose package needs these dependencies.
fn add_exercise(env: &TestEnvironment, dependencies: &str) {
    let at = |path: &str| format!("tasks/leap/{path}");
    let files = "{\"solution\":[\"src/lib.rs\",\"Cargo.toml\"],\"test\":[\"tests/leap.rs\"],\"example\":[\".meta/example.rs\"]}";
    let package = "[package]\nname = \"leap\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    env.write(&at(".meta/config.json"), format!("{{\"files\":{files}}}"))
        .write(&at(".docs/instructions.md"), "# Leap\n")
        .write(&at("Cargo.toml"), format!("{package}[dependencies]\n{dependencies}"))
        .write(&at("src/lib.rs"), "")
        .write(&at(".meta/example.rs"), "")
        .write(&at("tests/leap.rs"), "");
}

#[test]
fn a_toolchain_that_trials_do_not_see_is_named_and_no_agent_is_started_without_it() {
    let mut env = environment(&[("solves", &format!("touch \"$shared/started\"\n{SOLVES}"))]);
    add_exercise(&env, "");
    add_tool(&mut env, "cargo", "#!/bin/sh\n");
    // rustup's programs are no use without the toolchains that they start.
    env.write("home/tools/bin/rustup", "").write("home/.rustup/.keep", "");
    let said = check(&env, "solves", &[], 69);
    let rustup = env.path("home/.rustup");
    assert!(
        said.contains("`cargo`") && said.contains(&format!("{rustup:?}]` in [sandbox]")),
        "{said}"
    );
    let found = faults(&env, "solves", "job");
    assert_eq!((found.len(), found[0].0.as_str()), (1, "infrastructure MissingProgramError"));
    assert!(found[0].1.contains("`cargo`") && found[0].1.contains("read = ["), "{found:?}");
    assert!(!env.path("shared/started").exists());
    // On a machine that has none at all there is no line to add.
    fs::remove_file(env.path("home/tools/bin/cargo")).unwrap();
    let said = check(&env, "solves", &[], 69);
    assert!(said.contains("this machine has no `cargo`"), "{said}");
    let found = faults(&env, "solves", "none");
    assert_eq!(found[0].0, "infrastructure MissingProgramError");
    // One that is there and does not work is as little use.
    env.write(
        "agents/cargo",
        "#!/bin/sh\necho 'could not choose a version of cargo' >&2\nexit 1\n",
    );
    env.write_mode("agents/cargo", 0o755);
    env.var("PATH", &format!("{}:/usr/bin:/bin", env.path("agents").display()));
    let found = faults(&env, "solves", "broken");
    assert_eq!(found[0].0, "infrastructure MissingProgramError");
    assert!(found[0].1.contains("could not choose a version"), "{found:?}");
}

#[test]
fn a_package_that_cannot_be_had_is_a_fault_only_if_the_task_names_it() {
    let mut env = environment(&[("solves", SOLVES)]);
    let cargo = "#!/bin/sh\n[ \"$1\" = --version ] && exit\n\
                 echo 'error: no matching package named `rand` found' >&2\nexit 101\n";
    env.write("agents/cargo", cargo).write_mode("agents/cargo", 0o755);
    env.var("PATH", &format!("{}:/usr/bin:/bin", env.path("agents").display()));
    add_exercise(&env, "rand = \"0.8\"\n");
    let found = faults(&env, "solves", "job");
    assert_eq!((found.len(), found[0].0.as_str()), (1, "verifier MissingProgramError"));
    assert!(found[0].1.contains("the package rand"), "{found:?}");
    // What the agent itself asks for is its own choice.
    add_exercise(&env, "");
    env.ralph(&["bench", "run", "--agents", "solves", "--out", "own"]).expect(0);
    assert_eq!(trial_files(&env, "own")[0]["rewards"]["reward"], 0.0);
}

#[test]
fn what_an_agent_starts_is_found_before_it_is_started() {
    let mut env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    add_tool(&mut env, "direct", "#!/bin/sh\necho '<promise>COMPLETE</promise>'\n");
    symlink("/bin/sh", env.path("home/tools/bin/mysh")).unwrap();
    let absolute = format!("#!{}\n", env.path("home/tools/bin/mysh").display());
    let solves = env.path("agents/solves.sh");
    for (script, named) in [
        ("#!/usr/bin/env mysh\n", "mysh"),
        ("#!/usr/bin/env -S mysh -e\n", "mysh"),
        (absolute.as_str(), "mysh"),
        ("#!/bin/sh\nexec direct\n", "direct"),
        ("#!/bin/sh\nexec env A=1 direct \"$@\"\n", "direct"),
    ] {
        fs::write(&solves, script).unwrap();
        let said = check(&env, "solves", &[], 69);
        assert!(
            said.contains(named) && said.contains("home/tools\"]` in [sandbox]"),
            "{script}: {said}"
        );
        // It never becomes a reward of 0.
        let job = format!("job-{}", script.len());
        assert_eq!(
            faults(&env, "solves", &job)[0].0,
            "infrastructure AgentNotAvailableError",
            "{script}"
        );
    }
    for program in ["[\"env\", \"direct\"]", "[\"sh\", \"-c\", \"direct\"]"] {
        let set = format!("--set=agents.solves.config.program={program}");
        let said = check(&env, "solves", &[&set], 69);
        assert!(said.contains("`direct`"), "{program}: {said}");
    }
    fs::write(&solves, "#!/bin/sh\ncommand -v direct || echo\n").unwrap();
    check(&env, "solves", &[], 0);
}
