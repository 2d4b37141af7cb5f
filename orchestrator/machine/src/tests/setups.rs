//! The setup of the workspace: what it changes is nobody's work.

use super::*;

fn end(tree: &str, problem: Option<&str>) -> Input {
    Input::SetupFinished(SetupEnd {
        problem: problem.map(str::to_owned),
        tree: Some(tree.to_owned()),
        ..SetupEnd::default()
    })
}

fn prepares(world: &World) -> bool {
    world.last.iter().any(|effect| matches!(effect, Effect::Prepare(_)))
}

#[test]
fn what_needed_it_is_ordered_again() {
    let options = RunStarted { baseline: BaselineMode::Warn, ..fresh() };
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: options }));
    world.observe(vec![], "t0");
    world.feed(Input::SetupStarted);
    world.feed(end("set up", None));
    assert!(world.last.contains(&Effect::CheckBaseline), "{:?}", world.last);
    assert!(world.state.setup.is_done && !world.state.workspace.changed_since_validation);
    assert_eq!(world.state.workspace.tree, "set up");
}

#[test]
fn its_tree_is_no_progress_and_its_problem_no_failure() {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![], "t0");
    for n in 0..2_u32 {
        let tree = format!("set up {n}");
        world.feed(Input::SetupStarted);
        world.feed(end(&tree, Some("exit 1")));
        assert!(prepares(&world), "{:?}", world.last);
        world.prepare();
        assert!(!world.state.setup.is_done, "it is needed before the next one again");
        world.end(ended(IterationOutcome::Succeeded), vec![], observation(&tree));
        assert_eq!(world.state.progress.stagnant_iterations, n + 1);
        world.feed(Input::WaitFinished);
    }
    assert_eq!(world.state.agent.failures, 0);
    assert_eq!(world.state.setup.problem.as_deref(), Some("exit 1"));
}

#[test]
fn killed_in_the_middle_it_owns_what_is_observed_next() {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![], "t0");
    world.prepare();
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t0"));
    world.feed(Input::WaitFinished);
    let stagnant = world.state.progress.stagnant;
    world.feed(Input::SetupStarted);
    // The orchestrator is killed, and started again.
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![], "half set up");
    assert_eq!(world.state.progress.stagnant, stagnant);
    assert!(!world.state.progress.since_iteration_start);
    assert_eq!(world.state.workspace.tree, "half set up");
    assert!(!world.state.setup.is_unobserved && !world.state.setup.is_done);
}

#[test]
fn one_that_was_broken_off_ends_the_run_for_now_and_is_not_done() {
    for (interrupted, out_of_time, reason) in
        [(true, false, StopReason::Interrupted), (false, true, StopReason::MaxRuntime)]
    {
        let mut world = World::default();
        world.feed(Input::Started(StartOptions { fresh: fresh() }));
        world.observe(vec![], "t0");
        world.feed(Input::SetupStarted);
        world.feed(Input::SetupFinished(SetupEnd {
            interrupted,
            out_of_time,
            ..SetupEnd::default()
        }));
        assert_eq!(world.finished(), Some(reason));
        assert!(!world.state.setup.is_done && world.state.setup.is_unobserved);
    }
}

/// What was rejected without it may be accepted with it.
#[test]
fn a_rejected_tree_that_it_changes_is_validated_again() {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0");
    world.feed(Input::Validated(validation(false, "t0")));
    assert!(!world.state.workspace.changed_since_validation);
    world.feed(Input::SetupStarted);
    world.feed(end("t0", None));
    assert!(!world.state.workspace.changed_since_validation);
    world.feed(Input::SetupStarted);
    world.feed(end("t1", None));
    assert!(world.state.workspace.changed_since_validation);
}
