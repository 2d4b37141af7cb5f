//! What is wrong with a task, and where.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::ReadError;

/// A place in a file: file, line and column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextLocation {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; none if the whole file is meant.
    pub line: Option<usize>,
    /// The column in characters, from 1; none if the whole line is meant.
    pub column: Option<usize>,
}

impl TextLocation {
    /// Returns the location that is a whole file or folder.
    #[must_use]
    pub fn from_file(file: &Path) -> Self {
        Self { file: file.to_owned(), line: None, column: None }
    }

    /// Returns the location of a line, counted from 1.
    #[must_use]
    pub fn from_line(file: &Path, line: usize) -> Self {
        Self { file: file.to_owned(), line: Some(line), column: None }
    }

    /// Returns the location of the first byte of a range of the file's text.
    #[must_use]
    pub fn from_span(file: &Path, text: &str, span: &Range<usize>) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Self { file: file.to_owned(), line: Some(line), column: Some(column) }
    }
}

impl fmt::Display for TextLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        Ok(())
    }
}

/// Something that is wrong with a task, or that it asks for without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub location: TextLocation,
    /// What, what was expected, and what to do.
    pub message: String,
}

impl Problem {
    /// Returns a problem of a whole file or folder.
    #[must_use]
    pub fn new(file: &Path, message: impl Into<String>) -> Self {
        Self { location: TextLocation::from_file(file), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// The tasks of a folder cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Nothing in the folder is a task.
    #[error(
        "{}: no task found; expected task.toml, ralph.toml, .meta/config.json or task.yaml in it or in folders up to {depth} \
         levels below",
        folder.display()
    )]
    NoTask {
        /// The folder.
        folder: PathBuf,
        /// How many levels of folders were searched.
        depth: usize,
    },
    /// Tasks are wrong: all problems of all tasks of the folder.
    #[error("{}", join_problems(.0))]
    Invalid(Vec<Problem>),
    /// A folder or file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn join_problems(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// A file or folder of a task, or of what is made from it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A link leads elsewhere, or could be made to.
    #[error(
        "{}: the link leads to {target}; only relative links that begin with their `..` and stay within the tree are \
         taken: replace it by what it leads to",
        path.display()
    )]
    UnsafeLink {
        /// The link.
        path: PathBuf,
        /// Where it leads, as it is written.
        target: String,
    },
    /// A link is where only a file or folder is taken.
    #[error("{}: a link, or below one; put the file or folder itself there", path.display())]
    Link {
        /// The path.
        path: PathBuf,
    },
    /// A pipe, a socket or a device.
    #[error("{}: neither a file, a folder nor a link; remove it", path.display())]
    SpecialFile {
        /// The path.
        path: PathBuf,
    },
    /// A limit on the size of a task is exceeded.
    #[error("{}: {what}; a task has at most {limit}", path.display())]
    TooLarge {
        /// What exceeds it.
        path: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// The limit, with its unit.
        limit: String,
    },
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl TreeError {
    /// Whether an agent can cause it by what it leaves; else the machine is at fault.
    #[must_use]
    pub fn can_be_of_agent(&self) -> bool {
        match self {
            Self::UnsafeLink { .. }
            | Self::Link { .. }
            | Self::SpecialFile { .. }
            | Self::TooLarge { .. } => true,
            Self::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::NotFound
                    | io::ErrorKind::AlreadyExists
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::DirectoryNotEmpty
                    | io::ErrorKind::InvalidFilename
            ),
        }
    }

    /// Returns what cannot be used.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::UnsafeLink { path, .. }
            | Self::Link { path }
            | Self::SpecialFile { path }
            | Self::TooLarge { path, .. }
            | Self::Io { path, .. } => path,
        }
    }

    /// Returns the error for what a bounded read of this path reported.
    pub(super) fn from_read(path: &Path, error: ReadError) -> Self {
        let path = path.to_owned();
        match error {
            ReadError::NotRegular => Self::SpecialFile { path },
            ReadError::TooLarge { limit } => Self::TooLarge {
                path,
                what: "the file is too large",
                limit: format!("{limit} bytes"),
            },
            ReadError::Io(source) => Self::from_io(&path, source),
        }
    }

    /// Returns the error for what the system reported about this path.
    pub(super) fn from_io(path: &Path, error: impl Into<io::Error>) -> Self {
        let path = path.to_owned();
        let source = error.into();
        if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return Self::Link { path };
        }
        Self::Io { path, source }
    }
}
