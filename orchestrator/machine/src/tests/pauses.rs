//! Pauses between iterations.

use super::*;

/// After the pause that follows an iteration; its observation is the last recorded time.
fn after_pause(ms: u64) -> World {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t1"));
    assert!(world.last.contains(&Effect::Pause { failures: 0 }));
    // Each step takes 10 ms.
    world.now.runtime_ms = world.state.budget.runtime_ms + ms - 10;
    world.feed(Input::WaitFinished);
    world
}

#[test]
fn records_the_clock_only_after_a_pause_that_took_time() {
    let clocks = |world: &World| {
        world.journal.iter().filter(|record| matches!(record, Record::Clock { .. })).count()
    };
    let world = after_pause(10);
    assert_eq!(clocks(&world), 1, "{:?}", world.journal);
    let mut world = after_pause(10);
    // Over in the same millisecond.
    world.prepare();
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t2"));
    world.now.runtime_ms = world.state.budget.runtime_ms.saturating_sub(10);
    world.feed(Input::WaitFinished);
    assert_eq!(clocks(&world), 1);
    assert!(world.last.iter().any(|effect| matches!(effect, Effect::Prepare(_))));
}
