//! Pauses between iterations.

use super::*;

/// After the pause that follows an iteration; the time when that was looked at is the last on record.
fn after_pause(ms: u64) -> World {
    let mut world = World::started();
    world.look(vec![], "t0");
    world.prepare();
    world.end(ended(IterationOutcome::Succeeded), vec![], look("t1"));
    assert!(world.last.contains(&Effect::Pause { failures: 0 }));
    // Each step takes 10 ms.
    world.now.runtime_ms = world.state.budget.runtime_ms + ms - 10;
    world.feed(Input::WaitFinished);
    world
}

#[test]
fn only_a_pause_that_took_time_is_noted() {
    let ticks = |world: &World| {
        world.journal.iter().filter(|record| matches!(record, Record::Clock { .. })).count()
    };
    let world = after_pause(10);
    assert_eq!(ticks(&world), 1, "{:?}", world.journal);
    let mut world = after_pause(10);
    // Over in the same millisecond.
    world.prepare();
    world.end(ended(IterationOutcome::Succeeded), vec![], look("t2"));
    world.now.runtime_ms = world.state.budget.runtime_ms.saturating_sub(10);
    world.feed(Input::WaitFinished);
    assert_eq!(ticks(&world), 1);
    assert!(world.last.iter().any(|effect| matches!(effect, Effect::Prepare(_))));
}
