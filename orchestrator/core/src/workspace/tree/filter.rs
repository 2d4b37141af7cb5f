//! Decides which entries of the workspace count.

use ralph_orchestrator_safe_fs::path_bytes;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::pinned_paths::PinnedPaths;
use crate::workspace::git::Tracked;
use crate::workspace::gitignore::{CompiledRules, IgnoreRules, RULE_FILE};
use crate::workspace::protected::ProtectedPaths;

/// What a folder hands down to its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderContext {
    /// The folder is ignored; only what git tracks beneath it counts.
    pub(super) ignored: bool,
}

/// Whether an entry counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inclusion {
    /// It counts.
    Included,
    /// It is ignored, but something tracked lies beneath it.
    TraverseOnly,
    /// It does not count.
    Excluded,
}

/// Decides what counts.
#[derive(Debug)]
pub(super) struct TreeFilter {
    pub(super) rules: IgnoreRules,
    /// In order. Mostly few: to search them is quicker than to hash.
    excluded: Vec<Vec<u8>>,
    ignored: Option<Arc<ProtectedPaths>>,
    pinned: Arc<PinnedPaths>,
    tracked: Arc<Tracked>,
    /// The workspace's path in its repository, ending in `/` unless empty.
    prefix: Vec<u8>,
}

impl TreeFilter {
    pub(super) fn new(
        compiled: CompiledRules,
        ignored: Option<Arc<ProtectedPaths>>,
        pinned: &Arc<PinnedPaths>,
    ) -> Self {
        Self {
            rules: IgnoreRules::new(compiled),
            excluded: Vec::new(),
            ignored,
            pinned: Arc::clone(pinned),
            tracked: Arc::default(),
            prefix: Vec::new(),
        }
    }

    /// Leaves out a path relative to the workspace, and all beneath it.
    pub(super) fn exclude(&mut self, path: &Path) {
        let path = path_bytes(path).to_vec();
        if let Err(at) = self.excluded.binary_search(&path) {
            self.excluded.insert(at, path);
        }
    }

    /// Counts what git tracks in the repository at `top`.
    pub(super) fn track(&mut self, tracked: Arc<Tracked>, top: &Path, workspace: &Path) {
        self.tracked = tracked;
        self.prefix = workspace.strip_prefix(top).map(path_bytes).unwrap_or_default().to_vec();
        if !self.prefix.is_empty() {
            self.prefix.push(b'/');
        }
    }

    /// Returns what git tracks, and the workspace's path in its repository, ending in `/` unless empty.
    pub(super) fn tracked(&self) -> (Arc<Tracked>, Vec<u8>) {
        (Arc::clone(&self.tracked), self.prefix.clone())
    }

    /// Classifies the entry at `path`, whose last part is `name`.
    pub(super) fn classify(
        &self,
        path: &[u8],
        name: &[u8],
        is_folder: bool,
        inside: FolderContext,
    ) -> Inclusion {
        let never = name == b".git"
            || path == b".ralph"
            || self.excluded.binary_search_by(|excluded| excluded.as_slice().cmp(path)).is_ok();
        let ignored =
            |paths: &Arc<ProtectedPaths>| paths.contains(Path::new(OsStr::from_bytes(path)));
        if never || self.ignored.as_ref().is_some_and(ignored) {
            return Inclusion::Excluded;
        }
        if !inside.ignored && !self.rules.ignore(path, is_folder) {
            return Inclusion::Included;
        }
        let mut whole = [self.prefix.as_slice(), path].concat();
        if self.tracked.has(&whole) || (!is_folder && self.pinned.has(path)) {
            // A folder is tracked as such if it is a submodule.
            return Inclusion::Included;
        }
        if is_folder {
            whole.push(b'/');
            let has_beneath = self.tracked.has_beneath(&whole) || self.pinned.has_beneath(path);
            return if has_beneath { Inclusion::TraverseOnly } else { Inclusion::Excluded };
        }
        // Editing the rules is a change, even if they hide themselves.
        if name == RULE_FILE && !inside.ignored { Inclusion::Included } else { Inclusion::Excluded }
    }
}
