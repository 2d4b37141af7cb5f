//! Ids of objects.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An object's id, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectId(String);

impl ObjectId {
    /// Returns the id that a text is; `None` if it is none.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_id.then(|| Self(text.to_owned()))
    }

    /// Returns the id that a text is; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_hex(text)
    }

    /// Returns the hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
