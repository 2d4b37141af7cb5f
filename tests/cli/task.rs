//! A task on the command line: `run --goal TEXT --check COMMAND -- AGENT`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ralph_orchestrator_testkit::claude_binary;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use serde_json::json;

use crate::environment::{Ended, TestEnvironment};
use crate::real::Real;

/// A workspace without any file.
fn empty() -> TestEnvironment {
    let env = TestEnvironment::new();
    for name in ["ralph.toml", "PROMPT.md"] {
        fs::remove_file(env.path(name)).unwrap();
    }
    env
}

fn run(env: &TestEnvironment, more: &[&str]) -> Ended {
    let agent = env.agent.program().display().to_string();
    let task = ["run", "--goal", "make a file called done", "--check", "test -e done"];
    env.ralph(&[&task[..], more, &["--", &agent, "--flag"]].concat())
}

#[test]
fn needs_no_file() {
    let env = empty();
    env.agent.call(1).script("touch done\n");
    run(&env, &[]).expect(0).says("Iteration 1/25").says("completed");
    assert_eq!(env.agent.calls(), 1);
    assert_eq!(env.agent.argv(1), ["--flag"]);
    let prompt = String::from_utf8(env.agent.stdin(1)).unwrap();
    assert_eq!(
        prompt,
        "make a file called done\n\nThe task is complete when these commands succeed:\n\n\
         - `test -e done`\n"
    );
    let left: Vec<_> = fs::read_dir(env.workspace()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only what the agent made: {left:?}");
}

#[test]
fn a_limit_that_was_stated_holds_for_the_same_command_without_it() {
    let env = empty();
    env.agent.default_call().script("date +%N > x\n");
    run(&env, &["--max-iterations", "1"]).expect(1);
    run(&env, &[]).expect(1).says("limits.max_iterations (1)");
    assert_eq!(env.agent.calls(), 1);
    run(&env, &["--max-iterations", "2"]).expect(1);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn the_checks_decide_without_a_claim_and_all_of_them() {
    let env = empty();
    env.agent.call(1).script("touch done\n");
    env.agent.call(2).script("touch more\n");
    let events = run(&env, &["--check", "test -e more", "--json", "--set", "run.delay=0s"])
        .expect(0)
        .events();
    assert_eq!(env.agent.calls(), 2);
    let verdicts = events.iter().filter(|event| event["event"] == "verdict").count();
    assert_eq!(verdicts, 2);
}

#[test]
fn a_check_may_be_a_line_of_shell() {
    let env = empty();
    env.agent.call(1).script("echo yes > done\n");
    let agent = env.agent.program().display().to_string();
    let check = "grep -q yes done && test \"$(wc -l < done)\" = 1";
    env.ralph(&["run", "--goal", "x", "--check", check, "--", &agent]).expect(0);
}

#[test]
fn other_commands_find_the_run_of_the_folder() {
    let env = empty();
    env.ralph(&["log"]).expect(78).says("could not find `ralph.toml`");
    env.agent.call(1).out("half of it\n<promise>NEEDS_HUMAN: which half?</promise>\n");
    run(&env, &[]).expect(2);
    assert_eq!(env.status()["phase"], "needs_human");
    env.ralph(&["log", "1"]).expect(0).says("half of it");
    env.ralph(&["why"]).expect(0).says("which half?");
    env.ralph(&["answer", "the other"]).expect(0);
    env.ralph(&["stop"]).expect(0);
    env.ralph(&["export", "../out"]).expect(0);
    // `run` goes on with what the run was begun with.
    env.agent.call(2).script("touch done\n");
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.argv(2), ["--flag"]);
    env.run().expect(0).says("already completed");
    env.ralph(&["reset", "--yes"]).expect(0);
    env.run().expect(78).says("could not find `ralph.toml`");
}

#[test]
fn limits_hold_and_can_be_raised() {
    let env = empty();
    env.agent.default_call().script("echo $n > try\n");
    let ended = run(&env, &["--max-iterations", "1", "--set", "run.delay=0s"]).expect(1);
    ended.says("max_iterations");
    env.agent.call(2).script("touch done\n");
    env.ralph(&["run", "--max-iterations", "2"]).expect(0);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn flags_replace_their_part_of_a_file() {
    let env = TestEnvironment::new();
    env.config("\n[env]\nset = { FROM = \"file\" }\n[limits]\nmax_iterations = 3\n");
    env.agent.call(1).script("touch other\n").out("<promise>COMPLETE: as told</promise>\n");
    let ended = env.ralph(&["run", "-p", "Make a file called other.", "--check", "test -e other"]);
    ended.expect(0).says("Iteration 1/3");
    let prompt = String::from_utf8(env.agent.stdin(1)).unwrap();
    assert!(prompt.starts_with("Make a file called other."), "{prompt}");
    assert_eq!(env.agent.env(1)["FROM"], "file");
    assert_eq!(env.read("PROMPT.md"), "# Task\n\nMake a file called done.\n");
}

#[test]
fn the_words_replace_the_whole_agent_of_a_file() {
    let env = TestEnvironment::new();
    let agent = env.agent.program().display().to_string();
    env.raw_config(
        "[agent]\nadapter = \"claude-cli\"\n[agent.config]\nmodel = \"opus\"\n[[validator]]\n\
         kind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n",
    );
    env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    env.ralph(&["run", "--", &agent, "--words"]).expect(0);
    assert_eq!(env.agent.argv(1), ["--words"]);
    env.ralph(&["run", "--agent", "x", "--", &agent]).expect(64).says("cannot be used with");
}

/// Programs of these names, which only say who they are.
fn programs(env: &mut TestEnvironment, names: &[&str]) {
    for name in names {
        let script = format!("#!/bin/sh\necho '9.9.9 ({name})'\n");
        env.write(&format!("../bin/{name}"), script);
        fs::set_permissions(env.root().join("bin").join(name), fs::Permissions::from_mode(0o755))
            .unwrap();
    }
    let path = format!("{}:{}", env.root().join("bin").display(), std::env::var("PATH").unwrap());
    env.var("PATH", &path);
}

#[test]
fn known_agents_are_driven_by_their_adapter() {
    let mut env = empty();
    env.var("IS_SANDBOX", "1");
    programs(&mut env, &["claude", "codex", "other"]);
    for (words, adapter) in [
        (&["claude", "-p"][..], "claude-cli"),
        (&["codex", "exec", "--json"], "codex"),
        (&["other", "-p"], "command"),
    ] {
        let task = ["run", "--dry-run", "--goal", "x", "--check", "false", "--"];
        let ended = env.ralph(&[&task[..], words].concat()).expect(0);
        ended.says(&format!("would run {adapter} in")).says(&format!("/bin/{}", words[0]));
        ended.says("limits      iterations 25, cost $10.00, runtime 2h");
    }
}

#[test]
fn the_real_claude_completes_a_goal_and_its_cost_is_known() {
    let work = json!({"command": "echo 'hello ralph' > hello.txt", "description": "do it"});
    let server = ModelServer::scripted(
        Script::new().then(Turn::tool("Bash", &work)).then(Turn::text("It is written.")),
    );
    let mut env = empty();
    Real::ClaudeCli.ask(&mut env, &server);
    let claude = claude_binary().display().to_string();
    let pass = "env.pass=[\"DISABLE_*\", \"CLAUDE_CODE_*\", \"IS_SANDBOX\"]";
    let task = [
        "run",
        "--json",
        "--goal",
        "write hello.txt",
        "--check",
        "grep -qx 'hello ralph' hello.txt",
    ];
    let events = env
        .ralph(&[&task[..], &["--set", pass, "--", &claude, "-p", "--model", "opus"]].concat())
        .expect(0)
        .events();
    let last = events.last().unwrap();
    assert_eq!((&last["stop_reason"], &last["iterations"]), (&"completed".into(), &1.into()));
    assert!(last["cost_usd"].as_f64().unwrap() > 0.0, "{last}");
    assert_eq!(last["agent"], "claude-cli");
}

#[test]
fn a_check_that_passes_before_any_work_is_refused_before_it_costs_anything() {
    let env = empty();
    env.write("done", "");
    env.agent.default_call().script("touch other\n");
    let ended = run(&env, &[]).expect(78);
    ended.says("the check `test -e done` passes already, before any work, so it proves nothing");
    ended.says("or allow it: `ralph-orchestrator run --set completion.baseline=warn`");
    assert_eq!(env.agent.calls(), 0);
    assert_eq!(env.status()["stop_reason"], "baseline");
    let events = run(&env, &["--json"]).expect(78).events();
    assert_eq!(events.last().unwrap()["exit_code"], 78);
    // As the message says.
    run(&env, &["--set", "completion.baseline=warn"]).expect(0).says("completed");
    assert_eq!(env.agent.calls(), 1);
    // Of several checks one may pass already.
    env.agent.call(2).script("touch more\n");
    run(&env, &["--restart", "--check", "test -e more"]).expect(0);
}

#[test]
fn with_a_file_the_baseline_stays_a_warning() {
    let env = TestEnvironment::new();
    env.write("done", "");
    env.config("[completion]\nwhen = \"proved\"\n");
    env.agent.call(1).script("touch other\n");
    env.run().expect(0).says("every check accepts the unchanged workspace");
}

#[test]
fn another_goal_or_check_is_another_run_beside_an_unfinished_one() {
    for has_file in [true, false] {
        let env = if has_file { TestEnvironment::new() } else { empty() };
        let agent = env.agent.program().display().to_string();
        env.agent.default_call().script("echo $n > try\n");
        let stop = ["--max-iterations", "1", "--set", "run.delay=0s"];
        let task = |goal: &str, check: &str, code| {
            let words = [&["run", "--goal", goal, "--check", check], &stop[..], &["--", &agent]];
            env.ralph(&words.concat()).expect(code)
        };
        if has_file {
            env.ralph(&[&["run"], &stop[..]].concat()).expect(1);
        } else {
            task("one", "test -e one", 1);
        }
        let first = env.status()["run"].clone();
        let why = format!(
            "the task is another one than that of the last run: this is a new run; run {} is kept",
            first.as_str().unwrap()
        );
        task("two", "test -e two", 1).says(&why);
        let second = env.status()["run"].clone();
        assert_ne!(first, second);
        // The same line goes on with it.
        task("two", "test -e two", 1);
        assert_eq!(env.status()["run"], second);
        env.agent.call(env.agent.calls() + 1).script("touch three\n");
        task("two", "test -e three", 0);
        assert_ne!(env.status()["run"], second);
        env.agent.call(env.agent.calls() + 1).script("touch four\n");
        let ended = env.ralph(&["run", "-p", "two", "--check", "test -e four", "--", &agent]);
        ended.expect(0);
    }
}

/// `run` with this goal, its check and one iteration at most.
fn one_iteration(env: &TestEnvironment, goal: &str, more: &[&str]) -> Ended {
    let agent = env.agent.program().display().to_string();
    let check = format!("test -e {goal}");
    let task = ["run", "--goal", goal, "--check", &check, "--max-iterations"];
    let most = if more.is_empty() { "1" } else { "2" };
    env.ralph(&[&task[..], &[most, "--set", "run.delay=0s"], more, &["--", &agent]].concat())
}

#[test]
fn a_goal_that_was_left_for_another_is_resumed() {
    for has_file in [true, false] {
        let env = if has_file { TestEnvironment::new() } else { empty() };
        env.agent.default_call().script("echo $n > try\n");
        one_iteration(&env, "one", &[]).expect(1);
        let first = env.status()["run"].as_str().unwrap().to_owned();
        one_iteration(&env, "two", &[]).expect(1);
        let second = env.status()["run"].as_str().unwrap().to_owned();
        // A dry run changes nothing.
        one_iteration(&env, "one", &["--dry-run"]).expect(0);
        assert_eq!(env.status()["run"].as_str(), Some(&*second));
        env.agent.call(3).script("touch one\n");
        let again = one_iteration(&env, "one", &["--verbose"]).expect(0);
        again.says(&format!("run {first} has this task and is resumed; run {second} is kept"));
        let status = env.status();
        assert_eq!((&status["run"], &status["iterations"]), (&first.as_str().into(), &2.into()));
        assert_eq!(status["phase"], "completed");
        // What is complete stays so, also after another goal.
        env.agent.call(4).script("touch two\n");
        one_iteration(&env, "two", &["--verbose"]).expect(0);
        assert_eq!(env.status()["run"].as_str(), Some(&*second));
        one_iteration(&env, "one", &["--verbose"]).expect(0).says("already completed");
        assert_eq!(env.agent.calls(), 4);
        let runs = env.ralph(&["runs", "--json"]).expect(0);
        let runs: Vec<serde_json::Value> = serde_json::from_str(&runs.stdout).unwrap();
        assert_eq!(runs.len(), 2);
    }
}

#[test]
fn an_earlier_run_that_is_damaged_is_not_resumed() {
    let env = empty();
    env.agent.default_call().script("echo $n > try\n");
    one_iteration(&env, "one", &[]).expect(1);
    let first = env.status()["run"].as_str().unwrap().to_owned();
    one_iteration(&env, "two", &[]).expect(1);
    let journal = env.state().join("runs").join(&first).join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace("iteration_started", "iteration_finished")).unwrap();
    one_iteration(&env, "one", &[]).expect(1).says("this is a new run");
    assert_ne!(env.status()["run"].as_str(), Some(&*first));
}

#[test]
fn kill_9_while_an_earlier_goal_is_resumed_loses_neither_run() {
    let env = empty();
    env.agent.default_call().script("echo $n > try\n");
    one_iteration(&env, "one", &[]).expect(1);
    let first = env.status()["run"].as_str().unwrap().to_owned();
    one_iteration(&env, "two", &[]).expect(1);
    let gate = env.fifo("gate");
    env.agent.call(3).script(&format!("echo at > '{}'; sleep 600\n", gate.display()));
    let agent = env.agent.program().display().to_string();
    let words = ["run", "--goal", "one", "--check", "test -e one", "--max-iterations", "3"];
    let mut running = env.start(&[&words[..], &["--", &agent]].concat());
    assert_eq!(fs::read_to_string(&gate).unwrap(), "at\n");
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    env.agent.call(4).script("touch one\n");
    env.ralph(&[&words[..], &["--", &agent]].concat()).expect(0);
    assert_eq!(env.status()["run"].as_str(), Some(&*first));
    env.agent.call(5).script("touch two\n");
    one_iteration(&env, "two", &["--verbose"]).expect(0).says("has this task and is resumed");
}

#[test]
fn protecting_more_is_another_run() {
    let env = empty();
    env.write("spec.txt", "as agreed");
    env.agent.default_call().script("echo $n > try\n");
    one_iteration(&env, "one", &[]).expect(1);
    let first = env.status()["run"].clone();
    env.agent.call(2).script("touch one; echo x > spec.txt\n");
    env.agent.call(3).script("printf 'as agreed' > spec.txt\n");
    one_iteration(&env, "one", &["--protect", "spec.*"])
        .expect(0)
        .says("the checks are others than those of the last run");
    assert_ne!(env.status()["run"], first);
    assert_eq!(env.agent.calls(), 3, "what changed the protected file was rejected");
    one_iteration(&env, "one", &["--protect", "spec.*"]).expect(0).says("already completed");
}

#[test]
fn the_same_prompt_with_another_check_is_another_run() {
    let env = empty();
    let agent = env.agent.program().display().to_string();
    env.agent.call(1).script("touch one\n");
    let task = |check| env.ralph(&["run", "-p", "do it", "--check", check, "--", &agent]);
    task("test -e one").expect(0);
    env.agent.call(2).script("touch two\n");
    task("test -e two").expect(0).says("the checks are others than those of the last run");
    assert_eq!(env.agent.calls(), 2);
    task("test -e two").expect(0).says("already completed");
}

#[test]
fn plain_run_goes_on_with_the_task_and_the_checks_of_the_command_line() {
    let env = TestEnvironment::new();
    let agent = env.agent.program().display().to_string();
    env.agent.call(1).script("touch try\n");
    let task = ["run", "--goal", "two", "--check", "test -e two", "--once", "--", &agent];
    env.ralph(&task).expect(0);
    env.agent.call(2).script("touch two\n");
    env.run()
        .expect(0)
        .says("goes on with that; `run --restart` begins the one of the configuration");
    let prompt = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(prompt.contains("two\n\nThe task is complete when"), "{prompt}");
}

#[test]
fn after_init_the_run_that_began_without_a_file_is_found() {
    let env = empty();
    env.agent.call(1).script("sleep 1000\n");
    let agent = env.agent.program().display().to_string();
    let mut running = env.start(&["run", "--goal", "x", "--check", "test -e done", "--", &agent]);
    running.says("Iteration 1/25");
    env.ralph(&["init", "--no-run"]).expect(0);
    env.ralph(&["stop"]).expect(0).says("`ralph-orchestrator run` resumes");
    running.wait().expect(143);
    for command in ["status", "log", "why"] {
        env.ralph(&[command]).expect(0).says("interrupted");
    }
    env.ralph(&["stop"]).expect(0).says("no run is active");
}

#[test]
fn commands_of_the_shell_are_given_to_a_shell() {
    let env = empty();
    env.write("sub/here", "");
    let agent = env.agent.program().display().to_string();
    for (check, shell) in [
        ("cd sub && test -e here", "sh"),
        ("export A=1", "sh"),
        ("CI=1 make test", "sh"),
        ("source env && make", "bash"),
    ] {
        let words = ["run", "--dry-run", "--goal", "x", "--check", check, "--", &agent];
        env.ralph(&words).expect(0).says(&format!("`{shell} -c "));
    }
    let env = TestEnvironment::new();
    env.raw_config(
        "[agent]\nadapter = \"command\"\nunmetered = true\nconfig = { program = [\"@AGENT@\"] }\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"cd\", \"sub\", \"&&\", \"make\"]\n",
    );
    let ended = env.run().expect(78);
    ended.says("`cd` is a command of the shell, not a program, and no shell is used");
    ended.says(r#"write program = ["sh", "-c", "cd sub && make"]"#);
}

/// A repository whose test passes once `add` does, or once somebody weakens it.
fn tested(env: &TestEnvironment) -> Ended {
    env.write("test.sh", ". ./add.sh; [ \"$(add 1 2)\" = 3 ]\n");
    env.write("add.sh", "add() { echo 0; }\n");
    env.agent.call(1).script("echo true > test.sh\n");
    env.agent.call(2).script(
        "printf '. ./add.sh; [ \"$(add 1 2)\" = 3 ]\\n' > test.sh; echo 'add() { echo 3; }' > add.sh\n",
    );
    let agent = env.agent.program().display().to_string();
    let task = ["run", "--set", "run.delay=0s", "--goal", "x", "--check", "sh ./test.sh"];
    env.ralph(&[&task[..], &["--", &agent]].concat())
}

#[test]
fn the_script_of_a_check_is_protected() {
    let env = empty();
    let ended = tested(&env).expect(0);
    ended.says(
        "`sh ./test.sh`: the agent must not change test.sh (`--no-protect` switches this off)",
    );
    assert_eq!(env.agent.calls(), 2, "the weakened test was rejected");
}

#[test]
fn known_test_commands_protect_what_init_would() {
    let env = empty();
    env.write("tests/a.rs", "").write("src/lib.rs", "").write("out.txt", "");
    let agent = env.agent.program().display().to_string();
    let plan = |more: &[&str]| {
        let task = ["run", "--dry-run", "--json", "--goal", "x"];
        // Whether such a program is installed is of no interest here.
        env.ralph(&[&task[..], more, &["--", &agent]].concat()).stderr
    };
    let says = "the agent must not change tests/**";
    for check in ["cargo test", "npm test", "python3 -m pytest -q", "make test", "go test ./..."] {
        let said = plan(&["--check", check]);
        assert!(said.contains(&format!("`{check}`: {says}")), "{check}: {said}");
    }
    env.write("check.sh", "exit 1\n");
    for check in ["sh check.sh", "bash -e check.sh", "sh ./check.sh && true"] {
        let said = plan(&["--check", check]);
        assert!(said.contains(&format!("`{check}`: the agent must not change check.sh")), "{said}");
    }
    assert!(!plan(&["--check", "! grep -q x out.txt"]).contains("not in PATH"));
    assert!(!plan(&["--check", "cargo test", "--no-protect"]).contains("must not change"));
    // What a check merely reads may be the work.
    assert!(!plan(&["--check", "grep -q x out.txt"]).contains("must not change"));
    let nothing = ["run", "--goal", "x", "--check", "false", "--protect", "lib/**", "--", &agent];
    env.ralph(&nothing).expect(78).says("lib/**");
    env.ralph(&["run", "--protect", "a"]).expect(64).says("--check");
}

#[test]
fn what_the_user_protects_is_rejected_when_it_changes() {
    let env = empty();
    env.write("spec.txt", "as agreed");
    env.agent.call(1).script("touch done; echo x > spec.txt\n");
    env.agent.call(2).script("printf 'as agreed' > spec.txt\n");
    run(&env, &["--protect", "spec.*", "--set", "run.delay=0s"]).expect(0);
    assert_eq!(env.agent.calls(), 2);
}
