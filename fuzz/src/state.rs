//! A whole state directory: whatever was done to journal, latch and key, what is resumed is a true
//! beginning of the run, no shorter than the latch says, or the state is damaged. A completion is
//! neither lost nor invented.

use std::fs;
use std::path::Path;

use ralph_orchestrator_machine::{Latch, Record, State};
use ralph_orchestrator_store::{Layout, StateError, Store, StoredRun, read_current_run};

use crate::bytes::Bytes;
use crate::{edit, folder, records};

const RUN: &str = "0198c0de-0000-7000-8000-000000000001";

/// The latch as it stood at some time.
struct Pinned {
    content: Vec<u8>,
    seq: usize,
    completed: bool,
}

/// Writes a run, edits its files and resumes it.
pub fn check(data: &[u8]) {
    folder::with_empty(|folder| inside(folder, &mut Bytes::new(data)));
}

fn inside(folder: &Path, bytes: &mut Bytes<'_>) {
    let layout = Layout::new(folder.join("state"));
    let (written, pins) = write(&layout, bytes);
    let journal = layout.journal(RUN);
    let before = fs::read(&journal).unwrap();
    let mut after = before.clone();
    let mut latch = pins.last().unwrap();
    let mut spoiled = false;
    match bytes.byte() % 4 {
        0 => after = edit::edited(&before, bytes),
        1 => {
            // An old latch is a true one.
            latch = &pins[bytes.below(pins.len())];
            fs::write(layout.latch(), &latch.content).unwrap();
            after = edit::edited(&before, bytes);
        }
        2 => spoiled = spoil(&layout.latch(), bytes),
        _ => spoiled = spoil(&layout.key(), bytes),
    }
    fs::write(&journal, &after).unwrap();

    let seen = outcome(read_current_run(&layout, |_| {}));
    let resumed = outcome(Store::open(layout.clone()).and_then(|mut store| store.resume()));
    assert_eq!(seen, resumed, "looking and resuming do not agree");
    match seen {
        Err(()) => {
            let touched = spoiled || before != after;
            assert!(touched, "an untouched state is refused");
        }
        Ok(None) => {
            assert_eq!(latch.seq, 0, "a run was forgotten");
            assert!(!after.contains(&b'\n'), "records were forgotten");
        }
        Ok(Some(found)) => {
            assert!(!spoiled, "a changed key or latch went unnoticed");
            let whole = after.iter().filter(|byte| **byte == b'\n').count();
            assert!(whole >= latch.seq, "the journal was cut");
            assert_eq!(found.state, State::fold(&written[..whole]), "the run is another one");
            if latch.completed {
                assert!(found.state.completion().is_some(), "a completion was lost");
            }
        }
    }
}

fn write(layout: &Layout, bytes: &mut Bytes<'_>) -> (Vec<Record>, Vec<Pinned>) {
    let mut store = Store::open(layout.clone()).unwrap();
    assert_eq!(store.resume().unwrap(), None);
    store.begin(RUN, &[]).unwrap();
    let mut state = State::default();
    let mut written = Vec::new();
    let mut pins =
        vec![Pinned { content: fs::read(layout.latch()).unwrap(), seq: 0, completed: false }];
    for _ in 0..=bytes.byte() % 8 {
        let record =
            if written.is_empty() { records::started(bytes) } else { records::record(bytes) };
        let before = state.latch.clone();
        state.apply(&record);
        assert!(!store.append(&record).unwrap(), "healed what nobody touched");
        written.push(record);
        if state.latch != before || written.len() == 1 {
            store.latch(&state.latch).unwrap();
            pins.push(Pinned {
                content: fs::read(layout.latch()).unwrap(),
                seq: written.len(),
                completed: matches!(state.latch, Latch::Completed(_)),
            });
        }
    }
    (written, pins)
}

/// Says whether the file is another one now.
fn spoil(path: &Path, bytes: &mut Bytes<'_>) -> bool {
    let before = fs::read(path).unwrap();
    if bytes.byte() % 8 == 7 {
        fs::remove_file(path).unwrap();
        return true;
    }
    let after = edit::edited(&before, bytes);
    fs::write(path, &after).unwrap();
    before != after
}

fn outcome(result: Result<Option<StoredRun>, StateError>) -> Result<Option<StoredRun>, ()> {
    match result {
        Ok(found) => Ok(found.map(|found| StoredRun { torn: None, ..found })),
        Err(StateError::Damaged { .. }) => Err(()),
        Err(other) => panic!("{other}"),
    }
}
