//! What made the checks green: found out once the completion is safe, and recorded after it.

use serde_json::json;

use super::*;

fn accepted() -> World {
    let mut world = World::started();
    world.observe(Vec::new(), "t0");
    world.prepare();
    world.feed(Input::Claimed(claim(ClaimKind::Complete, ClaimSource::Tool)));
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    world.observe(Vec::new(), "t1");
    world.feed(Input::Validated(Validation { is_explained: true, ..validation(true, "t1") }));
    world
}

#[test]
fn a_completion_is_safe_before_it_is_explained_and_stands_whatever_is_found() {
    let found = ExplainedCompletion { summary: "needed: a.".into(), explanation: json!({}) };
    for found in [Some(found), None] {
        let mut world = accepted();
        assert!(world.state.completion().is_some());
        let last: Vec<&Effect> = world.last.iter().rev().take(2).rev().collect();
        assert_eq!(last, [&Effect::Latch, &Effect::Explain]);
        world.feed(Input::Explained(found.clone()));
        assert_eq!(world.finished(), Some(StopReason::Completed));
        assert_eq!(world.state.explained, found);
        let is_last = matches!(world.journal.last(), Some(Record::Explained { .. }));
        assert_eq!(is_last, found.is_some());
    }
}

#[test]
fn a_completion_whose_explanation_was_lost_is_complete() {
    let mut world = accepted();
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    assert_eq!(world.finished(), Some(StopReason::Completed));
    assert_eq!(world.state.explained, None);
}

#[test]
fn the_time_of_all_checks_is_summed() {
    let world = accepted();
    assert_eq!(world.state.validation.checks_ms, 2);
}
