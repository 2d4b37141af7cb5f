//! The process that serves a library, over plain pipes.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::built::{MISBEHAVING, PLAN};

#[allow(clippy::disallowed_methods)] // What is tested ends when its standard input does.
fn serving(library: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ralph-plugin-host"));
    command.arg("plugin-host").arg(library).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What it says for an error.
fn refusal(library: impl AsRef<OsStr>) -> String {
    let output = serving(library).output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "only frames belong there");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_is_no_private_copy_is_not_loaded() {
    assert!(refusal("/nowhere/plugin.so").contains("it is no private copy of a plugin"));
    let nobody = format!("/nowhere/{}.so", "0".repeat(64));
    assert!(refusal(nobody).contains("there is no such file"));
    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join(format!("{}.so", MISBEHAVING.copy().digest()));
    std::fs::copy(PLAN.copy().path(), &changed).unwrap();
    assert!(refusal(changed).contains("a private copy that somebody has changed"));
}

#[test]
fn it_ends_well_when_the_host_is_gone() {
    let mut child = serving(PLAN.copy().path()).spawn().unwrap();
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn frames_are_lines() {
    let mut child = serving(PLAN.copy().path()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    input.write_all(b"{\"frame\":\"hello\",\"protocol\":1}\n").unwrap();
    input.write_all(b"{\"frame\":\"of a newer version\"}\nnonsense\n").unwrap();
    input.write_all(b"{\"frame\":\"ping\",\"n\":7}\n").unwrap();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let hello = next();
    assert_eq!((&hello["frame"], &hello["name"]), (&"hello".into(), &"plan-detector".into()));
    let pong = next();
    assert_eq!((&pong["frame"], &pong["n"]), (&"pong".into(), &7.into()));
    // What was cut off with the host is no frame.
    input.write_all(b"{\"frame\":\"ping\",\"n\":8}").unwrap();
    drop(input);
    assert!(lines.next().is_none());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_line_that_is_too_long_ends_it() {
    let mut child = serving(PLAN.copy().path()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let piece = vec![b'x'; 1024 * 1024];
    // It may have gone before all was written.
    let _ = (0..17).try_for_each(|_| input.write_all(&piece));
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("a frame of the host is longer than 16777216 bytes"), "{said}");
}
