//! What an author gets with the SDK, and what the SDK does not let through.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Every crate that a plugin links because of the SDK. What is added here, every author has to build
/// and to trust.
const DEPENDENCIES: [&str; 34] = [
    "arrayvec",
    "async-trait",
    "blake3",
    "cfg-if",
    "constant_time_eq",
    "cpufeatures",
    "data-encoding",
    "itoa",
    "lazy_static",
    "libc",
    "memchr",
    "once_cell",
    "pin-project-lite",
    "proc-macro2",
    "quote",
    "ralph-orchestrator-contract",
    "ralph-orchestrator-plugin-abi",
    "ralph-orchestrator-plugin-protocol",
    "ralph-orchestrator-plugin-sdk",
    "serde",
    "serde_core",
    "serde_derive",
    "serde_json",
    "serde_path_to_error",
    "sharded-slab",
    "syn",
    "thiserror",
    "thiserror-impl",
    "thread_local",
    "tokio",
    "tracing-core",
    "tracing-subscriber",
    "unicode-ident",
    "zmij",
];

#[allow(clippy::disallowed_methods)] // Cargo is no agent, and ends by itself.
fn cargo(arguments: &[&str], set: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).envs(set.iter().copied());
    command.output().unwrap()
}

#[test]
fn its_dependencies_are_known() {
    let manifest = format!("{HERE}/Cargo.toml");
    let output = cargo(
        &["tree", "--manifest-path", &manifest, "-e", "normal", "--prefix", "none", "-f", "{p}"],
        &[],
    );
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: BTreeSet<_> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(found, BTreeSet::from(DEPENDENCIES));
}

/// The target folder of the running test, `TARGET/PROFILE/deps/TEST`.
fn target() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().nth(3).unwrap().to_owned()
}

#[test]
fn a_panic_that_would_end_the_host_does_not_compile() {
    let example = Path::new(HERE).join("../../../examples/custom-detector/Cargo.toml");
    let (example, target) = (example.to_str().unwrap().to_owned(), target());
    let plugins = target.join("plugins/same");
    let build = ["rustc", "--locked", "--lib", "--manifest-path", &example, "--target-dir"];
    // Of the plugin alone, so that all that it needs is built only once for all tests.
    let abort = [plugins.to_str().unwrap(), "--", "-Cpanic=abort"];
    let set = [("CARGO_BUILD_BUILD_DIR", target.to_str().unwrap())];
    let output = cargo(&[&build[..], &abort].concat(), &set);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it compiled");
    assert!(said.contains("a plugin must be built with `panic = \"unwind\"`"), "{said}");
    assert!(said.contains("remove `panic = \"abort\"` from the profile"), "{said}");
}
