//! A plugin that breaks the protocol: the call fails with the reason.

use std::path::Path;
use std::process::Command;

use plugin_host::{Isolation, PrivateCopy, check};
use tempfile::TempDir;

use crate::rig::{BOTH, Rig};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Compiles the plugin in C with such a handshake.
#[allow(clippy::disallowed_methods)] // A compiler is no agent, and ends by itself.
fn hostile(folder: &TempDir, handshake: &str) -> PrivateCopy {
    let library = folder.path().join("hostile.so");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-pthread"])
        .arg("-I")
        .arg(Path::new(HERE).join("../abi/include"))
        .arg(format!("-DHANDSHAKE=\"{handshake}\""))
        .arg(Path::new(HERE).join("tests/plugin/hostile.c"))
        .arg("-o")
        .arg(&library)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check(&library, None).unwrap().copy_to(&folder.path().join("copies")).unwrap()
}

/// What it does, and what is said about it.
const BREACHES: [(&str, &str); 9] = [
    ("malformed", "`this is no frame` is no frame"),
    ("binary", "is no frame, which is a JSON object"),
    ("deep", "is no frame, which is a JSON object"),
    ("oversized", "sent a frame of 16777217 bytes"),
    ("wrong keys", "the frame `done` is not as it should be"),
    ("unknown call", "sent `event` for the call 999, which there is not"),
    ("wrong answer", "of `run` without the key `report`"),
    ("second hello", "sent a second `hello`"),
    ("opened again", "sent `opened` for the instance 77"),
];

#[tokio::test]
async fn in_a_process_every_breach_fails_the_call_and_the_next_works() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(&hostile(&folder, "good"), Isolation::Process);
    let agent = rig.agent().await;
    for (prompt, expected) in BREACHES {
        let failure = rig.failure(&*agent, prompt).await;
        assert!(failure.contains(expected), "{prompt}: {failure}");
        assert_eq!(rig.said(&*agent, "fine").await, "fine", "after {prompt}");
    }
    for prompt in ["duplicate", "late"] {
        assert_eq!(rig.said(&*agent, prompt).await, "fine");
        assert_eq!(rig.said(&*agent, "fine").await, "fine", "after {prompt}");
    }
    rig.nothing_is_left().await;
}

#[tokio::test]
async fn inside_a_breach_ends_the_session_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let copy = hostile(&folder, "good");
    for (prompt, expected) in BREACHES {
        let rig = Rig::new(&copy, Isolation::None);
        let agent = rig.agent().await;
        assert_eq!(rig.said(&*agent, "fine").await, "fine");
        for attempt in [prompt, "fine"] {
            let failure = rig.failure(&*agent, attempt).await;
            assert!(failure.contains(expected), "{prompt}, then {attempt}: {failure}");
        }
    }
}

#[tokio::test]
async fn inside_what_only_comes_too_late_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(&hostile(&folder, "good"), Isolation::None);
    let agent = rig.agent().await;
    for prompt in ["duplicate", "late", "fine"] {
        assert_eq!(rig.said(&*agent, prompt).await, "fine", "{prompt}");
    }
}

#[tokio::test]
async fn a_handshake_that_goes_wrong_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    for (handshake, expected) in [
        ("other protocol", "speaks version 2 of the protocol"),
        ("other frame", "sent the frame `pong` before `hello`"),
    ] {
        let copy = hostile(&folder, handshake);
        for isolation in BOTH {
            let agent = Rig::new(&copy, isolation).try_agent(serde_json::json!({})).await;
            let Err(error) = agent else { panic!("{handshake}") };
            assert!(error.contains(expected), "{handshake}, {isolation:?}: {error}");
        }
    }
}

#[tokio::test]
async fn a_handshake_that_hangs_is_given_up() {
    let waits = ["silent", "hang in open", "hang in send"].into_iter().flat_map(|handshake| {
        BOTH.map(|isolation| async move {
            let folder = tempfile::tempdir().unwrap();
            let rig = Rig::new(&hostile(&folder, handshake), isolation);
            let Err(error) = rig.try_agent(serde_json::json!({})).await else { panic!() };
            let expected = "it did not say hello within 10 s";
            assert!(error.contains(expected), "{handshake}, {isolation:?}: {error}");
            rig.nothing_is_left().await;
        })
    });
    let mut all = tokio::task::JoinSet::new();
    for wait in waits {
        all.spawn(wait);
    }
    all.join_all().await;
}
