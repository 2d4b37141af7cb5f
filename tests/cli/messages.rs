//! Messages that a newcomer meets first, word for word.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::environment::{Ended, Running, TestEnvironment};

const GOOD: &str = "[agent]
adapter = \"command\"
unmetered = true

[agent.config]
program = [\"@AGENT@\"]

[[validator]]
kind = \"command\"
program = [\"true\"]
";

/// Exit status and message, with the folder of the test left out.
fn message(env: &TestEnvironment, ended: &Ended) -> String {
    let root = env.root().display().to_string();
    let code = ended.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let said = format!("{}{}", ended.stdout, ended.stderr);
    // Marks below a line are as long as what they mark, which differs from folder to folder.
    format!("exit {code}\n{}", said.replace(&root, "[ROOT]"))
}

#[track_caller]
fn refused(name: &str, config: &str) {
    let env = TestEnvironment::new();
    env.raw_config(config);
    let ended = env.run();
    assert_eq!(env.agent.calls(), 0, "nothing was started");
    insta::assert_snapshot!(name, message(&env, &ended));
}

#[track_caller]
fn said(name: &str, args: &[&str]) {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(name, message(&env, &env.ralph(args)));
}

#[test]
fn no_configuration() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    insta::assert_snapshot!("no_configuration", message(&env, &env.run()));
    insta::assert_snapshot!("no_configuration_status", message(&env, &env.ralph(&["status"])));
    env.write("ralph.yml", "cli:\n  backend: claude\n");
    insta::assert_snapshot!("no_configuration_but_yaml", message(&env, &env.run()));
    let ended = env.ralph(&["-c", "nowhere.toml", "run"]);
    insta::assert_snapshot!("no_such_configuration", message(&env, &ended));
}

#[test]
fn a_command_in_one_string() {
    refused("program_as_text", &GOOD.replace("[\"@AGENT@\"]", "\"my agent --fast\""));
    refused("validator_as_text", &GOOD.replace("[\"true\"]", "\"cargo test\""));
    refused("validator_as_shell", &GOOD.replace("[\"true\"]", "\"cargo test && cargo clippy\""));
}

#[test]
fn a_program_in_an_array() {
    let text = GOOD.replace("\"command\"\nunmetered = true", "\"claude-cli\"");
    refused("claude_as_array", &text.replace("\"@AGENT@\"", "\"claude\", \"--debug\""));
}

#[test]
fn a_key_of_the_adapter_in_the_agents_table() {
    refused("agent_model", &GOOD.replace("unmetered = true", "model = \"opus\""));
    let more = format!("{GOOD}[agents.spare]\nadapter = \"codex\"\nmodel = \"gpt-5\"\n");
    refused("agents_model", &more);
}

#[test]
fn a_validator_in_the_wrong_words() {
    refused("validator_in_single_brackets", &GOOD.replace("[[validator]]", "[validator]"));
    refused("validator_type", &GOOD.replace("kind =", "type ="));
    refused("validator_cmd", &GOOD.replace("program = [\"true\"]", "cmd = [\"true\"]"));
}

#[test]
fn a_program_beside_the_configuration() {
    let env = TestEnvironment::new();
    env.raw_config(&GOOD.replace("@AGENT@", "my-agent"));
    insta::assert_snapshot!("program_like_no_other", message(&env, &env.run()));
    env.write("my-agent", "#!/bin/sh\n").write_mode("my-agent", 0o755);
    insta::assert_snapshot!("program_beside_the_configuration", message(&env, &env.run()));
}

#[test]
fn a_program_that_is_not_there() {
    let mut env = TestEnvironment::new();
    let programs = env.root().join("programs");
    fs::create_dir(&programs).unwrap();
    for name in ["claude", "clown.txt"] {
        fs::write(programs.join(name), "#!/bin/sh\n").unwrap();
    }
    fs::set_permissions(programs.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    env.var("PATH", &format!("{}:/usr/bin:/bin", programs.display()));
    let claude = GOOD.replace("\"command\"\nunmetered = true", "\"claude-cli\"");
    env.raw_config(&claude.replace("[\"@AGENT@\"]", "\"clawd\""));
    insta::assert_snapshot!("missing_claude", message(&env, &env.run()));
    env.run().expect(69);
    env.raw_config(&GOOD.replace("@AGENT@", "clawd"));
    insta::assert_snapshot!("missing_command", message(&env, &env.run()));
    env.raw_config(&GOOD.replace("@AGENT@", "./bin/agent"));
    insta::assert_snapshot!("missing_file", message(&env, &env.run()));
    env.raw_config(&GOOD.replace("[\"true\"]", "[\"claud\", \"--check\"]"));
    insta::assert_snapshot!("missing_validator", message(&env, &env.run()));
    let spare = "[agents.spare]\nadapter = \"command\"\nunmetered = true\nconfig = { program = [\"clawd\"] }\n";
    env.raw_config(&format!("{GOOD}{spare}"));
    let ended = env.ralph(&["run", "--agent", "spare"]);
    insta::assert_snapshot!("missing_named_agent", message(&env, &ended));
}

#[test]
fn a_file_that_may_not_be_read() {
    let env = TestEnvironment::new();
    let open = |path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open(env.root());
    open(env.workspace());
    env.write_mode("ralph.toml", 0);
    let is_root = rustix::process::geteuid().is_root();
    let ended = if is_root { as_nobody(&env, "run") } else { env.run() };
    insta::assert_snapshot!("permission_denied", message(&env, &ended));
}

#[test]
fn a_state_that_may_not_be_entered() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0);
    let state = env.state();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        // Whom it belongs to is not what nobody lacks.
        let folders = state.ancestors().take_while(|path| path.starts_with(env.root()));
        folders.for_each(|path| mode(path, 0o755));
        ["key", "owner.json"].iter().for_each(|name| mode(&state.join(name), 0o644));
        let accepted = state.with_file_name(".trust");
        mode(&accepted, 0o755);
        let files = fs::read_dir(&accepted).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.is_file()).for_each(|path| mode(&path, 0o644));
    }
    for (path, to_restore, commands) in [
        (state.clone(), 700, &["status", "run"][..]),
        (state.join("key"), 600, &["status"]),
        (state.join("owner.json"), 600, &["status", "run"]),
    ] {
        let before = fs::metadata(&path).unwrap().permissions();
        mode(&path, 0);
        for command in commands {
            let ended = if is_root { as_nobody(&env, command) } else { env.ralph(&[command]) };
            let said = format!("{}{}", ended.stdout, ended.stderr);
            let hint = format!("`chmod {to_restore} {}` restores its mode", path.display());
            assert!(said.replace('\n', " ").contains(&hint), "{command}: {hint} in {said}");
            assert!(!said.contains("reset"), "{command}: {said}");
        }
        fs::set_permissions(&path, before).unwrap();
    }
}

/// Root may read every file, and nobody may not.
fn as_nobody(env: &TestEnvironment, subcommand: &str) -> Ended {
    let program = env.root().join("ralph-orchestrator");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_ralph-orchestrator"), &program).unwrap();
    }
    let mut command: Command = env.program("setpriv".as_ref());
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .arg(subcommand);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::new(command.spawn().expect("setpriv; install it: apt-get install util-linux")).wait()
}

#[test]
fn files_of_other_formats() {
    refused("yaml", "cli:\n  backend: claude\nevent_loop:\n  prompt_file: PROMPT.md\n");
    refused("json", "{\"agent\": {\"adapter\": \"claude-cli\"}}\n");
    refused("broken_toml", "[run\nprompt = 1\n");
}

#[test]
fn misspelt_commands_and_flags() {
    said("rnu", &["rnu"]);
    said("shwo", &["config", "shwo"]);
    said("max_iteration", &["run", "--max-iteration", "3"]);
    said("nothing_near", &["frobnicate"]);
}

#[test]
fn values_that_no_flag_takes() {
    said("iterations_negative", &["run", "--max-iterations", "-1"]);
    said("cost_negative", &["run", "--max-cost", "-2.5"]);
    said("cost_missing", &["run", "--max-cost"]);
    said("log_word", &["log", "first"]);
    said("diff_negative", &["diff", "-1"]);
    said("no_shell", &["completions"]);
}

#[test]
fn no_limit_is_called_none() {
    for (flag, name) in [
        ("--max-cost", "cost_0"),
        ("--max-iterations", "iterations_0"),
        ("--max-runtime", "runtime_0"),
    ] {
        said(name, &["run", flag, "0"]);
    }
    said("set_cost_0", &["run", "--set", "limits.max_cost_usd=0"]);
    let limits = "[limits]\nmax_cost_usd = 0\nmax_iterations = 0\nmax_tokens = 0\nmax_failures = 0\n\
                  max_stagnant = 0\nmax_rejections = 0\nmax_runtime = \"0s\"\niteration_timeout = \"0s\"\n\
                  idle_timeout = \"0s\"\n";
    refused("limits_0", &format!("{GOOD}timeout = \"0s\"\n{limits}"));
}

#[test]
fn variables() {
    for (variable, name) in [
        ("RALPH_LIMITS__MAX_COST", "misspelt_variable"),
        ("RALPH_LIMTS__MAX_COST_USD", "misspelt_table_in_variable"),
        ("RALPH_LIMITS_MAX_COST_USD", "one_underscore"),
        ("RALPH_ORCHESTRATOR_CONFIG", "own_prefix"),
    ] {
        let mut env = TestEnvironment::new();
        env.var(variable, "5");
        insta::assert_snapshot!(name, message(&env, &env.ralph(&["config", "show"])));
    }
}

#[test]
fn a_task_that_lacks_something() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let said = |name: &str, args: &[&str]| {
        insta::assert_snapshot!(name, message(&env, &env.ralph(args)));
    };
    said("goal_without_check", &["run", "--goal", "all of it", "--", "claude", "-p"]);
    said(
        "continued_session",
        &["run", "--goal", "x", "--check", "true", "--", "claude", "--continue"],
    );
    said("empty_check", &["run", "--goal", "x", "--check", " "]);
    said("goal_and_prompt", &["run", "--goal", "x", "-p", "y"]);
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    said("check_without_goal", &["run", "--check", "true", "--", "sh"]);
}

#[test]
fn a_task_and_an_agent_without_their_options_are_shown_them() {
    let env = TestEnvironment::new();
    for (args, tip) in [
        (&["run", "fix it"][..], "`ralph-orchestrator run --goal 'fix it' --check COMMAND`"),
        (&["run", "fix-it"], "`ralph-orchestrator run --goal fix-it --check COMMAND`"),
        (&["fix the tests"], "`ralph-orchestrator run --goal 'fix the tests' --check COMMAND`"),
        (&["run", "sh", "-c", "x y"], "`ralph-orchestrator run -- sh -c 'x y'`"),
        (&["run", "--once", "sh", "--", "x"], "`ralph-orchestrator run --once -- sh x`"),
        (&["init", "sh", "-e"], "`ralph-orchestrator init -- sh -e`"),
    ] {
        env.ralph(args).expect(64).says(tip);
    }
    let other = env.ralph(&["run", "--no-such-thing"]).expect(64);
    assert!(!other.stderr.contains("--goal"), "{}", other.stderr);
}
