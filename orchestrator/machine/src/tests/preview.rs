//! Previews, claims by tools, notes, and the use of the context while the agent runs.

use super::*;

fn running() -> World {
    let mut world = World::started();
    world.observe(Vec::new(), "t0");
    world.prepare();
    world
}

fn by_tool(kind: ClaimKind) -> Claim {
    Claim { detector: "tool".into(), ..claim(kind, ClaimSource::Tool) }
}

#[test]
fn a_judgement_neither_completes_nor_rejects_whatever_it_says() {
    let mut world = running();
    world.feed(Input::Claimed(by_tool(ClaimKind::Complete)));
    let reasons = vec!["exit 1".to_owned()];
    world.feed(Input::Previewed { accepted: false, reasons });
    world.feed(Input::Previewed { accepted: true, reasons: Vec::new() });
    assert!(matches!(world.state.latch, Latch::Claimed { .. }), "{:?}", world.state.latch);
    assert_eq!((world.state.validation.rejections, &world.state.validation.rejection), (0, &None));
    let previews = world.journal.iter().filter_map(|record| match record {
        Record::Previewed { iteration, accepted, reasons, .. } => {
            Some((*iteration, *accepted, reasons.len()))
        }
        _ => None,
    });
    assert_eq!(previews.collect::<Vec<_>>(), [(1, false, 1), (1, true, 0)]);
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    world.observe(Vec::new(), "t1");
    assert!(world.last.iter().any(|effect| matches!(effect, Effect::Validate(_))));
    world.feed(Input::Validated(validation(false, "t1")));
    assert_eq!((world.state.validation.rejections, world.finished()), (1, None));
}

#[test]
fn nothing_is_previewed_noted_or_measured_between_iterations() {
    let mut world = World::started();
    for input in [
        Input::Previewed { accepted: true, reasons: Vec::new() },
        Input::Note("n".into()),
        Input::Context(ContextUsage { used: 1, window: None }),
    ] {
        assert!(world.feed(input.clone()).is_empty(), "{input:?}");
    }
}

#[test]
fn a_claim_by_a_tool_stands_however_the_iteration_ends() {
    for outcome in [
        IterationOutcome::Failed { class: ErrorClass::Crashed, message: "exit 1".into() },
        IterationOutcome::StoppedEarly { reason: CancelReason::Timeout },
        IterationOutcome::AgentLimit { message: "turns".into() },
    ] {
        let mut world = running();
        world.feed(Input::Claimed(by_tool(ClaimKind::Complete)));
        assert!(matches!(
            world.last.as_slice(),
            [Effect::Append(Record::Claimed { iteration: 1, .. }), Effect::Latch]
        ));
        world.feed(Input::IterationEnded(ended(outcome)));
        world.observe(Vec::new(), "t1");
        world.feed(Input::Validated(validation(true, "t1")));
        assert_eq!(world.finished(), Some(StopReason::Completed));
    }
}

#[test]
fn the_same_tool_call_made_twice_is_one_claim_and_another_is_another() {
    for kind in [ClaimKind::Complete, ClaimKind::NeedsHuman] {
        let mut world = running();
        world.feed(Input::Claimed(by_tool(kind)));
        assert!(world.feed(Input::Claimed(by_tool(kind))).is_empty());
        let other = Claim { text: "really".into(), ..by_tool(kind) };
        assert_eq!(world.feed(Input::Claimed(other)).len(), 2);
    }
}

#[test]
fn notes_are_given_to_the_next_iteration_and_to_those_after_one_that_failed() {
    let mut world = running();
    world.feed(Input::Note("  first \n".into()));
    world.feed(Input::Note(" \n".into()));
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    let reported = |world: &World| {
        world.state.notes.iter().map(|note| (note.iteration, note.text.clone())).collect::<Vec<_>>()
    };
    assert_eq!(reported(&world), [(1, "first".to_owned())]);
    world.observe(Vec::new(), "t1");
    let crashed = IterationOutcome::Failed { class: ErrorClass::Crashed, message: "exit 1".into() };
    world.iterate(crashed, Vec::new(), "t2");
    assert_eq!(reported(&world), [(1, "first".to_owned())], "it may not have read them");
    world.iterate(IterationOutcome::Succeeded, Vec::new(), "t3");
    assert!(reported(&world).is_empty(), "they were read");
}

#[test]
fn notes_are_bounded_in_size_and_number_and_the_last_ones_win() {
    let mut world = running();
    world.feed(Input::Note("é".repeat(10_000)));
    let text = &world.state.notes[0].text;
    assert_eq!(text, &format!("{} [cut]", "é".repeat(8 * 1024 / 2)));
    for number in 0..300 {
        world.feed(Input::Note(number.to_string()));
    }
    let notes = world.journal.iter().filter(|record| matches!(record, Record::Note { .. }));
    assert_eq!(notes.count(), 200);
    assert_eq!(world.state.notes.len(), 16);
    assert_eq!(world.state.notes[15].text, "198");
}

#[test]
fn a_context_is_recorded_when_a_hundredth_of_it_came_or_went() {
    let mut world = running();
    let window = Some(1_000);
    let mut records = |used| world.feed(Input::Context(ContextUsage { used, window })).len();
    let seen = [100, 109, 110, 119, 120, 111, 110].map(&mut records);
    assert_eq!(seen, [1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(world.state.agent.context, Some(ContextUsage { used: 110, window }));
    assert!(!Record::Context { used: 1, window }.is_barrier());
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    world.observe(Vec::new(), "t1");
    world.feed(Input::WaitFinished);
    world.prepare();
    assert_eq!(world.state.agent.context, None, "a fresh session has a fresh context");
}
