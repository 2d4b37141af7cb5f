//! Deleting runs, interrupted at each operation: what was begun is finished by whoever uses the state next.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ralph_orchestrator_machine::State;
use ralph_orchestrator_store::{
    Disk, EndedRun, FaultAction, FaultInjector, FileOperation, Layout, StateError, Store,
    ended_runs, list_runs, read_current_run, remove_ended_runs, reset,
};
use tempfile::TempDir;

use crate::support::{RUN, layout, nothing_left, records, resumed, write};

const LATER: &str = "0198c0de-0000-7000-8000-000000000002";

/// Lets the process die before an operation, or in the middle of it.
struct Killer {
    at: usize,
    is_done: bool,
    seen: AtomicUsize,
}

impl FaultInjector for Killer {
    fn fault_action(&self, operation: FileOperation, path: &Path) -> FaultAction {
        let number = self.seen.fetch_add(1, Ordering::SeqCst);
        if number < self.at {
            return FaultAction::Proceed;
        }
        if number == self.at && self.is_done {
            if operation == FileOperation::Remove && path.is_dir() {
                // A folder that was half removed.
                let mut entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
                let first = entries.next();
                if let Some(folder) = first.filter(|path| path.is_dir()) {
                    drop(fs::remove_file(folder.join("journal.jsonl")));
                }
                return FaultAction::Fail(io::ErrorKind::Other.into());
            }
            return FaultAction::FailAfterwards(io::ErrorKind::Other.into());
        }
        FaultAction::Fail(io::ErrorKind::Other.into())
    }
}

/// Kills `delete` at each of its operations, and hands what that leaves to `check`, with the words for a failure.
/// Returns how often it was killed.
fn kill_everywhere(
    prepare: fn(&Layout),
    delete: fn(&Disk, &Layout) -> Result<(), StateError>,
    check: fn(&Layout, &str),
) -> usize {
    let mut kills = 0;
    for is_done in [false, true] {
        for at in 0.. {
            let folder = TempDir::new().unwrap();
            let layout = layout(&folder);
            prepare(&layout);
            let killer = Arc::new(Killer { at, is_done, seen: AtomicUsize::new(0) });
            let disk = Disk::with_faults(Arc::<Killer>::clone(&killer));
            if delete(&disk, &layout).is_ok() && killer.seen.load(Ordering::SeqCst) <= at {
                break;
            }
            kills += 1;
            check(&layout, &format!("killed at operation {at}, in its middle: {is_done}"));
        }
    }
    kills
}

fn two_runs(layout: &Layout) {
    write(layout, &records());
    let mut store = Store::open(layout.clone()).unwrap();
    store.resume().unwrap();
    store.begin(LATER, &[]).unwrap();
    let mut state = State::default();
    for record in records() {
        state.apply(&record);
        store.append(&record).unwrap();
        store.latch(&state.latch).unwrap();
    }
    for run in [RUN, LATER] {
        fs::create_dir(layout.run(run).join("iterations")).unwrap();
    }
}

#[test]
fn a_killed_reset_has_not_begun_or_is_finished_by_the_next_that_looks() {
    let delete = |disk: &Disk, layout: &Layout| reset(disk, layout, &nothing_left).map(drop);
    let kills = kill_everywhere(two_runs, delete, |layout, about| {
        let found = read_current_run(layout, |_| ());
        let found = found.unwrap_or_else(|error| panic!("{about}: {error}"));
        let runs = list_runs(layout).unwrap();
        match found {
            // It has not begun.
            Some(found) => {
                assert_eq!(found.run, LATER, "{about}");
                assert_eq!(runs, [LATER, RUN], "{about}");
                assert!(resumed(layout).unwrap().is_some(), "{about}");
            }
            None => {
                assert!(runs.is_empty(), "{about}");
                for path in [layout.key(), layout.latch(), layout.runs(), layout.deletion()] {
                    assert!(!path.exists(), "{about}: {}", path.display());
                }
                write(layout, &records());
            }
        }
    });
    assert!(kills > 20, "only {kills} operations");
}

#[test]
fn a_killed_reset_is_finished_by_the_next_run_and_by_the_next_reset() {
    let delete = |disk: &Disk, layout: &Layout| reset(disk, layout, &nothing_left).map(drop);
    kill_everywhere(two_runs, delete, |layout, about| {
        let has_begun = layout.deletion().exists();
        let found = resumed(layout).unwrap_or_else(|error| panic!("{about}: {error}"));
        assert!(!has_begun || found.is_none(), "{about}");
    });
    kill_everywhere(two_runs, delete, |layout, about| {
        let again = reset(&Disk::default(), layout, &nothing_left);
        again.unwrap_or_else(|error| panic!("{about}: {error}"));
        assert!(resumed(layout).unwrap().is_none(), "{about}");
    });
}

#[test]
fn a_killed_prune_has_not_begun_or_is_finished_by_the_next_that_looks() {
    let delete = |disk: &Disk, layout: &Layout| {
        let chosen: Vec<EndedRun> = ended_runs(layout)?;
        remove_ended_runs(disk, layout, chosen).map(drop)
    };
    let kills = kill_everywhere(two_runs, delete, |layout, about| {
        let found = read_current_run(layout, |_| ()).unwrap();
        assert_eq!(found.map(|found| found.run).as_deref(), Some(LATER), "{about}");
        let is_there = layout.run(RUN).exists();
        assert_eq!(layout.journal(RUN).exists(), is_there, "{about}: a part of it is left");
        assert_eq!(list_runs(layout).unwrap().len(), if is_there { 2 } else { 1 }, "{about}");
        assert!(!layout.deletion().exists(), "{about}");
    });
    assert!(kills > 10, "only {kills} operations");
}

#[test]
fn what_is_being_deleted_counts_as_deleted_while_somebody_holds_the_state() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    two_runs(&layout);
    let held = Store::open(layout.clone()).unwrap();
    fs::write(layout.deletion(), "\"state\"").unwrap();
    fs::remove_file(layout.latch()).unwrap();
    assert!(read_current_run(&layout, |_| ()).unwrap().is_none());
    assert!(list_runs(&layout).unwrap().is_empty());
    assert!(layout.key().exists(), "whoever holds it deletes it");
    drop(held);
    assert!(read_current_run(&layout, |_| ()).unwrap().is_none());
    assert!(!layout.key().exists());
}

#[test]
fn nothing_outside_of_the_runs_is_deleted_whatever_the_file_says() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    two_runs(&layout);
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let absolute = outside.display().to_string();
    let runs = serde_json::json!({ "runs": ["../../outside", "..", ".", "", absolute] });
    fs::write(layout.deletion(), runs.to_string()).unwrap();
    assert_eq!(list_runs(&layout).unwrap(), [LATER, RUN]);
    assert!(outside.exists());
    // What cannot be read is no order, and `reset` deletes it.
    fs::write(layout.deletion(), "{").unwrap();
    let error = Store::open(layout.clone()).unwrap_err().to_string();
    assert!(error.contains("deletion.json"), "{error}");
    reset(&Disk::default(), &layout, &nothing_left).unwrap();
    assert!(resumed(&layout).unwrap().is_none());
}
