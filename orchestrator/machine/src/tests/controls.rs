//! What people ask of a run: recorded once, and obeyed at every moment.

use super::*;

fn origin(id: &str) -> ControlOrigin {
    let (user, program) = ("ada".into(), "command line".into());
    ControlOrigin { id: id.into(), user, program, sent_ms: 5 }
}

fn received(id: &str, control: Control) -> Input {
    Input::Control(ReceivedControl { origin: origin(id), control })
}

fn steer(text: &str) -> Control {
    Control::Steer { text: text.into() }
}

const PAUSE: Control = Control::Pause { now: false };
const PAUSE_NOW: Control = Control::Pause { now: true };

fn max_cost(dollars: Option<f64>) -> Control {
    let max = dollars.map(|dollars| Usd::from_dollars(dollars).unwrap());
    Control::Limits(LimitChanges::default().with(Limit::Cost, max.map(LimitValue::Money)))
}

fn max_iterations(max: u64) -> Control {
    Control::Limits(LimitChanges::default().with(Limit::Iterations, Some(LimitValue::Count(max))))
}

fn clear() -> Control {
    Control::Limits(LimitChanges::new(true))
}

/// Any control; few ids, so that some come twice.
pub(super) fn inputs() -> impl Strategy<Value = Input> {
    let control = prop_oneof![
        "[a-z ]{0,5}".prop_map(|text| Control::Steer { text }),
        "[a-z ]{0,5}".prop_map(|text| Control::Answer { text }),
        any::<bool>().prop_map(|now| Control::Pause { now }),
        Just(Control::Resume),
        Just(Control::Resume),
        (0u64..8).prop_map(max_iterations),
        proptest::option::of(0.0..2.0).prop_map(max_cost),
        (0u64..2_000_000).prop_map(|ms| {
            let changes = LimitChanges::default().with(Limit::Tokens, None);
            Control::Limits(changes.with(Limit::Runtime, Some(LimitValue::Duration(ms))))
        }),
        Just(clear()),
        Just(Control::Limits(LimitChanges::default())),
        Just(Control::Stop),
    ];
    ("[a-z]{1,2}", control).prop_map(|(id, control)| received(&id, control))
}

/// What holds after every step.
pub(super) fn check(world: &World, before: &State, new: &[Record], starts: bool) {
    let state = &world.state;
    assert!(!(starts && state.is_pause_requested()), "an iteration is begun in a pause");
    assert!(state.controls.received.is_superset(&before.controls.received), "an id was lost");
    let ids = new.iter().filter_map(|record| match record {
        Record::ControlReceived { origin, .. } => Some(&origin.id),
        Record::Answered { origin, .. } => origin.as_ref().map(|origin| &origin.id),
        _ => None,
    });
    for id in ids {
        assert!(!before.controls.received.contains(id), "{id} was taken twice");
    }
    let lost = before.open_answers().filter(|answer| {
        let is_same =
            |other: &&Answer| (&other.text, &other.origin) == (&answer.text, &answer.origin);
        state.answers.iter().find(is_same).is_none()
    });
    assert_eq!(lost.count(), 0, "an answer was lost before any agent had read it");
    for answer in state.answers.iter().filter(|answer| answer.is_seen) {
        assert!(answer.delivered_in.is_some(), "seen, but never delivered");
    }
}

/// Between the first two iterations.
fn between() -> World {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert!(world.last.contains(&Effect::Pause { failures: 0 }));
    world
}

/// While the agent of the first iteration runs.
fn running() -> World {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    world
}

fn holds(world: &World) -> bool {
    world.last.contains(&Effect::Hold)
}

fn prepares(world: &World) -> Option<StartIteration> {
    world.last.iter().find_map(|effect| match effect {
        Effect::Prepare(start) => Some(start.clone()),
        _ => None,
    })
}

/// Starts the agent, which is given these controls.
fn prepare_with(world: &mut World, ids: &[&str]) {
    let start = prepares(world).expect("an order to prepare");
    let controls = ids.iter().map(|id| (*id).to_owned()).collect();
    let given = LaunchDigests { controls, ..LaunchDigests::default() };
    world.feed(Input::Prepared { start, prompt: "p".into(), given });
}

#[test]
fn guidance_is_queued_then_delivered_then_seen() {
    let stage = |world: &World| {
        let answer = &world.state.answers[0];
        (answer.delivered_in, answer.is_seen)
    };
    let mut world = running();
    world.feed(received("a", steer("left")));
    assert_eq!(stage(&world), (None, false));
    // The agent that runs has not read it, however it ends.
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t1"));
    assert_eq!(stage(&world), (None, false));
    world.feed(Input::WaitFinished);
    prepare_with(&mut world, &["a"]);
    assert_eq!(stage(&world), (Some(2), false));
    world.end(ended(failed(ErrorClass::Crashed)), vec![], observation("t1"));
    assert_eq!(stage(&world), (Some(2), false));
    world.feed(Input::WaitFinished);
    prepare_with(&mut world, &["a"]);
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t2"));
    assert_eq!(stage(&world), (Some(3), true));
    assert_eq!(world.state.open_answers().count(), 0);
}

#[test]
fn guidance_that_the_running_agent_takes_is_delivered_in_its_iteration() {
    let ids = |world: &World| world.state.undelivered_guidance().map(|g| g.id).collect::<Vec<_>>();
    let taken = |ids: &[&str]| Input::GuidanceTaken(ids.iter().map(|id| (*id).into()).collect());
    let mut world = running();
    world.feed(received("a", steer("left")));
    world.feed(received("b", steer("right")));
    assert_eq!(ids(&world), ["a", "b"]);
    world.feed(taken(&["b", "unknown"]));
    assert_eq!(ids(&world), ["a"]);
    let delivered = |world: &World| -> Vec<_> {
        world.state.answers.iter().map(|answer| (answer.delivered_in, answer.is_seen)).collect()
    };
    assert_eq!(delivered(&world), [(None, false), (Some(1), false)]);
    // What was delivered is not recorded twice.
    let before = world.state.clone();
    world.feed(taken(&["b"]));
    assert_eq!(world.state, before);
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t1"));
    assert_eq!(delivered(&world), [(None, false), (Some(1), true)]);
    // No agent is running that could be given anything.
    assert_eq!(ids(&world), [""; 0]);
    let before = world.state.clone();
    world.feed(taken(&["a"]));
    assert_eq!(world.state, before);
}

#[test]
fn guidance_that_was_taken_by_an_agent_that_crashed_is_in_the_next_prompt() {
    let mut world = running();
    world.feed(received("a", steer("left")));
    world.feed(Input::GuidanceTaken(vec!["a".into()]));
    world.end(ended(failed(ErrorClass::Crashed)), vec![], observation("t1"));
    assert_eq!(world.state.open_answers().count(), 1);
}

#[test]
fn an_answer_to_a_question_waits_for_the_prompt_that_has_the_question() {
    let mut world = running();
    let question = claim(ClaimKind::NeedsHuman, ClaimSource::Message);
    world.feed(Input::Claimed(question));
    world.feed(received("a", Control::Answer { text: "blue".into() }));
    assert_eq!(world.state.open_answers().count(), 1);
    assert_eq!(world.state.undelivered_guidance().count(), 0);
}

#[test]
fn what_comes_after_the_prompt_was_read_waits_for_the_next_one() {
    let mut world = between();
    world.feed(received("a", steer("one")));
    world.feed(Input::WaitFinished);
    let order = world.last.clone();
    world.feed(received("b", steer("two")));
    world.last = order;
    prepare_with(&mut world, &["a"]);
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t2"));
    let open: Vec<_> = world.state.open_answers().map(|answer| answer.text.as_str()).collect();
    assert_eq!(open, ["two"]);
}

#[test]
fn a_pause_begins_after_the_iteration_and_ends_with_the_next() {
    let mut world = running();
    assert!(!world.feed(received("a", PAUSE)).iter().any(|e| matches!(e, Effect::Cancel(_))));
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t1"));
    assert!(holds(&world));
    assert!(world.journal.iter().any(|record| matches!(record, Record::Paused { .. })));
    world.feed(received("b", Control::Resume));
    world.feed(Input::HoldFinished);
    assert_eq!(prepares(&world).map(|start| (start.iteration, start.attempt)), Some((2, 1)));
}

#[test]
fn an_iteration_that_is_cancelled_for_a_pause_is_begun_again_and_is_no_failure() {
    let mut world = running();
    let effects = world.feed(received("a", PAUSE_NOW)).to_vec();
    assert!(effects.contains(&Effect::Cancel(CancelReason::Pause)));
    let cost = Some(Usd::from_nanos(3));
    let usage = Usage { cost, ..Usage::default() };
    let end = IterationEnd { usage, ..ended(failed(ErrorClass::Cancelled)) };
    world.end(end, vec![], observation("t0"));
    assert!(holds(&world));
    let state = &world.state;
    assert_eq!((state.agent.failures, state.progress.stagnant), (0, 0));
    assert_eq!(state.cost(), Usd::from_nanos(3));
    world.feed(received("b", Control::Resume));
    world.feed(Input::HoldFinished);
    assert_eq!(prepares(&world).map(|start| (start.iteration, start.attempt)), Some((1, 2)));
}

#[test]
fn once_does_not_end_with_an_iteration_that_is_begun_again() {
    let mut world = World::default();
    let fresh = RunStarted { once: true, ..fresh() };
    world.feed(Input::Started(StartOptions { fresh }));
    world.observe(vec![], "t0");
    world.prepare();
    world.feed(received("a", PAUSE_NOW));
    world.end(ended(failed(ErrorClass::Cancelled)), vec![], observation("t0"));
    world.feed(received("b", Control::Resume));
    world.feed(Input::HoldFinished);
    world.prepare();
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t1"));
    assert_eq!(world.finished(), Some(StopReason::Once));
}

#[test]
fn a_pending_claim_is_validated_in_a_pause_and_may_complete_the_run() {
    let mut world = running();
    world.feed(received("a", PAUSE));
    let done = claim(ClaimKind::Complete, ClaimSource::Message);
    world.end(ended(IterationOutcome::Succeeded), vec![done], observation("t1"));
    assert!(world.last.iter().any(|effect| matches!(effect, Effect::Validate(_))));
    let mut rejected = world.clone();
    world.feed(Input::Validated(validation(true, "t1")));
    assert_eq!(world.finished(), Some(StopReason::Completed));
    rejected.feed(Input::Validated(validation(false, "t1")));
    assert!(holds(&rejected));
}

#[test]
fn a_pause_survives_a_restart_and_a_stop() {
    let mut world = between();
    world.feed(received("a", PAUSE));
    world.feed(Input::WaitFinished);
    assert!(holds(&world));
    world.feed(Input::Signal);
    world.feed(Input::HoldFinished);
    assert_eq!(world.finished(), Some(StopReason::Interrupted));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(vec![], "t1");
    assert!(holds(&world), "{:?}", world.last);
    let paused = world.journal.iter().filter(|record| matches!(record, Record::Paused { .. }));
    assert_eq!(paused.count(), 2, "in effect once in each start");
}

#[test]
fn a_provider_that_was_waited_for_is_waited_for_after_the_pause() {
    let mut world = running();
    world.end(ended(deferred(Some(100_000))), vec![], observation("t0"));
    let until = Effect::WaitUntil(100_000);
    assert!(world.last.contains(&until));
    world.feed(received("a", PAUSE));
    world.feed(Input::WaitFinished);
    assert!(holds(&world));
    world.feed(received("b", Control::Resume));
    world.feed(Input::HoldFinished);
    assert!(world.last.contains(&until), "{:?}", world.last);
}

#[test]
fn a_limit_that_is_lowered_below_what_is_used_stops_the_run() {
    let mut world = running();
    let spent = Usage { cost: Usd::from_dollars(0.5), ..Usage::default() };
    world.feed(Input::Usage(spent));
    assert!(!world.last.iter().any(|effect| matches!(effect, Effect::Cancel(_))));
    let effects = world.feed(received("a", max_cost(Some(0.4)))).to_vec();
    assert!(effects.contains(&Effect::Cancel(CancelReason::MaxCost)));
    let end = IterationEnd { usage: spent, ..ended(failed(ErrorClass::Cancelled)) };
    world.end(end, vec![], observation("t1"));
    assert_eq!(world.finished(), Some(StopReason::MaxCost));
    assert_eq!(world.state.resume_blocker(), Some(ResumeBlocker::Limit(Limit::Cost)));
    // Raised again it goes on, and a restart changes nothing about that.
    world.feed(received("b", max_cost(Some(9.0))));
    assert_eq!(world.state.resume_blocker(), Some(ResumeBlocker::Nothing));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    assert_eq!(world.state.limits.max_cost_usd, Usd::from_dollars(9.0));
    world.observe(vec![], "t1");
    assert!(prepares(&world).is_some());
    world.feed(received("c", clear()));
    assert_eq!(world.state.limits, limits());
    assert_eq!(world.state.controls.limits.origin(Limit::Cost), None);
}

#[test]
fn a_stricter_limit_of_the_command_line_holds_for_its_start() {
    let stated = |max| {
        let max = Some(max);
        let stated = std::iter::once(Limit::Iterations).collect();
        let limits = RunLimits { max_iterations: max, stated, ..limits() };
        Input::Started(StartOptions { fresh: RunStarted { limits, ..fresh() } })
    };
    let in_force = |world: &World| {
        let is_set = world.state.controls.set_by(Limit::Iterations).is_some();
        (world.state.limits.max_iterations, is_set)
    };
    let mut world = between();
    world.feed(received("a", max_iterations(4)));
    for (max, holds) in [(2, (Some(2), false)), (9, (Some(4), true)), (3, (Some(3), false))] {
        world.feed(stated(max));
        assert_eq!(in_force(&world), holds, "{max}");
    }
    world.feed(received("b", max_iterations(7)));
    assert_eq!(in_force(&world), (Some(7), true), "what is set while it runs is newer");
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    assert_eq!(in_force(&world), (Some(7), true));
}

#[test]
fn a_limit_that_is_lowered_while_the_prompt_is_read_starts_no_agent() {
    let mut world = between();
    world.feed(Input::WaitFinished);
    let order = world.last.clone();
    world.feed(received("a", max_iterations(1)));
    world.last = order;
    prepare_with(&mut world, &[]);
    assert_eq!(world.finished(), Some(StopReason::MaxIterations));
    assert_eq!(world.state.controls.limits.origin(Limit::Iterations), Some(&origin("a")));
}

#[test]
fn what_cannot_take_effect_is_refused_with_a_reason() {
    let refusal = |world: &World| match world.journal.last() {
        Some(Record::ControlReceived { refused, .. }) => refused.clone(),
        other => panic!("{other:?}"),
    };
    let mut world = between();
    world.feed(received("a", Control::Resume));
    assert_eq!(refusal(&world).as_deref(), Some("the run is not paused"));
    world.feed(received("b", PAUSE));
    assert_eq!(refusal(&world), None);
    world.feed(received("c", PAUSE));
    assert_eq!(refusal(&world).as_deref(), Some("already paused by ada"));
    world.feed(received("d", steer(" \n")));
    assert_eq!(refusal(&world).as_deref(), Some("the text is empty"));
    world.feed(received("e", Control::Limits(LimitChanges::default())));
    assert_eq!(refusal(&world).as_deref(), Some("no limit is given"));
    let records = world.journal.len();
    world.feed(received("b", Control::Resume));
    assert_eq!(world.journal.len(), records, "its id is known");
    world.feed(received("f", Control::Stop));
    world.feed(Input::HoldFinished);
    world.feed(received("g", Control::Stop));
    assert_eq!(refusal(&world).as_deref(), Some("the run has stopped"));
}

#[test]
fn an_answer_while_the_agent_runs_keeps_its_question_from_stopping_the_run() {
    let mut world = running();
    let ask = claim(ClaimKind::NeedsHuman, ClaimSource::Tool);
    world.feed(Input::Claimed(ask));
    world.feed(received("a", Control::Answer { text: "blue".into() }));
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t1"));
    assert_eq!(world.finished(), None);
    let answer = world.state.open_answers().next().unwrap();
    assert_eq!((answer.question.as_deref(), answer.text.as_str()), (Some("done"), "blue"));
}

#[test]
fn after_the_completion_nothing_is_taken() {
    let mut world = running();
    let done = claim(ClaimKind::Complete, ClaimSource::Message);
    world.end(ended(IterationOutcome::Succeeded), vec![done], observation("t1"));
    world.feed(Input::Validated(validation(true, "t1")));
    let records = world.journal.len();
    for (id, control) in [("a", steer("x")), ("b", PAUSE), ("c", clear()), ("d", Control::Stop)] {
        assert!(world.feed(received(id, control)).is_empty());
    }
    assert_eq!(world.journal.len(), records);
}

#[test]
fn limits_in_the_journal_distinguish_none_from_unchanged() {
    let text = serde_json::to_string(&max_cost(None)).unwrap();
    assert_eq!(text, r#"{"type":"limits","max_cost_usd":null}"#);
    assert_eq!(serde_json::from_str::<Control>(&text).unwrap(), max_cost(None));
    let unchanged: Control = serde_json::from_str(r#"{"type":"limits"}"#).unwrap();
    assert_eq!(unchanged, Control::Limits(LimitChanges::default()));
}
