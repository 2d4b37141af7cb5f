//! Plugins under the real orchestrator.

mod attached;
pub(crate) mod author;
mod backlog;
mod capabilities;
mod compatibility;
mod doc;
mod evidence;
mod example;
mod kit;
mod methods;
mod mistakes;
mod old;
mod rogue;
mod sdks;
mod session;
mod templates;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::TestEnvironment;

/// Builds a plugin of this repository; the library.
pub(crate) fn built(krate: &str, library: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(krate);
    built_in(&folder, &author::target(), None, library)
}

/// The same for a crate that lies anywhere, into this target folder, by this toolchain.
pub(crate) fn built_in(
    folder: &Path,
    target: &Path,
    toolchain: Option<&str>,
    library: &str,
) -> PathBuf {
    let mut command = cargo_build(folder);
    command.arg("--target-dir").arg(target);
    command.env(author::BUILD_DIR, author::build_dir());
    command.envs(toolchain.map(|toolchain| ("RUSTUP_TOOLCHAIN", toolchain)));
    run(command);
    target.join("debug").join(library)
}

/// Builds an example of this workspace as the tests are built; the file of this name that comes out.
pub(crate) fn built_example(example: &str, file: &str) -> PathBuf {
    let mut command = cargo_build(Path::new(env!("CARGO_MANIFEST_DIR")));
    // With other packages selected, what they have in common would get other features, and be compiled once more.
    command.args(["--workspace", "--example", example]);
    run(command);
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join("examples").join(file)
}

fn cargo_build(folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["build", "--locked"]).current_dir(folder);
    for (key, _) in std::env::vars_os() {
        let key = key.to_string_lossy().into_owned();
        if key.starts_with("CARGO_PKG") || key == "RUSTC" {
            command.env_remove(key);
        }
    }
    command
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// A workspace whose agent is this program, told `how` as its argument. The plugin lies outside of the
/// workspace.
fn environment(program: &str, how: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let path = env.root().join("plugin.py");
    std::fs::write(&path, program).unwrap();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[plugins.rogue]\ncommand = [\"python3\", \"{}\", \"{how}\"]\n\
         [agent]\nadapter = \"rogue\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         {more}\n",
        path.display()
    ));
    env
}
