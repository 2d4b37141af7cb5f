//! The digest of a whole workspace, and why there is none.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The digest of a whole workspace: BLAKE3 in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TreeDigest(pub(super) String);

impl TreeDigest {
    /// Returns the 64 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TreeDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<TreeDigest> for String {
    fn from(digest: TreeDigest) -> Self {
        digest.0
    }
}

impl TryFrom<String> for TreeDigest {
    type Error = TreeError;

    fn try_from(text: String) -> Result<Self, TreeError> {
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 64 && text.bytes().all(digits) {
            Ok(Self(text))
        } else {
            Err(TreeError::NotADigest { text })
        }
    }
}

/// Why there is no digest.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The workspace cannot be looked at.
    #[error("workspace {path}: {source}; it has to be a folder that can be read")]
    Workspace {
        /// The workspace as given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It was asked to stop, see [`TreeHasher::cancelled_by`](super::TreeHasher::cancelled_by).
    #[error("looking at the workspace was cancelled")]
    Cancelled,
    /// The text is no digest.
    #[error("{text:?} is no tree digest: expected 64 hexadecimal digits in lower case")]
    NotADigest {
        /// The text.
        text: String,
    },
}
