//! Damage is refused, whatever a crash leaves is recovered.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use ralph_orchestrator_contract::Claim;
use ralph_orchestrator_machine::{Latch, Record, State};
use ralph_orchestrator_store::{Disk, Key, LatchFile, StateError, Store, read_current_run};
use tempfile::TempDir;

use crate::support::{
    RUN, claimed, completed, layout, records, resumed, started, validated, write,
};

#[test]
fn what_was_written_is_what_is_resumed() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records());
    let state = resumed(&layout).unwrap().unwrap();
    assert_eq!(state, State::fold(&records()));
    assert!(matches!(state.latch, Latch::Completed(_)));
}

#[test]
fn a_journal_cut_at_every_byte_is_a_prefix_or_refused() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    // Without a completion the latch pins only what came before the claim.
    let all = [started(), Record::Clock { runtime_ms: 1 }, Record::Clock { runtime_ms: 2 }];
    write(&layout, &all);
    let path = layout.journal(RUN);
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let lines = ends.iter().filter(|end| **end <= cut).count();
        match resumed(&layout) {
            Ok(Some(state)) => {
                assert!(lines >= 1);
                assert_eq!(state, State::fold(&all[..lines]), "cut at {cut}");
                assert_eq!(fs::read(&path).unwrap(), &whole[..ends[lines - 1]], "tail is cut");
            }
            Err(StateError::Damaged { .. }) => assert_eq!(lines, 0, "cut at {cut}"),
            other => panic!("cut at {cut}: {other:?}"),
        }
    }
}

#[test]
fn a_completion_cannot_be_cut_off() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records());
    let path = layout.journal(RUN);
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let result = resumed(&layout);
        assert!(matches!(result, Err(StateError::Damaged { .. })), "cut at {cut}: {result:?}");
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records());
    for path in [layout.journal(RUN), layout.latch(), layout.key()] {
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x20;
            fs::write(&path, &changed).unwrap();
            let result = resumed(&layout);
            let shown = path.display();
            assert!(
                matches!(result, Err(StateError::Damaged { .. })),
                "byte {at} of {shown}: {result:?}"
            );
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(resumed(&layout).unwrap().is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Never a completion that was not there; never another state than a prefix's.
    #[test]
    fn a_mutated_journal_is_recovered_or_refused(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..4)
    ) {
        let folder = TempDir::new().unwrap();
        let layout = layout(&folder);
        let all = [started(), Record::Clock { runtime_ms: 5 }, claimed(), Record::Clock { runtime_ms: 9 }];
        write(&layout, &all);
        let path = layout.journal(RUN);
        let mut content = fs::read(&path).unwrap();
        for (at, byte, how) in edits {
            if content.is_empty() { break; }
            let at = at.index(content.len());
            match how {
                0 => content[at] = byte,
                1 => content.insert(at, byte),
                2 => { content.remove(at); }
                _ => content.truncate(at),
            }
        }
        fs::write(&path, &content).unwrap();
        match resumed(&layout) {
            Ok(Some(state)) => {
                prop_assert!((3..=all.len()).any(|n| state == State::fold(&all[..n])));
            }
            Err(StateError::Damaged { .. }) => {}
            other => prop_assert!(false, "{other:?}"),
        }
    }
}

#[test]
fn a_missing_file_is_damage_but_a_missing_directory_is_a_fresh_start() {
    for gone in ["key", "latch", "runs", "journal"] {
        let folder = TempDir::new().unwrap();
        let layout = layout(&folder);
        write(&layout, &records());
        match gone {
            "key" => fs::remove_file(layout.key()).unwrap(),
            "latch" => fs::remove_file(layout.latch()).unwrap(),
            "runs" => fs::remove_dir_all(layout.runs()).unwrap(),
            _ => fs::remove_file(layout.journal(RUN)).unwrap(),
        }
        let result = resumed(&layout);
        assert!(matches!(result, Err(StateError::Damaged { .. })), "without {gone}: {result:?}");
        let result = read_current_run(&layout, |_| {});
        assert!(
            matches!(result, Err(StateError::Damaged { .. })),
            "peek without {gone}: {result:?}"
        );
    }
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records());
    fs::remove_file(layout.key()).unwrap();
    assert!(resumed(&layout).unwrap_err().to_string().ends_with("the key of this state is gone"));
    assert!(!layout.key().exists(), "a new key would bury the old state");
    fs::remove_dir_all(layout.root()).unwrap();
    assert!(resumed(&layout).unwrap().is_none());
}

#[test]
fn files_of_another_state_are_refused() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (one, two) = (layout(&one), layout(&two));
    write(&one, &records()[..2]);
    write(&two, &records());
    let copy = |from: &Path, to: &Path| {
        fs::copy(from, to).unwrap();
    };
    copy(&two.journal(RUN), &one.journal(RUN));
    assert!(matches!(resumed(&one), Err(StateError::Damaged { .. })), "foreign journal");
    copy(&two.latch(), &one.latch());
    assert!(matches!(resumed(&one), Err(StateError::Damaged { .. })), "foreign journal and latch");
}

#[test]
fn an_older_copy_of_the_journal_is_refused() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records()[..2]);
    let old = fs::read(layout.journal(RUN)).unwrap();
    let mut store = Store::open(layout.clone()).unwrap();
    let mut state = store.resume().unwrap().unwrap().state;
    for record in [claimed(), validated(), completed()] {
        state.apply(&record);
        store.append(&record).unwrap();
    }
    store.latch(&state.latch).unwrap();
    drop(store);
    fs::write(layout.journal(RUN), old).unwrap();
    assert!(matches!(resumed(&layout), Err(StateError::Damaged { .. })));
}

#[test]
fn a_crash_between_naming_a_run_and_its_first_record_is_a_fresh_start() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    let mut store = Store::open(layout.clone()).unwrap();
    store.begin(RUN, &[]).unwrap();
    drop(store);
    assert!(resumed(&layout).unwrap().is_none(), "empty journal");
    fs::write(layout.journal(RUN), b"{\"seq\":1,\"ti").unwrap();
    assert!(resumed(&layout).unwrap().is_none(), "torn first record");
    fs::remove_file(layout.journal(RUN)).unwrap();
    assert!(resumed(&layout).unwrap().is_none(), "no journal yet");
}

#[test]
fn a_crash_between_the_first_record_and_the_latch_is_a_run_that_has_begun() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    let mut store = Store::open(layout.clone()).unwrap();
    store.begin(RUN, &[]).unwrap();
    store.append(&started()).unwrap();
    drop(store);
    assert_eq!(resumed(&layout).unwrap().unwrap(), State::fold(&[started()]));
}

#[test]
fn a_latch_may_hold_a_long_claim_and_says_when_it_is_of_a_newer_version() {
    let folder = TempDir::new().unwrap();
    let (disk, path) = (Disk::default(), folder.path().join("latch"));
    let key = Key::create(&disk, &folder.path().join("key")).unwrap();
    let Record::Claimed { claim, iteration } = claimed() else { panic!() };
    let claim = Claim { text: "x".repeat(2 * 1024 * 1024), ..claim };
    let mut latch = LatchFile::new(RUN, 3, Latch::Claimed { claim, iteration });
    latch.write(&disk, &key, &path).unwrap();
    assert_eq!(LatchFile::read(&disk, &key, &path).unwrap().as_ref(), Some(&latch));
    for (version, readable) in [(0, true), (1, true), (2, false), (u32::MAX, false)] {
        latch.version = version;
        latch.write(&disk, &key, &path).unwrap();
        match LatchFile::read(&disk, &key, &path) {
            Ok(found) => assert!(readable && found.as_ref() == Some(&latch)),
            Err(error) => {
                assert!(!readable && error.to_string().contains("newer version"), "{error}");
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_not_taken_for_missing() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    for path in [layout.journal(RUN), layout.latch()] {
        write(&layout, &records());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        for result in [resumed(&layout).map(drop), read_current_run(&layout, |_| {}).map(drop)] {
            assert!(matches!(result, Err(StateError::Io { .. })), "{}: {result:?}", path.display());
        }
        fs::remove_dir_all(layout.root()).unwrap();
    }
}
