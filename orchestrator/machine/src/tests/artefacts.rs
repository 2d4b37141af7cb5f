//! Changes of validators in the workspace.

use std::collections::BTreeMap;

use super::*;

fn left(path: &str) -> BTreeMap<String, Vec<String>> {
    BTreeMap::from([("tests".into(), vec![path.into()])])
}

/// Validators that formatted the work: it was validated once more as it is now.
fn formatted(good: bool) -> Validation {
    Validation {
        warnings: vec!["the validator `tests` changed `a.rs`".into()],
        tree_left: "formatted".into(),
        ..validation(good, "formatted")
    }
}

fn claimed(tree: &str) -> World {
    let mut world = World::started();
    world.observe(vec![], "t0");
    let claims = vec![claim(ClaimKind::Complete, ClaimSource::Message)];
    world.iterate(IterationOutcome::Succeeded, claims, tree);
    world
}

#[test]
fn artefacts_are_recorded_and_keep_nothing_from_being_accepted() {
    let mut world = claimed("t1");
    world.feed(Input::Validated(Validation { artefacts: left("a.xml"), ..validation(true, "t1") }));
    assert_eq!(world.finished(), Some(StopReason::Completed));
    assert!(world.state.workspace.artefacts.contains("a.xml"));
    let artefacts = world.journal.iter().position(|r| matches!(r, Record::Artefacts { .. }));
    let validated = world.journal.iter().position(|r| matches!(r, Record::Validated { .. }));
    assert!(artefacts < validated, "recorded before anything rests on it");
}

#[test]
fn artefacts_of_the_baseline_and_of_a_killed_validation_are_recorded() {
    let mut world = World::default();
    let fresh = RunStarted { baseline: BaselineMode::Warn, ..fresh() };
    world.feed(Input::Started(StartOptions { fresh }));
    world.observe(vec![], "t0");
    let verdicts = vec![validation(false, "t0").verdicts.remove(0)];
    world.feed(Input::Baseline(BaselineCheck {
        verdicts,
        tree: "t0".into(),
        artefacts: left("a.xml"),
        ..BaselineCheck::default()
    }));
    world.feed(Input::Artefacts(vec!["b.xml".into()]));
    let artefacts: Vec<&String> = world.state.workspace.artefacts.iter().collect();
    assert_eq!(artefacts, ["a.xml", "b.xml"]);
}

#[test]
fn what_validators_change_is_neither_progress_nor_another_work() {
    let mut world = claimed("t1");
    world.feed(Input::Validated(formatted(false)));
    assert!(world.last.iter().any(|e| matches!(e, Effect::Append(Record::Warning { .. }))));
    assert_eq!(world.state.workspace.tree_left.as_deref(), Some("formatted"));
    // The agent does nothing, three times: that is the same work, however the validators left it.
    for times in 2..=3 {
        world.iterate(IterationOutcome::Succeeded, vec![], "formatted");
        assert_eq!(world.state.workspace.tree_since, 1, "the agent changed nothing since");
        world.feed(Input::Validated(formatted(false)));
        assert_eq!(world.state.rejected_in_a_row(), times);
    }
    assert_eq!(world.finished(), Some(StopReason::Thrashing));
}

#[test]
fn work_after_validators_changed_files_is_another_work() {
    let mut world = claimed("t1");
    world.feed(Input::Validated(formatted(false)));
    world.iterate(IterationOutcome::Succeeded, vec![], "t2");
    assert_eq!(
        (world.state.workspace.tree_since, world.state.workspace.tree_left.clone()),
        (2, None)
    );
    world.feed(Input::Validated(validation(false, "t2")));
    assert_eq!(world.state.rejected_in_a_row(), 1);
}

#[test]
fn a_validation_is_due_from_the_observation_to_its_end() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    assert!(!world.state.is_validation_due(), "nothing is claimed");
    world.prepare();
    world.end(
        ended(IterationOutcome::Succeeded),
        vec![claim(ClaimKind::Complete, ClaimSource::Message)],
        observation("t1"),
    );
    assert!(world.state.is_validation_due());
    world.feed(Input::Validated(validation(false, "t1")));
    assert!(!world.state.is_validation_due());
}

/// An observation of this tree, which is `work` without artefacts.
fn observation_with(tree: &str, work: &str) -> Observation {
    Observation { work: Some(work.into()), ..observation(tree) }
}

#[test]
fn a_report_that_the_agent_writes_again_is_no_progress() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.iterate(IterationOutcome::Succeeded, vec![], "t1");
    assert_eq!(world.state.progress.stagnant, 0);
    for n in 1..=2 {
        world.feed(Input::WaitFinished);
        world.prepare();
        world.end(
            ended(IterationOutcome::Succeeded),
            vec![],
            observation_with(&format!("report {n}"), "t1"),
        );
        assert_eq!(world.state.progress.stagnant, n, "only an artefact was changed");
    }
}

#[test]
fn work_in_what_a_validator_made_first_is_seen() {
    let mut world = claimed("t1");
    world.feed(Input::Validated(Validation {
        artefacts: left("settings"),
        tree_left: "t1 and settings".into(),
        ..validation(false, "t1")
    }));
    world.feed(Input::WaitFinished);
    world.prepare();
    world.end(
        ended(IterationOutcome::Succeeded),
        vec![],
        observation_with("t1 and other settings", "t1"),
    );
    assert_eq!(world.state.workspace.tree_since, 2, "older evidence proves nothing of it");
    world.feed(Input::Validated(Validation {
        tree_left: "t1 and other settings".into(),
        ..validation(false, "t1 and other settings")
    }));
    assert_eq!(world.state.rejected_in_a_row(), 1, "it is other work");
}

#[test]
fn a_validation_that_was_broken_off_records_what_it_left() {
    let mut world = claimed("t1");
    let interrupted =
        Validation { interrupted: true, artefacts: left("a.xml"), ..Validation::default() };
    world.feed(Input::Validated(interrupted));
    assert_eq!(world.finished(), Some(StopReason::Interrupted));
    assert!(world.state.workspace.artefacts.contains("a.xml"));
}
