//! Mistakes in the configuration, and where they were made.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ralph_orchestrator_text::escape;

use crate::masked::{mask_source, mask_text};

/// Where a mistake was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceLocation {
    /// In a file.
    File {
        /// The file, as it was named.
        path: PathBuf,
        /// Where in it, unless something is missing from it or the file itself is the mistake.
        position: Option<Position>,
    },
    /// In an environment variable.
    Variable {
        /// Its name.
        name: String,
    },
    /// In a `--set KEY=VALUE`.
    Set {
        /// The key.
        key: String,
    },
    /// In another flag, or on the command line as a whole.
    CommandLine {
        /// The flag, such as `--check`.
        flag: Option<String>,
    },
    /// In a preset.
    Preset {
        /// Its name.
        name: String,
    },
}

/// A part of a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The first character, from 1.
    pub column: usize,
    /// The line, without its end and with the values of variables masked.
    pub text: String,
    /// The part, in bytes of `text`.
    pub span: Range<usize>,
}

impl Position {
    /// Returns the position of the byte range `span` of `source`; of its first line, if it has several.
    pub(crate) fn new(source: &str, span: &Range<usize>) -> Self {
        let before = source.get(..span.start).unwrap_or(source);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        // A byte order mark is no character of the first line.
        let start = if start == 0 && source.starts_with('\u{feff}') { 3 } else { start };
        let masked = mask_source(source);
        let rest = masked.get(start..).unwrap_or_default();
        let text = rest.split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let from = before.len().saturating_sub(start).min(text.len());
        let to = span.end.saturating_sub(start).clamp(from, text.len());
        Self {
            line: before.matches('\n').count() + 1,
            column: text.get(..from).unwrap_or_default().chars().count() + 1,
            text: text.to_owned(),
            span: from..to,
        }
    }
}

impl SourceLocation {
    pub(crate) fn file(path: &Path) -> Self {
        Self::File { path: path.to_owned(), position: None }
    }

    /// Files in the order of their lines, then variables, then `--set`.
    fn sort_key(&self) -> (u8, PathBuf, usize, usize) {
        match self {
            Self::File { path, position } => {
                let (line, column) = position.as_ref().map_or((0, 0), |p| (p.line, p.column));
                (0, path.clone(), line, column)
            }
            Self::Variable { name } => (1, PathBuf::from(name), 0, 0),
            Self::Set { .. } => (2, PathBuf::new(), 0, 0),
            Self::CommandLine { flag } => (3, flag.as_deref().unwrap_or_default().into(), 0, 0),
            Self::Preset { name } => (4, name.into(), 0, 0),
        }
    }
}

/// `ralph.toml:3:18`, a variable's name, `--set` or another flag.
impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, position: None } => write!(f, "{}", path.display()),
            Self::File { path, position: Some(at) } => {
                write!(f, "{}:{}:{}", path.display(), at.line, at.column)
            }
            Self::Variable { name } => f.write_str(name),
            Self::Set { .. } => f.write_str("--set"),
            Self::CommandLine { flag } => {
                f.write_str(flag.as_deref().unwrap_or("the command line"))
            }
            Self::Preset { name } => write!(f, "preset {name}"),
        }
    }
}

/// One mistake in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The key, such as `limits.max_cost_usd`; empty if the mistake is in the file as a whole.
    pub key: String,
    /// What is wrong and what was expected.
    pub message: String,
    /// Where.
    pub location: SourceLocation,
    /// The name that was probably meant.
    pub suggestion: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl ConfigError {
    pub(crate) fn new(
        location: SourceLocation,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), message: message.into(), location, suggestion: None, help: None }
    }
}

impl ConfigError {
    /// Masks these secrets in what it says.
    pub(crate) fn mask(mut self, secrets: &[String]) -> Self {
        let texts = [Some(&mut self.key), Some(&mut self.message)].into_iter();
        let texts = texts.chain([self.suggestion.as_mut(), self.help.as_mut()]).flatten();
        texts.for_each(|text| *text = mask_text(text, secrets));
        self
    }
}

/// One line, such as `ralph.toml:3:18: limits.max_cost_usd: expected a number of dollars, found "five"`.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = format!("{}: ", self.location);
        if !self.key.is_empty() {
            line.push_str(&format!("{}: ", self.key));
        }
        line.push_str(&self.message);
        if let Some(name) = &self.suggestion {
            line.push_str(&format!("; did you mean `{name}`?"));
        }
        f.write_str(&escape(&line))
    }
}

impl std::error::Error for ConfigError {}

/// All mistakes that were found in a configuration; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Sorts the mistakes in the order of the files.
    ///
    /// # Errors
    /// Returns all of them if there is one.
    pub fn ensure_none(mut errors: Vec<ConfigError>) -> Result<(), Self> {
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by_cached_key(|error| error.location.sort_key());
        Err(Self(errors))
    }

    /// Masks these secrets in what they say.
    pub(crate) fn mask(self, secrets: &[String]) -> Self {
        Self(self.0.into_iter().map(|error| error.mask(secrets)).collect())
    }

    /// Returns the mistakes, in the order of the files.
    #[must_use]
    pub fn errors(&self) -> &[ConfigError] {
        &self.0
    }
}

/// A line for each mistake.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}
