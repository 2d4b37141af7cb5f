//! The state on disk: what a crash leaves is recovered, what anybody else does is noticed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use ralph_orchestrator_contract::{Claim, ClaimKind, ClaimSource};
use ralph_orchestrator_core::machine::{
    FrozenPolicy, Latch, PathIdentities, Record, RunLimits, RunStarted, State,
};
use ralph_orchestrator_core::store::{
    Disk, Key, LatchFile, Layout, OrphanCleanup, StateError, Store, list_runs, read_current_run,
    read_run, reset,
};
use tempfile::TempDir;

const RUN: &str = "0198c0de-0000-7000-8000-000000000001";

fn started() -> Record {
    Record::RunStarted(RunStarted {
        version: 1,
        agent: "fake".into(),
        fallback: Vec::new(),
        workspace: "/w".into(),
        policy: FrozenPolicy::default(),
        limits: RunLimits::default(),
        tree: "t0".into(),
        evidence: Vec::new(),
        evidence_overflowed: false,
        baseline: ralph_orchestrator_core::machine::BaselineMode::Off,
        once: false,
        identities: PathIdentities::default(),
    })
}

fn claimed() -> Record {
    Record::Claimed {
        iteration: 0,
        claim: Claim {
            kind: ClaimKind::Complete,
            detector: "marker".into(),
            source: ClaimSource::State,
            text: "TASK_COMPLETE — \"quoted\" and ünïcode\n".into(),
        },
    }
}

fn validated() -> Record {
    Record::Validated {
        tree_left: None,
        iteration: 0,
        accepted: true,
        tree: "t0".into(),
        verdicts: Vec::new(),
        reasons: Vec::new(),
        runtime_ms: 20,
    }
}

fn completed() -> Record {
    Record::Completed {
        iteration: 0,
        tree: "t0".into(),
        evidence: Vec::new(),
        policy: "p".into(),
        task: "k".into(),
        validated: true,
        runtime_ms: 30,
    }
}

fn records() -> Vec<Record> {
    vec![started(), Record::Clock { runtime_ms: 10 }, claimed(), validated(), completed()]
}

/// No start was killed here.
fn nothing_left(_run: &str) -> OrphanCleanup {
    OrphanCleanup::default()
}

fn layout(folder: &TempDir) -> Layout {
    Layout::new(folder.path().join("state"))
}

/// Writes records the way the driver does: the latch after what changes it.
fn write(layout: &Layout, records: &[Record]) {
    let mut store = Store::open(layout.clone()).unwrap();
    assert!(store.resume().unwrap().is_none());
    store.begin(RUN, &[]).unwrap();
    let mut state = State::default();
    for record in records {
        state.apply(record);
        assert!(!store.append(record).unwrap());
        if matches!(
            record,
            Record::RunStarted(_) | Record::Claimed { .. } | Record::Completed { .. }
        ) {
            store.latch(&state.latch).unwrap();
        }
    }
}

fn resumed(layout: &Layout) -> Result<Option<State>, StateError> {
    Store::open(layout.clone())?.resume().map(|found| found.map(|found| found.state))
}

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
            "read_current_run without {gone}: {result:?}"
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

/// Whose processes are ended, with these found to survive.
fn ended_by(store: &mut Store, survived: &[&str]) -> Option<String> {
    let ended = std::cell::RefCell::new(None);
    let end = |run: &str| {
        *ended.borrow_mut() = Some(run.to_owned());
        let survived = survived.iter().map(|name| (*name).to_owned()).collect();
        OrphanCleanup { survived, ..OrphanCleanup::default() }
    };
    store.end_orphans(None, &end);
    ended.into_inner()
}

#[test]
fn a_killed_run_has_a_name_before_it_is_opened() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    let named = || {
        // As one leaves it that is killed.
        fs::create_dir_all(layout.root()).unwrap();
        fs::write(layout.lock(), "{\"pid\":1}").unwrap();
        ended_by(&mut Store::open(layout.clone()).unwrap(), &[])
    };
    assert_eq!(named(), None);
    write(&layout, &records()[..3]);
    assert_eq!(named().as_deref(), Some(RUN));
    let mut next = Store::open(layout.clone()).unwrap();
    assert_eq!(ended_by(&mut next, &[]), None, "it let go of the lock");
    drop(next);
    fs::write(layout.journal(RUN), "damaged").unwrap();
    assert_eq!(named().as_deref(), Some(RUN), "the latch is enough");
    fs::write(layout.latch(), "damaged").unwrap();
    assert_eq!(named(), None);
    reset(&layout, &nothing_left).unwrap();
    write(&layout, &records());
    assert_eq!(named(), None, "a complete one");
}

#[test]
fn the_sign_of_a_killed_start_stays_until_nothing_is_left_of_it() {
    let folder = TempDir::new().unwrap();
    let layout = layout(&folder);
    write(&layout, &records()[..3]);
    fs::write(layout.lock(), "{\"pid\":1}").unwrap();
    let open = || Store::open(layout.clone()).unwrap();
    // Held by somebody who has other things to do.
    drop(open());
    assert_eq!(ended_by(&mut open(), &["deaf"]).as_deref(), Some(RUN));
    assert_eq!(ended_by(&mut open(), &[]).as_deref(), Some(RUN), "something survived");
    assert_eq!(ended_by(&mut open(), &[]), None);
    fs::write(layout.lock(), "{\"pid\":1}").unwrap();
    let survives = |_: &str| OrphanCleanup { survived: vec!["deaf".into()], ..Default::default() };
    let refused = reset(&layout, &survives);
    assert!(matches!(refused, Err(StateError::OrphansLeft { .. })), "{refused:?}");
    assert_eq!(ended_by(&mut open(), &[]).as_deref(), Some(RUN), "nothing was forgotten");
    reset(&layout, &nothing_left).unwrap();
    assert!(!layout.runs().exists());
}

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
        let answer = Record::Answered { text: format!("after sabotage {n}") };
        state.apply(&answer);
        assert!(store.append(&answer).unwrap(), "sabotage {n} was not noticed");
        all.push(answer);
    }
    drop(store);
    assert_eq!(resumed(&layout).unwrap().unwrap(), State::fold(&all));
}

#[test]
fn the_second_one_is_told_who_was_first() {
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
    reset(&layout, &nothing_left).unwrap();
    assert!(resumed(&layout).unwrap().is_none());
    reset(&layout, &nothing_left).expect("nothing to forget is no trouble");
    fs::create_dir_all(layout.latch().join("x")).unwrap();
    assert!(matches!(reset(&layout, &nothing_left), Err(StateError::Io { action: "remove", .. })));
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
