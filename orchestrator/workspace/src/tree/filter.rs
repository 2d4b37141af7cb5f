//! Decides which entries of the workspace count.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use ralph_orchestrator_safe_fs::path_bytes;

use super::pinned_paths::PinnedPaths;
use crate::git::Tracked;
use crate::gitignore::{CompiledRules, IgnoreRules, RULE_FILE};
use crate::outer_rules::as_prefix;
use crate::protected::{BYTECODE, ProtectedPaths, is_cached, is_compiled, repository_of};

/// What a folder hands down to its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderContext {
    /// The folder is ignored; only what git tracks beneath it counts.
    pub(super) ignored: bool,
    /// The folder is the marked cache of a tool, or the repository of a folder: what the tool keeps there does not
    /// count, anything else does.
    pub(super) kept_by_tool: bool,
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

    /// Counts what git tracks in a repository in which the workspace has this path.
    pub(super) fn track(&mut self, tracked: Arc<Tracked>, inside: &Path) {
        self.tracked = tracked;
        self.prefix = as_prefix(inside);
    }

    /// Returns what git tracks, and the workspace's path in its repository, ending in `/` unless empty.
    pub(super) fn tracked(&self) -> (Arc<Tracked>, Vec<u8>) {
        (Arc::clone(&self.tracked), self.prefix.clone())
    }

    /// Whether something beneath a folder, whose path ends in `/`, counts whatever rules say.
    pub(super) fn has_work_beneath(&self, folder: &[u8]) -> bool {
        let whole = [self.prefix.as_slice(), folder].concat();
        self.tracked.has_beneath(&whole)
            || self.pinned.has_beneath(folder.strip_suffix(b"/").unwrap_or(folder))
    }

    /// Classifies the entry at `path`, whose last part is `name`.
    pub(super) fn classify(
        &self,
        path: &[u8],
        name: &[u8],
        is_folder: bool,
        inside: FolderContext,
    ) -> Inclusion {
        let never = name == b".git" && (!is_folder || path == name)
            || path == b".ralph"
            || self.excluded.binary_search_by(|excluded| excluded.as_slice().cmp(path)).is_ok();
        let ignored =
            |paths: &Arc<ProtectedPaths>| paths.contains(Path::new(OsStr::from_bytes(path)));
        if never || self.ignored.as_ref().is_some_and(ignored) {
            return Inclusion::Excluded;
        }
        let is_of_tool = inside.kept_by_tool && is_kept_by_tool(path, is_folder)
            || !is_folder && is_bytecode(path, name);
        if !inside.ignored && !is_of_tool && !self.rules.ignore(path, is_folder) {
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
        if name == RULE_FILE && !inside.ignored && !is_of_tool {
            Inclusion::Included
        } else {
            Inclusion::Excluded
        }
    }
}

/// Whether a tool keeps this in its own folder. The many folders of a repository are not looked into.
fn is_kept_by_tool(path: &[u8], is_folder: bool) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    !is_folder && is_cached(path) || repository_of(path).is_some()
}

/// Whether it is compiled code where Python keeps that.
fn is_bytecode(path: &[u8], name: &[u8]) -> bool {
    let folder = path.strip_suffix(name).and_then(|folder| folder.strip_suffix(b"/"));
    let folder = folder.and_then(|folder| folder.strip_suffix(BYTECODE.as_bytes()));
    folder.is_some_and(|above| above.is_empty() || above.ends_with(b"/")) && is_compiled(name)
}
