//! Each fault at each operation.

use std::sync::OnceLock;

use proptest::prelude::*;
use ralph_orchestrator_machine::{Record, StopReason};
use ralph_orchestrator_store::FileOperation;

use super::injector::{Fault, Injector};
use super::world::{Ended, Outcome, World};

/// A run at which nothing goes wrong: how it ends, and its operations.
fn whole() -> &'static (Outcome, Vec<FileOperation>) {
    static WHOLE: OnceLock<(Outcome, Vec<FileOperation>)> = OnceLock::new();
    WHOLE.get_or_init(run_whole)
}

fn run_whole() -> (Outcome, Vec<FileOperation>) {
    let world = World::new();
    let injector = Injector::none();
    world.run(injector.disk()).unwrap();
    let operations = injector.operations().into_iter().map(|(operation, _)| operation).collect();
    (world.outcome(), operations)
}

/// What must be so after anything: the records are in order, and none says what did not happen.
#[track_caller]
fn check(world: &World, about: &str) {
    let (ran, accepted) = world.happened();
    let mut last = 0;
    for record in world.records() {
        match record {
            Record::IterationStarted { iteration, .. } => {
                assert_eq!(iteration, last + 1, "{about}: a gap in the iterations");
                last = iteration;
            }
            Record::Completed { .. } => {
                assert!(accepted > 0, "{about}: a completion that nothing accepted");
            }
            _ => {}
        }
    }
    assert!(
        ran <= usize::try_from(last).unwrap() || last == 0,
        "{about}: {ran} agents, {last} recorded"
    );
}

/// One start on a disk with a fault.
#[track_caller]
fn start(world: &World, good: usize, fault: Fault) {
    let about = format!("{fault:?} after {good} operations");
    let before = world.state();
    let injector = Injector::new(good, fault);
    let result = world.run(injector.disk());
    if fault == Fault::PowerLoss {
        injector.lose_what_is_not_safe();
    }
    let after = world.state();
    assert!(after.cost() >= before.cost(), "{about}: cost fell");
    assert!(after.iterations >= before.iterations, "{about}: iterations were forgotten");
    check(world, &about);
    match result {
        // Trouble that does no harm, such as with a copy that nothing depends on.
        Ok(Ended::Finished(finished)) => {
            assert_eq!(finished.reason, StopReason::Completed, "{about}");
            assert_eq!(finished.state.latch, after.latch, "{about}");
        }
        Ok(Ended::Complete) => assert!(before.completion().is_some(), "{about}"),
        Err(error) => {
            let state = world.script.state.display().to_string();
            let said = error.to_string();
            let has_path = said.contains(&state) || said.contains("/.trust");
            assert!(has_path, "{about}: no path in {said:?}");
            let why = ["No space left", "Input/output error"];
            assert!(why.iter().any(|why| said.contains(why)), "{about}: no cause in {said:?}");
            assert_ne!(fault, Fault::Short, "{about}: {said}");
        }
    }
}

/// A start on a good disk: the run comes to its end.
#[track_caller]
fn resume(world: &World, expected: &Outcome, about: &str) {
    let before = world.state();
    let (ran, _) = world.happened();
    let ended = world.run(Injector::none().disk());
    let ended = ended.unwrap_or_else(|error| panic!("{about}: {error}"));
    if before.completion().is_some() {
        assert!(matches!(ended, Ended::Complete), "{about}: {ended:?}");
        assert_eq!(world.happened().0, ran, "{about}: an agent after the completion");
    }
    check(world, about);
    assert!(world.state().cost() >= before.cost(), "{about}: cost fell");
    assert!(world.state().iterations >= before.iterations, "{about}: iterations were forgotten");
    assert_eq!(&world.outcome(), expected, "{about}");
}

fn at_every_operation(fault: Fault) {
    let (expected, operations) = whole();
    assert!(operations.len() > 100, "{}", operations.len());
    for (good, operation) in operations.iter().enumerate() {
        if !fault.concerns(*operation) {
            continue;
        }
        let about = format!("{fault:?} at operation {good}, {operation:?}");
        let world = World::new();
        start(&world, good, fault);
        resume(&world, expected, &about);
    }
}

#[test]
fn an_operation_that_fails() {
    at_every_operation(Fault::Eio);
}

#[test]
fn an_operation_that_is_done_and_fails_all_the_same() {
    at_every_operation(Fault::EioAfter);
}

#[test]
fn a_disk_that_is_full_from_then_on() {
    at_every_operation(Fault::Full);
}

#[test]
fn a_disk_that_gets_full_in_the_middle_of_a_write() {
    at_every_operation(Fault::FullInTheMiddle);
}

#[test]
fn a_write_that_writes_only_a_part() {
    at_every_operation(Fault::Short);
}

#[test]
fn a_crash_before_an_operation() {
    at_every_operation(Fault::Crash);
}

#[test]
fn a_crash_in_the_middle_of_an_operation() {
    at_every_operation(Fault::CrashAfter);
}

#[test]
fn a_loss_of_power_in_the_middle_of_an_operation() {
    at_every_operation(Fault::PowerLoss);
}

/// A start that died between naming its run and the first record, and a next one that cannot read.
#[test]
fn an_operation_that_fails_after_a_crash_before_the_first_record() {
    let (expected, _) = whole();
    let crashed = |at: usize| {
        let world = World::new();
        drop(world.run(Injector::new(at, Fault::Crash).disk()));
        world
    };
    let unbegun = |world: &World| world.layout().latch().exists() && world.records().is_empty();
    let is_between = |at: &usize| unbegun(&crashed(*at));
    let first = (0..).find(is_between).expect("a crash between the latch and the first record");
    let crashes: Vec<usize> = (first..).take_while(is_between).collect();
    for at in crashes {
        // As many as a start needs until it has read what is there.
        for good in 0..12 {
            let world = crashed(at);
            start(&world, good, Fault::Eio);
            resume(&world, expected, &format!("a crash at operation {at}, then Eio at {good}"));
        }
    }
}

/// The claim of the last allowed iteration is only in its last words: once that iteration is over on
/// record, the claim is on record as well, wherever the orchestrator dies.
#[test]
fn a_crash_after_the_last_allowed_iteration_loses_no_claim() {
    let last = |record: &Record| matches!(record, Record::IterationEnded { iteration: 2, .. });
    let mut kept = 0;
    for good in 0..whole().1.len() {
        let world = World::with("[limits]\nmax_iterations = 2\n");
        drop(world.run(Injector::new(good, Fault::CrashAfter).disk()));
        if !world.records().iter().any(last) {
            continue;
        }
        kept += 1;
        drop(world.run(Injector::none().disk()).unwrap());
        assert!(world.state().completion().is_some(), "lost at operation {good}");
    }
    assert!(kept > 5, "only {kept} crashes came after the end of the iteration");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// One fault is no protection against the next.
    #[test]
    fn any_faults_one_after_the_other(
        faults in proptest::collection::vec(
            (0_usize..120, proptest::sample::select(Fault::ALL.to_vec())),
            1..6,
        ),
    ) {
        let (expected, _) = whole();
        let world = World::new();
        for (good, fault) in &faults {
            start(&world, *good, *fault);
        }
        resume(&world, expected, &format!("{faults:?}"));
    }
}
