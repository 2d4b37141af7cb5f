//! `completion.when = "proved"`: no claim is needed.

use super::*;

fn world() -> World {
    let mut fresh = fresh();
    fresh.policy.when = CompletionTrigger::Proved;
    fresh.limits.max_stagnant = 3;
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh }));
    world.observe(vec![], "t0");
    world
}

fn validates(world: &World) -> bool {
    world.last.iter().any(|effect| matches!(effect, Effect::Validate(_)))
}

#[test]
fn nothing_is_validated_before_there_is_any_work() {
    assert!(!validates(&world()));
}

#[test]
fn an_iteration_that_changed_something_is_validated() {
    let mut world = world();
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert!(validates(&world));
    world.feed(Input::Validated(validation(true, "t1")));
    assert_eq!(world.finished(), Some(StopReason::Completed));
    assert!(world.state.completion().unwrap().claim.is_automatic());
}

#[test]
fn an_iteration_that_changed_nothing_is_not_validated() {
    let mut world = world();
    world.iterate(IterationOutcome::Succeeded, vec![], "t0");
    assert!(!validates(&world));
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    world.feed(Input::Validated(validation(false, "t1")));
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert!(!validates(&world), "it is known what the checks say of this work");
    world.iterate(IterationOutcome::Succeeded, vec![], "t2");
    assert!(validates(&world));
}

#[test]
fn a_failed_iteration_that_changed_something_is_validated_too() {
    let mut world = world();
    let failed = IterationOutcome::Failed { class: ErrorClass::Crashed, message: "exit 1".into() };
    world.iterate(failed, vec![], "t1");
    assert!(validates(&world));
}

#[test]
fn validators_that_could_not_check_are_asked_again() {
    let mut world = world();
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    let mut broken = validation(false, "t1");
    broken.verdicts[0].verdict = Verdict::Error { message: "no such program".into() };
    world.feed(Input::Validated(broken));
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert!(validates(&world));
}

#[test]
fn a_claim_of_the_agent_is_validated_at_once() {
    let mut world = world();
    let claims = vec![claim(ClaimKind::Complete, ClaimSource::Message)];
    world.iterate(IterationOutcome::Succeeded, claims, "t0");
    assert!(validates(&world));
}

#[test]
fn the_same_rejection_for_ever_ends_the_run() {
    let mut world = world();
    for n in 1..=4 {
        assert_eq!(world.finished(), None);
        world.iterate(IterationOutcome::Succeeded, vec![], &format!("t{n}"));
        world.feed(Input::Validated(validation(false, &format!("t{n}"))));
    }
    assert_eq!(world.finished(), Some(StopReason::Thrashing));
    assert_eq!(world.state.claims.stats.claims, 0, "nobody claimed anything");
}

#[test]
fn a_kill_between_observation_and_validation_loses_nothing() {
    let mut world = world();
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    for cut in 0..=world.journal.len() {
        let journal = &world.journal[..cut];
        let mut again =
            World { state: State::fold(journal), journal: journal.to_vec(), ..World::default() };
        let mut fresh = fresh();
        fresh.policy.when = CompletionTrigger::Proved;
        again.feed(Input::Started(StartOptions { fresh }));
        let observed = journal.iter().any(|r| matches!(r, Record::IterationEnded { .. }));
        again.observe(vec![], "t1");
        assert_eq!(validates(&again), again.state.iterations > 0 || observed, "cut at {cut}");
    }
}
