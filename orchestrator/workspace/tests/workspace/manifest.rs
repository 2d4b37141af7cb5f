//! What is found in evidence folders.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ralph_orchestrator_workspace::{
    EvidenceDigests, EvidenceHasher, evidence_digests, evidence_digests_until,
};

use crate::support::Workspace;

fn digest(content: &str) -> String {
    blake3::hash(content.as_bytes()).to_hex().to_string()
}

fn digests(found: &EvidenceDigests) -> BTreeSet<String> {
    found.contents.values().cloned().collect()
}

#[test]
fn each_content_is_listed_once() {
    let ws = Workspace::new();
    ws.write("e/a", "1").write("e/b/c", "2").write("e/b/copy", "1").write("other/x", "3");
    ws.write(b"e/\xff", "4").write("outside", "5").write("e/.git/x", "6");
    let found = evidence_digests(&[ws.path("e"), ws.path("other"), ws.path("missing")]);
    assert_eq!(digests(&found), ["1", "2", "3", "4", "6"].map(digest).into());
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    assert_eq!(evidence_digests(&[]).contents.len(), 0);
}

#[test]
fn only_regular_files_are_read_and_no_link_is_followed() {
    let ws = Workspace::new();
    ws.write("outside/x", "x").write("e/a", "1").fifo("e/pipe").link("e/link", "../outside");
    ws.link("e/file", "../outside/x").link("e/loop", ".").link("linked", "outside");
    let _socket = std::os::unix::net::UnixListener::bind(ws.path("e/socket")).unwrap();
    let found = evidence_digests(&[ws.path("e"), ws.path("linked"), ws.path("outside/x")]);
    assert_eq!(digests(&found), [digest("1")].into());
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    assert!(found.notes[0].contains("linked") && found.notes[1].contains("outside/x"));
}

#[test]
fn what_is_beyond_the_bounds_is_reported() {
    let ws = Workspace::new();
    ws.write("deep/1/2/3/4/5/6/7/8/in", "in").write("deep/1/2/3/4/5/6/7/8/9/out", "out");
    let found = evidence_digests(&[ws.path("deep")]);
    assert_eq!(digests(&found), [digest("in")].into());
    assert!(found.notes[0].contains("8/9: is not looked into"), "{:?}", found.notes);

    ws.write("large/ok", "ok").write("large/no", "");
    let limit = 64 * 1024 * 1024;
    std::fs::File::create(ws.path("large/no")).unwrap().set_len(limit + 1).unwrap();
    let found = evidence_digests(&[ws.path("large")]);
    assert_eq!(digests(&found), [digest("ok")].into());
    assert!(found.notes[0].contains("large/no: is not looked at"), "{:?}", found.notes);
    assert!(found.skipped_large && !found.overflowed);

    for i in 0..2_001 {
        ws.write(format!("many/{i:05}"), format!("{i}"));
    }
    let found = evidence_digests(&[ws.path("many"), ws.path("large")]);
    assert_eq!(digests(&found).len(), 2_000);
    assert!(!digests(&found).contains(&digest("2000")));
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert!(found.notes[0].contains("02000"), "{:?}", found.notes);
    assert!(found.overflowed && !found.skipped_large);
}

#[test]
fn a_file_written_anew_with_the_same_bytes_has_another_stamp() {
    let ws = Workspace::new();
    ws.write("e/a", "same");
    let before = evidence_digests(&[ws.path("e")]).contents;
    assert_eq!(evidence_digests(&[ws.path("e")]).contents, before, "nothing was written");
    let (old, digest) = before.into_iter().next().unwrap();
    // The clock of a file system stands still for some milliseconds.
    loop {
        ws.write("e/a", "same");
        let after = evidence_digests(&[ws.path("e")]).contents;
        assert_eq!(after.values().collect::<Vec<_>>(), [&digest]);
        if !after.contains_key(&old) {
            break;
        }
    }
}

#[test]
fn a_look_that_nobody_wants_any_more_finds_nothing() {
    let ws = Workspace::new();
    ws.write("e/a", "1");
    let dirs = [ws.path("e")];
    assert_eq!(evidence_digests_until(&dirs, Arc::new(AtomicBool::new(true))), None);
    let found = evidence_digests_until(&dirs, Arc::default()).unwrap();
    assert_eq!(found, evidence_digests(&dirs));
    assert_eq!(found.contents.len(), 1);
}

/// Whatever the clock of the file system shows: two writes may leave the same time.
#[test]
fn a_hasher_that_is_used_again_misses_no_rewrite() {
    let ws = Workspace::new();
    let dirs = [ws.path("none"), ws.path("e"), ws.path("f")];
    let mut hasher = EvidenceHasher::default();
    let mut look = || hasher.digests_until(&dirs, Arc::default()).unwrap();
    assert_eq!(look(), EvidenceDigests::default());
    for round in 0..100 {
        let content = format!("{round:04}");
        ws.write("e/a", &content).write("f/a", "same");
        let found = look();
        assert_eq!(digests(&found), [digest(&content), digest("same")].into(), "{round}");
        assert_eq!(found, evidence_digests(&dirs), "as one that is used once");
    }
}
