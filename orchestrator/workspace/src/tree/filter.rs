//! Decides which entries of the workspace count.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_safe_fs::path_bytes;

use super::pinned_paths::PinnedPaths;
use super::uncommitted::{Uncommitted, UncommittedReason, find_marked, leads_outside};
use crate::git::{IndexMark, Tracked};
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
    /// It counts only since it did before: git ignores it, and tracks it no longer.
    IncludedByPin,
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
    place: Option<RepositoryPlace>,
}

/// Where the workspace is in the repository that it is in, or was in when the run began.
#[derive(Debug)]
struct RepositoryPlace {
    workspace: PathBuf,
    inside: PathBuf,
    /// Why nothing is known of what git tracks.
    index_problem: Option<String>,
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
            place: None,
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
    pub(super) fn track(
        &mut self,
        tracked: Result<Arc<Tracked>, String>,
        workspace: &Path,
        inside: &Path,
    ) {
        let index_problem = tracked.as_ref().err().cloned();
        self.tracked = tracked.unwrap_or_default();
        self.prefix = as_prefix(inside);
        let (workspace, inside) = (workspace.to_owned(), inside.to_owned());
        self.place = Some(RepositoryPlace { workspace, inside, index_problem });
    }

    /// Returns why a commit would not carry an entry that counts only since it did before.
    pub(super) fn find_untracked(&self, path: &[u8]) -> Option<Uncommitted> {
        let place = self.place.as_ref().filter(|place| place.index_problem.is_none());
        place.map(|_| Uncommitted::new(path, UncommittedReason::Untracked))
    }

    /// Returns why a commit would not carry what is at a path: a link to a target, or else neither file nor link.
    pub(super) fn find_unfit(&self, path: &[u8], target: Option<&[u8]>) -> Option<Uncommitted> {
        let place = self.place.as_ref()?;
        let reason = match target {
            Some(target) => leads_outside(path, target, (&place.workspace, &place.inside))?,
            None => UncommittedReason::NoFile,
        };
        Some(Uncommitted::new(path, reason))
    }

    /// Returns what git takes for unchanged in the workspace, or that nothing can be known of that.
    pub(super) fn find_overlooked(&self) -> Vec<Uncommitted> {
        let Some(place) = &self.place else { return Vec::new() };
        if let Some(problem) = place.index_problem.clone() {
            return vec![Uncommitted::new(b"", UncommittedReason::UnreadIndex { problem })];
        }
        let marked = |mark| {
            let all = self.tracked.marked();
            let inside =
                all.filter_map(|(path, mark)| Some((path.strip_prefix(&*self.prefix)?, mark)));
            find_marked(inside, mark)
        };
        [IndexMark::AssumeUnchanged, IndexMark::SkipWorktree].into_iter().flat_map(marked).collect()
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
        if self.tracked.has(&whole) {
            // A folder is tracked as such if it is a submodule.
            return Inclusion::Included;
        }
        if !is_folder && self.pinned.has(path) {
            return Inclusion::IncludedByPin;
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
