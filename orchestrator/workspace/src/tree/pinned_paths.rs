//! Paths that count whatever ignore rules say.

use std::path::Path;

use ralph_orchestrator_safe_fs::path_bytes;

/// Paths that count in the digest of a workspace, relative to it: those that were there when a run began.
/// An agent that ignores them, or stops tracking them, hides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedPaths(Vec<Box<[u8]>>);

impl<P: AsRef<Path>> FromIterator<P> for PinnedPaths {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        let mut sorted: Vec<_> =
            paths.into_iter().map(|path| path_bytes(path.as_ref()).into()).collect();
        sorted.sort();
        Self(sorted)
    }
}

impl PinnedPaths {
    /// Whether it is this very path.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.has(path_bytes(path))
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.0.binary_search_by(|known| (**known).cmp(path)).is_ok()
    }

    /// Whether one lies beneath this folder.
    pub(super) fn has_beneath(&self, folder: &[u8]) -> bool {
        let prefix = [folder, b"/"].concat();
        let first = self.0.partition_point(|path| **path < *prefix);
        self.0.get(first).is_some_and(|path| path.starts_with(&prefix))
    }
}
