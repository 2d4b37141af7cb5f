//! kill -9 at every record, and within git: each iteration is saved exactly once.

use std::fs;

use rustix::process::Signal;

use super::{checkpoints, committed, git, two_iterations, write_hook};
use crate::environment::{TestEnvironment, of_run};

/// What has to hold after any crash and restart.
fn check_end(env: &TestEnvironment, what: &str) {
    let subjects = git(env, &["log", "--format=%b", "main"]);
    let mut of: Vec<&str> =
        subjects.lines().filter_map(|line| line.strip_prefix("Ralph-Iteration: ")).collect();
    let all = of.len();
    of.sort_unstable();
    of.dedup();
    assert_eq!(of.len(), all, "an iteration was committed twice: {what}");
    assert!(all > 0, "{what}");
    let saved = env.records("saved");
    let mut iterations: Vec<u64> =
        saved.iter().map(|record| record["iteration"].as_u64().unwrap()).collect();
    iterations.dedup();
    assert_eq!(iterations.len(), saved.len(), "saved twice: {what}");
    assert_eq!(checkpoints(env).len(), saved.len(), "{what}");
    for record in &saved {
        for kind in ["checkpoint", "commit"] {
            if let Some(id) = record[kind].as_str() {
                git(env, &["cat-file", "-e", id]);
            }
        }
    }
    assert_eq!(git(env, &["status", "--porcelain"]), "", "{what}");
    assert!(of_run(&env.root()).is_empty(), "{what}");
}

fn scenario() -> TestEnvironment {
    let env = committed("iteration");
    env.agent
        .default_call()
        .script("echo $n > work.txt; if [ -e half ]; then touch done; fi; touch half\n");
    env.agent.default_call().out("<promise>COMPLETE: made it</promise>\n");
    env
}

/// At the records around those of commits: no other has to do with git.
#[test]
fn kill_9_after_any_record_commits_each_iteration_once() {
    let whole = scenario();
    whole.run().expect(0);
    let saved: Vec<bool> = whole.journal().iter().map(|record| record["kind"] == "saved").collect();
    let around = |at: &usize| saved[at - 1] || saved.get(*at) == Some(&true);
    let kills: Vec<usize> = (1..=saved.len()).filter(around).collect();
    assert!(kills.len() >= 4, "{kills:?}");
    for kill_at in kills {
        let env = scenario();
        env.run_and_kill_after_record(kill_at);
        env.run().expect(0);
        check_end(&env, &format!("killed at record {kill_at}"));
    }
}

/// The orchestrator is killed while a hook of its commit runs, before or after there is a commit.
fn killed_in_hook(hook: &str) {
    let env = committed("iteration");
    let gate = env.fifo("gate");
    let once = env.root().join("once");
    write_hook(
        &env,
        hook,
        &format!(
            "if mkdir '{}'; then echo at > '{}'; sleep 600; fi",
            once.display(),
            gate.display()
        ),
    );
    two_iterations(&env);
    let mut running = env.start(&["run"]);
    // The hook has been reached.
    assert_eq!(fs::read_to_string(&gate).unwrap(), "at\n");
    running.signal(Signal::KILL);
    running.wait();
    env.run().expect(0);
    check_end(&env, hook);
}

#[test]
fn kill_9_before_the_commit_exists() {
    killed_in_hook("pre-commit");
}

#[test]
fn kill_9_between_commit_and_record() {
    killed_in_hook("post-commit");
}
