//! A state that a run holds, its readers, and what is left of earlier runs.

use std::fs;
use std::path::Path;

use ralph_orchestrator_machine::{Latch, Record, State};
use ralph_orchestrator_store::{
    Disk, StateError, Store, list_runs, read_current_run, read_run, reset,
};
use tempfile::TempDir;

use crate::support::{RUN, layout, nothing_left, records, resumed, started, write};

#[test]
fn while_it_is_held_memory_is_the_master() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    let mut store = Store::open(layout.clone()).unwrap();
    store.begin(RUN, &[]).unwrap();
    let mut state = State::default();
    let sabotage: [&dyn Fn(); 6] = [
        &|| fs::remove_file(layout.journal(RUN)).unwrap(),
        &|| fs::write(layout.journal(RUN), "forged\n").unwrap(),
        &|| fs::write(layout.latch(), "{}").unwrap(),
        &|| fs::remove_file(layout.key()).unwrap(),
        &|| fs::remove_dir_all(layout.root()).unwrap(),
        &|| fs::remove_file(layout.lock()).unwrap(),
    ];
    let mut all = Vec::new();
    for (n, record) in records().into_iter().enumerate() {
        state.apply(&record);
        store.append(&record).unwrap();
        store.latch(&state.latch).unwrap();
        all.push(record);
        sabotage[n]();
        let answer = Record::Answered { text: format!("after sabotage {n}"), origin: None };
        state.apply(&answer);
        assert!(store.append(&answer).unwrap(), "sabotage {n} was not noticed");
        all.push(answer);
    }
    drop(store);
    assert_eq!(resumed(&layout).unwrap().unwrap(), State::fold(&all));
}

#[test]
fn an_earlier_run_that_is_resumed_is_the_current_one_from_its_next_record_on() {
    const NEXT: &str = "0198c0de-0000-7000-8000-000000000002";
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &[started(), Record::Clock { runtime_ms: 10 }]);
    let mut store = Store::open(layout.clone()).unwrap();
    store.begin(NEXT, &[]).unwrap();
    store.append(&started()).unwrap();
    store.latch(&Latch::Open).unwrap();
    drop(store);
    let current = || read_current_run(&layout, |_| {}).unwrap().unwrap().run;
    for is_recorded in [false, true] {
        assert_eq!(current(), NEXT);
        let mut store = Store::open(layout.clone()).unwrap();
        store.resume().unwrap();
        assert_eq!(store.resume_earlier(RUN).unwrap().state.budget.runtime_ms, 10);
        assert_eq!(current(), NEXT, "nothing depends on it yet");
        if is_recorded {
            store.append(&Record::Clock { runtime_ms: 20 }).unwrap();
        }
    }
    assert_eq!(current(), RUN);
    assert_eq!(resumed(&layout).unwrap().unwrap().budget.runtime_ms, 20);
    let damaged = fs::read_to_string(layout.journal(NEXT)).unwrap().replace("fake", "forged");
    fs::write(layout.journal(NEXT), damaged).unwrap();
    let mut store = Store::open(layout.clone()).unwrap();
    store.resume().unwrap();
    assert!(matches!(store.resume_earlier(NEXT), Err(StateError::Damaged { .. })));
}

#[test]
fn a_run_without_a_record_takes_no_place_and_leaves_nothing_beside_the_latch() {
    const NEXT: &str = "0198c0de-0000-7000-8000-000000000002";
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records());
    let before = fs::read(layout.latch()).unwrap();
    let latches = || {
        let names = fs::read_dir(layout.root()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("latch")).count()
    };
    for record in [None, Some(started())] {
        let mut store = Store::open(layout.clone()).unwrap();
        store.resume().unwrap();
        fs::remove_dir_all(layout.run(NEXT)).ok();
        store.begin(NEXT, &[("config.toml", b"x")]).unwrap();
        store.write_signed_file("paths.json", "{\"paths\":[]}").unwrap();
        assert_eq!(latches(), 2, "the next latch waits beside this one");
        let begins = record.is_some();
        if let Some(record) = record {
            store.append(&record).unwrap();
            store.latch(&Latch::Open).unwrap();
            assert_eq!(latches(), 1);
            let stored = store.read_signed_file("paths.json").unwrap().unwrap();
            assert!(stored.starts_with("{\"paths\":[]"), "{stored}");
            assert!(!store.append(&Record::Answered { text: "a".into(), origin: None }).unwrap());
        }
        drop(store);
        assert_eq!(latches(), 1);
        assert_eq!(fs::read(layout.latch()).unwrap() == before, !begins);
        let current = read_current_run(&layout, |_| {}).unwrap().unwrap();
        assert_eq!(current.run, if begins { NEXT } else { RUN });
    }
}

#[test]
fn the_error_of_the_second_one_names_the_first() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    let store = Store::open(layout.clone()).unwrap();
    let Err(StateError::Busy { holder }) = Store::open(layout.clone()) else { panic!() };
    assert_eq!(holder.pid, std::process::id());
    assert!(holder.started.is_some());
    drop(store);
    assert!(Store::open(layout).is_ok());
}

#[test]
fn readers_do_not_need_the_lock_and_change_nothing() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records());
    let _held = Store::open(layout.clone()).unwrap();
    let path = layout.journal(RUN);
    let mut torn = fs::read(&path).unwrap();
    torn.extend_from_slice(b"{\"seq\":6");
    fs::write(&path, &torn).unwrap();
    let mut seen = 0;
    let found = read_current_run(&layout, |_| seen += 1).unwrap().unwrap();
    assert_eq!((seen, found.torn.unwrap().bytes), (5, 8));
    assert_eq!(fs::read(&path).unwrap(), torn);
}

#[test]
fn reset_forgets_even_what_is_damaged() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records());
    fs::write(layout.latch(), "damaged").unwrap();
    reset(&Disk::default(), &layout, &nothing_left).unwrap();
    assert!(resumed(&layout).unwrap().is_none());
    reset(&Disk::default(), &layout, &nothing_left).expect("nothing to forget is no trouble");
    fs::create_dir_all(layout.latch().join("x")).unwrap();
    assert!(matches!(
        reset(&Disk::default(), &layout, &nothing_left),
        Err(StateError::Io { action: "remove", .. })
    ));
}

#[test]
fn private_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(layout.root()), 0o700);
    for path in [layout.key(), layout.latch(), layout.journal(RUN), layout.lock()] {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn an_earlier_run_is_read_as_far_as_its_chain_allows() {
    const NEXT: &str = "0198c0de-0000-7000-8000-000000000002";
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    assert_eq!(list_runs(&layout).unwrap(), Vec::<String>::new());
    write(&layout, &records());
    let mut store = Store::open(layout.clone()).unwrap();
    store.resume().unwrap();
    store.begin(NEXT, &[]).unwrap();
    store.append(&started()).unwrap();
    store.latch(&Latch::Open).unwrap();
    drop(store);
    assert_eq!(list_runs(&layout).unwrap(), [NEXT, RUN]);
    let read = |run: &str| {
        let mut count = 0;
        read_run(&layout, run, |_| count += 1).map(|stored| (stored, count))
    };
    let (current, _) = read(NEXT).unwrap();
    assert!(current.is_current && current.found.run == NEXT);
    let (earlier, count) = read(RUN).unwrap();
    assert!(!earlier.is_current && earlier.damage.is_none());
    assert_eq!((count, earlier.found.run.as_str()), (records().len(), RUN));
    assert!(earlier.found.state.completion().is_some());
    assert!(earlier.found.ended >= earlier.found.started);

    // Somebody has edited its fourth record.
    let path = layout.journal(RUN);
    let journal = fs::read_to_string(&path).unwrap();
    fs::write(&path, journal.replace("\"runtime_ms\":20", "\"runtime_ms\":21")).unwrap();
    let (earlier, count) = read(RUN).unwrap();
    assert_eq!(count, 3);
    assert!(earlier.found.state.completion().is_none());
    let damage = earlier.damage.unwrap().to_string();
    assert!(damage.contains("record 4"), "{damage}");
    fs::write(&path, journal.replacen("{\"seq\":1", "{\"seq\":9", 1)).unwrap();
    assert!(matches!(read(RUN), Err(StateError::Damaged { .. })));
    assert!(matches!(read("none"), Err(StateError::Io { .. })));
}
