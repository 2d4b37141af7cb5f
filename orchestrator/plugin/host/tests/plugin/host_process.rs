//! The host process of a library, over plain pipes.

use std::io::{BufRead as _, BufReader, Write as _};

use crate::built::{MISBEHAVING, PLAN};
use crate::common::{command, error_of};

#[test]
fn only_a_private_copy_is_loaded() {
    assert!(error_of("/nowhere/plugin.so").contains("it is not a private copy of a plugin"));
    let nobody = format!("/nowhere/{}.so", "0".repeat(64));
    assert!(error_of(nobody).contains("there is no such file"));
    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join(format!("{}.so", MISBEHAVING.copy().digest()));
    std::fs::copy(PLAN.copy().path(), &changed).unwrap();
    assert!(error_of(changed).contains("this private copy was modified"));
}

#[test]
fn it_ends_well_when_the_host_is_gone() {
    let mut child = command(PLAN.copy().path()).spawn().unwrap();
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn frames_are_lines() {
    let mut child = command(PLAN.copy().path()).spawn().unwrap();
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
    let mut child = command(PLAN.copy().path()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let piece = vec![b'x'; 1024 * 1024];
    // It may have gone before all was written.
    let _ = (0..17).try_for_each(|_| input.write_all(&piece));
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the host sent a frame of more than 16777216 bytes"), "{said}");
}
