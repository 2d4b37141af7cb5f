//! Builds the plugins of the tests, once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use ralph_orchestrator_plugin_host::{PrivateCopy, check};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// A workspace that is built.
pub(crate) struct Plugin {
    /// Relative to this crate.
    folder: &'static str,
    library: &'static str,
    /// Another toolchain than that of the tests.
    toolchain: Option<&'static str>,
    copy: OnceLock<PrivateCopy>,
}

impl Plugin {
    const fn new(
        folder: &'static str,
        library: &'static str,
        toolchain: Option<&'static str>,
    ) -> Self {
        Self { folder, library, toolchain, copy: OnceLock::new() }
    }

    /// The private copy of the library.
    pub(crate) fn copy(&self) -> &PrivateCopy {
        self.copy.get_or_init(|| {
            let library = self.build();
            check(&library, None).unwrap().copy_to(&target().join("copies")).unwrap()
        })
    }

    fn build(&self) -> PathBuf {
        let place = target().join(self.toolchain.unwrap_or("same"));
        let output = self.cargo(&["build"], &place).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo build in {}: {said}", self.folder);
        place.join("debug").join(self.library)
    }

    /// Cargo, as an author would call it.
    #[allow(clippy::disallowed_methods)] // Cargo is no agent, and ends by itself.
    pub(crate) fn cargo(&self, arguments: &[&str], target: &Path) -> Command {
        let mut command = Command::new("cargo");
        command.args(arguments).arg("--locked").current_dir(Path::new(HERE).join(self.folder));
        command.arg("--target-dir").arg(target);
        // Whoever runs this test has set them for another package.
        for (key, _) in std::env::vars_os() {
            if key.to_str().is_some_and(|key| key.starts_with("CARGO_PKG") || key == "RUSTC") {
                command.env_remove(key);
            }
        }
        // Most of what they need was compiled for these tests.
        command.env("CARGO_BUILD_BUILD_DIR", build_dir());
        match self.toolchain {
            Some(toolchain) => command.env("RUSTUP_TOOLCHAIN", toolchain),
            None => &mut command,
        };
        command
    }
}

/// The target folder of the running test, `TARGET/PROFILE/deps/TEST`.
fn build_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().nth(3).unwrap().to_owned()
}

/// The folder in it for what plugins need.
pub(crate) fn target() -> PathBuf {
    build_dir().join("plugins")
}

/// Everything that can go wrong.
pub(crate) static MISBEHAVING: Plugin =
    Plugin::new("tests/plugins/misbehaving", "libmisbehaving.so", None);

/// The same from another compiler, with an old tokio.
pub(crate) static OLD: Plugin =
    Plugin::new("tests/plugins/old-tokio", "libmisbehaving_old.so", Some("nightly"));

/// The example of a detector.
pub(crate) static PLAN: Plugin =
    Plugin::new("../../../examples/custom-detector", "libplan_detector.so", None);
