//! Hooks that do not end: no limit and no request to stop waits for them, and no work is lost.

use std::fs;

use rustix::process::Signal;

use super::{committed, git, write_hook};
use crate::environment::{TestEnvironment, of_run};

/// A workspace whose hook runs a script of it, which the agent replaces by one that does not end.
fn hook_without_end() -> TestEnvironment {
    let env = committed("iteration");
    let gate = env.fifo("gate");
    write_hook(&env, "pre-commit", "exec sh ./lint.sh");
    env.agent.call(1).script(&format!(
        "echo 1 > work.txt; echo 'echo at > \"{}\"; sleep 1000' > lint.sh\n",
        gate.display()
    ));
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    env
}

fn committed_iterations(env: &TestEnvironment) -> Vec<String> {
    let bodies = git(env, &["log", "--reverse", "--format=%b", "main"]);
    let numbers = bodies.lines().filter_map(|line| line.strip_prefix("Ralph-Iteration: "));
    numbers.map(str::to_owned).collect()
}

#[test]
fn a_hook_is_ended_when_the_run_is_stopped_and_the_work_is_committed_by_the_next_start() {
    for signals in [1, 2] {
        let env = hook_without_end();
        let mut running = env.start(&["run"]);
        // The hook has been reached.
        assert_eq!(fs::read_to_string(env.root().join("gate")).unwrap(), "at\n");
        running.signal(Signal::TERM);
        running.says("signal again to kill what runs");
        if signals == 2 {
            running.signal(Signal::TERM);
        }
        let ended = running.wait().expect(143);
        ended.says("since the run was asked to stop");
        if signals == 1 {
            ended.says("no commit: git commit: ended while it ran `sh ./lint.sh`, `sleep 1000`");
        }
        assert!(of_run(&env.root()).is_empty(), "nothing of the hook is left");
        assert!(committed_iterations(&env).is_empty());
        assert_eq!(env.read("work.txt"), "1\n");
        env.write("lint.sh", "exit 0\n");
        env.run().expect(0);
        assert_eq!(committed_iterations(&env), ["1", "2"]);
        assert_eq!(git(&env, &["status", "--porcelain"]), "");
    }
}

#[test]
fn a_hook_is_ended_when_max_runtime_is_used_up_and_the_next_start_says_or_commits() {
    let env = hook_without_end();
    let mut running = env.start(&["run"]);
    assert_eq!(fs::read_to_string(env.root().join("gate")).unwrap(), "at\n");
    // It is taken in although git is waited for.
    env.ralph(&["limits", "--max-runtime", "1s"]).expect(0).says("set by");
    let ended = running.wait().expect(1);
    ended.says("no commit: git commit: ended while it ran `sh ./lint.sh`, `sleep 1000`");
    ended.says("since `limits.max_runtime` is used up");
    assert!(of_run(&env.root()).is_empty(), "nothing of the hook is left");
    // Although no time is left.
    env.write("lint.sh", "exit 0\n");
    env.run().expect(1).says("limits.max_runtime is used up");
    assert_eq!(committed_iterations(&env), ["1"]);
}
