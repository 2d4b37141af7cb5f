//! Paths that count whatever ignore rules say, and the rules around the workspace when they were recorded.

use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::path_bytes;

use super::snapshot::TreeSnapshot;
use super::uncommitted::Uncommitted;
use crate::outer_rules::OuterRules;

/// Paths that count in the digest of a workspace, relative to it: those that were there when a run began.
/// An agent that ignores them, or stops tracking them, hides nothing. With the rules that were in force around the
/// workspace then, for new paths: an agent that changes these lets nothing count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedPaths {
    paths: Vec<Box<[u8]>>,
    outer: Option<OuterRules>,
    uncommitted: Vec<Uncommitted>,
    /// In order.
    ignored_folders: Vec<PathBuf>,
}

impl<P: AsRef<Path>> FromIterator<P> for PinnedPaths {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        let mut sorted: Vec<_> =
            paths.into_iter().map(|path| path_bytes(path.as_ref()).into()).collect();
        sorted.sort();
        Self { paths: sorted, ..Self::default() }
    }
}

impl PinnedPaths {
    /// Adds the rules that were in force around the workspace.
    #[must_use]
    pub fn with_outer_rules(mut self, outer: Option<OuterRules>) -> Self {
        self.outer = outer;
        self
    }

    /// Adds what a commit would not have carried as it was.
    #[must_use]
    pub fn with_uncommitted(mut self, found: Vec<Uncommitted>) -> Self {
        self.uncommitted = found;
        self
    }

    /// Adds the folders in which nothing counted.
    #[must_use]
    pub fn with_ignored_folders(mut self, mut folders: Vec<PathBuf>) -> Self {
        folders.sort();
        self.ignored_folders = folders;
        self
    }

    /// Whether a path lies in a folder in which nothing counted.
    #[must_use]
    pub fn is_in_ignored_folder(&self, path: &Path) -> bool {
        let is_ignored = |folder: &Path| {
            self.ignored_folders.binary_search_by(|known| known.as_path().cmp(folder)).is_ok()
        };
        path.ancestors().skip(1).any(is_ignored)
    }

    /// Returns what a commit would not have carried as it was.
    #[must_use]
    pub fn uncommitted(&self) -> &[Uncommitted] {
        &self.uncommitted
    }

    /// Returns what of this work a commit would not carry as it is, and would have carried then.
    #[must_use]
    pub fn find_uncommitted(&self, work: &TreeSnapshot) -> Vec<Uncommitted> {
        let is_new =
            |found: &&Uncommitted| !self.uncommitted.iter().any(|known| known.covers(found));
        work.uncommitted().iter().filter(is_new).cloned().collect()
    }

    /// Returns the rules that were in force around the workspace, if they are known.
    #[must_use]
    pub const fn outer_rules(&self) -> Option<&OuterRules> {
        self.outer.as_ref()
    }

    /// Returns the top of the repository that a workspace was in; `None` if it was in none, or it is not known.
    #[must_use]
    pub fn repository_top(&self, workspace: &Path) -> Option<PathBuf> {
        self.outer.as_ref()?.top(workspace)
    }

    /// Whether it is this very path.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.has(path_bytes(path))
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.paths.binary_search_by(|known| (**known).cmp(path)).is_ok()
    }

    /// Whether one lies beneath this folder.
    pub(super) fn has_beneath(&self, folder: &[u8]) -> bool {
        let prefix = [folder, b"/"].concat();
        let first = self.paths.partition_point(|path| **path < *prefix);
        self.paths.get(first).is_some_and(|path| path.starts_with(&prefix))
    }
}
