//! A message to the run, and each fault at each operation of the start that takes it.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_machine::{Control, ControlOrigin, ReceivedControl, Record};
use ralph_orchestrator_store::{FileOperation, send_control};

use super::injector::{Fault, Injector};
use super::world::World;

const ID: &str = "0198c0de-0000-7000-8000-000000000000";

/// A run that was killed before its first iteration, with guidance in its inbox.
fn with_guidance(killed_after: usize) -> World {
    let world = World::new();
    let killed = world.run(Injector::new(killed_after, Fault::Crash).disk());
    assert!(killed.is_err(), "it was to be killed");
    let run = world.found().expect("a run").run;
    let origin = ControlOrigin {
        id: ID.into(),
        user: "ada".into(),
        program: "command line".into(),
        sent_ms: 5,
    };
    let control = Control::Steer { text: "look at the parser".into() };
    send_control(&world.layout(), &run, &ReceivedControl { origin, control }).unwrap();
    world
}

/// The first operation after which a run has begun.
fn first_operation_of_a_run() -> usize {
    let has_begun = |good: &usize| {
        let world = World::new();
        let killed = world.run(Injector::new(*good, Fault::Crash).disk());
        killed.is_err() && world.state().started.is_some()
    };
    (0..).find(has_begun).unwrap()
}

/// The operations on the inbox and, until the message is removed from there, on the journal: only those stand between a
/// message and its record.
fn operations(killed_after: usize) -> Vec<(usize, FileOperation)> {
    let (world, injector) = (with_guidance(killed_after), Injector::none());
    world.run(injector.disk()).unwrap();
    let inbox = world.layout().inbox();
    let all = injector.operations();
    let is_removal = |(operation, path): &(FileOperation, PathBuf)| {
        *operation == FileOperation::Remove && path.starts_with(&inbox)
    };
    let removed = all.iter().position(is_removal).expect("the message is removed");
    let concerns = |path: &Path| path.starts_with(&inbox) || path.ends_with("journal.jsonl");
    let until = all.into_iter().take(removed + 1).enumerate();
    let concerned = until.filter(|(_, (_, path))| concerns(path));
    concerned.map(|(good, (operation, _))| (good, operation)).collect()
}

#[test]
fn guidance_is_taken_exactly_once_whatever_goes_wrong_meanwhile() {
    let killed_after = first_operation_of_a_run();
    let operations = operations(killed_after);
    assert!(operations.len() > 5, "{}", operations.len());
    for (good, operation) in operations {
        for fault in Fault::ALL.into_iter().filter(|fault| fault.concerns(operation)) {
            let about = format!("{fault:?} at operation {good}, {operation:?}");
            let world = with_guidance(killed_after);
            let injector = Injector::new(good, fault);
            drop(world.run(injector.disk()));
            if fault == Fault::PowerLoss {
                injector.lose_what_is_not_safe();
            }
            world.run(Injector::none().disk()).unwrap_or_else(|error| panic!("{about}: {error}"));
            check(&world, &about);
            // What could not be removed once is obeyed no more, and goes with the next run.
            if !matches!(fault, Fault::Eio | Fault::EioAfter) {
                let left = fs::read_dir(world.layout().inbox()).unwrap().count();
                assert_eq!(left, 0, "{about}: it is still there");
            }
        }
    }
}

#[track_caller]
fn check(world: &World, about: &str) {
    let records = world.records();
    let is_taken = |record: &&Record| record.control_origin().is_some_and(|origin| origin.id == ID);
    assert_eq!(records.iter().filter(is_taken).count(), 1, "{about}");
    assert!(world.state().completion().is_some(), "{about}");
}
