//! Which entries of the workspace count.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::workspace::git::Tracked;
use crate::workspace::protected::ProtectedPaths;
use crate::workspace::rules::{Compiled, RULE_FILE, Rules};
use crate::workspace::scope;

/// What holds for all entries of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inside {
    /// The folder is ignored; only what git tracks beneath it counts.
    pub(super) ignored: bool,
}

/// How an entry is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It counts.
    Counts,
    /// It is ignored, but something tracked lies beneath it.
    Through,
    /// It does not count.
    Not,
}

/// Decides what counts.
#[derive(Debug)]
pub(super) struct View {
    pub(super) rules: Rules,
    /// In order. Mostly few: to search them is quicker than to hash.
    excluded: Vec<Vec<u8>>,
    ignored: Option<Arc<ProtectedPaths>>,
    tracked: Arc<Tracked>,
    /// The workspace's path in its repository, ending in `/` unless empty.
    prefix: Vec<u8>,
}

impl View {
    pub(super) fn new(compiled: Compiled, ignored: Option<Arc<ProtectedPaths>>) -> Self {
        Self {
            rules: Rules::new(compiled),
            excluded: Vec::new(),
            ignored,
            tracked: Arc::default(),
            prefix: Vec::new(),
        }
    }

    /// Leaves out a path relative to the workspace, and all beneath it.
    pub(super) fn exclude(&mut self, path: &Path) {
        let path = scope::bytes(path).to_vec();
        if let Err(at) = self.excluded.binary_search(&path) {
            self.excluded.insert(at, path);
        }
    }

    /// Counts what git tracks in the repository at `top`.
    pub(super) fn track(&mut self, tracked: Arc<Tracked>, top: &Path, workspace: &Path) {
        self.tracked = tracked;
        self.prefix = workspace.strip_prefix(top).map(scope::bytes).unwrap_or_default().to_vec();
        if !self.prefix.is_empty() {
            self.prefix.push(b'/');
        }
    }

    /// How the entry at `path` is seen, whose last part is `name`.
    pub(super) fn sees(&self, path: &[u8], name: &[u8], is_folder: bool, inside: Inside) -> Seen {
        let never = name == b".git"
            || path == b".ralph"
            || self.excluded.binary_search_by(|excluded| excluded.as_slice().cmp(path)).is_ok();
        let ignored =
            |paths: &Arc<ProtectedPaths>| paths.contains(Path::new(OsStr::from_bytes(path)));
        if never || self.ignored.as_ref().is_some_and(ignored) {
            return Seen::Not;
        }
        if !inside.ignored && !self.rules.ignore(path, is_folder) {
            return Seen::Counts;
        }
        let mut whole = [self.prefix.as_slice(), path].concat();
        if self.tracked.has(&whole) {
            // A folder is tracked as such if it is a submodule.
            return Seen::Counts;
        }
        if is_folder {
            whole.push(b'/');
            return if self.tracked.has_beneath(&whole) { Seen::Through } else { Seen::Not };
        }
        // Editing the rules is a change, even if they hide themselves.
        if name == RULE_FILE && !inside.ignored { Seen::Counts } else { Seen::Not }
    }
}
