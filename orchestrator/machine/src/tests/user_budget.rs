//! Waits for the budget of all runs of the user.

use super::*;

const HOUR: u64 = 3_600_000;
const REASON: &str = "budget: all runs have cost $2.00 of $1.00 (budget.max_cost_usd.day)";

/// Where the second iteration is to be prepared, but the budget has no room for it until then.
fn reached(until_ms: u64, max_wait_ms: u64) -> World {
    let mut options = fresh();
    options.limits.max_wait_ms = max_wait_ms;
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: options }));
    world.observe(vec![], "t0");
    world.prepare();
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    world.observe(vec![], "t1");
    world.feed(Input::WaitFinished);
    world.feed(Input::UserBudgetReached { reason: REASON.to_owned(), until_ms });
    world
}

#[test]
fn the_end_of_the_period_is_waited_for_and_the_budget_asked_again() {
    let mut world = reached(HOUR, 2 * HOUR);
    assert_eq!(world.last.last(), Some(&Effect::WaitUntil(HOUR)));
    assert_eq!(world.state.waiting.as_ref().map(|wait| wait.reason.as_str()), Some(REASON));
    // The same moment is one wait.
    world.feed(Input::UserBudgetReached { reason: REASON.to_owned(), until_ms: HOUR });
    assert_eq!(world.last, [Effect::WaitUntil(HOUR)]);
    world.feed(Input::WaitFinished);
    assert!(matches!(world.last.last(), Some(Effect::Prepare(_))), "{:?}", world.last);
}

#[test]
fn a_period_that_ends_too_late_stops_the_run_which_can_be_resumed() {
    let mut world = reached(3 * HOUR, 2 * HOUR);
    let Some(Effect::Finish { reason, message }) = world.last.last() else {
        panic!("{:?}", world.last)
    };
    assert_eq!(*reason, StopReason::Budget);
    assert_eq!(*message, format!("{REASON}; the wait would be longer than limits.max_wait"));
    assert_eq!(world.state.resume_blocker(), Some(ResumeBlocker::UserBudget));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![], "t1");
    assert!(matches!(world.last.last(), Some(Effect::Prepare(_))), "{:?}", world.last);
}

#[test]
fn a_request_to_stop_ends_the_run_instead() {
    let mut world = reached(HOUR, 2 * HOUR);
    world.feed(Input::Signal);
    world.feed(Input::UserBudgetReached { reason: REASON.to_owned(), until_ms: HOUR });
    let stopped =
        matches!(world.last.last(), Some(Effect::Finish { reason: StopReason::Interrupted, .. }));
    assert!(stopped, "{:?}", world.last);
}

#[test]
fn what_an_agent_does_not_report_is_counted() {
    let world = reached(HOUR, 2 * HOUR);
    let used = world.state.agent.used.values().next().copied().unwrap();
    assert_eq!((used.attempts, used.unreported_costs, used.unreported_tokens), (1, 1, 1));
}
