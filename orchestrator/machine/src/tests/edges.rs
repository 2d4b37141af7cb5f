//! Unexpected inputs, and the messages for what happened.

use super::*;

/// Options without a required validator.
fn trusting(trust_agent: bool) -> RunStarted {
    let mut options = fresh();
    options.policy.validators.remove(0);
    options.policy.trust_agent = trust_agent;
    options
}

fn complete() -> Claim {
    claim(ClaimKind::Complete, ClaimSource::State)
}

fn finish_of(effects: &[Effect]) -> Option<(StopReason, &str)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Finish { reason, message } => Some((*reason, message.as_str())),
        _ => None,
    })
}

fn reasons_of(effects: &[Effect]) -> Vec<String> {
    let records = effects.iter().filter_map(|effect| match effect {
        Effect::Append(Record::Validated { reasons, .. }) => Some(reasons.clone()),
        _ => None,
    });
    records.flatten().collect()
}

fn started_input() -> Input {
    Input::Started(StartOptions { fresh: fresh() })
}

fn prepared_input() -> Input {
    let start = StartIteration {
        iteration: 1,
        attempt: 1,
        trigger: Trigger::Initial,
        budget: ralph_orchestrator_contract::Budget::default(),
        reservation: Usd::ZERO,
    };
    Input::Prepared { start, prompt: "p".into(), given: LaunchDigests::default() }
}

/// Inputs that no run orders between two iterations.
fn boundary_inputs() -> Vec<Input> {
    vec![
        Input::Observed(observation("t7")),
        Input::ObservationSkipped,
        Input::Validated(validation(true, "t0")),
        Input::WaitFinished,
        prepared_input(),
    ]
}

#[test]
fn nothing_happens_before_the_start() {
    let mut inputs = boundary_inputs();
    inputs.extend([
        Input::Claimed(complete()),
        Input::Warning("w".into()),
        Input::Signal,
        Input::Timer(Timer::Clock),
        Input::Timer(Timer::Idle),
        Input::Usage(Usage::default()),
        Input::IterationEnded(ended(IterationOutcome::Succeeded)),
    ]);
    for input in inputs {
        let (state, effects) = step(State::default(), input.clone(), Now::default());
        assert_eq!((state, effects), (State::default(), Vec::new()), "{input:?}");
    }
}

#[test]
fn what_belongs_between_iterations_does_nothing_while_one_runs() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    world.feed(Input::Claimed(complete()));
    for input in boundary_inputs() {
        assert_eq!(world.feed(input.clone()), [], "{input:?}");
    }
}

#[test]
fn what_belongs_between_iterations_does_nothing_after_the_end() {
    let mut world = World::started();
    let both = vec![complete(), claim(ClaimKind::NeedsHuman, ClaimSource::Message)];
    world.observe(both, "t0");
    world.feed(Input::Validated(validation(false, "t0")));
    assert_eq!(world.finished(), Some(StopReason::NeedsHuman));
    let mut inputs = boundary_inputs();
    inputs.extend([
        Input::Claimed(complete()),
        Input::Signal,
        Input::Timer(Timer::Clock),
        Input::Timer(Timer::MaxRuntime),
    ]);
    for input in inputs {
        assert_eq!(world.feed(input.clone()), [], "{input:?}");
    }
}

#[test]
fn a_warning_is_on_record_once_there_is_a_run() {
    let warning = || Input::Warning("mind".into());
    let record = Effect::Append(Record::Warning { message: "mind".into() });
    assert_eq!(World::default().feed(warning()), []);
    assert_eq!(World::started().feed(warning()), [record]);
}

#[test]
fn a_claim_is_recorded_only_while_the_agent_runs() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    assert_eq!(world.feed(Input::Claimed(complete())), []);
    world.observe(vec![], "t0");
    world.prepare();
    world.feed(Input::Claimed(complete()));
    assert!(matches!(world.state.latch, Latch::Claimed { iteration: 1, .. }));
}

#[test]
fn a_message_is_a_claim_of_its_own_whatever_stands_in_the_file() {
    let mut world = World::started();
    world.observe(vec![complete()], "t0");
    world.feed(Input::Validated(validation(false, "t0")));
    world.prepare();
    let claimed = |effects: &[Effect]| {
        effects.iter().any(|e| matches!(e, Effect::Append(Record::Claimed { .. })))
    };
    assert!(!claimed(world.feed(Input::Claimed(complete()))), "it stood there before");
    assert!(claimed(world.feed(Input::Claimed(claim(ClaimKind::NeedsHuman, ClaimSource::State)))));
    let said = claim(ClaimKind::Complete, ClaimSource::Message);
    assert!(claimed(world.feed(Input::Claimed(said))));
}

#[test]
fn a_claim_is_withdrawn_though_another_detector_or_the_message_makes_one() {
    let others = [
        Claim { detector: "other".into(), ..complete() },
        claim(ClaimKind::Complete, ClaimSource::Message),
    ];
    for other in others {
        let mut world = World::started();
        world.observe(vec![complete()], "t0");
        world.feed(Input::Validated(validation(false, "t0")));
        world.iterate(IterationOutcome::Succeeded, vec![other.clone()], "t1");
        assert!(!world.state.claims.standing.contains_key("marker"), "{other:?}");
    }
}

#[test]
fn the_users_own_near_misses_stay_the_users_after_a_restart() {
    let miss = NearMiss {
        detector: "marker".into(),
        text: "## TASK_COMPLETE".into(),
        line: 3,
        hint: "use a box".into(),
    };
    let observed = || Observation { near_misses: vec![miss.clone()], ..observation("t0") };
    let mut world = World::started();
    world.feed(Input::Observed(observed()));
    world.feed(started_input());
    world.feed(Input::Observed(observed()));
    assert_eq!(world.state.claims.initial_near_misses, std::slice::from_ref(&miss));
    let other = Observation {
        near_misses: vec![NearMiss { detector: "other".into(), ..miss.clone() }, miss.clone()],
        ..observed()
    };
    world.prepare();
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    world.feed(Input::Observed(other));
    assert_eq!(
        world.state.claims.near_misses,
        [NearMiss { detector: "other".into(), ..miss.clone() }]
    );
}

#[test]
fn reasons_name_the_validator_and_nothing_but_what_was_wrong() {
    let named = |verdict| {
        let mut validation = validation(true, "t0");
        validation.verdicts[0].verdict = verdict;
        validation
    };
    let missing = Validation { verdicts: Vec::new(), ..validation(true, "t0") };
    let silent = named(Verdict::Rejected { reasons: Vec::new() });
    let broken = named(Verdict::Error { message: "no such program".into() });
    let table = [
        (validation(true, "t0"), None),
        (validation(false, "t0"), Some("tests: exit 1")),
        (silent, Some("tests: rejected")),
        (
            broken,
            Some(
                "tests: the check could not run, and your work may not be the cause: no such program",
            ),
        ),
        (missing, Some("tests: it did not run")),
        // A person changed something meanwhile: what was validated is what is there.
        (validation(true, "t1"), None),
        (
            Validation { tree_after: "t1".into(), ..validation(true, "t0") },
            Some(
                "the checks change the files that they check, each time they run; the user has been \
                 warned, and your work did not cause it",
            ),
        ),
    ];
    for (validation, reason) in table {
        let mut world = World::started();
        world.observe(vec![complete()], "t0");
        let effects = world.feed(Input::Validated(validation));
        let expected: Vec<String> = reason.iter().map(ToString::to_string).collect();
        assert_eq!(reasons_of(effects), expected);
        assert_eq!(finish_of(effects).is_some(), reason.is_none());
    }
}

#[test]
fn without_a_required_validator_only_trust_completes_and_says_so() {
    let validated = |options: RunStarted| {
        let now = Now::default();
        let start = Input::Started(StartOptions { fresh: options });
        let (state, _) = step(State::default(), start, now);
        let (state, _) = step(state, Input::ClaimsFound(vec![complete()]), now);
        let (state, _) = step(state, Input::Observed(observation("t0")), now);
        step(state, Input::Validated(validation(true, "t0")), now)
    };
    let (_, effects) = validated(trusting(false));
    assert_eq!(reasons_of(&effects), ["no required validator is configured"]);
    let (state, effects) = validated(trusting(true));
    assert_eq!(reasons_of(&effects), [""; 0]);
    let end = |message| Some((StopReason::Completed, message));
    assert_eq!(finish_of(&effects), end("completed WITHOUT validation"));
    let (_, effects) = step(state, started_input(), Now::default());
    assert_eq!(finish_of(&effects), end("already complete, WITHOUT validation"));
    let (state, effects) = validated(fresh());
    assert_eq!(finish_of(&effects), end("validated"));
    let (_, effects) = step(state, started_input(), Now::default());
    assert_eq!(finish_of(&effects), end("already complete"));
}

#[test]
fn once_is_one_iteration_and_no_less() {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: RunStarted { once: true, ..fresh() } }));
    world.observe(vec![], "t0");
    assert_eq!(world.finished(), None);
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert_eq!(world.finished(), Some(StopReason::Once));
}

#[test]
fn there_is_a_pause_after_an_iteration_and_none_before_the_first() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    assert!(!world.last.iter().any(|effect| matches!(effect, Effect::Pause { .. })));
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert_eq!(world.last.last(), Some(&Effect::Pause { failures: 0 }));
    let failed = IterationOutcome::Failed { class: ErrorClass::Crashed, message: "exit 1".into() };
    world.iterate(failed, vec![], "t2");
    assert_eq!(world.last.last(), Some(&Effect::Pause { failures: 1 }));
}

#[test]
fn what_no_retry_can_mend_stops_at_once() {
    let table = [
        (ErrorClass::Unauthenticated, Some(StopReason::NeedsHuman)),
        (ErrorClass::Billing, Some(StopReason::NeedsHuman)),
        (ErrorClass::NotFound, Some(StopReason::AgentUnavailable)),
        (ErrorClass::Crashed, None),
        (ErrorClass::Unavailable, None),
    ];
    for (class, end) in table {
        let mut world = World::started();
        world.observe(vec![], "t0");
        world.iterate(failed(class.clone()), vec![], "t1");
        assert_eq!(world.finished(), end, "{class:?}");
    }
}

#[test]
fn failures_in_a_row_end_the_run_by_what_they_were() {
    let cut = |timer| (IterationOutcome::Succeeded, Some(timer));
    let table = [
        ((failed(ErrorClass::Crashed), None), StopReason::Failures),
        ((failed(ErrorClass::Unavailable), None), StopReason::AgentUnavailable),
        (cut(Timer::IterationTimeout), StopReason::Failures),
        (cut(Timer::Idle), StopReason::Failures),
    ];
    for ((outcome, timer), end) in table {
        let mut world = World::started();
        world.observe(vec![], "t0");
        for n in 1..=3 {
            assert_eq!(world.finished(), None);
            if n > 1 {
                world.feed(Input::WaitFinished);
            }
            world.prepare();
            if let Some(timer) = timer {
                world.feed(Input::Timer(timer));
                world.feed(Input::IterationEnded(ended(failed(ErrorClass::Cancelled))));
            } else {
                world.feed(Input::IterationEnded(ended(outcome.clone())));
            }
            world.observe(vec![], &format!("t{n}"));
            assert_eq!(world.state.agent.failures, n);
        }
        assert_eq!(world.finished(), Some(end), "{timer:?}");
    }
}

#[test]
fn an_agent_is_cancelled_once_and_a_signal_is_noted_all_the_same() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    let cancel = |reason| {
        [Effect::Append(Record::Cancelling { reason, is_hangup: false }), Effect::Cancel(reason)]
    };
    assert_eq!(world.feed(Input::Timer(Timer::Idle)), cancel(CancelReason::Idle));
    assert_eq!(world.feed(Input::Timer(Timer::IterationTimeout)), []);
    let noted =
        [Effect::Append(Record::Cancelling { reason: CancelReason::Signal, is_hangup: false })];
    assert_eq!(world.feed(Input::Signal), noted);
    assert_eq!(world.feed(Input::Signal), []);
    assert!(world.state.process.stop_requested);
    assert_eq!(world.state.running.as_ref().unwrap().cancelling, Some(CancelReason::Idle));
    world.feed(Input::IterationEnded(ended(failed(ErrorClass::Crashed))));
    assert_eq!(
        world.state.last_outcome,
        Some(IterationOutcome::StoppedEarly { reason: CancelReason::Idle })
    );
}

#[test]
fn each_timer_cancels_for_its_own_reason_and_none_but_a_signal_stops_the_run() {
    let table = [
        (Timer::IterationTimeout, CancelReason::Timeout),
        (Timer::Idle, CancelReason::Idle),
        (Timer::MaxRuntime, CancelReason::MaxRuntime),
    ];
    for (timer, reason) in table {
        let mut world = World::started();
        world.observe(vec![], "t0");
        assert_eq!(world.feed(Input::Timer(timer)), [], "nothing runs");
        world.observe(vec![], "t0");
        world.prepare();
        assert!(world.feed(Input::Timer(timer)).contains(&Effect::Cancel(reason)));
        assert!(!world.state.process.stop_requested);
    }
}

#[test]
fn an_iteration_that_ended_well_was_not_cut_and_a_lost_one_is_lost() {
    for (outcome, kept) in [
        (IterationOutcome::Succeeded, IterationOutcome::Succeeded),
        (IterationOutcome::Interrupted, IterationOutcome::Interrupted),
    ] {
        let mut world = World::started();
        world.observe(vec![], "t0");
        world.prepare();
        world.feed(Input::Timer(Timer::Idle));
        world.feed(Input::IterationEnded(ended(outcome)));
        assert_eq!(world.state.last_outcome, Some(kept));
    }
}

#[test]
fn a_question_that_was_not_reported_yet_is_still_asked_after_a_restart() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    world.feed(Input::Signal);
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    let ask = claim(ClaimKind::NeedsHuman, ClaimSource::Message);
    world.observe(vec![ask], "t1");
    assert_eq!(world.finished(), Some(StopReason::Interrupted));
    world.feed(started_input());
    world.observe(vec![], "t1");
    assert_eq!(world.finished(), Some(StopReason::NeedsHuman));
}

#[test]
fn what_decides_is_on_disk_before_anything_follows() {
    let runtime_ms = 1;
    let barriers = [
        Record::RunStarted(fresh()),
        Record::Claimed { iteration: 0, claim: complete() },
        Record::Stopped { reason: StopReason::Once, message: "m".into(), runtime_ms },
        Record::Answered { text: "a".into(), origin: None },
    ];
    assert!(barriers.iter().all(Record::is_barrier));
    let others = [
        Record::Clock { runtime_ms },
        Record::Usage { usage: Usage::default(), runtime_ms },
        Record::Warning { message: "w".into() },
        // The start of the agent that follows is one.
        Record::Baseline {
            accepted: false,
            tree: "t".into(),
            evidence: Vec::new(),
            verdicts: Vec::new(),
            runtime_ms,
        },
    ];
    assert!(!others.iter().any(Record::is_barrier));
}

#[test]
fn a_validation_that_max_runtime_cuts_says_nothing_and_leaves_the_claim_pending() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.iterate(IterationOutcome::Succeeded, vec![complete()], "t1");
    let before = world.state.latch.clone();
    let cut = Validation { out_of_time: true, ..Validation::default() };
    let effects = world.feed(Input::Validated(cut)).to_vec();
    assert!(matches!(effects.last(), Some(Effect::Finish { reason: StopReason::MaxRuntime, .. })));
    assert_eq!((&world.state.latch, world.state.validation.rejections), (&before, 0));
    // Started again it is validated first of all, and what that says counts.
    world.feed(started_input());
    let effects = world.observe(vec![], "t1").to_vec();
    assert!(matches!(effects.last(), Some(Effect::Validate(_))));
    world.feed(Input::Validated(validation(true, "t1")));
    assert!(world.state.completion().is_some());
}

#[test]
fn an_observation_that_max_runtime_stops_validates_nothing_and_keeps_what_was_claimed() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    world.feed(Input::ClaimsFound(vec![complete()]));
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    let effects = world.feed(Input::ObservationSkipped).to_vec();
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Validate(_))));
    assert!(matches!(effects.last(), Some(Effect::Finish { reason: StopReason::MaxRuntime, .. })));
    assert!(matches!(world.state.latch, Latch::Claimed { .. }));
}

#[test]
fn a_limit_is_compared_with_what_is_not_recorded_yet() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    let cost = |dollars| Usage { cost: Usd::from_dollars(dollars), ..Usage::default() };
    assert_eq!(world.state.limit_reached_by(cost(0.99)), None);
    assert_eq!(world.state.limit_reached_by(cost(1.0)), Some(CancelReason::MaxCost));
}
