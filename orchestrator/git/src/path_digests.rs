//! Sets of paths that are kept on disk without the paths: a name can be made of a secret.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::path::RepoPath;

/// A set of paths, as digests. Records of earlier versions have the paths themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PathDigests(BTreeSet<RepoPath>);

impl PathDigests {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set has this path.
    pub(crate) fn contains(&self, path: &RepoPath) -> bool {
        !self.0.is_empty() && (self.0.contains(&digest_of(path)) || self.0.contains(path))
    }

    /// Whether the set has this path, or a folder that it lies in.
    pub(crate) fn covers(&self, path: &RepoPath) -> bool {
        !self.0.is_empty() && path.with_parents().any(|path| self.contains(&path))
    }

    /// Adds paths. Returns whether one was new.
    pub(crate) fn add<'a>(&mut self, paths: impl IntoIterator<Item = &'a RepoPath>) -> bool {
        let before = self.0.len();
        self.0.extend(paths.into_iter().map(digest_of));
        self.0.len() > before
    }

    /// Keeps what the other set has, too.
    pub(crate) fn keep_common(&mut self, other: &Self) {
        self.0.retain(|digest| other.0.contains(digest));
    }

    /// Removes what the other set has.
    pub(crate) fn remove_all(&mut self, other: &Self) {
        self.0.retain(|digest| !other.0.contains(digest));
    }
}

impl<'a> FromIterator<&'a RepoPath> for PathDigests {
    fn from_iter<I: IntoIterator<Item = &'a RepoPath>>(paths: I) -> Self {
        Self(paths.into_iter().map(digest_of).collect())
    }
}

fn digest_of(path: &RepoPath) -> RepoPath {
    RepoPath::from_bytes(format!("blake3:{}", blake3::hash(path.as_bytes()).to_hex()).as_bytes())
}
