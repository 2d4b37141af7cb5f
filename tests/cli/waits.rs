//! The provider refuses requests until a time that it names: the wait is seen, broken off, survived, and
//! bounded.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::completion::claude_result;
use crate::environment::{Running, TestEnvironment, of_run};

/// An hour: no test lives to see its end.
const FAR: i64 = 3600;
const PROMISE: &str = "<promise>COMPLETE: made it</promise>";

/// Agents that print what Claude prints, under these limits; a call without orders does the work.
fn metered(limits: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\n{limits}\n"
    ));
    env.agent.default_call().script("touch done\n").out(claude_result(PROMISE, 0.5));
    env
}

/// What the `n`-th call does: it spends a quarter of a dollar and is refused until so many seconds later.
fn refused(env: &TestEnvironment, n: usize, seconds: i64) {
    env.agent
        .call(n)
        .script(&format!(
            "reset=$(($(date +%s) + {seconds})); echo $reset > \"$FAKE_DIR/reset\"
             printf '{{\"type\":\"rate_limit_event\",\"rate_limit_info\":{{\"status\":\"rejected\",\"resetsAt\":%s,\
             \"rateLimitType\":\"five_hour\"}},\"session_id\":\"s\"}}\\n' $reset
             printf '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":429,\
             \"result\":\"limit reached\",\"total_cost_usd\":0.25,\"session_id\":\"s\",\"num_turns\":1,\
             \"usage\":{{\"input_tokens\":1,\"output_tokens\":1}}}}\\n'
             exit 1\n"
        ));
}

/// The time that the last refusal named, in milliseconds since the epoch.
fn reset_ms(env: &TestEnvironment) -> i64 {
    let path = env.agent.program().with_file_name("reset");
    fs::read_to_string(path).unwrap().trim().parse::<i64>().unwrap() * 1000
}

/// A run that is in its wait.
fn waiting(env: &TestEnvironment) -> Running {
    let mut running = env.start(&["run"]);
    running.says("  waiting ");
    running
}

/// A wait is neither a failure nor another iteration, and costs what was reported.
#[track_caller]
fn counts_nothing(status: &Value, cost: f64) {
    assert_eq!(status["iterations"], 1, "{status}");
    assert_eq!(status["failures"], 0, "{status}");
    assert_eq!(status["cost_usd"], cost, "{status}");
}

fn time_ms(record: &Value) -> i64 {
    record["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// Until when it waits, as `status --json` says.
pub(crate) fn waiting_until_ms(status: &Value) -> Option<i64> {
    let until = status["waiting_until"].as_str()?;
    Some(until.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

/// When each attempt began, and that all were attempts at the first iteration, in order.
#[track_caller]
fn attempts(env: &TestEnvironment) -> Vec<i64> {
    let started = env.records("iteration_started");
    for (record, attempt) in started.iter().zip(1..) {
        assert_eq!((&record["iteration"], &record["attempt"]), (&1.into(), &attempt.into()));
    }
    started.iter().map(time_ms).collect()
}

#[test]
pub(crate) fn the_wait_is_seen_and_a_signal_ends_it_at_once() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let env = metered("");
        refused(&env, 1, FAR);
        let mut running = waiting(&env);
        let status = env.status();
        assert_eq!(status["phase"], "running");
        assert_eq!(waiting_until_ms(&status), Some(reset_ms(&env)));
        counts_nothing(&status, 0.25);
        env.ralph(&["status"]).expect(0).says("  waiting     until 20").says("limit reached");
        env.ralph(&["log"]).expect(0).says("waiting: ");
        running.signal(signal);
        running.wait().expect(code).says("interrupted");
        assert_eq!(env.status()["phase"], "interrupted");
        assert!(of_run(&env.root()).is_empty());
        // Whoever starts it again waits for the same time.
        let mut running = waiting(&env);
        assert_eq!(waiting_until_ms(&env.status()), Some(reset_ms(&env)));
        running.signal(signal);
        running.wait().expect(code);
        counts_nothing(&env.status(), 0.25);
        assert_eq!(env.records("waiting").len(), 1, "it is one wait");
        assert_eq!(env.agent.calls(), 1);
    }
}

#[test]
fn stop_ends_a_wait() {
    let env = metered("");
    refused(&env, 1, FAR);
    let mut running = waiting(&env);
    env.ralph(&["stop"]).expect(0).says("stopped");
    running.wait().expect(143);
}

#[test]
fn a_wait_that_was_killed_goes_on_for_the_rest_of_it() {
    let env = metered("");
    refused(&env, 1, 6);
    let mut running = waiting(&env);
    running.signal(Signal::KILL);
    running.wait();
    counts_nothing(&env.status(), 0.25);
    env.run().expect(0);
    let begun = attempts(&env);
    assert_eq!(begun.len(), 2);
    assert!(begun[1] >= reset_ms(&env), "it did not wait until {}: {begun:?}", reset_ms(&env));
    assert_eq!(env.records("waiting").len(), 1, "the rest, not another wait");
    counts_nothing(&env.status(), 0.75);
    assert_eq!(env.status()["waiting_until"], Value::Null);
}

#[test]
fn every_refusal_is_another_attempt_at_the_same_iteration() {
    let env = metered("max_failures = 1\nmax_iterations = 1");
    for n in 1..=3 {
        refused(&env, n, 2);
    }
    env.run().expect(0);
    let begun = attempts(&env);
    assert_eq!(begun.len(), 4);
    assert!(begun[3] >= reset_ms(&env));
    counts_nothing(&env.status(), 1.25);
}

#[test]
fn a_time_that_is_past_is_no_wait_the_first_time_and_no_way_to_hammer_on_the_provider() {
    let env = metered("");
    refused(&env, 1, -100);
    env.run().expect(0);
    assert_eq!(attempts(&env).len(), 2);
    counts_nothing(&env.status(), 0.75);

    // A clock that is ahead of the provider's makes every time one that is past.
    let env = metered("");
    refused(&env, 1, -100);
    refused(&env, 2, -100);
    let mut running = env.start(&["run"]);
    crate::environment::eventually("the second wait", || {
        env.agent.calls() == 2 && {
            let status = env.status();
            waiting_until_ms(&status).is_some_and(|until| until > reset_ms(&env) + 100_000)
        }
    });
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_wait_longer_than_allowed_needs_a_human() {
    let env = metered("max_wait = \"10m\"");
    refused(&env, 1, FAR);
    env.run().expect(2).says("limits.max_wait");
    let status = env.status();
    assert_eq!(
        (&status["phase"], &status["stop_reason"]),
        (&"needs_human".into(), &"needs_human".into())
    );
    counts_nothing(&status, 0.25);
    assert!(env.records("waiting").is_empty());
    // With more patience it waits, for what was announced.
    let mut running = env.start(&["run", "--set", "limits.max_wait=2h"]);
    running.says("  waiting ");
    assert_eq!(waiting_until_ms(&env.status()), Some(reset_ms(&env)));
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_wait_may_last_longer_than_the_runtime() {
    let env = metered("max_runtime = \"10m\"");
    refused(&env, 1, FAR);
    let mut running = waiting(&env);
    assert_eq!(waiting_until_ms(&env.status()), Some(reset_ms(&env)));
    running.signal(Signal::INT);
    running.wait().expect(130);
    counts_nothing(&env.status(), 0.25);
}
