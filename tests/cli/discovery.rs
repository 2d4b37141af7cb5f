//! Which configuration file a command is about.

use std::fs;
use std::process::Stdio;

use crate::environment::{Ended, Running, TestEnvironment};

/// A command in another folder of the workspace.
fn within(env: &TestEnvironment, folder: &str, args: &[&str]) -> Ended {
    let folder = env.path(folder);
    fs::create_dir_all(&folder).unwrap();
    let mut command = env.command(args);
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::new(command.spawn().unwrap()).wait()
}

#[test]
fn the_nearest_configuration_above_is_taken_and_named_first() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    let ended = within(&env, "a/b", &["run"]).expect(0);
    let first = ended.stderr.lines().next().unwrap();
    assert_eq!(first, format!("using {}", env.path("ralph.toml").display()));
    assert!(env.path("done").exists(), "paths are relative to the file's folder");
    within(&env, "a/b", &["status"]).expect(0).says("completed");
    let status = within(&env, "a", &["status", "--json"]).expect(0);
    serde_json::from_str::<serde_json::Value>(&status.stdout).unwrap();
    let quiet = within(&env, "a", &["-q", "status"]).expect(0);
    assert_eq!(quiet.stderr, "");
    assert!(!env.ralph(&["status"]).expect(0).stderr.contains("using"), "not for the folder's own");
}

#[test]
fn a_folder_with_a_run_of_another_file_names_that() {
    let env = TestEnvironment::new();
    fs::rename(env.path("ralph.toml"), env.path("night.toml")).unwrap();
    env.ralph(&["-c", "night.toml", "run", "--once"]).expect(0);
    let named = format!("`ralph-orchestrator -c {} status`", env.path("night.toml").display());
    env.ralph(&["status"]).expect(78).says("could not find `ralph.toml`").says(&named);
}

#[test]
fn the_search_ends_at_the_root_of_the_repository() {
    let env = TestEnvironment::new();
    fs::create_dir_all(env.path("repo/.git")).unwrap();
    within(&env, "repo/src", &["status"]).expect(78).says("could not find `ralph.toml`");
    fs::copy(env.path("ralph.toml"), env.path("repo/ralph.toml")).unwrap();
    let found = within(&env, "repo/src", &["config", "check"]);
    found.says(&format!("using {}", env.path("repo/ralph.toml").display()));
    // A worktree or submodule has a file of that name.
    env.write("repo/sub/.git", "gitdir: ../../.git/modules/sub\n");
    within(&env, "repo/sub", &["status"]).expect(78).says("could not find `ralph.toml`");
}

#[test]
fn the_search_ends_at_home() {
    let mut env = TestEnvironment::new();
    let home = env.path("home").display().to_string();
    let state = env.root().join("state").display().to_string();
    env.var("HOME", &home);
    env.var("XDG_STATE_HOME", &state);
    within(&env, "home/project", &["status"]).expect(78).says("could not find `ralph.toml`");
    fs::copy(env.path("ralph.toml"), env.path("home/ralph.toml")).unwrap();
    within(&env, "home/project", &["status"]).expect(0).says("using").says("home/ralph.toml");
}

#[test]
fn a_file_that_is_named_is_not_searched_for() {
    let env = TestEnvironment::new();
    within(&env, "a", &["-c", "ralph.toml", "status"]).expect(78).says("there is no such file");
    let named = within(&env, "a", &["-c", "../ralph.toml", "status"]).expect(0);
    assert!(!named.stderr.contains("using"), "{}", named.stderr);
}

#[test]
fn another_users_file_in_a_folder_above_is_not_taken() {
    if !rustix::process::geteuid().is_root() {
        // Only root can give a file away; who is not, meets those of others all the same.
        return;
    }
    let env = TestEnvironment::new();
    std::os::unix::fs::chown(env.path("ralph.toml"), Some(65534), None).unwrap();
    let refused = within(&env, "a", &["run"]).expect(78);
    refused.says("belongs to another user").says("`-c`");
    within(&env, "a", &["-c", "../ralph.toml", "status"]).expect(0);
    env.ralph(&["status"]).expect(0);
    // A folder that somebody else shares with its configuration, as in a container.
    std::os::unix::fs::chown(env.path("a"), Some(65534), None).unwrap();
    within(&env, "a", &["status"]).expect(0).says("using");
}

#[test]
fn init_writes_into_the_current_folder() {
    let env = TestEnvironment::new();
    within(&env, "a", &["init"]).expect(0);
    assert!(env.path("a/ralph.toml").exists());
}
