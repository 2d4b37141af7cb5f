//! How much of the provider's rate windows is used, and waits before one is used up.

use super::*;

const HOUR: u64 = 3_600_000;

fn window(name: &str, used_per_mille: u64, resets_at_ms: Option<u64>) -> RateWindow {
    RateWindow { name: name.to_owned(), used_per_mille, resets_at_ms }
}

/// In its first iteration, a moment after the epoch, with these windows reported.
fn reported(windows: &[RateWindow]) -> World {
    let mut options = fresh();
    options.limits.max_wait_ms = 6 * HOUR;
    let mut world = World::default();
    world.now.unix_ms = 1_000;
    world.feed(Input::Started(StartOptions { fresh: options }));
    world.observe(vec![], "t0");
    world.prepare();
    for window in windows {
        world.feed(Input::RateWindow(window.clone()));
    }
    world
}

/// After that iteration, where the next one may begin.
fn ended_with(windows: &[RateWindow]) -> World {
    let mut world = reported(windows);
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    world.observe(vec![], "t1");
    world.feed(Input::WaitFinished);
    world
}

fn is_prepared(world: &World) -> bool {
    world.last.iter().any(|effect| matches!(effect, Effect::Prepare(_)))
}

#[test]
fn a_window_at_its_limit_is_waited_for_until_it_is_reset() {
    let now = 1_000;
    let reset = Some(now + HOUR);
    for (windows, until) in [
        (vec![window("five_hour", 900, reset)], reset),
        (vec![window("five_hour", 899, reset)], None),
        (vec![window("weekly", 800, reset)], reset),
        // The last of those that are used up.
        (
            vec![window("five_hour", 950, Some(now + 2 * HOUR)), window("weekly", 990, reset)],
            Some(now + 2 * HOUR),
        ),
        (vec![window("weekly_opus", 1000, reset)], None),
        // The last report counts.
        (vec![window("weekly", 900, reset), window("weekly", 10, Some(now + 2 * HOUR))], None),
        // Nothing says for how long.
        (vec![window("weekly", 900, None)], None),
        // It was reset already, or no provider has such a window.
        (vec![window("weekly", 900, Some(now))], None),
        (vec![window("weekly", 900, Some(0))], None),
        (vec![window("weekly", 900, Some(u64::MAX))], None),
        (vec![window("weekly", u64::MAX, reset)], reset),
    ] {
        let mut world = ended_with(&windows);
        match until {
            None => assert!(is_prepared(&world), "{windows:?}: {:?}", world.last),
            Some(until) => {
                let waits = Some(&Effect::WaitUntil(until));
                assert_eq!(world.last.last(), waits, "{windows:?}");
                // The wait is over, whatever the clock says.
                world.feed(Input::WaitFinished);
                assert!(is_prepared(&world), "{windows:?}: {:?}", world.last);
            }
        }
    }
}

#[test]
fn the_message_names_the_window_and_its_limit() {
    let world = ended_with(&[window("weekly", 857, Some(1_000 + HOUR))]);
    let reason = world.state.waiting.map(|wait| wait.reason).unwrap();
    let expected =
        "85 % of the window `weekly` is used, which reaches limits.max_window.weekly (80 %)";
    assert_eq!(reason, expected);
}

#[test]
fn a_wait_for_a_window_is_bounded_by_max_wait() {
    let world = ended_with(&[window("weekly", 900, Some(7 * HOUR))]);
    let Some(Effect::Finish { reason, message }) = world.last.last() else {
        panic!("{:?}", world.last)
    };
    assert_eq!(*reason, StopReason::NeedsHuman);
    assert!(message.ends_with("the wait would be longer than limits.max_wait"), "{message}");
    assert_eq!(world.state.resume_blocker(), Some(ResumeBlocker::Provider));
}

#[test]
fn a_run_that_is_started_again_waits_for_the_rest_and_not_for_another_agents_window() {
    let reset = 1_000 + HOUR;
    let waiting = ended_with(&[window("five_hour", 990, Some(reset))]);
    for (agent, unix_ms, waits) in
        [("fake", 2_000, true), ("fake", reset, false), ("other", 2_000, false)]
    {
        let mut world = waiting.clone();
        world.now.unix_ms = unix_ms;
        let fresh = RunStarted { agent: agent.to_owned(), ..fresh() };
        world.feed(Input::Started(StartOptions { fresh }));
        world.observe(vec![], "t1");
        let last = world.last.last() == Some(&Effect::WaitUntil(reset));
        assert_eq!((last, is_prepared(&world)), (waits, !waits), "{agent} {unix_ms}");
        let recorded = |record: &&Record| matches!(record, Record::Waiting { .. });
        assert_eq!(world.journal.iter().filter(recorded).count(), 1, "it is counted once");
    }
}

#[test]
fn a_pause_in_the_wait_does_not_end_it() {
    let reset = 1_000 + HOUR;
    let mut world = ended_with(&[window("five_hour", 990, Some(reset))]);
    let control = |control| {
        let origin = ControlOrigin {
            id: format!("{control:?}"),
            user: "ada".into(),
            program: "watch".into(),
            sent_ms: 5,
        };
        Input::Control(ReceivedControl { origin, control })
    };
    world.feed(control(Control::Pause { now: false }));
    world.feed(Input::WaitFinished);
    assert_eq!(world.last.last(), Some(&Effect::Hold));
    world.feed(control(Control::Resume));
    world.feed(Input::HoldFinished);
    assert_eq!(world.last.last(), Some(&Effect::WaitUntil(reset)));
}

#[test]
fn only_changes_that_matter_are_recorded_and_of_few_windows() {
    let reset = Some(1_000 + HOUR);
    let mut world = reported(&[window("five_hour", 880, reset)]);
    for (used, recorded) in [(880, 0), (884, 0), (885, 1), (889, 0), (899, 1), (900, 1), (901, 0)] {
        let before = world.journal.len();
        world.feed(Input::RateWindow(window("five_hour", used, reset)));
        assert_eq!(world.journal.len() - before, recorded, "{used}");
    }
    for n in 0..100 {
        world.feed(Input::RateWindow(window(&format!("w{n}"), 1, None)));
    }
    assert_eq!(world.state.agent.rate_windows.len(), 16);
    let known: Vec<&str> =
        world.state.rate_windows(1_000 + HOUR).map(|w| w.name.as_str()).collect();
    assert!(!known.contains(&"five_hour"), "what was reset is unknown");
    assert!(!Record::RateWindow(window("w", 1, None)).is_barrier());
}

#[test]
fn what_can_be_no_window_is_none() {
    for used in [f64::NAN, -0.1, 1e9, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(RateWindow::from_report("weekly", used, None), None, "{used}");
    }
    for name in ["", "Weekly", "a b", "x\n", "é", &"x".repeat(65)] {
        assert_eq!(RateWindow::from_report(name, 0.5, None), None, "{name:?}");
    }
    for (used, per_mille) in [(0.0, 0), (0.8999, 900), (1.0, 1000), (1.25, 1250)] {
        let expected = window("five_hour", per_mille, Some(7));
        assert_eq!(RateWindow::from_report("five_hour", used, Some(7)), Some(expected));
    }
}
