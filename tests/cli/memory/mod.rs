//! `[memory]`: what iterations leave in words, and what the next agent is given of it.

mod crash;
mod entries;
mod modes;

use crate::environment::TestEnvironment;

const PROGRESS: &str = "claude-progress.txt";
const RULE: &str = "============================================================\n";

/// A workspace with this mode, a progress file and a file of failures.
fn environment(mode: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    configure(&env, mode, more);
    env
}

fn configure(env: &TestEnvironment, mode: &str, more: &str) {
    env.config(&format!(
        "[memory]\nmode = \"{mode}\"\nprogress = \"{PROGRESS}\"\nerrors = \"errors.log\"\n{more}"
    ));
}

/// An agent that is done in its n-th call, and before that changes a file.
fn done_in(env: &TestEnvironment, call: usize) {
    env.agent.default_call().script("echo $n > work.txt\n");
    env.agent.call(call).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
}

/// The entries' sessions and actions, in order.
fn actions(progress: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in progress.split(RULE).skip(1) {
        let mut lines = entry.lines();
        let (_, session) = lines.next().unwrap().split_once("] Session: ").unwrap();
        let action = lines.next().unwrap().strip_prefix("Action: ").unwrap();
        found.push((session.to_owned(), action.to_owned()));
    }
    found
}

/// The words of the actions alone.
fn words(progress: &str) -> Vec<String> {
    actions(progress).into_iter().map(|(_, action)| action).collect()
}

fn stdin(env: &TestEnvironment, call: usize) -> String {
    String::from_utf8(env.agent.stdin(call)).unwrap()
}
