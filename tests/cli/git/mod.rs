//! `[git]` in real repositories: checkpoints, commits, `diff` and `rollback`.

mod commands;
mod crash;
mod interrupted;
mod kept;
mod policies;
mod strangers;
mod worktree;

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::environment::TestEnvironment;

/// A workspace that is a repository with one commit, and this `[git] commit`.
pub(crate) fn committed(mode: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    set_mode(&env, mode);
    init(&env);
    env.write("a.txt", "one\n").write(".gitignore", "ignored/\n*.log\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "first"]);
    env
}

pub(crate) fn set_mode(env: &TestEnvironment, mode: &str) {
    env.config(&format!("[git]\ncommit = \"{mode}\"\n"));
}

pub(crate) fn init(env: &TestEnvironment) {
    git(env, &["init", "-qb", "main"]);
    git(env, &["config", "user.name", "Ada User"]);
    git(env, &["config", "user.email", "ada@example.org"]);
}

/// An agent that writes a file in each call and is done with the second.
fn two_iterations(env: &TestEnvironment) {
    env.agent.call(1).script("echo 1 > work.txt; mkdir -p ignored; echo x > ignored/x\n");
    env.agent
        .call(2)
        .script("echo 2 > work.txt; touch done\n")
        .out("<promise>COMPLETE: the work is done</promise>\n");
}

pub(crate) fn try_git(env: &TestEnvironment, args: &[&str]) -> Output {
    env.program(Path::new("git")).args(args).env("GIT_EDITOR", "true").output().unwrap()
}

/// Runs git as the user would, and returns what it prints.
#[track_caller]
pub(crate) fn git(env: &TestEnvironment, args: &[&str]) -> String {
    let output = try_git(env, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

pub(crate) fn write_hook(env: &TestEnvironment, name: &str, script: &str) {
    fs::create_dir_all(env.path(".git/hooks")).unwrap();
    let path = format!(".git/hooks/{name}");
    env.write(&path, format!("#!/bin/sh\n{script}\n")).write_mode(&path, 0o755);
}

/// The run's checkpoints, by name.
fn checkpoints(env: &TestEnvironment) -> Vec<String> {
    let refs = git(env, &["for-each-ref", "--format=%(refname)", "refs/ralph"]);
    refs.lines().map(|name| name.splitn(4, '/').nth(3).unwrap().to_owned()).collect()
}
