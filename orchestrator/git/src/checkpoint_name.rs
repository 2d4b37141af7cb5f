//! How checkpoints are named.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{GitError, Result};

/// The id of a run, as part of a ref's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunRef(String);

impl RunRef {
    /// Takes a run's id.
    ///
    /// # Errors
    ///
    /// Fails unless it is 1 to 64 ASCII letters, digits, `-` or `_`.
    pub fn new(run: impl Into<String>) -> Result<Self> {
        let run = run.into();
        let is_plain =
            run.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if is_plain && (1..=64).contains(&run.len()) {
            Ok(Self(run))
        } else {
            Err(GitError::InvalidRun(run))
        }
    }

    pub(crate) fn folder(&self) -> String {
        format!("refs/ralph/{}/", self.0)
    }
}

impl TryFrom<String> for RunRef {
    type Error = GitError;

    fn try_from(run: String) -> Result<Self> {
        Self::new(run)
    }
}

impl From<RunRef> for String {
    fn from(run: RunRef) -> Self {
        run.0
    }
}

/// Which checkpoint of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointName {
    /// After an iteration, under `refs/ralph/<run>/<iteration>`; 0 is the run's start.
    Iteration(u64),
    /// Before a rollback, under `refs/ralph/<run>/rollback/<number>`; numbered from 1.
    BeforeRollback(u64),
}

impl CheckpointName {
    pub(crate) fn reference(self, run: &RunRef) -> String {
        format!("{}{self}", run.folder())
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |digits: &str| {
            let number: u64 = digits.parse().ok()?;
            (number.to_string() == digits).then_some(number)
        };
        match text.strip_prefix("rollback/") {
            Some(digits) => number(digits).map(Self::BeforeRollback),
            None => number(text).map(Self::Iteration),
        }
    }
}

impl fmt::Display for CheckpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iteration(number) => write!(f, "{number}"),
            Self::BeforeRollback(number) => write!(f, "rollback/{number}"),
        }
    }
}
