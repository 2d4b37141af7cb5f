//! The checks before any work is done.

use super::*;

fn begun(mode: BaselineMode) -> World {
    let options = RunStarted { baseline: mode, ..fresh() };
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: options }));
    world
}

fn again(baseline: BaselineMode) -> Input {
    Input::Started(StartOptions { fresh: RunStarted { baseline, ..fresh() } })
}

fn checked(good: bool) -> Input {
    Input::Baseline(BaselineCheck {
        verdicts: vec![validation(good, "t0").verdicts.remove(0)],
        tree: "after the checks".into(),
        evidence: vec!["left by the checks".into()],
        ..BaselineCheck::default()
    })
}

fn warned(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Append(Record::Warning { .. })))
}

#[test]
fn runs_the_checks_once_before_the_first_iteration() {
    let mut world = begun(BaselineMode::Warn);
    assert!(world.observe(vec![], "t0").contains(&Effect::CheckBaseline));
    let effects = world.feed(checked(false));
    assert!(!warned(effects) && effects.iter().any(|e| matches!(e, Effect::Prepare(_))));
    world.prepare();
    world.end(ended(IterationOutcome::Succeeded), vec![], observation("t1"));
    assert!(!world.last.contains(&Effect::CheckBaseline));
    assert_eq!(world.state.validation.baseline_accepted, Some(false));
}

#[test]
fn warns_of_checks_that_accept_before_any_work() {
    let mut world = begun(BaselineMode::Warn);
    world.observe(vec![], "t0");
    assert!(warned(world.feed(checked(true))));
    world.prepare();
    let claims = vec![claim(ClaimKind::Complete, ClaimSource::Message)];
    world.end(ended(IterationOutcome::Succeeded), claims, observation("t1"));
    world.feed(Input::Validated(validation(true, "t1")));
    let Some(Effect::Finish { message, .. }) = world.last.last() else { panic!() };
    assert!(message.contains("had accepted the unchanged workspace"), "{message}");
}

#[test]
fn nothing_begins_where_nothing_could_be_accepted_until_that_is_mended() {
    for mode in [BaselineMode::Warn, BaselineMode::MustFail] {
        let mut world = begun(mode);
        world.observe(vec![], "t0");
        let Input::Baseline(check) = checked(false) else { panic!() };
        let hopeless = vec!["a server writes".to_owned()];
        world.feed(Input::Baseline(BaselineCheck { hopeless, ..check }));
        assert_eq!(world.finished(), Some(StopReason::Baseline));
        assert_eq!(world.state.iterations, 0);
        assert_eq!(world.state.resume_blocker(), Some(ResumeBlocker::Unsteady));
        world.feed(again(mode));
        assert!(world.observe(vec![], "t0").contains(&Effect::CheckBaseline));
    }
}

#[test]
fn must_fail_does_not_begin_until_a_check_fails() {
    let mut world = begun(BaselineMode::MustFail);
    world.observe(vec![], "t0");
    world.feed(checked(true));
    assert_eq!(world.finished(), Some(StopReason::Baseline));
    assert_eq!(world.state.iterations, 0);
    world.feed(again(BaselineMode::MustFail));
    assert!(world.observe(vec![], "t0").contains(&Effect::CheckBaseline), "it may be mended now");
    world.feed(checked(false));
    world.prepare();
}

#[test]
fn must_fail_does_not_begin_while_a_check_cannot_run() {
    for (mode, stop) in
        [(BaselineMode::MustFail, Some(StopReason::Baseline)), (BaselineMode::Warn, None)]
    {
        let mut world = begun(mode);
        world.observe(vec![], "t0");
        let Input::Baseline(mut check) = checked(false) else { panic!() };
        check.unable = vec!["`t`: the shell says `sh: 1: pytest: not found`".into()];
        world.feed(Input::Baseline(check));
        assert_eq!(world.finished(), stop, "{mode:?}");
    }
}

#[test]
fn what_the_checks_leave_is_no_progress_and_no_evidence() {
    let mut world = begun(BaselineMode::Warn);
    world.observe(vec![], "t0");
    world.feed(checked(false));
    world.prepare();
    let evidence = evidence(&[("s9", "left by the checks")]);
    let observed = Observation { evidence, ..observation("after the checks") };
    world.end(ended(IterationOutcome::Succeeded), vec![], observed);
    assert_eq!(world.state.progress.stagnant, 1);
    assert_eq!(world.state.workspace.evidence_history.written_in["left by the checks"], 0);
    assert_eq!(world.state.workspace.tree_since, 0);
}

#[test]
fn a_pending_claim_or_nothing_to_run_needs_no_baseline() {
    let mut world = begun(BaselineMode::Warn);
    let claims = vec![claim(ClaimKind::Complete, ClaimSource::State)];
    let effects = world.observe(claims, "t0");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Validate(_))));

    let mut options = RunStarted { baseline: BaselineMode::Warn, ..fresh() };
    options.policy.validators[0].runs_check = false;
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: options }));
    assert!(!world.observe(vec![], "t0").contains(&Effect::CheckBaseline));
    assert_eq!(world.feed(checked(true)), [], "nobody asked");

    let mut world = begun(BaselineMode::Off);
    assert!(!world.observe(vec![], "t0").contains(&Effect::CheckBaseline));
}

#[test]
fn a_signal_breaks_it_off_and_it_is_run_at_the_next_start() {
    let mut world = begun(BaselineMode::Warn);
    world.observe(vec![], "t0");
    world.feed(Input::Signal);
    let interrupted = BaselineCheck { interrupted: true, ..BaselineCheck::default() };
    world.feed(Input::Baseline(interrupted));
    assert_eq!(world.finished(), Some(StopReason::Interrupted));
    world.feed(again(BaselineMode::Warn));
    assert!(world.observe(vec![], "t0").contains(&Effect::CheckBaseline));
    world.feed(again(BaselineMode::Off));
    assert!(!world.observe(vec![], "t0").contains(&Effect::CheckBaseline), "no longer asked for");
}

#[test]
fn claims_are_on_record_before_the_iteration_is_over_and_before_the_workspace_is_observed() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    let said = claim(ClaimKind::Complete, ClaimSource::Message);
    world.feed(Input::ClaimsFound(vec![said]));
    let known = world.journal.len();
    assert!(matches!(world.journal.last(), Some(Record::Claimed { iteration: 1, .. })));
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    // The orchestrator is killed at any time from now on.
    for cut in known..=world.journal.len() {
        let journal = world.journal[..cut].to_vec();
        let mut again = World { state: State::fold(&journal), journal, ..World::default() };
        again.feed(Input::Started(StartOptions { fresh: fresh() }));
        let effects = again.observe(vec![], "t1");
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Validate(_))), "{cut}");
    }
}

#[test]
fn a_stop_before_the_workspace_was_observed_leaves_that_to_the_next_start() {
    let mut world = World::started();
    world.observe(vec![], "t0");
    world.prepare();
    world.feed(Input::IterationEnded(ended(IterationOutcome::Succeeded)));
    world.feed(Input::Signal);
    world.feed(Input::ObservationSkipped);
    assert_eq!(world.finished(), Some(StopReason::Interrupted));
    assert!(world.state.progress.awaiting_observation);
    assert_eq!(world.state.workspace.tree, "t0");
}
