//! What is progress and what is not, and the stop of a run without any.

use super::*;

/// Enough room to see what `max_stagnant` (4) does.
fn roomy() -> World {
    let mut options = fresh();
    options.limits.max_iterations = None;
    started_with(options)
}

fn started_with(options: RunStarted) -> World {
    let (state, effects) =
        step(State::default(), Input::Started(StartOptions { fresh: options }), Now::default());
    let journal = effects.iter().filter_map(|effect| match effect {
        Effect::Append(record) => Some(record.clone()),
        _ => None,
    });
    World { state, journal: journal.collect(), ..World::default() }
}

fn marker() -> Vec<Claim> {
    vec![claim(ClaimKind::Complete, ClaimSource::State)]
}

fn rejected(tree: &str, reason: &str) -> Input {
    let mut validation = validation(false, tree);
    validation.verdicts[0].verdict = Verdict::rejected(reason);
    Input::Validated(validation)
}

fn message(world: &World) -> String {
    let message = world.last.iter().find_map(|effect| match effect {
        Effect::Finish { message, .. } => Some(message.clone()),
        _ => None,
    });
    message.expect("the run is over")
}

/// Iterations until the run ends, at most 50. Each leaves another tree.
fn run_until_the_end(mut world: World, mut each: impl FnMut(&mut World, u64)) -> World {
    for n in 1..=50 {
        if world.finished().is_some() {
            break;
        }
        // `World` keeps to five iterations; here it does not matter.
        world.state.iterations = 0;
        world.journal.retain(|record| !matches!(record, Record::IterationStarted { .. }));
        each(&mut world, n);
    }
    world
}

/// Feeds without the checks of `World`, which count iterations.
fn feed(world: &mut World, input: Input) {
    let (state, effects) = step(world.state.clone(), input, world.now);
    (world.state, world.last) = (state, effects);
}

fn iterate(world: &mut World, claims: Vec<Claim>, ended: IterationEnd, observation: Observation) {
    if world.last.iter().any(|effect| matches!(effect, Effect::Pause { .. })) {
        feed(world, Input::WaitFinished);
    }
    let start = world.last.iter().find_map(|effect| match effect {
        Effect::Prepare(start) => Some(start.clone()),
        _ => None,
    });
    let start = start.expect("an iteration is prepared");
    feed(world, Input::Prepared { start, prompt: "p".into(), given: LaunchDigests::default() });
    feed(world, Input::ClaimsFound(claims));
    feed(world, Input::IterationEnded(ended));
    feed(world, Input::Observed(observation));
}

fn begun(world: &mut World) {
    feed(world, Input::ClaimsFound(Vec::new()));
    feed(world, Input::Observed(observation("t0")));
}

#[test]
fn another_tree_is_no_progress_while_the_same_verdict_rejects() {
    let mut world = roomy();
    begun(&mut world);
    let world = run_until_the_end(world, |world, n| {
        let tree = format!("t{n}");
        iterate(world, marker(), ended(IterationOutcome::Succeeded), observation(&tree));
        feed(world, rejected(&tree, &format!("3 failed in 0.{n}1s")));
    });
    assert_eq!(world.state.iterations_seen(), 5, "the first verdict is new, four more are not");
    let (reason, text) = (end(&world), message(&world));
    assert_eq!(reason, StopReason::Thrashing);
    assert!(text.contains("claimed 1×, rejected 5×, always: 3 failed in 0"), "{text}");
}

#[test]
fn a_claim_made_anew_each_time_is_no_progress_either() {
    for after_rejection in [AfterRejection::Keep, AfterRejection::RequireNewClaim] {
        let mut options = fresh();
        options.limits.max_iterations = None;
        options.policy.after_rejection = after_rejection;
        let mut world = started_with(options);
        begun(&mut world);
        let world = run_until_the_end(world, |world, n| {
            let tree = format!("t{n}");
            // The marker comes and goes.
            let claims = if n % 2 == 1 { marker() } else { Vec::new() };
            iterate(world, claims, ended(IterationOutcome::Succeeded), observation(&tree));
            if world.last.iter().any(|effect| matches!(effect, Effect::Validate(_))) {
                feed(world, rejected(&tree, "3 failed"));
            }
        });
        assert_eq!(end(&world), StopReason::Thrashing, "{after_rejection:?}");
        assert_eq!(world.state.iterations_seen(), 5);
    }
}

#[test]
fn another_verdict_is_progress_and_one_seen_before_is_not() {
    let mut world = roomy();
    begun(&mut world);
    let world = run_until_the_end(world, |world, n| {
        let tree = format!("t{n}");
        iterate(world, marker(), ended(IterationOutcome::Succeeded), observation(&tree));
        // It gets better for a while, then two verdicts alternate.
        let failed = if n <= 6 { 12 - n } else { 6 + n % 2 };
        feed(world, rejected(&tree, &format!("{failed} failed")));
    });
    assert_eq!(end(&world), StopReason::Thrashing);
    assert_eq!(world.state.iterations_seen(), 10, "six new verdicts, then four that were seen");
    assert!(message(&world).contains("mostly ("), "{}", message(&world));
}

#[test]
fn new_evidence_is_progress_while_a_claim_is_pending() {
    let mut world = roomy();
    begun(&mut world);
    for n in 1..=20_u64 {
        world.state.iterations = 0;
        let (stamp, digest) = (format!("s{n}"), format!("content {n}"));
        let evidence = evidence(&[(&stamp, &digest)]);
        iterate(
            &mut world,
            marker(),
            ended(IterationOutcome::Succeeded),
            Observation { evidence, ..observation(&format!("t{n}")) },
        );
        feed(&mut world, rejected(&format!("t{n}"), "3 failed"));
        assert_eq!(world.finished(), None);
        assert_eq!(world.state.progress.stagnant, 0);
    }
}

#[test]
fn lines_in_another_order_are_the_same_verdict() {
    let mut world = roomy();
    begun(&mut world);
    let world = run_until_the_end(world, |world, n| {
        let tree = format!("t{n}");
        iterate(world, marker(), ended(IterationOutcome::Succeeded), observation(&tree));
        let reason = if n % 2 == 0 { "a failed\nb failed" } else { "b failed\na failed" };
        feed(world, rejected(&tree, reason));
    });
    assert_eq!(world.state.iterations_seen(), 5);
}

#[test]
fn prose_that_says_all_is_done_ends_the_run_though_the_tree_changes() {
    let mut world = roomy();
    begun(&mut world);
    let world = run_until_the_end(world, |world, n| {
        let ended = IterationEnd {
            says_done: true,
            says_all_done: true,
            ..ended(IterationOutcome::Succeeded)
        };
        iterate(world, Vec::new(), ended, observation(&format!("t{n}")));
    });
    assert_eq!(end(&world), StopReason::Stagnation);
    assert_eq!(world.state.iterations_seen(), 4);
    assert!(message(&world).contains("claimed nothing"), "{}", message(&world));
}

#[test]
fn prose_about_a_part_of_the_work_does_not() {
    let mut world = roomy();
    begun(&mut world);
    for n in 1..=20_u64 {
        world.state.iterations = 0;
        let part = IterationEnd { says_done: true, ..ended(IterationOutcome::Succeeded) };
        iterate(&mut world, Vec::new(), part, observation(&format!("t{n}")));
        assert_eq!(world.finished(), None);
    }
}

#[test]
fn an_idle_iteration_counts_for_three() {
    let idle = IterationEnd { tool_calls: Some(0), ..ended(IterationOutcome::Succeeded) };
    let busy = IterationEnd { tool_calls: Some(1), ..ended(IterationOutcome::Succeeded) };
    let unknown = IterationEnd { tool_calls: None, ..ended(IterationOutcome::Succeeded) };
    for (how, iterations) in [(idle, 2), (busy, 4), (unknown, 4)] {
        let mut world = roomy();
        begun(&mut world);
        let world = run_until_the_end(world, |world, _| {
            iterate(world, vec![], how.clone(), observation("t0"));
        });
        assert_eq!(end(&world), StopReason::Stagnation);
        assert_eq!(world.state.iterations_seen(), iterations, "{how:?}");
        assert!(message(&world).starts_with(&format!("{iterations} iterations in a row")));
    }
}

#[test]
fn a_failed_iteration_counts_for_one() {
    let failed = IterationOutcome::Failed { class: ErrorClass::Crashed, message: "m".into() };
    let failed = IterationEnd { tool_calls: Some(0), ..ended(failed) };
    let mut world = roomy();
    begun(&mut world);
    iterate(&mut world, vec![], failed, observation("t0"));
    assert_eq!(world.state.progress.stagnant, 1, "its failure is counted apart");
}

#[test]
fn a_tree_seen_before_is_no_progress_but_not_idle() {
    let idle = || IterationEnd { tool_calls: Some(0), ..ended(IterationOutcome::Succeeded) };
    let mut world = roomy();
    begun(&mut world);
    iterate(&mut world, vec![], idle(), observation("t1"));
    iterate(&mut world, vec![], idle(), observation("t0"));
    assert_eq!(world.state.progress.stagnant, 1, "something changed the tree back");
}

#[test]
fn a_validator_that_cannot_check_is_the_users_to_mend() {
    let mut world = roomy();
    begun(&mut world);
    let world = run_until_the_end(world, |world, n| {
        iterate(world, marker(), ended(IterationOutcome::Succeeded), observation(&format!("t{n}")));
        let mut validation = validation(false, &format!("t{n}"));
        validation.verdicts[0].verdict = Verdict::Error { message: "no such program".into() };
        feed(world, Input::Validated(validation));
        let warned = world.last.iter().any(
            |effect| matches!(effect, Effect::Append(Record::Warning { message }) if message.contains("`tests`")),
        );
        assert!(warned, "the user hears of it at once");
    });
    assert_eq!(end(&world), StopReason::NeedsHuman);
    assert_eq!(world.state.iterations_seen(), 3);
    let text = message(&world);
    assert!(text.contains("`tests`") && text.contains("no such program"), "{text}");

    // Whoever starts the run again has mended it, or is told again.
    let mut world = world;
    feed(&mut world, Input::Started(StartOptions { fresh: fresh() }));
    assert!(world.state.validation.errors_in_a_row.is_empty());
}

/// An error says nothing of the work, also after the run is resumed.
#[test]
fn errors_of_a_validator_are_no_rejections_of_the_same_work() {
    let no_verdict = |world: &mut World| {
        let mut validation = validation(false, "t1");
        validation.verdicts[0].verdict = Verdict::Error { message: "no such program".into() };
        feed(world, Input::Validated(validation));
    };
    let mut world = roomy();
    begun(&mut world);
    for start in 0..2 {
        if start > 0 {
            feed(&mut world, Input::Started(StartOptions { fresh: fresh() }));
            feed(&mut world, Input::ClaimsFound(Vec::new()));
            feed(&mut world, Input::Observed(observation("t1")));
            no_verdict(&mut world);
        }
        world = run_until_the_end(world, |world, _| {
            iterate(world, marker(), ended(IterationOutcome::Succeeded), observation("t1"));
            no_verdict(world);
        });
        assert_eq!(end(&world), StopReason::NeedsHuman, "start {start}");
    }
    assert_eq!(world.state.rejected_in_a_row(), 1);
}

#[test]
fn a_verdict_in_between_begins_the_count_of_errors_anew() {
    let mut world = roomy();
    begun(&mut world);
    for n in 1..=9_u64 {
        world.state.iterations = 0;
        iterate(
            &mut world,
            marker(),
            ended(IterationOutcome::Succeeded),
            observation(&format!("t{n}")),
        );
        let mut validation = validation(false, &format!("t{n}"));
        validation.verdicts[0].verdict = if n % 3 == 0 {
            Verdict::rejected(format!("{n} failed"))
        } else {
            Verdict::Error { message: "it did not end within 1 s".into() }
        };
        feed(&mut world, Input::Validated(validation));
        assert_ne!(world.finished(), Some(StopReason::NeedsHuman), "{n}");
        if world.finished().is_some() {
            break;
        }
    }
}

#[test]
fn evidence_written_again_with_the_same_bytes_is_as_new_as_the_work() {
    let mut world = roomy();
    begun(&mut world);
    let written =
        |world: &World| world.state.workspace.evidence_history.written_in.get("report").copied();
    let at = |stamp| evidence(&[("s0", "old"), (stamp, "report")]);
    for (n, stamp, expected) in [(1, "s1", 1), (2, "s1", 1), (3, "s2", 3)] {
        let observed = Observation { evidence: at(stamp), ..observation(&format!("t{n}")) };
        iterate(&mut world, vec![], ended(IterationOutcome::Succeeded), observed);
        assert_eq!(written(&world), Some(expected), "{n}");
    }
}

#[test]
fn evidence_from_before_the_run_stays_old() {
    let mut world = roomy();
    begun(&mut world);
    // Touched, renamed, copied: another stamp each time, the same content.
    for (n, stamp) in [(1, "s1"), (2, "s2")] {
        let evidence = evidence(&[("s0", "old"), (stamp, "old")]);
        let observed = Observation { evidence, ..observation(&format!("t{n}")) };
        iterate(&mut world, vec![], ended(IterationOutcome::Succeeded), observed);
        assert_eq!(world.state.workspace.evidence_history.written_in["old"], 0);
    }
}

#[test]
fn what_is_not_listed_may_be_old() {
    let mut options = fresh();
    options.evidence_overflowed = true;
    let mut world = started_with(options);
    begun(&mut world);
    let found = Observation { evidence: evidence(&[("s1", "turned up")]), ..observation("t1") };
    iterate(&mut world, vec![], ended(IterationOutcome::Succeeded), found);
    assert_eq!(world.state.workspace.evidence_history.written_in["turned up"], 0);
    assert!(!world.state.workspace.evidence_history.is_complete());

    let mut world = roomy();
    begun(&mut world);
    assert!(world.state.workspace.evidence_history.is_complete());
    let evidence = ObservedEvidence { overflowed: true, ..evidence(&[("s1", "new")]) };
    iterate(
        &mut world,
        vec![],
        ended(IterationOutcome::Succeeded),
        Observation { evidence, ..observation("t1") },
    );
    assert_eq!(world.state.workspace.evidence_history.written_in["new"], 1);
    assert!(!world.state.workspace.evidence_history.is_complete());
}

/// How the run ended.
fn end(world: &World) -> StopReason {
    world.finished().expect("the run is over")
}

impl State {
    /// How many iterations ended since the start.
    fn iterations_seen(&self) -> u32 {
        self.process.iterations_ended
    }
}

#[test]
fn what_somebody_interrupted_says_nothing_of_progress() {
    let mut options = fresh();
    options.limits.max_stagnant = 1;
    options.limits.max_rejections = 2;
    let mut world = started_with(options.clone());
    world.observe(vec![], "t0");
    for iteration in 1..=3 {
        let stopped = IterationOutcome::StoppedEarly { reason: CancelReason::Signal };
        world.prepare();
        world.feed(Input::Signal);
        world.feed(Input::IterationEnded(ended(stopped)));
        world.observe(vec![], "t0");
        assert_eq!(world.finished(), Some(StopReason::Interrupted));
        world.feed(Input::Started(StartOptions { fresh: options.clone() }));
        world.observe(vec![], "t0");
        assert_eq!((world.state.progress.stagnant, world.state.iterations), (0, iteration));
    }
    world.iterate(IterationOutcome::Succeeded, vec![], "t0");
    assert_eq!(world.finished(), Some(StopReason::Stagnation));
}
