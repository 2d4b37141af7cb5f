//! The examples from another compiler, with the oldest tokio that the SDK takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::author::target;
use super::built_in;
use super::kit::{example_with, holds};

/// Any other than that of the tests.
const TOOLCHAIN: &str = "nightly";

/// Builds an example in a folder of its own, with the lock in `locks`, and without its tests, which want
/// a newer tokio.
fn old(name: &str, library: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (example, folder) = (source.join("examples").join(name), target().with_file_name("old"));
    let folder = folder.join(name);
    fs::create_dir_all(&folder).unwrap();
    let copied = Command::new("cp").args(["-rp"]).arg(example.join("src")).arg(&folder).status();
    assert!(copied.unwrap().success(), "the source of {name} cannot be copied");
    let manifest = fs::read_to_string(example.join("Cargo.toml")).unwrap();
    let mut manifest: toml::Table = manifest.parse().unwrap();
    manifest.remove("dev-dependencies").unwrap();
    let sdk = manifest["dependencies"]["ralph-orchestrator-plugin-sdk"].as_table_mut().unwrap();
    let path = source.join("orchestrator/plugin/sdk").display().to_string();
    sdk.insert("path".to_owned(), path.into());
    fs::write(folder.join("Cargo.toml"), manifest.to_string()).unwrap();
    let lock = source.join("tests/cli/plugins/locks").join(format!("{name}.lock"));
    let text = fs::read_to_string(&lock).unwrap();
    assert!(text.contains("name = \"tokio\"\nversion = \"1.44.2\""), "{}", lock.display());
    fs::write(folder.join("Cargo.lock"), text).unwrap();
    built_in(&folder, &target().with_file_name(TOOLCHAIN), Some(TOOLCHAIN), library)
}

#[test]
fn the_examples_from_another_compiler_with_an_old_tokio_hold() {
    for (name, library, plugin) in [
        ("custom-adapter", "libchat_agent.so", "chat"),
        ("custom-detector", "libplan_detector.so", "plan"),
        ("custom-validator", "libjunit_validator.so", "junit"),
    ] {
        let env = example_with(&old(name, library), name, library);
        let file = format!("target/release/{library}");
        env.ralph(&["plugin", "check", &file]).expect(0).says(": ok");
        holds(&env, library, plugin);
    }
}
