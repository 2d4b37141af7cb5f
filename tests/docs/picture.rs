//! The picture of the README shows what the program prints.

use std::process::Command;

use crate::generated::is_update;
use crate::scratch::repository;

#[test]
fn the_picture_is_of_this_program() {
    let mut command = Command::new("python3");
    command.arg(repository().join("scripts/record-session"));
    if !is_update() {
        command.arg("--check");
    }
    let output = command.arg(env!("CARGO_BIN_EXE_ralph-orchestrator")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
