//! Packages: what their metadata says is what the scripts make. scripts/test-package makes and installs them.

use std::fs;

use toml::Table;

use crate::scratch::repository;

fn read(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn manifest() -> Table {
    read("Cargo.toml").parse().unwrap()
}

#[test]
fn binstall_finds_what_is_packed() {
    let manifest = manifest();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let fill = |key: &str| {
        let text = binstall[key].as_str().unwrap().replace("{ name }", "ralph-orchestrator");
        let text = text.replace("{ version }", "$version").replace("{ target }", "$target");
        text.replace("{ bin }", "ralph-orchestrator").replace("{ binary-ext }", "")
    };
    let script = read("scripts/package");
    let name = script.lines().find_map(|line| line.strip_prefix("name=")).unwrap();
    assert_eq!(fill("bin-dir"), format!("{name}/ralph-orchestrator"));
    assert!(fill("pkg-url").ends_with(&format!("/{name}.tar.gz")), "{}", fill("pkg-url"));
}

#[test]
fn both_licences_are_there_and_packed() {
    let manifest = manifest();
    let licence = manifest["workspace"]["package"]["license"].as_str().unwrap();
    assert_eq!(licence, "MIT OR Apache-2.0");
    assert!(read("LICENSE-MIT").starts_with("MIT License"));
    assert!(read("LICENSE-APACHE").contains("Version 2.0, January 2004"));
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(read("scripts/package").contains(name), "{name} is not packed");
    }
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
    let sources: Vec<_> = assets.iter().map(|asset| asset[0].as_str().unwrap()).collect();
    assert!(
        sources.iter().all(|source| source.starts_with("target/package/stage/")),
        "{sources:?}"
    );
    assert!(sources.iter().any(|source| source.ends_with("LICENSE-*")), "{sources:?}");
}

#[test]
fn the_image_has_git_and_a_user_and_no_newer_library() {
    let text = read("Dockerfile");
    let stages: Vec<&str> = text.split("\nFROM ").collect();
    assert_eq!(stages.len(), 3, "{text}");
    let (build, last) = (stages[1], stages[2]);
    // What is linked in one has to run in the other.
    assert!(build.starts_with("rust:") && build.contains("-bookworm AS build"), "{build}");
    assert!(last.starts_with("debian:bookworm"), "{last}");
    let toolchain: Table = read("rust-toolchain.toml").parse().unwrap();
    let channel = toolchain["toolchain"]["channel"].as_str().unwrap();
    let version = build.strip_prefix("rust:").unwrap().split('-').next().unwrap();
    assert!(
        channel.starts_with(version),
        "rust-toolchain.toml wants {channel}, the image has {version}"
    );
    let user = last.lines().find_map(|line| line.strip_prefix("USER ")).expect("a user");
    assert!(
        user != "root"
            && last.contains(&format!("useradd --create-home --uid 1000 --shell /bin/bash {user}"))
    );
    assert!(
        last.contains(" git ") && last.contains("ENTRYPOINT [\"ralph-orchestrator\"]"),
        "{last}"
    );
}
