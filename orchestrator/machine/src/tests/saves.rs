//! What is stored in git, and when; and hand-offs.

use super::*;

/// What a repository answers to an order to save.
pub(super) fn result(commits: bool, tree_changed: bool) -> SaveResult {
    SaveResult {
        checkpoint: Some("c0ffee".into()),
        commit: commits.then(|| "decade".into()),
        tree_changed,
        ..SaveResult::default()
    }
}

fn started(mode: SaveMode) -> World {
    let mut world = World::default();
    let fresh = RunStarted { saves: mode, ..fresh() };
    world.feed(Input::Started(StartOptions { fresh }));
    world.observe(Vec::new(), "t0");
    world
}

fn order(world: &World) -> Option<SaveOrder> {
    world.last.iter().find_map(|effect| match effect {
        Effect::Save(order) => Some(order.clone()),
        _ => None,
    })
}

/// A walk with saving switched on: nothing else begins while a save is due.
pub(super) fn check_walk(inputs: Vec<Input>) {
    let mut world = started(SaveMode::Iteration);
    for input in inputs {
        let due = order(&world);
        let input = match (&due, input) {
            // The driver does one thing at a time.
            (Some(_), Input::Observed(_) | Input::Validated(_) | Input::WaitFinished) => continue,
            (None, Input::Saved(_)) => continue,
            (_, Input::Prepared { .. } | Input::Started(_)) => continue,
            (_, input) => input,
        };
        world.feed(input);
        if order(&world).is_some() {
            let begins = world.last.iter().any(|effect| {
                matches!(effect, Effect::Validate(_) | Effect::Prepare(_) | Effect::Start(_))
            });
            assert!(!begins, "work goes on while it is saved: {:?}", world.last);
        }
    }
    let saved = world.journal.iter().filter_map(|record| match record {
        Record::Saved { iteration, .. } => Some(*iteration),
        _ => None,
    });
    let saved: Vec<u64> = saved.collect();
    let mut once = saved.clone();
    once.dedup();
    assert_eq!(saved, once, "an iteration was saved twice");
}

#[test]
fn nothing_is_saved_by_default() {
    let mut world = started(SaveMode::Off);
    assert_eq!(order(&world), None);
    world.iterate(IterationOutcome::Succeeded, Vec::new(), "t1");
    assert_eq!(order(&world), None);
    let before = world.journal.len();
    world.feed(Input::Saved(result(true, false)));
    assert_eq!(world.journal.len(), before, "what was not ordered is not recorded");
}

#[test]
fn the_start_and_each_iteration_are_saved_before_anything_else_begins() {
    let mut world = started(SaveMode::Checkpoint);
    assert_eq!(order(&world), Some(SaveOrder { iteration: 0, commit: None }));
    world.feed(Input::Saved(result(false, false)));
    world.iterate(
        IterationOutcome::Succeeded,
        vec![claim(ClaimKind::Complete, ClaimSource::Message)],
        "t1",
    );
    assert_eq!(order(&world), Some(SaveOrder { iteration: 1, commit: None }));
    world.feed(Input::Saved(result(false, false)));
    assert!(world.last.iter().any(|effect| matches!(effect, Effect::Validate(_))));
}

#[test]
fn a_commit_says_what_and_why_and_a_changed_tree_is_observed_again() {
    let mut world = started(SaveMode::Iteration);
    world.feed(Input::Saved(result(false, false)));
    world.prepare();
    world.feed(Input::Note("half of the parser\nis there".into()));
    let changes = [ChangedFile {
        path: "src/a\u{1b}b.rs".into(),
        change: FileChange::Added,
        lines_added: Some(3),
        lines_removed: Some(0),
    }];
    let changes = Some(changes.into_iter().collect());
    let seen = Observation { changes, ..observation("t1") };
    let claims = vec![claim(ClaimKind::Complete, ClaimSource::Message)];
    world.end(ended(IterationOutcome::Succeeded), claims, seen);
    let message = order(&world).unwrap().commit.unwrap();
    assert_eq!(
        message,
        "done (iteration 1)\n\nClaimed (marker):\n- done\n\nNotes:\n- half of the parser is there\n\n\
         Changed:\n- src/a b.rs (new)\n"
    );
    world.feed(Input::Saved(result(true, true)));
    assert!(world.last.contains(&Effect::Observe));
    world.feed(Input::Observed(observation("t2")));
    assert_eq!(order(&world), None, "it was saved");
    assert!(world.last.iter().any(|effect| matches!(effect, Effect::Validate(_))));
}

#[test]
fn a_problem_is_warned_of_once() {
    let mut world = started(SaveMode::Iteration);
    world.feed(Input::Saved(SaveResult::default()));
    for tree in ["t1", "t2", "t3"] {
        world.iterate(IterationOutcome::Succeeded, Vec::new(), tree);
        let problems = vec!["no commit: HEAD is detached".to_owned()];
        world.feed(Input::Saved(SaveResult { problems, ..SaveResult::default() }));
    }
    let warnings =
        world.journal.iter().filter(|record| matches!(record, Record::Warning { .. })).count();
    assert_eq!(warnings, 1);
}

#[test]
fn a_crash_between_observation_and_record_saves_again_with_the_same_message() {
    let mut world = started(SaveMode::Iteration);
    world.feed(Input::Saved(result(false, false)));
    world.iterate(IterationOutcome::Succeeded, Vec::new(), "t1");
    let first = order(&world).unwrap();
    let fresh = RunStarted { saves: SaveMode::Iteration, ..fresh() };
    world.feed(Input::Started(StartOptions { fresh: fresh.clone() }));
    world.observe(Vec::new(), "t1");
    assert_eq!(order(&world), Some(first));
    world.feed(Input::Saved(result(true, false)));
    world.feed(Input::Started(StartOptions { fresh }));
    world.observe(Vec::new(), "t1");
    assert_eq!(order(&world), None, "it is recorded");
}

#[test]
fn saving_that_a_stop_or_max_runtime_ends_is_due_again_in_the_next_start() {
    for signal in [true, false] {
        let mut world = started(SaveMode::Iteration);
        world.feed(Input::Saved(result(false, false)));
        world.iterate(IterationOutcome::Succeeded, Vec::new(), "t1");
        let first = order(&world).unwrap();
        if signal {
            world.feed(Input::Signal);
        }
        let effects = world.feed(Input::ObservationSkipped).to_vec();
        let expected = if signal { StopReason::Interrupted } else { StopReason::MaxRuntime };
        assert!(
            matches!(effects.last(), Some(Effect::Finish { reason, .. }) if *reason == expected)
        );
        let fresh = RunStarted { saves: SaveMode::Iteration, ..fresh() };
        world.feed(Input::Started(StartOptions { fresh }));
        world.observe(Vec::new(), "t1");
        assert_eq!(order(&world), Some(first));
    }
}

#[test]
fn a_full_context_hands_off_with_a_commit_and_then_one_note() {
    let mut world = started(SaveMode::Handoff);
    world.feed(Input::Saved(result(false, false)));
    world.prepare();
    world.feed(Input::Context(ContextUsage { used: 142_600, window: Some(200_000) }));
    world.feed(Input::Timer(Timer::Handoff));
    assert_eq!(world.last.last(), Some(&Effect::Cancel(CancelReason::Handoff)));
    let cancelled = failed(ErrorClass::Cancelled);
    world.end(ended(cancelled), Vec::new(), observation("t1"));
    assert_eq!(world.state.agent.failures, 0, "a hand-off is no failure");
    let message = order(&world).unwrap().commit.unwrap();
    assert!(message.starts_with("wip: Work - iteration 1 handoff\n"), "{message}");
    assert!(message.contains("Context usage: 71.3%\n"), "{message}");
    world.feed(Input::Saved(result(true, false)));
    let notes = |world: &World| -> Vec<String> {
        let notes = world.journal.iter().filter_map(|record| match record {
            Record::Note { text, .. } => Some(text.clone()),
            _ => None,
        });
        notes.collect()
    };
    assert_eq!(notes(&world).len(), 1);
    assert!(notes(&world)[0].contains("71.3 %") && notes(&world)[0].contains("decade"));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.observe(Vec::new(), "t1");
    assert_eq!(notes(&world).len(), 1, "the note is left once");
}

#[test]
fn an_iteration_that_was_not_handed_off_is_not_committed_in_that_mode() {
    let mut world = started(SaveMode::Handoff);
    world.feed(Input::Saved(result(false, false)));
    world.prepare();
    world.feed(Input::Context(ContextUsage { used: 139_999, window: Some(200_000) }));
    world.end(ended(IterationOutcome::Succeeded), Vec::new(), observation("t1"));
    assert_eq!(order(&world), Some(SaveOrder { iteration: 1, commit: None }));
}
