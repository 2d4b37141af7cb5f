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
    run(&env, &[]).expect(0).says("iteration 1/25").says("completed");
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
    ended.expect(0).says("iteration 1/3");
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
