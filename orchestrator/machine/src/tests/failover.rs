//! Failover from one agent to the next.

use super::*;

fn begun(options: RunStarted) -> World {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: options }));
    world
}

fn first() -> World {
    let mut world = begun(with_fallback());
    world.observe(Vec::new(), "t0");
    world
}

fn started(world: &World) -> (u64, u32) {
    let starts = world.journal.iter().rev().find_map(|record| match record {
        Record::IterationStarted { iteration, attempt, .. } => Some((*iteration, *attempt)),
        _ => None,
    });
    starts.unwrap()
}

fn changes(world: &World) -> Vec<(String, String)> {
    let changes = world.journal.iter().filter_map(|record| match record {
        Record::AgentChanged { from, to, .. } => Some((from.clone(), to.clone())),
        _ => None,
    });
    changes.collect()
}

#[test]
fn the_next_one_takes_the_same_iteration_over_until_none_is_left() {
    for (class, reason) in [
        (ErrorClass::Unauthenticated, StopReason::NeedsHuman),
        (ErrorClass::Billing, StopReason::NeedsHuman),
        (ErrorClass::NotFound, StopReason::AgentUnavailable),
    ] {
        let mut world = first();
        world.iterate(failed(class.clone()), Vec::new(), "t0");
        assert_eq!(started(&world), (1, 1));
        world.iterate(failed(class.clone()), Vec::new(), "t0");
        assert_eq!(started(&world), (1, 2));
        assert_eq!(world.finished(), None);
        world.iterate(failed(class.clone()), Vec::new(), "t0");
        assert_eq!(started(&world), (1, 3));
        let expected = [("fake", "spare"), ("spare", "last")];
        assert_eq!(changes(&world), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(world.finished(), Some(reason), "as without any");
    }
}

#[test]
fn what_another_agent_cannot_mend_changes_none() {
    for outcome in [
        failed(ErrorClass::Crashed),
        failed(ErrorClass::InvalidRequest),
        failed(ErrorClass::ContextExceeded),
        IterationOutcome::Succeeded,
        IterationOutcome::AgentLimit { message: "turns".into() },
        IterationOutcome::Interrupted,
    ] {
        let mut world = first();
        world.iterate(outcome.clone(), Vec::new(), "t1");
        assert!(changes(&world).is_empty(), "{outcome:?}");
        world.feed(Input::WaitFinished);
        world.prepare();
        assert_eq!(started(&world), (2, 1), "{outcome:?}");
    }
}

#[test]
fn a_short_refusal_is_waited_for_and_a_long_one_is_not() {
    let until = |world: &World, ms: u64| Some(world.now.unix_ms + ms);
    let mut world = first();
    let short = until(&world, 5 * 60_000);
    world.iterate(deferred(short), Vec::new(), "t0");
    assert!(changes(&world).is_empty());
    assert!(world.last.iter().any(|effect| matches!(effect, Effect::WaitUntil(_))));

    let mut world = first();
    let long = until(&world, 5 * 60_000 + 100);
    world.iterate(deferred(long), Vec::new(), "t0");
    assert_eq!(changes(&world).len(), 1);
    world.iterate(IterationOutcome::Succeeded, Vec::new(), "t1");
    assert_eq!(started(&world), (1, 2));

    // Nobody said until when: the fifth wait would be too long.
    let mut world = first();
    for _ in 0..4 {
        world.iterate(deferred(None), Vec::new(), "t0");
        assert!(changes(&world).is_empty());
        world.now.unix_ms += 3_600_000;
    }
    world.iterate(deferred(None), Vec::new(), "t0");
    assert_eq!((changes(&world).len(), started(&world)), (1, (1, 5)));
}

#[test]
fn what_another_run_was_refused_is_waited_for_or_failed_over_as_a_refusal_of_its_own() {
    let refused = |world: &mut World, ms: u64| {
        let until_ms = world.now.unix_ms + ms;
        world.feed(Input::ProviderRefused(Refusal { reason: "429".into(), until_ms }));
        until_ms
    };
    let mut world = first();
    let until_ms = refused(&mut world, 5 * 60_000);
    assert_eq!(world.last.last(), Some(&Effect::WaitUntil(until_ms)));
    assert!(changes(&world).is_empty());
    world.feed(Input::WaitFinished);
    assert!(matches!(world.last.last(), Some(Effect::Prepare(_))), "{:?}", world.last);

    let mut world = first();
    refused(&mut world, 5 * 60_000 + 100);
    assert_eq!(changes(&world), [("fake".to_owned(), "spare".to_owned())]);
    assert!(matches!(world.last.last(), Some(Effect::Prepare(_))), "{:?}", world.last);
    // Of the last one it is waited for, if that is not too long.
    refused(&mut world, 5 * 60_000 + 100);
    let until_ms = refused(&mut world, 5 * 60_000 + 200);
    assert_eq!(world.last.last(), Some(&Effect::WaitUntil(until_ms)));
    refused(&mut world, 100 * 24 * 3_600_000);
    assert_eq!(world.finished(), Some(StopReason::NeedsHuman));

    let mut world = first();
    world.feed(Input::Signal);
    refused(&mut world, 60_000);
    assert_eq!(world.finished(), Some(StopReason::Interrupted));
}

#[test]
fn a_change_in_the_last_allowed_iteration_is_still_that_iteration() {
    let mut options = with_fallback();
    (options.limits.max_iterations, options.limits.max_failures) = (Some(1), 1);
    options.once = true;
    let mut world = begun(options);
    world.observe(Vec::new(), "t0");
    world.iterate(failed(ErrorClass::Unavailable), Vec::new(), "t0");
    assert_eq!(world.finished(), None);
    world.iterate(IterationOutcome::Succeeded, Vec::new(), "t1");
    assert_eq!(started(&world), (1, 2));
    assert_eq!(world.finished(), Some(StopReason::MaxIterations));
}

#[test]
fn a_restart_begins_with_the_first_one_again() {
    let mut world = first();
    world.iterate(failed(ErrorClass::Billing), Vec::new(), "t0");
    assert_eq!((world.state.agent.name.as_str(), world.state.agent.retrying), ("spare", true));
    world.feed(Input::Started(StartOptions { fresh: with_fallback() }));
    let state = &world.state;
    assert_eq!(
        (state.agent.name.as_str(), state.agent.fallback.len(), state.agent.retrying),
        ("fake", 2, false)
    );
    assert_eq!(state.agent.last_change, None);
    world.observe(Vec::new(), "t0");
    world.prepare();
    assert_eq!(started(&world), (2, 1));
}

#[test]
fn a_restart_tries_the_first_one_although_it_failed_when_there_was_no_other() {
    let mut world = World::started();
    world.observe(Vec::new(), "t0");
    world.iterate(failed(ErrorClass::Billing), Vec::new(), "t0");
    assert_eq!(world.finished(), Some(StopReason::NeedsHuman));
    world.feed(Input::Started(StartOptions { fresh: with_fallback() }));
    world.observe(Vec::new(), "t0");
    assert_eq!((changes(&world), world.state.agent.name.as_str()), (Vec::new(), "fake"));
    // And passed over if it fails once more.
    world.iterate(failed(ErrorClass::Billing), Vec::new(), "t0");
    assert_eq!(changes(&world).len(), 1);
}

#[test]
fn one_that_cannot_even_begin_is_passed_over_before_the_first_iteration() {
    let mut world = begun(with_fallback());
    world.feed(Input::AgentUnavailable("not there".into()));
    assert_eq!(world.state.agent.name, "spare");
    world.observe(Vec::new(), "t0");
    world.prepare();
    assert_eq!(started(&world), (1, 1));
    assert!(
        world.feed(Input::AgentUnavailable("late".into())).is_empty(),
        "one that runs has begun"
    );
}

#[test]
fn a_model_is_that_of_the_agent_that_works() {
    let mut world = first();
    let begin = |world: &mut World, model: Option<&str>| {
        let model = model.map(str::to_owned);
        world.prepare_with(LaunchDigests { model, ..LaunchDigests::default() });
    };
    let model = |world: &World| world.state.agent.model().map(str::to_owned);
    begin(&mut world, Some("opus"));
    assert_eq!(model(&world).as_deref(), Some("opus"));
    world.feed(Input::Model("opus-5".into()));
    assert_eq!(model(&world).as_deref(), Some("opus-5"));
    world.end(ended(failed(ErrorClass::Billing)), Vec::new(), observation("t0"));
    assert_eq!(world.state.agent.name, "spare");
    assert_eq!(world.state.agent.reported_model, None);
    begin(&mut world, None);
    assert_eq!(model(&world), None);
    // What is asked for now says more than what was reported of another.
    world.feed(Input::Model("small".into()));
    world.end(ended(IterationOutcome::Succeeded), Vec::new(), observation("t1"));
    begin(&mut world, Some("large"));
    assert_eq!(model(&world).as_deref(), Some("large"));
}
