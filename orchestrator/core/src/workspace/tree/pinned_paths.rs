//! Paths that count whatever ignore rules say.

use ralph_orchestrator_safe_fs::path_bytes;
use std::collections::BTreeSet;
use std::path::Path;

/// Paths that count in the digest of a workspace, relative to it: those that were there when a run began.
/// An agent that ignores them, or stops tracking them, hides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedPaths(BTreeSet<Box<[u8]>>);

impl<P: AsRef<Path>> FromIterator<P> for PinnedPaths {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        Self(paths.into_iter().map(|path| path_bytes(path.as_ref()).into()).collect())
    }
}

impl PinnedPaths {
    /// Whether it is this very path.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.has(path_bytes(path))
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.0.contains(path)
    }

    /// Whether one lies beneath this folder.
    pub(super) fn has_beneath(&self, folder: &[u8]) -> bool {
        let prefix = [folder, b"/"].concat();
        let mut from = self.0.range(prefix.clone().into_boxed_slice()..);
        from.next().is_some_and(|path| path.starts_with(&prefix))
    }
}
