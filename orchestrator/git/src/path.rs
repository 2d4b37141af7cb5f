//! Paths as git prints them: bytes, which are shown and stored without loss.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path relative to the workspace, in any bytes but NUL.
///
/// It is displayed, and stored by serde, with backslashes, control characters and bytes that are not
/// UTF-8 escaped as `\xNN`, so that no name forges output and none is lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    /// Makes a path of the bytes that git prints.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path for use with files.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Returns the bytes after the last `/`.
    pub fn file_name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Returns this path, then the folders that it lies in, the innermost first.
    pub(crate) fn with_parents(&self) -> impl Iterator<Item = Self> + '_ {
        let slashes = self.0.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        let ends = std::iter::once(self.0.len()).chain(slashes.map(|(at, _)| at));
        ends.map(|end| Self(self.0.get(..end).unwrap_or_default().to_vec()))
    }

    /// Returns the path that was displayed like this; `None` if none is.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_escaped(text)
    }

    pub(crate) fn from_escaped(text: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes().iter().copied();
        while let Some(byte) = rest.next() {
            if byte != b'\\' {
                bytes.push(byte);
                continue;
            }
            if rest.next() != Some(b'x') {
                return None;
            }
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character == '\\' || character.is_control() {
                    let mut buffer = [0; 4];
                    for byte in character.encode_utf8(&mut buffer).bytes() {
                        write!(f, "\\x{byte:02x}")?;
                    }
                } else {
                    f.write_char(character)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for RepoPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_escaped(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("{text:?}: expected `\\xNN` after each backslash"))
        })
    }
}

/// Returns the non-empty parts between NUL bytes.
pub(crate) fn split_nul(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}

/// Joins paths for a command that reads them separated by NUL.
pub(crate) fn join_nul<'a>(paths: impl IntoIterator<Item = &'a RepoPath>) -> Vec<u8> {
    let mut joined = Vec::new();
    for path in paths {
        joined.extend_from_slice(path.as_bytes());
        joined.push(0);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stores_any_bytes_without_loss(bytes in proptest::collection::vec(1u8.., 0..60)) {
            let path = RepoPath::from_bytes(bytes);
            let json = serde_json::to_string(&path).unwrap();
            prop_assert!(!path.to_string().chars().any(char::is_control));
            prop_assert_eq!(serde_json::from_str::<RepoPath>(&json).unwrap(), path);
        }

        #[test]
        fn reads_any_text_without_a_panic(text in ".*") {
            let _ = RepoPath::from_escaped(&text);
        }
    }
}
