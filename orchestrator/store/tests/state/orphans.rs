//! Processes of a killed start are ended by the next one.

use std::fs;

use ralph_orchestrator_store::{Disk, OrphanReport, StateError, Store, reset};
use tempfile::TempDir;

use crate::support::{RUN, layout, nothing_left, records, write};

/// Whose processes are ended, with these found to survive.
fn ended_by(store: &mut Store, survived: &[&str]) -> Option<String> {
    let ended = std::cell::RefCell::new(None);
    let end = |run: &str| {
        *ended.borrow_mut() = Some(run.to_owned());
        let survived = survived.iter().map(|name| (*name).to_owned()).collect();
        OrphanReport { survived, ..OrphanReport::default() }
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
    reset(&Disk::default(), &layout, &nothing_left).unwrap();
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
    let survives = |_: &str| OrphanReport { survived: vec!["deaf".into()], ..Default::default() };
    let refused = reset(&Disk::default(), &layout, &survives);
    assert!(matches!(refused, Err(StateError::OrphansLeft { .. })), "{refused:?}");
    assert_eq!(ended_by(&mut open(), &[]).as_deref(), Some(RUN), "nothing was forgotten");
    reset(&Disk::default(), &layout, &nothing_left).unwrap();
    assert!(!layout.runs().exists());
}
