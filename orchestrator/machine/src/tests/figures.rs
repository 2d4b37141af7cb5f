//! Limits, waits and charges to the last unit.

use super::*;

fn at(state: &State, input: Input, runtime_ms: u64, unix_ms: u64) -> (State, Vec<Effect>) {
    step(state.clone(), input, Now { runtime_ms, unix_ms })
}

fn prepared_of(effects: &[Effect]) -> &StartIteration {
    let found = effects.iter().find_map(|effect| match effect {
        Effect::Prepare(start) => Some(start),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("nothing is prepared: {effects:?}"))
}

fn dollars(amount: f64) -> Usage {
    Usage { cost: Usd::from_dollars(amount), ..Usage::default() }
}

fn output(tokens: u64) -> Usage {
    let tokens = Some(Tokens { output: tokens, ..Tokens::default() });
    Usage { tokens, ..Usage::default() }
}

/// In the middle of its first iteration.
fn running(change: impl FnOnce(&mut RunLimits)) -> World {
    let mut options = fresh();
    change(&mut options.limits);
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: options }));
    world.observe(vec![], "t0");
    world.prepare();
    world
}

fn end(world: &mut World, outcome: IterationOutcome, usage: Usage) {
    world.feed(Input::IterationEnded(IterationEnd { usage, ..ended(outcome) }));
}

/// The provider refuses, and the workspace is observed, both at this time.
fn refused(world: &World, until_ms: Option<u64>, unix_ms: u64) -> (State, Vec<Effect>) {
    let runtime_ms = world.now.runtime_ms;
    let (state, _) =
        at(&world.state, Input::IterationEnded(ended(deferred(until_ms))), runtime_ms, unix_ms);
    at(&state, Input::Observed(observation("t0")), runtime_ms, unix_ms)
}

#[test]
fn waits_double_from_half_a_minute_to_half_an_hour() {
    let mut world = running(|limits| limits.max_wait_ms = u64::MAX);
    let minutes = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0];
    for wait in minutes {
        world.feed(Input::IterationEnded(ended(deferred(None))));
        let asked = world.observe(vec![], "t0").last().cloned();
        let wait = std::time::Duration::from_secs_f64(60.0 * wait).as_millis();
        let until = world.now.unix_ms + u64::try_from(wait).unwrap();
        assert_eq!(asked, Some(Effect::WaitUntil(until)));
        world.now.unix_ms = until;
        world.feed(Input::WaitFinished);
        world.prepare();
    }
}

#[test]
fn a_wait_may_be_as_long_as_allowed_and_no_longer() {
    let world = running(|limits| limits.max_runtime_ms = None);
    let (_, effects) = refused(&world, Some(3_601_000), 1_000);
    assert_eq!(effects.last(), Some(&Effect::WaitUntil(3_601_000)));
    let (_, effects) = refused(&world, Some(3_601_001), 1_000);
    let Some(Effect::Finish { reason, message }) = effects.last() else { panic!("{effects:?}") };
    assert_eq!(*reason, StopReason::NeedsHuman);
    assert!(message.ends_with("longer than limits.max_wait"));
}

#[test]
fn a_wait_may_last_longer_than_the_runtime_that_is_left() {
    let world = running(|limits| limits.max_runtime_ms = Some(10_000));
    let (_, effects) = refused(&world, Some(3_000_000), 1_000);
    assert_eq!(effects.last(), Some(&Effect::WaitUntil(3_000_000)));
}

#[test]
fn waits_without_a_session_that_works_are_bounded_together() {
    // Half a minute, one, two, and so on: the fifth would make it more than a quarter of an hour.
    let mut world = running(|limits| limits.max_wait_ms = 15 * 60_000);
    for _ in 0..4 {
        world.feed(Input::IterationEnded(ended(deferred(None))));
        world.observe(vec![], "t0");
        world.now.unix_ms = world.state.waiting.as_ref().unwrap().until_ms;
        world.feed(Input::WaitFinished);
        world.prepare();
    }
    let worked = {
        let mut world = world.clone();
        world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
        world.state.agent.waited_ms
    };
    assert_eq!(worked, 0);
    world.feed(Input::IterationEnded(ended(deferred(None))));
    let Some(Effect::Finish { reason, message }) = world.observe(vec![], "t0").last().cloned()
    else {
        panic!("{:?}", world.last)
    };
    assert_eq!(reason, StopReason::NeedsHuman);
    assert!(message.ends_with("the waits together would be longer than limits.max_wait"));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    assert_eq!(world.state.agent.waited_ms, 0, "who starts it again wants it to wait again");
}

#[test]
fn until_reset_waits_as_long_as_the_provider_said_but_not_for_ever() {
    let until_reset = |limits: &mut RunLimits| {
        (limits.max_wait_ms, limits.waits_until_reset) = (20_000, true);
    };
    let world = running(until_reset);
    let week = 1_000 + 7 * 24 * 3_600_000;
    let (_, effects) = refused(&world, Some(week), 1_000);
    assert_eq!(effects.last(), Some(&Effect::WaitUntil(week)));
    for unsaid in [None, Some(5 * week)] {
        let (_, effects) = refused(&world, unsaid, 1_000);
        assert!(matches!(effects.last(), Some(Effect::Finish { .. })), "{unsaid:?}: {effects:?}");
    }
}

#[test]
fn a_restart_in_a_wait_waits_for_the_rest_of_it() {
    let world = running(|_| {});
    let (state, _) = refused(&world, Some(5_000), 1_000);
    let start = Input::Started(StartOptions { fresh: fresh() });
    let (state, _) = at(&state, start, 100, 2_000);
    let observed = || Input::Observed(observation("t0"));
    let (_, effects) = at(&state, observed(), 100, 4_999);
    assert_eq!(effects.last(), Some(&Effect::WaitUntil(5_000)));
    let (_, effects) = at(&state, observed(), 100, 5_000);
    let start = prepared_of(&effects);
    assert_eq!((start.iteration, start.attempt), (1, 2));
}

#[test]
fn a_time_that_is_past_is_no_wait_unless_it_is_reported_again() {
    let mut world = running(|limits| limits.max_runtime_ms = None);
    world.now.unix_ms = 1_000_000;
    world.feed(Input::IterationEnded(ended(deferred(Some(5)))));
    let asked = world.observe(vec![], "t0").last().cloned();
    assert_eq!(asked, Some(Effect::WaitUntil(world.now.unix_ms)), "it goes on at once");
    world.feed(Input::WaitFinished);
    world.prepare();
    let (_, effects) = refused(&world, Some(world.now.unix_ms), world.now.unix_ms);
    assert_eq!(effects.last(), Some(&Effect::WaitUntil(world.now.unix_ms + 60_000)));
    let (_, effects) = refused(&world, Some(world.now.unix_ms + 1), world.now.unix_ms);
    assert_eq!(effects.last(), Some(&Effect::WaitUntil(world.now.unix_ms + 1)));
}

#[test]
fn the_last_allowed_iteration_is_done_again_when_it_was_put_off() {
    let mut world = running(|limits| limits.max_iterations = Some(1));
    let (_, effects) = refused(&world, None, 1_000);
    assert_eq!(effects.last(), Some(&Effect::WaitUntil(31_000)));
    world.feed(Input::IterationEnded(ended(deferred(Some(1)))));
    world.observe(vec![], "t0");
    world.feed(Input::WaitFinished);
    let start = prepared_of(&world.last);
    assert_eq!((start.iteration, start.attempt), (1, 2));
    world.prepare();
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    world.observe(vec![], "t1");
    assert_eq!(world.finished(), Some(StopReason::MaxIterations));
}

#[test]
fn one_estimated_figure_makes_the_sum_an_estimate() {
    for (first, second) in [(true, false), (false, true), (false, false)] {
        let mut world = running(|_| {});
        for estimated in [first, second] {
            end(&mut world, IterationOutcome::Succeeded, Usage { estimated, ..Usage::default() });
            world.observe(vec![], "t0");
            world.feed(Input::WaitFinished);
            world.prepare();
        }
        assert_eq!(world.state.budget.cost_estimated, first || second);
    }
}

#[test]
fn limits_hold_from_their_value_on() {
    let table = [
        (output(9_999), None),
        (output(10_000), Some((CancelReason::MaxTokens, StopReason::MaxTokens))),
        (dollars(0.999_999_999), None),
        (dollars(1.0), Some((CancelReason::MaxCost, StopReason::MaxCost))),
    ];
    for (usage, expected) in table {
        let mut world = running(|_| {});
        let cancelled = world.feed(Input::Usage(usage)).iter().find_map(|effect| match effect {
            Effect::Cancel(reason) => Some(*reason),
            _ => None,
        });
        assert_eq!(cancelled, expected.map(|(reason, _)| reason));
        end(&mut world, IterationOutcome::Succeeded, Usage::default());
        world.observe(vec![], "t1");
        assert_eq!(world.finished(), expected.map(|(_, reason)| reason));
    }
}

#[test]
fn the_same_figures_again_are_no_news() {
    let mut world = running(|_| {});
    assert_eq!(world.feed(Input::Usage(dollars(0.5))).len(), 1);
    assert_eq!(world.feed(Input::Usage(dollars(0.5))), []);
    assert_eq!(world.feed(Input::Usage(dollars(0.4))), []);
}

#[test]
fn runtime_is_counted_to_the_millisecond_and_never_goes_back() {
    let world = running(|limits| limits.max_runtime_ms = Some(1_000));
    let (state, effects) = at(&world.state, Input::Timer(Timer::Clock), 3, 0);
    let runtime_ms = world.now.runtime_ms;
    assert_eq!(effects, [Effect::Append(Record::Clock { runtime_ms })]);
    let (state, _) = at(&state, Input::IterationEnded(ended(IterationOutcome::Succeeded)), 900, 0);
    let (state, _) = at(&state, Input::Observed(observation("t1")), 900, 0);
    let (_, effects) = at(&state, Input::WaitFinished, 999, 0);
    assert_eq!(prepared_of(&effects).budget.time, Some(std::time::Duration::from_millis(1)));
    let (_, effects) = at(&state, Input::WaitFinished, 1_000, 0);
    let Some(Effect::Finish { reason, .. }) = effects.last() else { panic!("{effects:?}") };
    assert_eq!(*reason, StopReason::MaxRuntime);
}

#[test]
fn iterations_without_anything_new_end_the_run() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    let mut options = limits();
    options.max_stagnant = 2;
    world.state.limits = options.clone();
    world.state.controls.configured_limits = options.clone();
    if let Record::RunStarted(started) = &mut world.journal[0] {
        started.limits = options.clone();
    }
    world.state.started.as_mut().unwrap().limits = options;
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert_eq!((world.state.progress.stagnant, world.finished()), (1, None));
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert_eq!(
        (world.state.progress.stagnant, world.finished()),
        (2, Some(StopReason::Stagnation))
    );
}

#[test]
fn new_evidence_is_progress_and_refusals_do_not_count() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.iterate(IterationOutcome::Succeeded, vec![], "t0");
    assert_eq!(world.state.progress.stagnant, 1);
    world.iterate(deferred(None), vec![], "t0");
    assert_eq!(world.state.progress.stagnant, 1, "the agent did not work");
    world.now.unix_ms += 3_600_000;
    world.feed(Input::WaitFinished);
    world.prepare();
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    let evidence = evidence(&[("s1", "new")]);
    world.feed(Input::Observed(Observation { evidence, ..observation("t0") }));
    assert_eq!(
        (world.state.progress.stagnant, world.state.workspace.evidence_history.written_in["new"]),
        (0, 2)
    );
}

#[test]
fn evidence_is_distinguished_and_so_is_the_work_it_belongs_to() {
    let evidence_of = |names: &[&str]| {
        let mut world = World::started();
        let files: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
        let evidence = evidence(&files);
        world.feed(Input::Observed(Observation { evidence, ..observation("t0") }));
        world.state.workspace.evidence
    };
    assert_eq!(evidence_of(&["a", "b"]), evidence_of(&["a", "b"]));
    assert_ne!(evidence_of(&["a"]), evidence_of(&["b"]));
    assert_ne!(evidence_of(&["a"]), evidence_of(&[]));
}

#[test]
fn a_tree_counts_from_the_iteration_that_showed_it_first() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    for (tree, since) in [("t0", 0), ("a", 2), ("a", 2), ("b", 4)] {
        world.iterate(IterationOutcome::Succeeded, vec![], tree);
        assert_eq!(world.state.workspace.tree_since, since);
    }
}

#[test]
fn an_iteration_is_charged_what_it_reported_or_what_was_reserved() {
    let reserved = limits().first_reservation;
    let reported = Usd::from_nanos(500);
    let cost = Usage { cost: Some(reported), ..Usage::default() };
    let table = [
        (IterationOutcome::Succeeded, Usage::default(), Usd::ZERO),
        (IterationOutcome::Succeeded, cost, reported),
        (failed(ErrorClass::Crashed), Usage::default(), reserved),
        (failed(ErrorClass::Crashed), cost, reported),
        (IterationOutcome::Interrupted, Usage::default(), reserved),
        (IterationOutcome::Interrupted, cost, reserved),
        (IterationOutcome::AgentLimit { message: "turns".into() }, Usage::default(), Usd::ZERO),
    ];
    for (outcome, usage, charge) in table {
        let mut world = running(|_| {});
        end(&mut world, outcome.clone(), usage);
        assert_eq!(world.state.budget.cost_charged, charge, "{outcome:?} {usage:?}");
    }
}

#[test]
fn an_iteration_that_keeps_a_promised_cost_to_itself_is_charged_its_reservation() {
    let reserved = limits().first_reservation;
    let cost = Usage { cost: Some(Usd::from_nanos(500)), ..Usage::default() };
    let limit = IterationOutcome::AgentLimit { message: "turns".into() };
    for (outcome, usage, charge, warned) in [
        (IterationOutcome::Succeeded, Usage::default(), reserved, true),
        (IterationOutcome::Succeeded, output(100), reserved, true),
        (IterationOutcome::Succeeded, cost, Usd::from_nanos(500), false),
        // A failure may well come before the first figure.
        (failed(ErrorClass::Crashed), Usage::default(), reserved, false),
        (limit, Usage::default(), reserved, false),
    ] {
        let mut world = running(|_| {});
        let end = IterationEnd { usage, promises_cost: true, ..ended(outcome.clone()) };
        world.feed(Input::IterationEnded(end));
        assert_eq!(world.state.budget.cost_charged, charge, "{outcome:?} {usage:?}");
        let warning = |record: &Record| matches!(record, Record::Warning { message } if message.contains("the capability `cost`"));
        assert_eq!(world.journal.iter().any(warning), warned, "{outcome:?} {usage:?}");
    }
}

#[test]
fn sums_are_sums_and_an_estimate_stays_one() {
    let mut world = running(|_| {});
    let first = Usage { estimated: true, ..output(100) };
    end(&mut world, IterationOutcome::Succeeded, Usage { cost: dollars(0.25).cost, ..first });
    world.observe(vec![], "t1");
    assert_eq!(world.state.tokens().total(), 100);
    world.feed(Input::WaitFinished);
    world.prepare();
    world.feed(Input::Usage(Usage { cost: dollars(0.125).cost, ..output(10) }));
    assert_eq!(world.state.cost(), Usd::from_dollars(0.375).unwrap());
    assert_eq!(world.state.tokens().total(), 110);
    end(&mut world, IterationOutcome::Succeeded, Usage::default());
    assert_eq!(world.state.cost(), Usd::from_dollars(0.375).unwrap());
    assert_eq!(world.state.budget.tokens_used.total(), 110);
    assert!(world.state.budget.cost_estimated);
}

#[test]
fn a_reservation_is_the_dearest_iteration_so_far_within_what_is_left() {
    let next = |world: &mut World| {
        world.observe(vec![], "t1");
        let start = prepared_of(world.feed(Input::WaitFinished)).clone();
        (start.reservation, start.budget)
    };
    let mut world = World::started();
    let first = prepared_of(world.observe(vec![], "t0")).reservation;
    assert_eq!(first, limits().first_reservation);

    // That it has cost nothing so far says nothing of the next iteration.
    for usage in [Usage::default(), Usage { cost: Some(Usd::ZERO), ..Usage::default() }] {
        let mut cheap = running(|_| {});
        end(&mut cheap, IterationOutcome::Succeeded, usage);
        assert_eq!(next(&mut cheap).0, first, "{usage:?}");
    }
    let mut free = running(|limits| limits.first_reservation = Usd::ZERO);
    end(&mut free, IterationOutcome::Succeeded, Usage::default());
    assert_eq!(next(&mut free).0, Usd::ZERO, "it costs nothing");

    let mut dear = running(|_| {});
    let usage = Usage { cost: dollars(0.75).cost, ..output(4_000) };
    end(&mut dear, IterationOutcome::Succeeded, usage);
    let (reservation, budget) = next(&mut dear);
    let left = Usd::from_dollars(0.25).unwrap();
    assert_eq!((reservation, budget.cost, budget.tokens), (left, Some(left), Some(6_000)));
}

#[test]
fn an_iteration_knows_why_it_was_started() {
    let trigger = |world: &World| prepared_of(&world.last).trigger;
    let mut world = World::started();
    world.observe(vec![], "t0");
    assert_eq!(trigger(&world), Trigger::Initial);
    let mut after = |outcome: IterationOutcome, claims: Vec<Claim>, tree: &str| {
        world.iterate(outcome, claims.clone(), tree);
        if !claims.is_empty() {
            world.feed(Input::Validated(validation(false, tree)));
        }
        world.feed(Input::WaitFinished);
        trigger(&world)
    };
    assert_eq!(after(IterationOutcome::Succeeded, vec![], "a"), Trigger::Continued);
    assert_eq!(after(failed(ErrorClass::Crashed), vec![], "b"), Trigger::Failed);
    let claims = vec![claim(ClaimKind::Complete, ClaimSource::Message)];
    assert_eq!(after(IterationOutcome::Succeeded, claims, "c"), Trigger::Rejected);
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![], "c");
    world.feed(Input::Validated(validation(false, "c")));
    assert_eq!(trigger(&world), Trigger::Resumed);
}

#[test]
fn that_an_agent_tells_its_cost_is_not_forgotten_when_it_does_not_tell_it_once() {
    let mut world = running(|_| {});
    end(&mut world, IterationOutcome::Succeeded, dollars(0.1));
    assert!(world.state.budget.cost_reported);
    world.observe(vec![], "t1");
    world.feed(Input::WaitFinished);
    world.prepare();
    end(&mut world, IterationOutcome::Succeeded, output(5));
    assert!(world.state.budget.cost_reported);
}
