//! `init`: keeps what the user wrote, finds the check, and protects what it relies on.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::process::Command;

use crate::environment::TestEnvironment;

const OWN: &str = "# My task\n\nEnd with <promise>COMPLETE: done</promise>.\n";

/// A folder without anything.
fn bare() -> TestEnvironment {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    env
}

/// The globs that the written configuration protects.
fn protected(env: &TestEnvironment) -> Vec<String> {
    let config: toml::Table = toml::from_str(&env.read("ralph.toml")).unwrap();
    let validator = &config["validator"].as_array().unwrap()[0];
    let globs = validator.get("protect").and_then(|list| list.as_array().cloned());
    globs.unwrap_or_default().iter().map(|glob| glob.as_str().unwrap().to_owned()).collect()
}

/// Puts the fake agent in the place of the one that the written configuration names.
fn drive_fake_agent(env: &TestEnvironment) {
    let mut config: toml::Table = toml::from_str(&env.read("ralph.toml")).unwrap();
    let program = env.agent.program().display().to_string();
    let agent = format!("adapter = \"command\"\nunmetered = true\nconfig.program = [{program:?}]");
    config.insert("agent".into(), toml::from_str(&agent).unwrap());
    env.write("ralph.toml", toml::to_string(&config).unwrap());
}

#[test]
fn a_kept_prompt_without_a_task_is_still_to_be_written() {
    let env = TestEnvironment::new();
    for name in ["ralph.toml", "PROMPT.md"] {
        fs::remove_file(env.path(name)).unwrap();
    }
    env.ralph(&["init", "--no-run"]).expect(0).says("first: describe the task in PROMPT.md");
    let again = ["init", "--no-run", "--force"];
    let kept = env.ralph(&again).expect(0);
    kept.says("kept PROMPT.md unchanged").says("first: describe the task in PROMPT.md");
    env.write("PROMPT.md", "# Task\n\nBuild it.\n");
    assert!(!env.ralph(&again).expect(0).stdout.contains("first: describe"));
}

#[test]
fn git_says_whether_it_ignores_what_a_lock_file_has_installed() {
    for (ignored, is_written) in [("/vendor/\n", true), ("/other/\n", false)] {
        let env = bare();
        env.write("composer.json", "{}").write("composer.lock", "{}").write(".gitignore", ignored);
        let made = Command::new("git").args(["init", "-q"]).current_dir(env.workspace()).status();
        assert!(made.unwrap().success());
        env.ralph(&["init", "--no-run"]).expect(0);
        let config = env.read("ralph.toml");
        assert_eq!(config.contains("setup_outputs = [\"vendor\"]"), is_written, "{config}");
    }
}

#[test]
fn keeps_an_existing_prompt() {
    let env = bare();
    env.write("PROMPT.md", OWN);
    let ended = env.ralph(&["init"]).expect(0);
    ended.says("wrote ralph.toml").says("kept PROMPT.md");
    assert_eq!(env.read("PROMPT.md"), OWN);
    env.ralph(&["config", "check"]).expect(78).says("this check is still to be written");
}

#[test]
fn never_touches_a_prompt_even_by_force() {
    let env = bare();
    env.write("PROMPT.md", "Build it.\n").write_mode("PROMPT.md", 0o400);
    env.write("ralph.toml", "old");
    let before = fs::metadata(env.path("PROMPT.md")).unwrap();
    for _ in 0..2 {
        let ended = env.ralph(&["init", "--force", "--test", "true"]).expect(0);
        ended.says("kept PROMPT.md");
        // A run appends how to claim to such a prompt; a line of the user's could only be in the way.
        assert!(!ended.stdout.contains("promise"), "{}", ended.stdout);
    }
    let after = fs::metadata(env.path("PROMPT.md")).unwrap();
    assert_eq!(env.read("PROMPT.md"), "Build it.\n");
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(after.ino(), before.ino());
    assert!(env.read("ralph.toml").contains("program = [\"true\"]"));
}

#[test]
fn a_link_in_the_place_of_the_prompt_is_kept_too() {
    let env = bare();
    symlink(env.root().join("nowhere"), env.path("PROMPT.md")).unwrap();
    env.ralph(&["init", "--force"]).expect(0).says("kept PROMPT.md");
    assert!(!env.root().join("nowhere").exists());
    assert!(fs::symlink_metadata(env.path("PROMPT.md")).unwrap().is_symlink());
}

#[test]
fn writes_only_what_is_missing() {
    let env = bare();
    env.write("ralph.toml", "# mine\n");
    env.ralph(&["init"]).expect(0).says("kept ralph.toml").says("wrote PROMPT.md");
    assert_eq!(env.read("ralph.toml"), "# mine\n");
    assert!(env.read("PROMPT.md").contains("<promise>"));
    env.ralph(&["init"]).expect(64).says("already exist").says("--force").says("never");
    env.ralph(&["init", "--test", "make"]).expect(64).says("--test would have no effect");
    assert_eq!(env.read("ralph.toml"), "# mine\n");
}

#[test]
fn a_check_that_is_still_to_be_written_costs_no_iteration() {
    let env = bare();
    let ended = env.ralph(&["init", "--goal", "Build it."]).expect(0);
    ended.says("NO test command was found");
    let last: Vec<&str> = ended.stdout.lines().rev().take(6).collect();
    assert!(last.iter().any(|line| line.contains("write the check")), "{}", ended.stdout);
    env.ralph(&["config", "check"]).expect(78).says("this check is still to be written");
    drive_fake_agent(&env);
    env.agent.default_call().out("<promise>COMPLETE: all of it</promise>\n");
    let line = 1 + env
        .read("ralph.toml")
        .lines()
        .position(|line| line.starts_with("program = [\"sh"))
        .unwrap();
    let place = format!("ralph.toml:{line}");
    let run = env.run().expect(78);
    run.says("this check is still to be written").says(&place);
    let doctor = env.ralph(&["doctor"]).expect(78);
    doctor.says("this check is still to be written");
    let last = doctor.stdout.lines().last().unwrap();
    assert!(last.starts_with("1 check failed") && last.contains("write the check first"), "{last}");
    assert!(last.contains(&place), "{last}");
    assert_eq!(env.agent.calls(), 0, "nothing was paid for");
}

#[test]
fn finds_the_check_that_is_there() {
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[("package.json", "{"), ("Makefile", "test: all\n")], r#"["make", "test"]"#),
        (&[("Makefile", "VAR := a\n.PHONY: x\nall check:\n\tx\n")], r#"["make", "check"]"#),
        (&[("justfile", "@test arg='x':\n  x\n")], r#"["just", "test"]"#),
        (&[("Makefile", "test := x\n\ttest: x\nall:\n")], "exit 126"),
        (
            &[
                ("composer.json", "\"pestphp/pest\": \"*\", \"phpunit/phpunit\": \"*\""),
                ("phpunit.xml", ""),
            ],
            r#"["vendor/bin/pest"]"#,
        ),
        (&[("phpspec.yml", "")], r#"["phpspec", "run"]"#),
        (&[("phpunit.xml", "")], r#"["phpunit"]"#),
    ];
    for (files, program) in table {
        let env = bare();
        for (name, text) in *files {
            env.write(name, text);
        }
        env.ralph(&["init", "--no-run"]).expect(0);
        let text = env.read("ralph.toml");
        let line = text.lines().find(|line| line.starts_with("program = ")).unwrap();
        assert!(line.contains(program), "{files:?}: {line}");
    }
    let env = bare();
    env.write("test.sh", "#!/bin/sh\n").write_mode("test.sh", 0o755);
    env.ralph(&["init"]).expect(0).says("proved by `./test.sh`").says("already passes");
}

#[test]
fn protects_what_the_check_relies_on() {
    let env = bare();
    for name in [
        "Makefile",
        "tests/unit/a.py",
        "conftest.py",
        "pytest.ini",
        "src/app.py",
        "src/deep/er/test_app.py",
        "docs/readme.md",
        ".hidden/tests/x",
        "pkg/a/spec/a_spec.rb",
        "pkg/a/src/b.test.js",
        "pkg/node_modules/x/tests/t.js",
        "node_modules/y/test/t.js",
        "cmd/main_test.go",
        "cmd/x_test.go",
    ] {
        env.write(name, "test:\n");
    }
    fs::create_dir(env.path("test")).unwrap();
    let ended = env.ralph(&["init", "--test", "make test"]).expect(0);
    ended.says("the agent must not change Makefile");
    assert_eq!(
        protected(&env),
        [
            "Makefile",
            "pytest.ini",
            "cmd/**/*_test.go",
            "conftest.py",
            "pkg/a/spec/**",
            "pkg/a/src/*.test.js",
            "src/**/test_*.py",
            "tests/**",
        ]
    );
    env.ralph(&["config", "check"]).expect(0);
}

#[test]
fn protects_the_script_that_is_named_and_nothing_that_is_not_there() {
    let env = bare();
    env.write("ci/[x].sh", "").write("package.json", r#"{"scripts": {"test": "a | b"}}"#);
    env.ralph(&["init", "--test", "sh ./ci/[x].sh"]).expect(0);
    assert_eq!(protected(&env), ["ci/\\[x\\].sh"]);
    env.ralph(&["init", "--force", "--no-run"]).expect(0).says("package.json is used by the check");
    assert!(protected(&env).is_empty());
    let text = env.read("ralph.toml");
    assert!(!text.contains("protect = ") && text.contains("# package.json"), "{text}");
    env.ralph(&["init", "--force", "--test", "sh ../outside.sh"]).expect(0);
    assert!(protected(&env).is_empty());
}

#[test]
fn an_agent_that_changes_the_protected_script_is_found_out() {
    let env = bare();
    env.write("test.sh", "test -e done\n");
    env.ralph(&["init", "--goal", "Make a file called done."])
        .expect(0)
        .says("fails now, as it should");
    env.agent
        .call(1)
        .script("echo true > test.sh\n")
        .out("<promise>COMPLETE: all of it</promise>\n");
    drive_fake_agent(&env);
    let ended = env.ralph(&["run", "--once"]);
    ended.says("protected paths are not as they were").says("test.sh (modified)");
    assert_ne!(env.status()["phase"], "completed");
}

#[test]
fn any_program_is_named_as_for_run() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let agent = env.agent.program();
    symlink(&agent, env.path("my-agent")).unwrap();
    env.ralph(&["init", "--agent", "claude", "--", "./my-agent"]).expect(64);
    env.ralph(&["init", "--test", "test -e done", "--", "./my-agent", "--mode", "a \"b\""])
        .expect(0)
        .says("  the agent is ./my-agent --mode a \"b\"");
    let config = env.read("ralph.toml");
    assert!(config.contains("adapter = \"command\"\nunmetered = true"), "{config}");
    assert!(config.contains("# max_cost_usd = 10.0"), "{config}");
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.argv(1), ["--mode", "a \"b\""]);
    env.ralph(&["init", "--", "other"]).expect(64).says("already exist");
    // Known programs have adapters of their own.
    env.ralph(&["init", "--force", "--", "claude", "-p", "--model", "opus"]).expect(0);
    let config = env.read("ralph.toml");
    assert!(config.contains("adapter = \"claude-cli\""), "{config}");
    assert!(config.contains("model = \"opus\"") && !config.contains("unmetered"), "{config}");
    assert!(config.contains("\nmax_cost_usd = 10.0"), "{config}");
    env.ralph(&["init", "--force", "--", "no-such-agent"]).expect(0).says("no-such-agent, but");
}

#[test]
fn a_list_of_work_is_found_and_worked_through() {
    let lists = [
        (
            "prd.json",
            "json",
            r#"{"userStories": [{"id": "US-1", "title": "a", "description": "", "acceptanceCriteria": [], "priority": 1, "passes": false}]}"#,
        ),
        ("fix_plan.md", "plan-md", "# Plan\n\n- [ ] a\n- [] b\n"),
        ("TODO.md", "plan-md", "- [ ] a\n"),
    ];
    for (name, kind, text) in lists {
        let env = bare();
        env.write(name, text);
        let made = env.ralph(&["init", "--no-run", "--test", "test -f made"]).expect(0);
        made.says(&format!("works through {name}, 0/1 (0.0%) complete"));
        assert!(!made.stdout.contains("first: describe"), "{}", made.stdout);
        let config: toml::Table = toml::from_str(&env.read("ralph.toml")).unwrap();
        let backlog = &config["backlog"];
        assert_eq!((&backlog["kind"], &backlog["path"]), (&kind.into(), &name.into()));
        drive_fake_agent(&env);
        env.agent.default_call().script(": > made\n").out("<promise>COMPLETE: made it</promise>\n");
        env.run().expect(0).says("backlog 1/1");
    }
    let env = bare();
    env.write("fix_plan.md", "- [x] done\n");
    env.ralph(&["init", "--no-run"]).expect(0);
    assert!(!env.read("ralph.toml").contains("[backlog]"), "nothing is left to do in it");
}
