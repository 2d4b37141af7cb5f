//! Verdicts, and the evidence that they rest on.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A piece of evidence that was examined and found good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceFile {
    /// Where it is: absolute.
    pub path: PathBuf,
    /// BLAKE3 of its content, in hexadecimal. Empty in a verdict: it is computed when the verdict is
    /// received.
    #[serde(default)]
    pub digest: String,
    /// Its size in bytes. 0 in a verdict: it is counted when the verdict is received.
    #[serde(default)]
    pub bytes: u64,
}

impl EvidenceFile {
    /// Reads a regular file, and returns it with the digest and the size of its content. Does not follow
    /// a link, and never waits for the other end of a pipe.
    ///
    /// # Errors
    /// It does not exist, is no regular file, or cannot be read.
    pub fn read(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(&path)?;
        if !file.metadata()?.is_file() {
            let message = format!("{} is not a regular file", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut hasher = blake3::Hasher::new();
        let bytes = io::copy(&mut file, &mut hasher)?;
        Ok(Self { path, digest: hasher.finalize().to_hex().to_string(), bytes })
    }
}

/// A validator's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The claim stands, as far as this validator sees.
    Accepted {
        /// One line: what was seen, such as `exit 0, 42 passed`.
        summary: String,
        /// The evidence it rests on, to be kept.
        #[serde(default)]
        evidence: Vec<EvidenceFile>,
    },
    /// The claim does not stand.
    Rejected {
        /// Why, for the agent: each says what is missing or wrong and what to do. Never empty.
        reasons: Vec<String>,
    },
    /// It could not be checked. Counts as not accepted.
    Error {
        /// Why not.
        message: String,
    },
}

impl Verdict {
    /// A rejection for one reason.
    #[must_use]
    pub fn rejected(reason: impl Into<String>) -> Self {
        Self::Rejected { reasons: vec![reason.into()] }
    }

    /// Whether the claim stands.
    #[must_use]
    pub const fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted { .. })
    }
}
