//! kill -9 at every record: each entry is there once.

use std::collections::BTreeMap;

use super::{PROGRESS, actions, environment};
use crate::environment::TestEnvironment;

fn scenario() -> TestEnvironment {
    let env = environment("full", "");
    env.agent.default_call().script(&format!(
        "echo $n > work.txt; : > {PROGRESS}; if [ -e half ]; then touch done; fi; touch half\n"
    ));
    env.agent.default_call().out("<promise>COMPLETE: made it</promise>\n");
    env
}

/// Every session has begun and ended once, the last one completed, and nothing is in pieces.
fn check_end(env: &TestEnvironment, what: &str) {
    let progress = env.read(PROGRESS);
    let mut by_session: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (session, action) in actions(&progress) {
        by_session.entry(session).or_default().push(action);
    }
    let last = by_session.keys().next_back().cloned();
    assert_eq!(by_session.len(), env.agent.calls().max(by_session.len()), "{what}\n{progress}");
    for (session, found) in by_session {
        let mut expected = vec!["session_started", "session_ended"];
        if Some(&session) == last.as_ref() {
            expected.push("feature_completed");
        }
        assert_eq!(found, expected, "{what}: {session}\n{progress}");
    }
    let errors = env.read("errors.log");
    let mut headings: Vec<&str> = errors.lines().filter(|line| line.starts_with('[')).collect();
    let all = headings.len();
    headings.dedup();
    assert_eq!(headings.len(), all, "{what}\n{errors}");
}

#[test]
fn kill_9_after_any_record_writes_each_entry_once() {
    let whole = scenario();
    whole.run().expect(0);
    check_end(&whole, "not killed");
    let records = whole.journal().len();
    for kill_at in 1..=records {
        let env = scenario();
        env.run_and_kill_after_record(kill_at);
        env.run().expect(0);
        check_end(&env, &format!("killed at record {kill_at}"));
    }
}
