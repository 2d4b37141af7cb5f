//! A stronger agent takes over once the present one does not get there.

use super::*;

fn plan() -> EscalationPlan {
    let step = |agent: &str, fallback: &[&str]| EscalationStep {
        agent: agent.into(),
        fallback: fallback.iter().map(|name| (*name).into()).collect(),
    };
    let steps = vec![step("haiku", &["spare"]), step("sonnet", &[]), step("opus", &["last"])];
    EscalationPlan { steps, rejections: 2, stagnant: 3, failures: 2 }
}

fn fresh_plan() -> RunStarted {
    let first = plan().steps.remove(0);
    let (agent, fallback) = (first.agent, first.fallback);
    let limits = RunLimits { max_iterations: Some(20), ..limits() };
    RunStarted { agent, fallback, limits, escalation: Some(plan()), ..fresh() }
}

fn started() -> World {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: fresh_plan() }));
    world.observe(vec![], "t0");
    world
}

/// An iteration whose claim is rejected.
fn reject(world: &mut World, tree: &str) {
    let done = vec![claim(ClaimKind::Complete, ClaimSource::Message)];
    world.iterate(IterationOutcome::Succeeded, done, tree);
    let mut rejected = validation(false, tree);
    rejected.verdicts[0].verdict = Verdict::rejected(format!("exit 1 on {tree}"));
    world.feed(Input::Validated(rejected));
}

fn agent(world: &World) -> (&str, Vec<&str>) {
    let agent = &world.state.agent;
    (&agent.name, agent.fallback.iter().map(String::as_str).collect())
}

#[test]
fn each_agent_has_as_many_rejections_and_the_last_one_all_that_are_left() {
    let mut world = started();
    let mut worked = Vec::new();
    for n in 1..=5 {
        worked.push(world.state.agent.name.clone());
        reject(&mut world, &format!("tree {n}"));
    }
    assert_eq!(worked, ["haiku", "haiku", "sonnet", "sonnet", "opus"]);
    assert_eq!(agent(&world), ("opus", vec!["last"]));
    assert!(!world.state.agent.retrying, "its iteration is a new one");
    assert!(world.state.validation.rejection.is_some(), "it is given the reasons");
    let used = |name: &str| world.state.agent.used[name].attempts;
    assert_eq!((used("haiku"), used("sonnet"), used("opus")), (2, 2, 1));
}

#[test]
fn failures_escalate_before_they_end_the_run_and_so_does_stagnation() {
    let mut world = started();
    for _ in 0..2 {
        world.iterate(failed(ErrorClass::Crashed), vec![], "t0");
    }
    assert_eq!(agent(&world).0, "sonnet");
    assert_eq!(world.state.agent.failures, 0);
    for _ in 0..3 {
        assert_eq!(agent(&world).0, "sonnet");
        world.iterate(IterationOutcome::Succeeded, vec![], "t0");
    }
    assert_eq!(agent(&world).0, "opus", "{:?}", world.state.progress);
    assert_eq!(world.state.progress.stagnant, 0);
}

/// A claim stays pending, and is validated again after each iteration.
#[test]
fn what_others_left_is_no_rejection_of_who_failed_or_has_just_taken_over() {
    let mut world = started();
    let rejected = || Input::Validated(validation(false, "same"));
    reject(&mut world, "same");
    reject(&mut world, "same");
    assert_eq!(agent(&world).0, "sonnet");
    for n in 1..=2 {
        world.iterate(failed(ErrorClass::Crashed), vec![], "same");
        world.feed(rejected());
        assert_eq!(world.state.agent.escalation.as_ref().unwrap().rejections, 0, "{n}");
    }
    assert_eq!(agent(&world).0, "opus");
    let change = world.state.agent.last_change.clone().unwrap();
    assert!(change.reason.starts_with("failed iterations"), "{change:?}");
    assert_eq!(world.finished(), None, "the strongest works");
}

#[test]
fn what_cannot_go_on_is_replaced_by_its_own_fallback_whose_work_counts_for_it() {
    let mut world = started();
    world.iterate(failed(ErrorClass::Unavailable), vec![], "t0");
    assert_eq!(agent(&world), ("spare", vec![]));
    assert!(world.state.agent.retrying);
    reject(&mut world, "a");
    reject(&mut world, "b");
    assert_eq!(agent(&world).0, "sonnet");
}

#[test]
fn a_run_that_goes_on_does_so_with_the_agent_that_worked() {
    let mut world = started();
    reject(&mut world, "a");
    reject(&mut world, "b");
    for (escalation, expected) in [
        (plan(), "sonnet"),
        (EscalationPlan { steps: plan().steps[1..].to_vec(), ..plan() }, "sonnet"),
        (EscalationPlan { steps: plan().steps[2..].to_vec(), ..plan() }, "opus"),
    ] {
        let mut again = world.clone();
        let fresh = RunStarted { escalation: Some(escalation), ..fresh_plan() };
        again.feed(Input::Started(StartOptions { fresh }));
        assert_eq!(agent(&again).0, expected);
        again.feed(Input::Observed(observation("b")));
        let rejections = again.state.agent.escalation.as_ref().unwrap().rejections;
        assert_eq!(rejections, 0, "a restart rejects nothing");
    }
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    assert_eq!((agent(&world).0, &world.state.agent.escalation), ("fake", &None));
}

#[test]
fn none_takes_over_where_a_limit_ends_the_run() {
    let mut world = World::default();
    let limits = RunLimits { max_iterations: Some(2), ..limits() };
    let fresh = RunStarted { limits, ..fresh_plan() };
    world.feed(Input::Started(StartOptions { fresh }));
    world.observe(vec![], "t0");
    reject(&mut world, "a");
    reject(&mut world, "b");
    assert_eq!(world.finished(), Some(StopReason::MaxIterations));
    assert_eq!(agent(&world).0, "haiku");
}
