//! The shim for tests, whose own binary cannot be one: the test harness has the `main`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;

/// A small test beside the shim. With it, cargo enables the features that `cargo test --workspace` does, and finds
/// everything compiled; by itself the shim has dependencies with fewer features, which are compiled once more.
const TEST: &str = "descriptors";
const BINARY: &str = "ralph-supervisor-shim";

/// A supervisor whose shim is [`shim_binary`].
#[must_use]
pub fn supervisor() -> Supervisor {
    Supervisor::new(shim_binary().to_owned(), Vec::new())
}

/// The shim as a program of its own, built by cargo when first asked for, in the profile and the target
/// folder of the running test.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn shim_binary() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(build)
}

#[allow(clippy::disallowed_methods)] // Cargo is no agent, and ends by itself.
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--message-format=json", "--workspace"])
        .args(["--bin", BINARY, "--test", TEST])
        .arg("--manifest-path")
        .arg(manifest)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if let Some((target, profile)) = place() {
        command.arg("--target-dir").arg(target).arg("--profile").arg(profile);
    }
    let output = command.output().expect("cannot run cargo to build the shim; is it in PATH?");
    assert!(output.status.success(), "cargo could not build `{BINARY}`: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let mut messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .find_map(|message| {
            let ours = message.pointer("/target/name")?.as_str()? == BINARY;
            let path = message.get("executable")?.as_str()?;
            ours.then(|| path.into())
        })
        .unwrap_or_else(|| panic!("cargo did not say where it put `{BINARY}`:\n{text}"))
}

/// The target folder and the profile of the running test, `TARGET/PROFILE/deps/TEST`.
fn place() -> Option<(PathBuf, String)> {
    let exe = std::env::current_exe().ok()?;
    let deps = exe.parent().filter(|folder| folder.ends_with("deps"))?;
    let folder = deps.parent()?;
    let profile = match folder.file_name()?.to_str()? {
        "debug" => "dev",
        other => other,
    };
    Some((folder.parent()?.to_owned(), profile.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use ralph_orchestrator_supervisor::{CaptureLimit, Ending, Spec};

    use super::*;

    #[tokio::test]
    async fn the_shim_is_built_once_and_works() {
        let spec = Spec {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), "echo hello; exit 3".into()],
            cwd: "/".into(),
            ..Spec::default()
        };
        assert_eq!(shim_binary(), shim_binary());
        let supervisor = supervisor();
        let output = supervisor.output(spec, CaptureLimit::default(), pending());
        let output = tokio::time::timeout(Duration::from_secs(30), output).await;
        let output = output.expect("not within 30 s").expect("it starts");
        assert_eq!(output.exit.ending, Ending::Exited(3));
        assert_eq!(output.stdout.text(), "hello\n");
    }
}
