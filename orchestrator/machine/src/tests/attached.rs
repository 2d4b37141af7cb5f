//! A run that is attached to a session: its first start begins it, and each later one is one iteration.

use super::*;

fn attached() -> RunStarted {
    RunStarted { attached: true, once: true, ..fresh() }
}

impl World {
    /// The session stops: the run is started again.
    fn stop_session(&mut self) {
        self.feed(Input::Started(StartOptions { fresh: attached() }));
    }
}

fn begun() -> World {
    let mut world = World::default();
    world.stop_session();
    world.observe(vec![], "t0");
    world
}

fn claims() -> Vec<Claim> {
    vec![claim(ClaimKind::Complete, ClaimSource::Message)]
}

fn validates(world: &World) -> bool {
    world.last.iter().any(|effect| matches!(effect, Effect::Validate(_)))
}

#[test]
fn the_first_start_only_begins_it() {
    let world = begun();
    assert_eq!((world.finished(), world.state.iterations), (Some(StopReason::Once), 0));
    assert!(world.state.started.is_some(), "what the work is compared with is recorded");
}

#[test]
fn each_stop_is_an_iteration_whose_work_is_validated_once() {
    let mut world = begun();
    for (stop, tree) in [(1, "t1"), (2, "t1"), (3, "t2")] {
        world.stop_session();
        world.observe(vec![], tree);
        assert!(!validates(&world), "a claim of before is about other work");
        world.iterate(IterationOutcome::Succeeded, claims(), tree);
        assert!(validates(&world));
        world.feed(Input::Validated(validation(false, tree)));
        assert_eq!(world.finished(), Some(StopReason::Once));
        assert_eq!(world.state.iterations, stop);
        assert_eq!(u64::from(world.state.validation.rejections), stop);
    }
    world.stop_session();
    world.observe(vec![], "t3");
    world.iterate(IterationOutcome::Succeeded, claims(), "t3");
    world.feed(Input::Validated(validation(true, "t3")));
    assert_eq!(world.finished(), Some(StopReason::Completed));
}

#[test]
fn a_stop_whose_validation_was_killed_is_followed_by_another_one() {
    let mut world = begun();
    world.stop_session();
    world.observe(vec![], "t1");
    world.iterate(IterationOutcome::Succeeded, claims(), "t1");
    assert!(validates(&world));
    // Nothing of the verdicts was recorded.
    world.stop_session();
    world.observe(vec![], "t1");
    assert!(!validates(&world));
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert!(validates(&world), "the claim is pending still");
}

#[test]
fn limits_end_it_before_an_iteration() {
    let mut world = World::default();
    let limits = RunLimits { max_iterations: Some(1), ..limits() };
    let fresh = || RunStarted { limits: limits.clone(), ..attached() };
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![], "t0");
    for expected in [None, Some(StopReason::MaxIterations)] {
        world.feed(Input::Started(StartOptions { fresh: fresh() }));
        world.observe(vec![], "t1");
        assert_eq!(world.finished(), expected);
        if expected.is_none() {
            world.iterate(IterationOutcome::Succeeded, claims(), "t1");
            world.feed(Input::Validated(validation(false, "t1")));
        }
    }
}
