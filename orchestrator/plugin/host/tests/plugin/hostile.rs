//! A plugin that violates the protocol: the call fails with the reason.

use std::path::Path;
use std::process::Command;

use ralph_orchestrator_contract::{ErrorClass, Event};
use ralph_orchestrator_plugin_host::{PrivateCopy, check};
use ralph_orchestrator_testkit::RecordingSink;
use tempfile::TempDir;

use crate::harness::PluginHarness;

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
const VIOLATIONS: [(&str, &str); 9] = [
    ("malformed", "`this is no frame` is not a frame"),
    ("binary", "is not a frame (a JSON object"),
    ("deep", "is not a frame (a JSON object"),
    ("oversized", "sent a frame of 16777217 bytes"),
    ("wrong keys", "invalid frame `done`"),
    ("unknown call", "sent `event` for the unknown call 999"),
    ("wrong answer", "of `run` without `report`"),
    ("second hello", "sent a second `hello`"),
    ("opened again", "sent `opened` for the instance 77"),
];

#[tokio::test]
async fn every_violation_fails_the_call_and_the_next_works() {
    let folder = tempfile::tempdir().unwrap();
    let harness = PluginHarness::new(&hostile(&folder, "good"));
    let agent = harness.agent().await;
    for (prompt, expected) in VIOLATIONS {
        let failure = harness.failure(&*agent, prompt).await;
        assert!(failure.contains(expected), "{prompt}: {failure}");
        assert_eq!(harness.said(&*agent, "fine").await, "fine", "after {prompt}");
    }
    for prompt in ["duplicate", "late"] {
        assert_eq!(harness.said(&*agent, prompt).await, "fine");
        assert_eq!(harness.said(&*agent, "fine").await, "fine", "after {prompt}");
    }
    harness.nothing_is_left().await;
}

#[tokio::test]
async fn a_handshake_that_goes_wrong_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    for (handshake, expected) in [
        ("other protocol", "uses version 2 of the protocol"),
        ("other frame", "sent the frame `pong` before `hello`"),
    ] {
        let copy = hostile(&folder, handshake);
        let agent = PluginHarness::new(&copy).try_agent(serde_json::json!({})).await;
        let Err(error) = agent else { panic!("{handshake}") };
        assert!(error.contains(expected), "{handshake}, {error}");
    }
}

async fn functions_that_do_not_return_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let harness = PluginHarness::new(&hostile(&folder, "hang in close"));
    let agent = harness.agent().await;
    let sink = RecordingSink::new();
    harness.run_with(&*agent, "fine", &sink).await.unwrap();
    assert!(sink.has_warning("its function `close` did not return within 3 s"));
    let sink = RecordingSink::cancelling_at(|event| matches!(event, Event::Warning { .. }));
    let error = harness.run_with(&*agent, "hang in send", &sink).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled);
    assert!(sink.has_warning("its function `send` has not returned for 5 s"));
    harness.nothing_is_left().await;
}

#[tokio::test]
async fn a_handshake_that_hangs_is_given_up() {
    let waits = ["silent", "hang in open", "hang in send"].map(|handshake| async move {
        let folder = tempfile::tempdir().unwrap();
        let harness = PluginHarness::new(&hostile(&folder, handshake));
        let Err(error) = harness.try_agent(serde_json::json!({})).await else { panic!() };
        assert!(error.contains("no reply to `hello` within 10 s"), "{handshake}: {error}");
        harness.nothing_is_left().await;
    });
    let mut all = tokio::task::JoinSet::new();
    for wait in waits {
        all.spawn(wait);
    }
    all.spawn(functions_that_do_not_return_are_named());
    all.join_all().await;
}
