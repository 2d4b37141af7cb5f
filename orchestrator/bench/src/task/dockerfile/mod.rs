//! Reads a Dockerfile as far as it can be followed without a container engine.

mod copy_line;
mod ignore_file;
mod interpret;
mod lexer;
mod run;
mod shell;
mod stage;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::problem::TreeError;
use super::provided::Package;
use super::settings::User;

pub(super) use self::ignore_file::{IgnoreFile, compile, is_pattern};
pub(super) use self::run::{ModeChange, RunEffect};

/// Bytes of a Dockerfile.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// A Dockerfile and what it comes to.
#[derive(Clone, Debug)]
pub struct Dockerfile {
    /// The file.
    pub path: PathBuf,
    /// The folder that COPY takes files from.
    pub context: PathBuf,
    /// The image that it begins with. Without a container engine the machine's own programs are used instead.
    pub image: Option<String>,
    /// The work directory; none if neither it nor the image is known to name one.
    pub workdir: Option<String>,
    /// Environment variables of every process.
    pub env: BTreeMap<String, String>,
    /// The user of every process.
    pub user: Option<User>,
    /// What cannot be followed: line and reason.
    pub unsupported: Vec<(usize, String)>,
    /// What makes the files, in order.
    pub(super) actions: Vec<FileAction>,
}

impl Dockerfile {
    /// Returns the Dockerfile of this text. What cannot be followed is in `unsupported`.
    #[must_use]
    pub fn from_text(path: &Path, text: &str) -> Self {
        interpret::interpret(path, text)
    }

    /// Reads a Dockerfile.
    ///
    /// # Errors
    /// Returns an error if it is not a regular file of UTF-8 text of at most 1 MiB, or below a link.
    pub fn read(path: &Path) -> Result<Self, TreeError> {
        let text = super::text_file::read_text(path, MAX_BYTES)?;
        Ok(Self::from_text(path, &text))
    }

    /// Returns the commands of RUN lines, in order.
    pub fn setup_commands(&self) -> impl Iterator<Item = &SetupCommand> {
        self.actions.iter().filter_map(|action| match action {
            FileAction::Run(command) => Some(command),
            _ => None,
        })
    }
}

/// The command of a RUN line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupCommand {
    /// The line, from 1.
    pub line: usize,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// The folder that it runs in.
    pub workdir: String,
    /// Its environment variables, those of the image left out.
    pub env: BTreeMap<String, String>,
    /// Its user.
    pub user: Option<User>,
    /// What it does, or why that cannot be told.
    pub(super) effects: Result<Vec<RunEffect>, String>,
}

impl SetupCommand {
    /// Returns the packages that it installs, if all it does can be told.
    ///
    /// # Errors
    /// Returns why that cannot be told.
    pub fn packages(&self) -> Result<Vec<&Package>, &str> {
        let effects = self.effects.as_ref().map_err(String::as_str)?;
        let packages = effects.iter().filter_map(|effect| match effect {
            RunEffect::Install(package) => Some(package),
            _ => None,
        });
        Ok(packages.collect())
    }

    /// Whether all it does can be told, and these packages are all that it installs.
    #[must_use]
    pub fn is_covered(&self, provided: &[Package]) -> bool {
        let is_provided = |wanted: &&Package| provided.iter().any(|entry| entry.covers(wanted));
        self.packages().is_ok_and(|wanted| wanted.iter().all(is_provided))
    }
}

/// Something that makes files of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileAction {
    /// Creates a folder.
    Folder {
        /// Its absolute path in the environment.
        path: String,
    },
    /// Copies files of the context.
    Copy(CopyLine),
    /// Runs a command.
    Run(SetupCommand),
}

/// A COPY line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyLine {
    /// The line, from 1.
    pub(super) line: usize,
    /// Paths and patterns, relative to the context.
    pub(super) sources: Vec<String>,
    /// The absolute path in the environment.
    pub(super) target: String,
    /// The target is a folder even if it does not exist.
    pub(super) is_folder: bool,
    /// The mode of what is copied; none for the files' own.
    pub(super) mode: Option<u32>,
    /// Patterns of what is left out.
    pub(super) exclude: Vec<String>,
}

/// Returns the absolute path that a path stands for in a folder of the environment, without `.` and `..`.
pub(super) fn resolve(workdir: &str, path: &str) -> String {
    let joined = Path::new("/").join(workdir).join(path);
    let clean = ralph_orchestrator_safe_fs::normalize_lexically(&joined);
    clean.to_string_lossy().into_owned()
}
