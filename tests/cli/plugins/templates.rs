//! What `plugin new` writes in Python, Node.js and C passes the conformance tests, and runs in a loop.

use std::path::Path;
use std::process::{Command, Stdio};

use super::author::ended;
use crate::environment::{Ended, TestEnvironment};

/// Fails with the command that installs a program.
fn require(program: &str, install: &str) {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let found = version.is_ok_and(|status| status.success());
    assert!(found, "`{program}` is missing: {install}");
}

fn ralph_in(env: &TestEnvironment, folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = env.command(arguments);
    command.current_dir(folder);
    ended(command)
}

/// A plugin in this language with items of these kinds, that was just begun, works.
fn begun(language: &str, kinds: &str) {
    let env = TestEnvironment::new();
    let name = format!("begun-{}", kinds.replace(',', "-"));
    let new = ["plugin", "new", &name, "--kind", kinds, "--language", language];
    env.ralph(&new).expect(0).says("ralph-orchestrator plugin test");
    let folder = env.path(&name);
    let mut tested = name.clone();
    if language == "c" {
        let mut build = Command::new("sh");
        build.arg("build.sh").env("CFLAGS", "-Werror").current_dir(&folder);
        ended(build).expect(0);
        tested = format!("./lib{}.so", name.replace('-', "_"));
    }
    ralph_in(&env, &folder, &["plugin", "check", &tested]).expect(0).says(&name);
    let ended = ralph_in(&env, &folder, &["plugin", "test", &tested]).expect(0);
    ended.says("all checks passed").says("conformance.toml");
    let rows = ended.stdout.lines().filter(|line| line.contains("passed")).count();
    assert!(rows > 3, "{}", ended.stdout);
    ralph_in(&env, &folder, &["run"]).expect(0).says("completed: 1 iteration");
    // A mistake in its table is shown at its place.
    let config = std::fs::read_to_string(folder.join("ralph.toml")).unwrap();
    let (from, to) = match kinds {
        "agent" => ("greeting = ", "greting = "),
        _ => ("file = ", "fiel = "),
    };
    std::fs::write(folder.join("ralph.toml"), config.replacen(from, to, 1)).unwrap();
    let line = config.lines().position(|line| line.starts_with(from)).unwrap() + 1;
    let ended = ralph_in(&env, &folder, &["config", "check"]).expect(78);
    ended.says(&format!("ralph.toml:{line}:1")).says(to.trim_end_matches(" = "));
}

fn begun_each(language: &str) {
    for kinds in ["agent", "detector", "validator", "agent,detector,validator"] {
        begun(language, kinds);
    }
}

#[test]
fn python_that_was_just_begun_works() {
    require("python3", "apt-get install python3");
    begun_each("python");
}

#[test]
fn node_that_was_just_begun_works() {
    require("node", "apt-get install nodejs");
    begun_each("node");
}

#[test]
fn c_that_was_just_begun_works() {
    require("cc", "apt-get install gcc libc6-dev");
    begun_each("c");
}

#[test]
fn other_languages_need_no_sdk() {
    let env = TestEnvironment::new();
    let new =
        ["plugin", "new", "mine", "--kind", "agent", "--language", "node", "--sdk-version", "1"];
    env.ralph(&new).expect(64).says("does not use the crate");
    assert!(!env.path("mine").exists());
}
