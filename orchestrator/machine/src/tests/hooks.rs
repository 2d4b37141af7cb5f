//! Commands of the user: those before something keep it from happening, those after it are due until they have run.

use super::*;

const ALL: [HookEvent; 11] = HookEvent::ALL;

fn end(event: HookEvent, problem: Option<&str>) -> HookEnd {
    let command = HookCommand {
        command: "./tell".into(),
        attempts: 1,
        problem: problem.map(str::to_owned),
        output: "said".into(),
    };
    HookEnd { event, commands: vec![command], interrupted: false, out_of_time: false }
}

/// The end of some commands, most of the time of none that are due.
pub(super) fn inputs() -> impl Strategy<Value = Input> {
    (0..ALL.len(), any::<bool>(), any::<bool>()).prop_map(|(event, fails, interrupted)| {
        let end = HookEnd { interrupted, ..end(ALL[event], fails.then_some("exit 1")) };
        Input::HookFinished(end, Box::new(Effect::Observe))
    })
}

fn started(events: &[HookEvent]) -> World {
    let mut world = World::default();
    start(&mut world, events);
    world
}

fn start(world: &mut World, events: &[HookEvent]) {
    let fresh = RunStarted { hooks: events.iter().copied().collect(), ..fresh() };
    world.feed(Input::Started(StartOptions { fresh }));
}

/// Runs what is due before the last effects, as a driver does; what is in `failing` fails. Returns what was run.
fn run_due(world: &mut World, failing: &[HookEvent]) -> Vec<HookEvent> {
    let mut ran = Vec::new();
    loop {
        let due = world
            .last
            .iter()
            .find_map(|effect| world.state.due_hook(effect).map(|due| (due.event, effect.clone())));
        let Some((event, effect)) = due else { return ran };
        ran.push(event);
        let problem = failing.contains(&event).then_some("exited with status 1: no network");
        world.feed(Input::HookFinished(end(event, problem), Box::new(effect)));
    }
}

#[test]
fn each_event_of_a_run_comes_once_in_its_order() {
    use HookEvent::*;
    let mut world = started(&ALL);
    assert_eq!(run_due(&mut world, &[]), [BeforeRun, BeforeItem]);
    assert!(world.last.contains(&Effect::Observe), "{:?}", world.last);
    world.observe(vec![], "t0");
    assert_eq!(run_due(&mut world, &[]), [BeforeIteration, Context]);
    world.prepare();
    assert_eq!(run_due(&mut world, &[]), []);
    world.feed(Input::ClaimsFound(vec![claim(ClaimKind::Complete, ClaimSource::State)]));
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    assert_eq!(run_due(&mut world, &[]), [AfterIteration]);
    world.feed(Input::Observed(observation("t1")));
    assert_eq!(run_due(&mut world, &[]), [BeforeValidation]);
    world.feed(Input::Validated(Validation { is_explained: true, ..validation(true, "t1") }));
    assert_eq!(run_due(&mut world, &[]), [AfterValidation]);
    assert!(world.last.contains(&Effect::Explain), "the completion is explained first");
    world.feed(Input::Explained(None));
    assert_eq!(run_due(&mut world, &[AfterCompletion]), [AfterItem, AfterCompletion, AfterRun]);
    assert_eq!(world.finished(), Some(StopReason::Completed), "a failing one undoes nothing");
    assert_eq!(world.state.hooks.count, 10);
}

#[test]
fn one_that_fails_before_something_stops_the_run_with_its_words_until_it_is_resumed() {
    let blocking = HookEvent::ALL.into_iter().filter(|event| event.is_before());
    for event in blocking {
        let mut world = started(&[event]);
        let mut ran = run_due(&mut world, &[event]);
        if world.finished().is_none() {
            world.observe(vec![], "t0");
            ran = run_due(&mut world, &[event]);
        }
        if world.finished().is_none() {
            let done = vec![claim(ClaimKind::Complete, ClaimSource::State)];
            world.iterate(IterationOutcome::Succeeded, done, "t1");
            ran = run_due(&mut world, &[event]);
        }
        assert_eq!(ran, [event]);
        let stop = world.state.stop.clone().unwrap();
        assert_eq!(stop.reason, StopReason::NeedsHuman);
        let words = format!("{}: `./tell` exited with status 1: no network", event.key());
        assert_eq!(stop.message, words);
        assert_eq!(world.state.resume_blocker(), Some(ResumeBlocker::Hook(event)));
        start(&mut world, &[event]);
        world.observe(vec![], "t2");
        assert_eq!(run_due(&mut world, &[]), [event], "it is tried again");
        assert_eq!(world.finished(), None);
        assert_eq!(world.state.hooks.blocked, None);
    }
}

#[test]
fn what_was_due_when_the_orchestrator_was_killed_is_due_in_the_next_start() {
    let events = [HookEvent::BeforeRun, HookEvent::AfterIteration, HookEvent::AfterStop];
    let mut world = started(&events);
    run_due(&mut world, &[]);
    world.observe(vec![], "t0");
    world.prepare();
    // Killed in the iteration, then started again.
    start(&mut world, &events);
    assert_eq!(run_due(&mut world, &[]), [HookEvent::AfterIteration, HookEvent::BeforeRun]);
    world.feed(Input::Signal);
    world.observe(vec![], "t0");
    // Killed before the commands of the stop were run.
    start(&mut world, &events);
    let due = world.state.hooks.due.clone();
    assert_eq!(due[0].details["stop_reason"], "interrupted");
    assert_eq!(run_due(&mut world, &[]), [HookEvent::AfterStop, HookEvent::BeforeRun]);
    // Whoever takes the commands out of the configuration does not want them run.
    world.feed(Input::Signal);
    world.observe(vec![], "t0");
    start(&mut world, &[]);
    assert_eq!(run_due(&mut world, &[]), []);
}

#[test]
fn a_completion_that_was_not_followed_up_stays_due() {
    let mut world = started(&[HookEvent::AfterCompletion]);
    world.observe(vec![], "t0");
    let done = vec![claim(ClaimKind::Complete, ClaimSource::State)];
    world.iterate(IterationOutcome::Succeeded, done, "t1");
    world.feed(Input::Validated(validation(true, "t1")));
    let state = State::fold(&world.journal);
    let finish = Effect::Finish { reason: StopReason::Completed, message: String::new() };
    assert_eq!(state.due_hook(&finish).unwrap().event, HookEvent::AfterCompletion);
    run_due(&mut world, &[]);
    assert_eq!(State::fold(&world.journal).due_hook(&finish), None);
}

#[test]
fn a_request_to_stop_or_the_end_of_the_time_ends_those_before_something() {
    for (end_of, reason) in [
        (
            HookEnd { interrupted: true, ..end(HookEvent::BeforeRun, Some("x")) },
            StopReason::Interrupted,
        ),
        (
            HookEnd { out_of_time: true, ..end(HookEvent::BeforeRun, Some("x")) },
            StopReason::MaxRuntime,
        ),
    ] {
        let mut world = started(&[HookEvent::BeforeRun]);
        if end_of.interrupted {
            world.feed(Input::Signal);
        }
        world.feed(Input::HookFinished(end_of, Box::new(Effect::Observe)));
        assert_eq!(world.finished(), Some(reason));
        assert_eq!(world.state.hooks.blocked, None);
    }
}

#[test]
fn each_attempt_at_an_iteration_is_allowed_anew() {
    let mut world = started(&[HookEvent::BeforeIteration]);
    world.observe(vec![], "t0");
    for n in 1..4 {
        assert_eq!(run_due(&mut world, &[]), [HookEvent::BeforeIteration]);
        world.iterate(IterationOutcome::Succeeded, vec![], &format!("t{n}"));
        world.feed(Input::WaitFinished);
    }
}
