//! Runs from their start to their end.

use super::*;

#[test]
fn a_claim_before_the_first_iteration_is_validated_and_needs_no_agent() {
    let mut world = World::started();
    world.observe(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0");
    world.feed(Input::Validated(validation(true, "t0")));
    assert_eq!(world.finished(), Some(StopReason::Completed));
    assert_eq!(world.state.iterations, 0);
}

#[test]
fn completion_in_the_last_allowed_iteration_wins_over_the_limit() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    for n in 1..5 {
        world.iterate(IterationOutcome::Succeeded, vec![], &format!("t{n}"));
        assert_eq!(world.finished(), None);
    }
    world.iterate(
        IterationOutcome::Succeeded,
        vec![claim(ClaimKind::Complete, ClaimSource::Message)],
        "t5",
    );
    assert_eq!(world.finished(), None, "first the validators");
    world.feed(Input::Validated(validation(true, "t5")));
    assert_eq!(world.finished(), Some(StopReason::Completed));
}

#[test]
fn a_rejected_claim_stays_pending_and_the_same_work_is_rejected_only_so_often() {
    let mut world = World::started();
    world.observe(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0");
    world.feed(Input::Validated(validation(false, "t0")));
    for _ in 0..2 {
        assert_eq!(world.finished(), None);
        world.iterate(IterationOutcome::Succeeded, vec![], "t0");
        assert!(world.last.iter().any(|effect| matches!(effect, Effect::Validate(_))));
        world.feed(Input::Validated(validation(false, "t0")));
    }
    assert_eq!(world.finished(), Some(StopReason::Thrashing));
}

#[test]
fn a_changed_tree_is_another_piece_of_work() {
    let mut world = World::started();
    world.observe(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0");
    for n in 1..5 {
        world.feed(Input::Validated(validation(false, &world.state.workspace.tree.clone())));
        assert_eq!(world.finished(), None);
        world.iterate(IterationOutcome::Succeeded, vec![], &format!("t{n}"));
    }
    world.feed(Input::Validated(validation(false, "t4")));
    assert_eq!(world.state.rejected_in_a_row(), 1);
}

#[test]
fn trees_that_alternate_are_no_progress() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    for n in 1..=4 {
        world.iterate(IterationOutcome::Succeeded, vec![], if n % 2 == 0 { "a" } else { "b" });
    }
    assert_eq!(world.state.progress.stagnant, 2, "b and a were new once each");
}

#[test]
fn tree_changed_during_validation_rejects() {
    let mut world = World::started();
    world.observe(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0");
    let mut changed = validation(true, "t0");
    changed.tree_after = "t1".into();
    world.feed(Input::Validated(changed));
    assert!(world.state.completion().is_none());
    assert!(
        world.state.validation.rejection.as_ref().unwrap().reasons[0]
            .contains("change the files that they check")
    );
}

#[test]
fn human_is_asked_only_if_the_completion_does_not_stand() {
    let both = vec![
        claim(ClaimKind::Complete, ClaimSource::Message),
        claim(ClaimKind::NeedsHuman, ClaimSource::Message),
    ];
    for (good, end) in [(true, StopReason::Completed), (false, StopReason::NeedsHuman)] {
        let mut world = World::started();
        world.observe(vec![], "t0");
        world.iterate(IterationOutcome::Succeeded, both.clone(), "t1");
        world.feed(Input::Validated(validation(good, "t1")));
        assert_eq!(world.finished(), Some(end));
    }
}

#[test]
fn an_open_question_starts_no_iteration_until_it_is_answered() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    let ask = claim(ClaimKind::NeedsHuman, ClaimSource::Message);
    let question = ask.text.clone();
    world.iterate(IterationOutcome::Succeeded, vec![ask], "t1");
    for _ in 0..2 {
        assert_eq!(world.finished(), Some(StopReason::NeedsHuman));
        assert_eq!(world.state.resume_blocker(), Some(ResumeBlocker::Question(question.clone())));
        world.feed(Input::Started(StartOptions { fresh: fresh() }));
        world.observe(vec![], "t1");
    }
    assert_eq!((world.finished(), world.state.iterations), (Some(StopReason::NeedsHuman), 1));
    let answered = Record::Answered { text: "blue".into(), origin: None };
    world.state.apply(&answered);
    world.journal.push(answered);
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![], "t1");
    world.prepare();
    let answer = |delivered_in, is_seen| {
        let (question, text) = (Some(question.clone()), "blue".into());
        [Answer { question, text, origin: None, delivered_in, is_seen }]
    };
    assert_eq!(world.state.iterations, 2);
    assert_eq!(world.state.answers, answer(Some(2), false));
    // It is told until an iteration has ended well.
    let failed = IterationOutcome::Failed { class: ErrorClass::Crashed, message: "m".into() };
    world.feed(Input::IterationEnded(ended(failed)));
    assert_eq!(world.state.answers, answer(Some(2), false));
    world.observe(vec![], "t1");
    world.feed(Input::WaitFinished);
    world.iterate(IterationOutcome::Succeeded, vec![], "t2");
    assert_eq!(world.state.answers, answer(Some(3), true));
    assert_eq!(world.state.open_answers().count(), 0);
}

#[test]
fn stagnation_is_counted_anew_by_whoever_starts_the_run_again() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    while world.finished().is_none() {
        world.iterate(IterationOutcome::Succeeded, vec![], "t0");
    }
    assert_eq!(world.finished(), Some(StopReason::Stagnation));
    assert_eq!(world.state.resume_blocker(), Some(ResumeBlocker::Stagnation));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    assert_eq!((world.state.progress.stagnant, world.state.progress.stagnant_iterations), (0, 0));
    world.observe(vec![], "t0");
    world.prepare();
}

#[test]
fn a_lost_iteration_is_charged_its_reservation_at_least() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    let usage = Usage { cost: Some(Usd::from_nanos(500)), ..Usage::default() };
    world.feed(Input::Usage(usage));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    assert_eq!(world.state.budget.cost_charged, limits().first_reservation);
    assert_eq!(world.state.agent.failures, 0);
}

#[test]
fn refusals_by_the_provider_are_no_iterations_and_no_failures() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    let class = ErrorClass::Overloaded;
    let deferred = IterationOutcome::Deferred { class, message: "529".into() };
    for attempt in 1..=4 {
        world.iterate(deferred.clone(), vec![], "t0");
        assert!(world.last.iter().any(|effect| matches!(effect, Effect::WaitUntil(_))));
        assert_eq!((world.state.iterations, world.state.agent.failures), (1, 0));
        assert_eq!(world.state.agent.deferrals, attempt);
        world.now.unix_ms += 3_600_000;
    }
}

/// An agent could say of each of its sessions that the provider refuses further requests.
#[test]
fn a_session_that_worked_before_it_was_refused_has_used_its_iteration() {
    for (tool_calls, tree, iteration) in [(Some(0), "t0", 1), (Some(1), "t0", 2), (None, "t1", 2)] {
        for max_iterations in [1, 2] {
            let mut options = fresh();
            options.limits.max_iterations = Some(max_iterations);
            let mut world = World::default();
            world.feed(Input::Started(StartOptions { fresh: options }));
            world.observe(vec![], "t0");
            world.prepare();
            let until = Some(world.now.unix_ms + 1_000);
            let end = IterationEnd { tool_calls, ..ended(deferred(until)) };
            world.end(end, vec![], observation(tree));
            if iteration > max_iterations {
                assert_eq!(world.finished(), Some(StopReason::MaxIterations));
                continue;
            }
            assert!(world.last.iter().any(|effect| matches!(effect, Effect::WaitUntil(_))));
            world.feed(Input::WaitFinished);
            world.prepare();
            assert_eq!(world.state.iterations, iteration, "{tool_calls:?} {tree}");
        }
    }
}

#[test]
fn what_people_change_after_a_refused_session_is_no_work_of_its_agent() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.iterate(deferred(Some(100_000)), vec![], "t0");
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.now.unix_ms = 200_000;
    world.observe(vec![], "t1");
    world.prepare();
    assert_eq!((world.state.iterations, world.state.attempt), (1, 2));
}

#[test]
fn an_agent_that_took_over_from_one_that_worked_begins_the_next_iteration() {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: with_fallback() }));
    world.observe(vec![], "t0");
    world.iterate(failed(ErrorClass::Unavailable), vec![], "t1");
    world.feed(Input::WaitFinished);
    world.prepare();
    assert_eq!((world.state.iterations, world.state.attempt), (2, 1));
}

#[test]
fn refusals_that_never_end_are_tried_again_later_each_time_whatever_the_provider_says() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    let mut waits = Vec::new();
    for _ in 0..8 {
        world.iterate(deferred(Some(world.now.unix_ms + 1_000)), vec![], "t0");
        let wait = world.last.iter().find_map(|effect| match effect {
            Effect::WaitUntil(until) => Some(until.saturating_sub(world.now.unix_ms) / 1_000),
            _ => None,
        });
        waits.push(wait.unwrap());
        world.now.unix_ms += 3_600_000;
    }
    assert_eq!(waits, [0, 0, 0, 0, 0, 30, 60, 120]);
}

#[test]
fn a_wait_that_is_too_long_needs_a_human() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.iterate(deferred(Some(10_000_000_000)), vec![], "t0");
    assert_eq!(world.finished(), Some(StopReason::NeedsHuman));
}

#[test]
fn an_agent_that_is_not_logged_in_needs_a_human_and_is_tried_again_after_a_restart() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    let failed =
        IterationOutcome::Failed { class: ErrorClass::Unauthenticated, message: "log in".into() };
    world.iterate(failed, vec![], "t0");
    assert_eq!(world.finished(), Some(StopReason::NeedsHuman));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![], "t0");
    world.prepare();
}

#[test]
fn cost_that_reaches_the_limit_cuts_the_iteration_once() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    let dollars = |d| Usage { cost: Usd::from_dollars(d), ..Usage::default() };
    world.feed(Input::Usage(dollars(0.9)));
    assert!(!world.last.contains(&Effect::Cancel(CancelReason::MaxCost)));
    world.feed(Input::Usage(dollars(1.0)));
    assert!(world.last.contains(&Effect::Cancel(CancelReason::MaxCost)));
    world.feed(Input::Usage(dollars(1.1)));
    assert!(!world.last.contains(&Effect::Cancel(CancelReason::MaxCost)));
    world.feed(Input::IterationEnded(ended(IterationOutcome::Failed {
        class: ErrorClass::Cancelled,
        message: String::new(),
    })));
    world.observe(vec![], "t0");
    assert_eq!(world.finished(), Some(StopReason::MaxCost));
    assert_eq!(world.state.agent.failures, 0);
}

#[test]
fn reclaim_needs_a_new_claim_and_a_marker_that_stands_is_none() {
    let mut world = World::default();
    let mut options = fresh();
    options.policy.after_rejection = AfterRejection::RequireNewClaim;
    let standing = || vec![claim(ClaimKind::Complete, ClaimSource::State)];
    let (state, effects) =
        step(State::default(), Input::Started(StartOptions { fresh: options }), Now::default());
    world.state = state;
    let mut inputs = vec![
        Input::ClaimsFound(standing()),
        Input::Observed(observation("t0")),
        Input::Validated(validation(false, "t0")),
    ];
    drop(effects);
    for input in inputs.drain(..) {
        (world.state, world.last) = step(world.state.clone(), input, world.now);
    }
    assert_eq!(world.state.latch, Latch::Open);
    let mut again = |claims: Vec<Claim>| {
        let (state, _) = step(world.state.clone(), Input::ClaimsFound(claims), world.now);
        let (state, effects) = step(state, Input::Observed(observation("t0")), world.now);
        world.state = state;
        effects.iter().any(|effect| matches!(effect, Effect::Validate(_)))
    };
    assert!(!again(standing()), "it stood there before");
    assert!(!again(vec![]));
    assert!(again(standing()), "removed and made again");
}

#[test]
fn a_signal_lets_the_claim_be_seen_but_starts_no_validation() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    world.feed(Input::Signal);
    assert!(world.last.contains(&Effect::Cancel(CancelReason::Signal)));
    world.feed(Input::IterationEnded(ended(IterationOutcome::Failed {
        class: ErrorClass::Cancelled,
        message: String::new(),
    })));
    world.observe(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t1");
    assert_eq!(world.finished(), Some(StopReason::Interrupted));
    assert!(matches!(world.state.latch, Latch::Claimed { .. }));
}

#[test]
fn what_was_nearly_a_claim_before_the_run_is_not_held_against_the_agent() {
    let miss = |text: &str, line| NearMiss {
        detector: "marker".into(),
        text: text.into(),
        line,
        hint: "use a box".into(),
    };
    let mut world = World::started();
    let mut first = observation("t0");
    first.near_misses = vec![miss("## TASK_COMPLETE", 3)];
    world.feed(Input::Observed(first));
    assert!(world.state.claims.near_misses.is_empty());
    world.prepare();
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    let mut second = observation("t1");
    second.near_misses = vec![miss("## TASK_COMPLETE", 4), miss("- TASK_COMPLETE", 9)];
    world.feed(Input::Observed(second));
    assert_eq!(world.state.claims.near_misses, [miss("- TASK_COMPLETE", 9)]);
}

#[test]
fn a_restart_does_not_make_rejected_work_worse() {
    let mut world = World::started();
    world.observe(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0");
    for _ in 0..10 {
        world.feed(Input::Validated(validation(false, "t0")));
        assert_eq!(world.finished(), None, "nobody has worked on it");
        world.prepare();
        world.feed(Input::Started(StartOptions { fresh: fresh() }));
        world.observe(Vec::new(), "t0");
        if world.state.iterations == 5 {
            break;
        }
    }
    assert_eq!(world.state.rejected_in_a_row(), 1);
}

/// A run that is the initializer's alone ends with its products, and does so again after a kill.
#[test]
fn a_run_of_the_initializer_alone_ends_once_the_products_are_there() {
    let limits =
        RunLimits { max_initializer_attempts: Some(2), ends_initialized: true, ..limits() };
    let options =
        || Input::Started(StartOptions { fresh: RunStarted { limits: limits.clone(), ..fresh() } });
    let observed = |missing: &[&str]| Observation {
        missing_products: Some(missing.iter().map(|text| (*text).to_owned()).collect()),
        ..observation("t1")
    };
    let mut world = World::default();
    world.feed(options());
    world.feed(Input::ClaimsFound(Vec::new()));
    world.feed(Input::Observed(observed(&["list: does not exist"])));
    world.prepare();
    world.end(ended(IterationOutcome::Succeeded), vec![], observed(&[]));
    assert_eq!(world.finished(), Some(StopReason::Initialized));
    world.feed(options());
    world.feed(Input::Observed(observation("t1")));
    assert_eq!(world.finished(), Some(StopReason::Initialized));
    assert_eq!(world.state.iterations, 1, "nothing is started again");
}
