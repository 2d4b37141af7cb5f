//! What plugins' authors do: begin one, follow the documentation, test it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::{Ended, TestEnvironment};

const SOURCE: &str = env!("CARGO_MANIFEST_DIR");
/// Pins the dependencies of what is built here.
const LOCK: &str = "examples/custom-adapter/Cargo.lock";

/// Where Cargo is told to compile dependencies: what these tests are made of is there already.
pub(crate) const BUILD_DIR: &str = "CARGO_BUILD_BUILD_DIR";

/// The target folder of these tests.
pub(crate) fn build_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().nth(3).unwrap().to_owned()
}

/// The target folder of all plugins of the tests.
pub(crate) fn target() -> PathBuf {
    let target = build_dir().join("plugins/same");
    fs::create_dir_all(&target).unwrap();
    target
}

/// Whoever runs this test has set these for another package.
const OTHERS: [&str; 3] = ["CARGO_PKG", "CARGO_MANIFEST", "RUSTC"];

/// A command with the toolchain of the tests and the environment of their author, in which
/// `ralph-orchestrator` is found.
pub(super) fn author(env: &TestEnvironment, program: &str, folder: &Path) -> Command {
    let bin = env.root().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let link = bin.join("ralph-orchestrator");
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_ralph-orchestrator"), link).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(program);
    let ours = std::env::vars_os().filter(|(key, _)| {
        let key = key.to_string_lossy();
        let cargo = key.starts_with("CARGO") || key.starts_with("RUSTUP");
        cargo && OTHERS.iter().all(|other| !key.starts_with(other)) && key != "CARGO_TARGET_DIR"
    });
    command.current_dir(folder).env_clear().envs(ours).env("PATH", path);
    // Where Cargo and the toolchain are, is told by the home folder, unless by a variable.
    let home = std::env::var("HOME").unwrap();
    for (key, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if std::env::var_os(key).is_none() {
            command.env(key, Path::new(&home).join(folder));
        }
    }
    command.env("HOME", env.root().join("home")).env("SOURCE", SOURCE);
    // Compiled as these tests are, what they have in common with a plugin is not compiled once more.
    let profile = Path::new(".cargo/config.toml");
    fs::create_dir_all(env.root().join(".cargo")).unwrap();
    fs::copy(Path::new(SOURCE).join(profile), env.root().join(profile)).unwrap();
    // The page's reader is asked on the terminal.
    command.env("RALPH_TRUST", "always");
    command.env(BUILD_DIR, build_dir());
    command
}

pub(super) fn ended(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// With the versions of everything else, and into the folder that all have in common.
fn pin(krate: &Path) {
    fs::copy(Path::new(SOURCE).join(LOCK), krate.join("Cargo.lock")).unwrap();
    symlink(target(), krate.join("target")).unwrap();
}

fn new(env: &TestEnvironment, arguments: &[&str]) -> Ended {
    let mut command = author(env, "ralph-orchestrator", &env.root());
    command.args(["plugin", "new"]).args(arguments);
    ended(command)
}

/// One that was just begun builds, passes its tests and the conformance tests, and runs in a loop.
fn begun(kind: &str) {
    let env = TestEnvironment::new();
    let name = format!("begun-{}", kind.replace(',', "-"));
    let sdk = format!("{SOURCE}/orchestrator/plugin/sdk");
    new(&env, &[&name, "--kind", kind, "--sdk", &sdk]).expect(0).says("cargo build");
    let krate = env.root().join(&name);
    pin(&krate);
    let run = |script: &str| {
        let mut command = author(&env, "bash", &krate);
        command.args(["-euc", script]);
        ended(command).expect(0)
    };
    run("cargo test").says("test result: ok");
    run("cargo build");
    let library = format!("target/debug/lib{}.so", name.replace('-', "_"));
    let checked = run(&format!("ralph-orchestrator plugin check {library}"));
    checked.says(&name);
    run(&format!("ralph-orchestrator plugin test {library} --conformance conformance.toml"))
        .says("all checks passed");
    for one in kind.split(',') {
        checked.says(one);
    }
    run("ralph-orchestrator run").says("completed: 1 iteration");
}

#[test]
fn an_agent_that_was_just_begun_works() {
    begun("agent");
}

#[test]
fn a_detector_that_was_just_begun_works() {
    begun("detector");
}

#[test]
fn a_validator_that_was_just_begun_works() {
    begun("validator");
}

#[test]
fn several_items_that_were_just_begun_work() {
    begun("agent,detector,validator");
}

#[test]
fn the_sdk_comes_from_a_folder_a_repository_or_a_registry() {
    let env = TestEnvironment::new();
    let dependency = |name: &str, options: &[&str]| {
        new(&env, &[&[name, "--kind", "agent"], options].concat()).expect(0);
        let manifest = fs::read_to_string(env.root().join(name).join("Cargo.toml")).unwrap();
        let line = manifest.lines().find(|line| line.starts_with("ralph-orchestrator-plugin-sdk"));
        line.unwrap().split_once(" = ").unwrap().1.to_owned()
    };
    let features = "features = [\"process\"]";
    assert_eq!(
        dependency("a", &["--sdk-version", "0.9"]),
        format!("{{ version = \"0.9\", {features} }}")
    );
    let url = "https://example.invalid/ralph.git";
    assert_eq!(dependency("b", &["--sdk-git", url]), format!("{{ git = \"{url}\", {features} }}"));
    assert_eq!(
        dependency("c", &["--sdk-git", url, "--sdk-rev", "0123abc"]),
        format!("{{ git = \"{url}\", rev = \"0123abc\", {features} }}")
    );
    let wrong = |options: &[&str]| {
        new(&env, &[&["d", "--kind", "agent"], options].concat()).expect(64);
    };
    wrong(&["--sdk", SOURCE, "--sdk-git", url]);
    wrong(&["--sdk-git", url, "--sdk-version", "0.9"]);
    wrong(&["--sdk-rev", "0123abc"]);
    wrong(&["--language", "python", "--sdk-git", url]);
    assert!(!env.root().join("d").exists());
}

/// The SDK is found in a repository, as its authors have it before there is a release.
#[test]
fn a_plugin_compiles_against_a_repository() {
    let env = TestEnvironment::new();
    let url = format!("file://{SOURCE}");
    let head = Command::new("git").args(["-C", SOURCE, "rev-parse", "HEAD"]).output().unwrap();
    let head = String::from_utf8(head.stdout).unwrap();
    let options = ["by-git", "--kind", "validator", "--sdk-git", &url, "--sdk-rev", head.trim()];
    new(&env, &options).expect(0);
    let mut command = author(&env, "cargo", &env.root().join("by-git"));
    fs::copy(Path::new(SOURCE).join(LOCK), env.root().join("by-git/Cargo.lock")).unwrap();
    command.args(["metadata", "--format-version", "1"]);
    ended(command).expect(0).says("\"name\":\"ralph-orchestrator-plugin-sdk\"");
}

#[test]
fn nothing_is_overwritten() {
    let env = TestEnvironment::new();
    let here = env.root();
    fs::create_dir(here.join("mine")).unwrap();
    fs::write(here.join("mine/Cargo.toml"), "precious").unwrap();
    new(&env, &["mine", "--kind", "agent"]).expect(64).says("already exists");
    assert_eq!(fs::read_to_string(here.join("mine/Cargo.toml")).unwrap(), "precious");
    symlink("nowhere", here.join("link")).unwrap();
    new(&env, &["link", "--kind", "agent"]).expect(64).says("already exists");
    fs::write(here.join("file"), "precious").unwrap();
    new(&env, &["file", "--kind", "agent"]).expect(64).says("already exists");
    // An empty folder is nobody's, and another path is another folder.
    fs::create_dir(here.join("empty")).unwrap();
    new(&env, &["mine", "--kind", "agent", "--path", "empty"]).expect(0);
    let manifest = fs::read_to_string(here.join("empty/Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"mine\""), "{manifest}");
    new(&env, &["mine", "--kind", "agent", "--path", "empty"]).expect(64);
}

#[test]
fn names_that_cannot_be() {
    let env = TestEnvironment::new();
    let long = "x".repeat(65);
    for name in ["", "7up", "a b", "a/b", "ä", "test", long.as_str()] {
        new(&env, &[name, "--kind", "agent", "--path", "made"]).expect(64);
    }
    for name in ["command", "promise", "evidence-files"] {
        new(&env, &[name, "--kind", "agent", "--path", "made"]).expect(64).says("built in");
    }
    assert!(!env.root().join("made").exists());
}

#[test]
fn without_the_sdk_it_is_said_where_it_is() {
    let env = TestEnvironment::new();
    new(&env, &["one", "--kind", "detector"])
        .expect(0)
        .says("--sdk CLONE/orchestrator/plugin/sdk")
        .says("--sdk-git");
    let manifest = fs::read_to_string(env.root().join("one/Cargo.toml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        manifest.contains(&format!("ralph-orchestrator-plugin-sdk = \"{version}\"")),
        "{manifest}"
    );
    let wrong = new(&env, &["two", "--kind", "detector", "--sdk", "/"]);
    wrong.expect(64).says("there is no Cargo.toml of ralph-orchestrator-plugin-sdk");
    assert!(!env.root().join("two").exists());
}

/// The blocks of a page: what language they are in, and their text.
pub(super) fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(language) => {
                inside = true;
                blocks.push((language.to_owned(), String::new()));
            }
            None if inside => {
                let text = &mut blocks.last_mut().unwrap().1;
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    assert!(!inside, "a block does not end");
    blocks
}

#[test]
fn the_documentation_is_true() {
    let env = TestEnvironment::new();
    let page =
        fs::read_to_string(Path::new(SOURCE).join("docs/dev/writing-an-adapter.md")).unwrap();
    let krate = env.root().join("my-agent");
    let (mut ran, mut written) = (0, 0);
    for (language, text) in blocks(&page) {
        let file = match language.as_str() {
            "sh" => {
                let folder = if krate.exists() { &krate } else { &env.root() };
                let mut command = author(&env, "bash", folder);
                // Whatever is begun gets the pinned versions.
                let lock = Path::new(SOURCE).join(LOCK);
                let (lock, target) = (lock.display(), target());
                let prepared = format!(
                    "cd() {{ builtin cd \"$1\"; cp '{lock}' Cargo.lock; ln -s '{}' target; }}\n{text}",
                    target.display()
                );
                command.args(["-euxc", &prepared]);
                ended(command).expect(0);
                ran += 1;
                continue;
            }
            "rust" => "src/lib.rs",
            "toml" if text.contains("[plugins.") => "ralph.toml",
            "toml" if text.starts_with("[[workspace]]") => {
                super::evidence::documented_case_holds(&text);
                ran += 1;
                continue;
            }
            "toml" if text.starts_with("[config]") => "conformance.toml",
            // It waits for a person with a debugger.
            "text" if text.contains("RALPH_PLUGIN_ATTACH") => continue,
            other => panic!("a block that nothing runs: {other}\n{text}"),
        };
        fs::write(krate.join(file), text).unwrap();
        written += 1;
    }
    assert_eq!((ran, written), (5, 3));
    assert_eq!(fs::read_to_string(krate.join("work/greeting.txt")).unwrap(), "hello\n");
    assert!(krate.join("work/prompt.txt").exists(), "the second loop did not run its agent");
}
