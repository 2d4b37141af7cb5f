//! Maps errors to exit statuses and hints; nothing else does.

use std::error::Error;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ralph_orchestrator_backlog::BacklogError;
use ralph_orchestrator_checkout::CheckoutError;
use ralph_orchestrator_config::{ConfigError, ConfigErrors, LoadedConfig, SourceLocation};
use ralph_orchestrator_contract::ErrorClass;
use ralph_orchestrator_driver::DriverError;
use ralph_orchestrator_engine::{EngineError, RolePromptError};
use ralph_orchestrator_git::GitError;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::StateError;
use ralph_orchestrator_story::diff::DiffError;
use ralph_orchestrator_text::{escape, fold};
use ralph_orchestrator_workspace::PromptError;
use rustix::io::Errno;

use crate::config_errors;

/// Exit statuses, as documented.
pub mod exit {
    /// Done, or complete.
    pub const OK: u8 = 0;
    /// A limit stopped the run.
    pub const LIMIT: u8 = 1;
    /// There is no task, or none is left.
    pub const NO_TASK: u8 = 1;
    /// Checks failed.
    pub const FAILED_CHECKS: u8 = 1;
    /// A person is needed.
    pub const HUMAN: u8 = 2;
    /// The command line is wrong.
    pub const USAGE: u8 = 64;
    /// What is stored is damaged.
    pub const DAMAGED: u8 = 65;
    /// Something that a run needs is missing.
    pub const UNAVAILABLE: u8 = 69;
    /// An error of the program or the system.
    pub const INTERNAL: u8 = 70;
    /// Another process is at work.
    pub const BUSY: u8 = 75;
    /// The configuration is wrong.
    pub const CONFIG: u8 = 78;
    /// Ended by SIGINT.
    pub const INTERRUPTED: u8 = 130;
    /// Ended by SIGTERM.
    pub const TERMINATED: u8 = 143;
}

/// What kind of problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no task of the name that was given.
    NoTask,
    /// The command line is wrong, or asks for what cannot be.
    Usage,
    /// The configuration is wrong.
    Config,
    /// What is stored is damaged.
    Damaged,
    /// Another process is at work.
    Busy,
    /// Something that a run needs is missing.
    Unavailable,
    /// A person has to do something first.
    Human,
    /// Anything else.
    Internal,
}

/// A command failed.
#[derive(Debug)]
pub struct CommandError {
    kind: ErrorKind,
    error: Box<dyn Error + Send + Sync>,
    hints: Vec<String>,
}

impl CommandError {
    /// Returns an error of this kind.
    pub fn new(kind: ErrorKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, error: error.into(), hints: Vec::new() }
    }

    /// Returns a usage error.
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message.into())
    }

    /// Returns the error that there is no task of this name.
    pub fn no_task(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NoTask, message.into())
    }

    /// Returns a configuration error.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message.into())
    }

    /// Returns the error that something a run needs is missing.
    pub fn unavailable(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Unavailable, error)
    }

    /// Returns an internal error.
    pub fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Internal, error)
    }

    /// Adds what to do.
    pub fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns the error with the place of the key that names the backlog, if that is what is wrong.
    pub fn locate(self, loaded: &LoadedConfig) -> Self {
        let Self { kind, error, hints } = self;
        match error.downcast::<BacklogError>() {
            Ok(error) => Self { hints, ..explain(*error, loaded) },
            Err(error) => Self { kind, error, hints },
        }
    }

    /// Returns the exit status.
    pub const fn code(&self) -> u8 {
        match self.kind {
            ErrorKind::NoTask => exit::NO_TASK,
            ErrorKind::Usage => exit::USAGE,
            ErrorKind::Config => exit::CONFIG,
            ErrorKind::Damaged => exit::DAMAGED,
            ErrorKind::Busy => exit::BUSY,
            ErrorKind::Unavailable => exit::UNAVAILABLE,
            ErrorKind::Human => exit::HUMAN,
            ErrorKind::Internal => exit::INTERNAL,
        }
    }

    /// Whether there is no task of the name that was given.
    pub fn is_no_task(&self) -> bool {
        self.kind == ErrorKind::NoTask
    }

    /// Whether one of the mistakes is in a flag.
    pub fn is_on_command_line(&self) -> bool {
        let is_flag = |error: &ConfigError| {
            matches!(
                error.location,
                SourceLocation::Set { .. } | SourceLocation::CommandLine { .. }
            )
        };
        let errors = self.error.downcast_ref::<ConfigErrors>();
        errors.is_some_and(|errors| errors.errors().iter().any(is_flag))
    }

    /// Returns the message in short, a line for each mistake.
    pub fn summary(&self) -> String {
        escape(&self.error.to_string())
    }

    /// Returns an error about the value of a key, at its place in the configuration.
    pub fn at_key(loaded: &LoadedConfig, key: &[&str], problem: &str) -> Self {
        let key: Vec<String> = key.iter().map(|&part| part.to_owned()).collect();
        ConfigErrors::from(loaded.error_at(&key, None, problem)).into()
    }

    /// Returns the message and its hints as a sentence of a table; one about the configuration with its place.
    pub fn detail(&self) -> String {
        if self.error.downcast_ref::<ConfigErrors>().is_some() {
            return self.render(false, None);
        }
        [vec![self.summary()], self.hints.clone()].concat().join("; ")
    }

    /// Returns the message, folded to the width of a terminal if it is for one.
    pub fn render(&self, colour: bool, width: Option<usize>) -> String {
        let width = width.unwrap_or(usize::MAX);
        let folded = |text: &str| {
            let lines = text.lines().flat_map(|line| fold(line, 2, width));
            lines.collect::<Vec<_>>().join("\n")
        };
        let mut text = match self.error.downcast_ref::<ConfigErrors>() {
            Some(errors) => config_errors::render(errors, colour, width),
            // Programs have their say in it.
            None => folded(&format!("error: {}", escape(&self.error.to_string()))),
        };
        for hint in &self.hints {
            text = format!("{}\n{}", text.trim_end(), folded(&format!("hint: {hint}")));
        }
        text.trim_end().to_owned()
    }
}

/// Returns the error about a backlog's content. What the configuration names wrongly is located there, what
/// the backlog has wrong, in the backlog.
pub fn explain(error: BacklogError, loaded: &LoadedConfig) -> CommandError {
    let is_named_wrongly =
        matches!(error, BacklogError::NotFound { .. } | BacklogError::UnsafePath { .. });
    if !is_named_wrongly {
        return error.into();
    }
    CommandError::at_key(loaded, &["backlog", "path"], &error.to_string())
}

impl From<ConfigErrors> for CommandError {
    fn from(error: ConfigErrors) -> Self {
        Self::new(ErrorKind::Config, error)
    }
}

impl From<StateError> for CommandError {
    fn from(error: StateError) -> Self {
        let (kind, hint) = match &error {
            StateError::Busy { holder } if !holder.work.is_run() => {
                (ErrorKind::Busy, "wait for it; it ends by itself")
            }
            StateError::Busy { .. } => {
                (ErrorKind::Busy, "wait for it, or stop it with `ralph-orchestrator stop`")
            }
            StateError::Nested { .. } => (
                ErrorKind::Busy,
                "an agent cannot start a run in its own workspace; use another workspace",
            ),
            StateError::AgentsLeft { .. } | StateError::OrphansLeft { .. } => {
                (ErrorKind::Busy, "find its processes and end them")
            }
            StateError::Exposed { .. } => (ErrorKind::Config, "nothing was started"),
            StateError::Foreign { .. } => (
                ErrorKind::Config,
                "name another folder in `state.dir`; if the configuration or the workspace was moved, \
                 put it back",
            ),
            StateError::Elsewhere { .. } => (
                ErrorKind::Config,
                "put it back to resume that run; `run --restart` begins a new one",
            ),
            StateError::Damaged { .. } => (
                ErrorKind::Damaged,
                "nothing was started; `ralph-orchestrator reset` deletes the run state",
            ),
            StateError::Io { path, source, .. } => {
                let hint = match source.kind() {
                    io::ErrorKind::PermissionDenied => mode_to_restore(path),
                    _ => io_hint(source).to_owned(),
                };
                return Self::new(ErrorKind::Internal, error).hinted(hint);
            }
        };
        Self::new(kind, error).hinted(hint)
    }
}

/// Names the mode that gives the user access to a path of the state again.
fn mode_to_restore(path: &Path) -> String {
    let ways: Vec<&Path> = path.ancestors().collect();
    let closed = ways.into_iter().rev().find_map(|part| {
        let found = std::fs::symlink_metadata(part).ok()?;
        let mode = if found.is_dir() { 0o700 } else { 0o600 };
        (!found.is_symlink() && found.mode() & mode != mode).then_some((mode, part))
    });
    match closed {
        Some((mode, part)) => format!(
            "`chmod {mode:o} {}` restores its mode; then try again: nothing that was recorded is lost",
            quote_word(part)
        ),
        None => "make it and the folders above it yours again (`chown`), then try again: nothing that was recorded \
                 is lost"
            .to_owned(),
    }
}

/// What to do where the state cannot be read or written.
fn io_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            "free disk space, then run again: nothing that was recorded is lost"
        }
        Some(Errno::FBIG) => {
            "raise the largest size of a file (`ulimit -f`), then run again: nothing that was recorded is lost"
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            "raise the number of files that may be open (`ulimit -n`), then run again: nothing that was recorded is lost"
        }
        Some(Errno::ROFS) => {
            "make its file system writable, then run again: nothing that was recorded is lost"
        }
        _ => {
            "free disk space or fix permissions, then run again: nothing that was recorded is lost"
        }
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Config(errors) => errors.into(),
            EngineError::State(error) => error.into(),
            EngineError::Agent { error: ref problem, .. }
                if problem.class == ErrorClass::Unauthenticated =>
            {
                Self::new(ErrorKind::Human, error)
            }
            EngineError::Agent { .. } => Self::new(ErrorKind::Unavailable, error)
                .hinted("`ralph-orchestrator doctor` checks everything that a run needs"),
            EngineError::Exchanged(_) => {
                Self::new(ErrorKind::Damaged, error).hinted("nothing was started in it")
            }
            EngineError::Prompt(PromptError::Link { .. } | PromptError::HardLink { .. }) => {
                Self::new(ErrorKind::Damaged, error).hinted(
                    "nothing was read through it; restore the file, or, if the link is yours, accept it by \
                     `ralph-orchestrator trust`, followed by its path, and start a new run with `run --restart`",
                )
            }
            EngineError::RolePrompt(RolePromptError::Prompt(error)) => {
                EngineError::Prompt(error).into()
            }
            EngineError::Prompt(_)
            | EngineError::RolePrompt(_)
            | EngineError::Workspace(_)
            | EngineError::Repository(_)
            | EngineError::Checkout(CheckoutError::Unavailable { .. }) => {
                Self::new(ErrorKind::Config, error)
            }
            EngineError::Checkout(CheckoutError::Damaged { .. }) => {
                Self::new(ErrorKind::Damaged, error)
            }
            EngineError::Tree(_) | EngineError::Checkout(_) | EngineError::Internal(_) => {
                Self::new(ErrorKind::Internal, error)
            }
        }
    }
}

impl From<GitError> for CommandError {
    fn from(error: GitError) -> Self {
        let kind = match &error {
            GitError::NoCheckpoint(_)
            | GitError::InProgress(_)
            | GitError::Unsaved { .. }
            | GitError::WouldOverwrite { .. } => ErrorKind::Usage,
            GitError::TooOld(_)
            | GitError::NotARepository(_)
            | GitError::EmptyRepository(_)
            | GitError::Bare(_)
            | GitError::UnsafeOwnership { .. }
            | GitError::LinkInRepository(_)
            | GitError::RepositoryChanged { .. }
            | GitError::RepositoryGone { .. }
            | GitError::WorktreeRemoved(_) => ErrorKind::Config,
            GitError::ForgedObjects { .. } => ErrorKind::Damaged,
            GitError::Busy(_) => ErrorKind::Busy,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, error)
    }
}

impl From<DiffError> for CommandError {
    fn from(error: DiffError) -> Self {
        match error {
            DiffError::Git(error) => error.into(),
            DiffError::BeforeStart => Self::new(ErrorKind::Usage, error),
            DiffError::NoCheckpoint => Self::new(ErrorKind::Usage, error)
                .hinted("`[git] commit = \"checkpoint\"` makes one after each iteration"),
        }
    }
}

impl From<BacklogError> for CommandError {
    fn from(error: BacklogError) -> Self {
        let kind = match &error {
            BacklogError::Busy { .. } => ErrorKind::Busy,
            BacklogError::Io { .. } => ErrorKind::Internal,
            BacklogError::UnknownItem { .. }
            | BacklogError::NotStorable { .. }
            | BacklogError::InvalidNewItem { .. } => ErrorKind::Usage,
            BacklogError::FormatFailed { .. } | BacklogError::Tracker { .. } => {
                ErrorKind::Unavailable
            }
            _ => ErrorKind::Config,
        };
        Self::new(kind, error)
    }
}

impl From<DriverError> for CommandError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Backlog(error) => error.into(),
            DriverError::State(error) => error.into(),
            DriverError::Engine(error) => error.into(),
            DriverError::Empty { .. } | DriverError::InLanes { .. } => {
                Self::new(ErrorKind::Config, error)
            }
            DriverError::Lane { .. }
            | DriverError::Lanes { .. }
            | DriverError::NotPublished { .. } => Self::new(ErrorKind::Unavailable, error),
            DriverError::AlreadyComplete { .. }
            | DriverError::NotBlocked { .. }
            | DriverError::NotBegun { .. } => Self::user(error.to_string()),
            DriverError::Encoding { .. } => Self::new(ErrorKind::Damaged, error),
            DriverError::NotSubmitted { .. } => Self::new(ErrorKind::Internal, error),
        }
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::new(ErrorKind::Internal, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_lacks_is_what_the_hint_asks_for() {
        for (errno, asks) in [
            (Errno::NOSPC, "free disk space, "),
            (Errno::FBIG, "`ulimit -f`"),
            (Errno::MFILE, "`ulimit -n`"),
            (Errno::ROFS, "make its file system writable"),
            (Errno::ACCESS, "(`chown`)"),
            (Errno::IO, "free disk space or fix permissions"),
        ] {
            let source = io::Error::from(errno);
            let error = StateError::Io { action: "write", path: "journal.jsonl".into(), source };
            let error = CommandError::from(error);
            assert_eq!(error.code(), exit::INTERNAL);
            let [hint] = &error.hints[..] else { panic!("{:?}", error.hints) };
            assert!(hint.contains(asks) && hint.contains("nothing that was recorded is lost"));
        }
    }

    #[test]
    fn only_a_run_that_holds_the_state_is_to_be_stopped() {
        use ralph_orchestrator_store::{Holder, Work};
        for (work, helps) in [(Work::Run, "`ralph-orchestrator stop`"), (Work::Rollback, "wait")] {
            let holder = Holder { pid: 7, started: None, work };
            let error = CommandError::from(StateError::Busy { holder });
            let [hint] = &error.hints[..] else { panic!("{:?}", error.hints) };
            assert!(hint.contains(helps) && hint.contains("stop`") == work.is_run(), "{hint}");
        }
    }

    #[test]
    fn what_may_not_be_entered_is_answered_by_the_mode_to_restore() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a state");
        std::fs::create_dir(&state).unwrap();
        let key = state.join("key");
        std::fs::write(&key, "x").unwrap();
        let close = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let hint = |path: &Path| {
            let source = io::ErrorKind::PermissionDenied.into();
            let error = StateError::Io { action: "read", path: path.to_owned(), source };
            CommandError::from(error).hints.join(" ")
        };
        close(&key, 0o400);
        assert!(hint(&key).starts_with(&format!("`chmod 600 '{}'`", key.display())));
        close(&state, 0o500);
        for path in [&key, &state.join("runs/gone"), &state] {
            let expected = format!("`chmod 700 '{}'` restores its mode;", state.display());
            assert!(hint(path).starts_with(&expected), "{}", hint(path));
        }
        close(&state, 0o700);
    }
}
