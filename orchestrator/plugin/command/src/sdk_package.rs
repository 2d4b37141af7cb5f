//! `plugin sdk`, and the packages that plugins in Python and Node.js import.
//!
//! They are on no registry, where their names could belong to anybody: their source is a part of this program, which writes
//! it beside the plugin.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::{create_folder, write_whole};

macro_rules! source {
    ($file:literal) => {
        include_str!(concat!("../../../../sdks/", $file))
    };
}

/// Begins the first line of each file of a package, behind the mark of a comment.
const HEADER: &str = "Of ralph-orchestrator ";
const FILE_MODE: u32 = 0o644;

/// A language that has a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PackageLanguage {
    /// The folder ralph_orchestrator_sdk
    Python,
    /// The folder ralph-orchestrator-sdk
    Node,
}

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Args)]
pub struct WriteSdkArgs {
    /// The plugin's language
    #[arg(value_enum)]
    pub(crate) language: PackageLanguage,
    /// Folder of the plugin
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) path: PathBuf,
}

impl PackageLanguage {
    /// Returns the package's files: each one's path from the plugin's folder, and its content.
    pub(crate) fn files(self) -> Vec<(&'static str, String)> {
        let (mark, word, sources): (_, _, &[_]) = match self {
            Self::Python => (
                "#",
                "python",
                &[
                    (
                        "ralph_orchestrator_sdk/__init__.py",
                        source!("python/src/ralph_orchestrator_sdk/__init__.py"),
                    ),
                    (
                        "ralph_orchestrator_sdk/testing.py",
                        source!("python/src/ralph_orchestrator_sdk/testing.py"),
                    ),
                    (
                        "ralph_orchestrator_sdk/py.typed",
                        source!("python/src/ralph_orchestrator_sdk/py.typed"),
                    ),
                ],
            ),
            Self::Node => (
                "//",
                "node",
                &[
                    ("ralph-orchestrator-sdk/index.mjs", source!("node/src/index.mjs")),
                    ("ralph-orchestrator-sdk/index.d.mts", source!("node/src/index.d.mts")),
                    ("ralph-orchestrator-sdk/testing.mjs", source!("node/src/testing.mjs")),
                    ("ralph-orchestrator-sdk/testing.d.mts", source!("node/src/testing.d.mts")),
                ],
            ),
        };
        let version = env!("CARGO_PKG_VERSION");
        let header = format!(
            "{mark} {HEADER}{version}, MIT OR Apache-2.0. Do not edit: `ralph-orchestrator plugin sdk {word}` \
             replaces it.\n"
        );
        sources.iter().map(|(path, text)| (*path, format!("{header}{text}"))).collect()
    }
}

/// Writes a package beside a plugin, in place of an older one.
pub(crate) fn write_sdk(args: &WriteSdkArgs) -> Result<u8, CommandError> {
    let mut files = Vec::new();
    for (file, text) in args.language.files() {
        let path = args.path.join(file);
        check_replaceable(&path)?;
        files.push((path, text));
    }
    for (path, text) in &files {
        create_folder(path.parent().unwrap_or(&args.path))?;
        write_whole(path, text.as_bytes(), FILE_MODE)?;
    }
    if let Some(folder) = files.first().and_then(|(path, _)| path.parent()) {
        let version = env!("CARGO_PKG_VERSION");
        output::result(&format!("wrote {}, of ralph-orchestrator {version}", folder.display()));
    }
    Ok(exit::OK)
}

/// Fails if there is something that no version of this program has written.
fn check_replaceable(path: &Path) -> Result<(), CommandError> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    // A pipe in its place would be waited for.
    let text = if found.is_file() { fs::read_to_string(path).ok() } else { None };
    let first = text.unwrap_or_default();
    let first = first.lines().next().unwrap_or_default();
    if first.trim_start_matches(['#', '/', ' ']).starts_with(HEADER) {
        return Ok(());
    }
    let message = format!("{} is not a file of the package", path.display());
    Err(CommandError::user(message)
        .hinted("move it away, or choose another folder by `--path DIR`"))
}
