//! A run that is read again and again while it grows.

use std::fs;
use std::sync::mpsc;

use ralph_orchestrator_machine::{Latch, Record, State};
use ralph_orchestrator_store::{Layout, RunReader, StateError, Store, read_current_run};
use tempfile::TempDir;

use crate::support::{RUN, layout, records, started, write};

const NEXT: &str = "0198c0de-0000-7000-8000-000000000002";

/// Reads what is new, as numbers of records.
fn read(reader: &mut RunReader) -> Result<Vec<u64>, StateError> {
    let mut seqs = Vec::new();
    reader.read(|entry| seqs.push(entry.seq))?;
    Ok(seqs)
}

fn run_of(reader: &mut RunReader) -> Option<String> {
    reader.read(|_| {}).unwrap().map(str::to_owned)
}

fn clock(runtime_ms: u64) -> Record {
    Record::Clock { runtime_ms }
}

#[test]
fn each_record_is_given_once_and_the_fold_is_that_of_all() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    let mut reader = RunReader::new(&layout);
    assert_eq!(read(&mut reader).unwrap(), [0; 0], "there is no run yet");
    assert_eq!(reader.stored_run(), None);
    let mut store = Store::open(layout.clone()).unwrap();
    store.begin(RUN, &[]).unwrap();
    let mut state = State::default();
    for (record, seq) in records().into_iter().zip(1..) {
        state.apply(&record);
        store.append(&record).unwrap();
        store.latch(&state.latch).unwrap();
        assert_eq!(read(&mut reader).unwrap(), [seq]);
        assert_eq!(read(&mut reader).unwrap(), [0; 0]);
    }
    assert_eq!(run_of(&mut reader).as_deref(), Some(RUN));
    assert_eq!(reader.stored_run(), read_current_run(&layout, |_| {}).unwrap());
    assert_eq!(reader.stored_run().unwrap().state, state);
}

#[test]
fn a_line_that_is_not_whole_yet_is_read_when_it_is() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &[started(), clock(1), clock(2)]);
    let path = layout.journal(RUN);
    let whole = fs::read(&path).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut reader = RunReader::of_run(&layout, RUN);
    let mut seqs = Vec::new();
    for len in first..=whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        seqs.extend(reader_of_part(&mut reader));
    }
    assert_eq!(seqs, [1, 2, 3]);
}

/// The latch is ahead of a journal that is cut, which is an error; the records before it were given.
fn reader_of_part(reader: &mut RunReader) -> Vec<u64> {
    let mut seqs = Vec::new();
    match reader.read(|entry| seqs.push(entry.seq)) {
        Ok(_) | Err(StateError::Damaged { .. }) => seqs,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_next_run_is_read_from_its_first_record() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &[started(), clock(10)]);
    let (mut current, mut first) = (RunReader::new(&layout), RunReader::of_run(&layout, RUN));
    assert_eq!((read(&mut current).unwrap(), read(&mut first).unwrap()), (vec![1, 2], vec![1, 2]));
    let mut store = Store::open(layout).unwrap();
    store.begin(NEXT, &[]).unwrap();
    store.append(&started()).unwrap();
    store.latch(&Latch::Open).unwrap();
    assert_eq!(read(&mut current).unwrap(), [1]);
    assert_eq!(run_of(&mut current).as_deref(), Some(NEXT));
    assert_eq!(read(&mut first).unwrap(), [0; 0]);
    assert_eq!(run_of(&mut first).as_deref(), Some(RUN));
}

#[test]
fn a_journal_that_was_changed_behind_the_reader_is_damaged() {
    type Change = fn(&Layout, &str);
    let changes: [(&str, Change); 5] = [
        ("shorter", |layout, text| {
            fs::write(layout.journal(RUN), text.split_inclusive('\n').next().unwrap()).unwrap();
        }),
        ("forged", |layout, text| {
            fs::write(layout.journal(RUN), format!("{text}{{\"seq\":4}}\n")).unwrap();
        }),
        ("repeated", |layout, text| {
            let last = text.lines().last().unwrap();
            fs::write(layout.journal(RUN), format!("{text}{last}\n")).unwrap();
        }),
        ("removed", |layout, _| fs::remove_file(layout.journal(RUN)).unwrap()),
        ("no UTF-8", |layout, text| {
            fs::write(layout.journal(RUN), [text.as_bytes(), b"\xff\n"].concat()).unwrap();
        }),
    ];
    for (name, change) in changes {
        let folder = TempDir::new().unwrap();
        let layout = layout(&folder);
        write(&layout, &[started(), clock(1), clock(2)]);
        let mut reader = RunReader::new(&layout);
        assert_eq!(read(&mut reader).unwrap(), [1, 2, 3]);
        let text = fs::read_to_string(layout.journal(RUN)).unwrap();
        change(&layout, &text);
        for _ in 0..2 {
            let found = read(&mut reader);
            assert!(matches!(found, Err(StateError::Damaged { .. })), "{name}: {found:?}");
        }
        // The orchestrator that holds the run writes it again as it was.
        fs::write(layout.journal(RUN), &text).unwrap();
        assert_eq!(read(&mut reader).unwrap(), [0; 0], "{name}");
    }
}

/// A reader beside a writer sees each record once and in order, and never an error.
#[test]
fn a_reader_beside_a_writer_misses_nothing() {
    const RECORDS: u64 = 400;
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    let (sender, begun) = mpsc::channel();
    let written = layout.clone();
    let writer = std::thread::spawn(move || {
        let mut store = Store::open(written).unwrap();
        store.begin(RUN, &[]).unwrap();
        store.append(&started()).unwrap();
        store.latch(&Latch::Open).unwrap();
        sender.send(()).unwrap();
        for number in 2..=RECORDS {
            store.append(&clock(number)).unwrap();
        }
    });
    begun.recv().unwrap();
    let mut reader = RunReader::new(&layout);
    let mut seqs = Vec::new();
    while seqs.len() < usize::try_from(RECORDS).unwrap() {
        seqs.extend(read(&mut reader).unwrap());
    }
    writer.join().unwrap();
    assert!(seqs.into_iter().eq(1..=RECORDS));
}
