//! Libraries compiled from C.

use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/library/plugin.c");
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../abi/include");

/// Compiles the plugin in C with these arguments, such as `-DMAJOR=2`, to `folder/name`.
pub(crate) fn plugin(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let to = folder.join(name);
    let mut all = vec!["-shared", "-fPIC", "-O1", "-w", "-I", INCLUDE, SOURCE];
    all.extend_from_slice(arguments);
    run("cc", &all, &to);
    to
}

/// Runs a compiler that writes `to`.
#[allow(clippy::disallowed_methods)] // A compiler is no agent, and ends by itself.
pub(crate) fn run(program: &str, arguments: &[&str], to: &Path) {
    let output = Command::new(program).args(arguments).arg("-o").arg(to).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// The argument that makes the library's constructor create this file.
pub(crate) fn marker(path: &Path) -> String {
    format!("-DMARKER=\"{}\"", path.display())
}
