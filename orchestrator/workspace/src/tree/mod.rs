//! The digest of the workspace's content.

mod digest;
mod filter;
mod inventory;
mod pinned_paths;
mod prefetch;
mod read_ahead;
mod snapshot;
#[cfg(test)]
mod tests;
mod uncommitted;
mod walk;

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fd::AsFd as _;

use super::file_hasher::FileHasher;
use super::git::{GitEnvironment, IndexError, Repository, Tracked};
use super::gitignore::CompiledRules;
use super::outer_rules::OuterRules;
use super::protected::ProtectedPaths;
use super::relative::relative_to_workspace;

use filter::TreeFilter;
use inventory::Inventory;

pub use digest::{TreeDigest, TreeError};
pub use inventory::{FileChangeKind, PathChange, TreeChanges};
pub use pinned_paths::PinnedPaths;
use prefetch::{Prefetch, beside};
use ralph_orchestrator_safe_fs::walk;
use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint, path_bytes};
use read_ahead::ReadAhead;
use snapshot::FoundEntries;
pub use snapshot::{TreeDiff, TreeSnapshot};
pub use uncommitted::{Uncommitted, UncommittedReason};
use walk::{Cancelled, TreeWalker};

/// Folders nested deeper than this are not looked into, and reported as unreadable.
const MAX_DEPTH: usize = 1024;

/// What a workspace looked like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeState {
    /// The digest of all that counts.
    pub digest: TreeDigest,
    /// The same without artefacts, if there are any.
    pub work: Option<TreeDigest>,
    /// How many files, links and other entries count.
    pub files: u64,
    /// The size of the regular files among them, in bytes.
    pub bytes: u64,
    /// How many files were read for this; the others are known from before.
    pub hashed: u64,
    /// What counts but could not be read, relative to the workspace; the first hundred. Its metadata
    /// stand in for its content.
    pub unreadable: Vec<PathBuf>,
    /// Whether every content stood still while it was read. If not, this digest is like no other.
    pub stable: bool,
    /// What else is to be said, for people; bounded.
    pub notes: Vec<String>,
}

/// What is known of a repository's index since it was last read.
#[derive(Debug)]
struct CachedIndex {
    repository: Repository,
    fingerprint: FileFingerprint,
    tracked: Arc<Tracked>,
}

/// Computes the digest of a workspace, again and again, reading only what may have changed.
///
/// What counts: every file (with its content and whether it is executable), link (with its target)
/// and other entry (with its kind) under its path, unless git's ignore rules in the workspace, in
/// the repository around it and of the user say to ignore it, or it lies in a folder that a tool has marked as its cache
/// (`CACHEDIR.TAG`), or it is bytecode in `__pycache__`. What git tracks or the caller has pinned counts
/// nevertheless, a folder that holds such is no cache, and of the caches of known tools only their data are left
/// out. Every `.gitignore` in a folder that counts does so, too. What never counts: folders as such, `.git` and
/// `.ralph` at the top, what git keeps in repositories below, and the paths excluded by the caller.
///
/// A file is not read again if all its metadata are as they were, the time of its last change
/// (`ctime`, which no program can set) is the same, and this time lay safely before it was read.
/// Nothing else is believed: not size, not modification time. The one way to change a file without a
/// trace there is a writable memory mapping kept by a process that outlives a digest.
#[derive(Debug)]
pub struct TreeHasher {
    workspace: PathBuf,
    exclude: Vec<PathBuf>,
    hasher: FileHasher,
    compiled: CompiledRules,
    /// Where the excluded paths lie in the workspace, as long as that is at this real path.
    inside: Option<(PathBuf, Vec<Option<PathBuf>>)>,
    index: Option<CachedIndex>,
    environment: GitEnvironment,
    /// The rules around the workspace, as they were read last.
    outer: OuterRules,
    /// What of them could not be read.
    rule_notes: Vec<String>,
    numbers: RandomState,
    ignored: Option<Arc<ProtectedPaths>>,
    pinned: Arc<PinnedPaths>,
    artefacts: HashSet<Box<[u8]>>,
    inventory: Inventory,
    /// The folders of the last digest in the order of the walk, and how many entries it met.
    folders: (Vec<Box<[u8]>>, u64),
}

impl TreeHasher {
    /// Creates a hasher for this workspace, without these absolute paths (files, or folders with all beneath).
    #[must_use]
    pub fn new(workspace: PathBuf, exclude: Vec<PathBuf>) -> Self {
        let mut hasher = FileHasher::new(Arc::default());
        hasher.counts_lines = true;
        Self {
            workspace,
            exclude,
            hasher,
            compiled: CompiledRules::default(),
            inside: None,
            index: None,
            environment: GitEnvironment::default(),
            outer: OuterRules::default(),
            rule_notes: Vec::new(),
            numbers: RandomState::new(),
            ignored: None,
            pinned: Arc::default(),
            artefacts: HashSet::new(),
            inventory: Inventory::default(),
            folders: (Vec::new(), 0),
        }
    }

    /// Ends a digest in progress with [`TreeError::Cancelled`], soon after `flag` becomes true.
    #[must_use]
    pub fn cancelled_by(mut self, flag: Arc<AtomicBool>) -> Self {
        self.hasher.set_cancel(flag);
        self
    }

    /// Reads the user's own ignore rules where this environment says that they are; without one they do not count.
    #[must_use]
    pub fn in_environment(mut self, environment: GitEnvironment) -> Self {
        self.environment = environment;
        self
    }

    /// Returns the rules around the workspace, as the last digest found them.
    #[must_use]
    pub const fn outer_rules(&self) -> &OuterRules {
        &self.outer
    }

    /// Returns, for people, which of the rules around the workspace the last digest could not use.
    #[must_use]
    pub fn rule_notes(&self) -> &[String] {
        &self.rule_notes
    }

    /// Returns the digest of the workspace as it is now.
    ///
    /// # Errors
    /// If the workspace is no folder or cannot be read, and when cancelled. Trouble with anything
    /// beneath is no error, but told in the state.
    pub fn digest(&mut self) -> Result<TreeState, TreeError> {
        self.walk_tree(None)
    }

    /// Returns what counts in the workspace now, entry by entry.
    ///
    /// # Errors
    /// As for [`TreeHasher::digest`].
    pub fn snapshot(&mut self) -> Result<TreeSnapshot, TreeError> {
        self.digest_and_snapshot().map(|(_, snapshot)| snapshot)
    }

    /// Returns both the digest and what counts, entry by entry.
    ///
    /// # Errors
    /// As for [`TreeHasher::digest`].
    pub fn digest_and_snapshot(&mut self) -> Result<(TreeState, TreeSnapshot), TreeError> {
        let mut found = FoundEntries::default();
        let state = self.walk_tree(Some(&mut found))?;
        let snapshot = TreeSnapshot::new(state.digest.clone(), found);
        Ok((state, snapshot))
    }

    /// Counts these paths whatever ignore rules say, and ignores what was ignored around the workspace when they were
    /// recorded.
    pub fn pin(&mut self, paths: Arc<PinnedPaths>) {
        self.pinned = paths;
    }

    /// Returns how many paths are left out of [`TreeState::work`].
    #[must_use]
    pub fn artefacts(&self) -> usize {
        self.artefacts.len()
    }

    /// Leaves these paths, relative to the workspace, and all beneath out of [`TreeState::work`].
    pub fn set_artefacts(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.artefacts = paths.into_iter().map(|path| path_bytes(&path).into()).collect();
    }

    /// Leaves out what these globs match, with all beneath.
    #[must_use]
    pub fn ignoring(mut self, paths: Arc<ProtectedPaths>) -> Self {
        self.ignored = Some(paths).filter(|paths| !paths.is_empty());
        self
    }

    /// Counts changes from the last digest on.
    pub fn mark(&mut self) {
        self.inventory.mark();
    }

    /// Returns what was changed between the digest before the last [`TreeHasher::mark`] and the last digest;
    /// `None` if there was no digest before it. Takes no longer than a moment: lines that cannot be
    /// compared in that time are not counted.
    #[must_use]
    pub fn changes(&self) -> Option<TreeChanges> {
        self.inventory.changes()
    }

    fn walk_tree(&mut self, entries: Option<&mut FoundEntries>) -> Result<TreeState, TreeError> {
        let failed =
            |source: std::io::Error| TreeError::Workspace { path: self.workspace.clone(), source };
        let real = self.workspace.canonicalize().map_err(failed)?;
        let top = safe_fs::open_folder(&real).map_err(|error| failed(error.into()))?;
        self.hasher.begin(top.as_fd());
        let mut notes = Vec::new();
        let filter = self.filter(&real, &mut notes);
        self.inventory.begin();
        let (folders, count) = std::mem::take(&mut self.folders);
        let is_new = self.hasher.knows_nothing();
        let prefetch = Prefetch::new(&real, &folders, count).filter(|_| !is_new);
        let (tracked, prefix) = filter.tracked();
        let unread = is_new.then(|| tracked.beneath(&prefix));
        if let Some(files) = &unread {
            self.hasher.reserve(files.len());
            self.inventory.reserve(files.len());
        }
        let read_ahead = unread.and_then(|files| ReadAhead::new(&real, files));
        let mut second = self.hasher.sibling();
        let known = (&mut self.hasher, &mut self.inventory);
        let (numbers, artefacts) = (&self.numbers, &self.artefacts);
        let ahead = (prefetch.as_ref(), read_ahead.as_ref());
        let mut pass = TreeWalker::new(filter, known, numbers, entries, artefacts, notes, ahead);
        let walk_all = || walk(top, &mut pass, &filter::FolderContext::default(), MAX_DEPTH);
        let walked = match ahead {
            (Some(looks), _) => beside(Some((|| looks.run(), || looks.end())), walk_all),
            (_, Some(reads)) => {
                beside(Some((|| reads.run(&mut second, numbers), || reads.end())), walk_all)
            }
            (None, None) => walk_all(),
        };
        let (mut state, compiled, folders) = pass.finish();
        state.hashed += second.reads;
        self.hasher.absorb(second);
        self.compiled = compiled;
        self.folders = (folders, state.files);
        match walked {
            Ok(()) => {
                self.hasher.finish();
                self.inventory.finish();
                Ok(state)
            }
            Err(Cancelled) => Err(TreeError::Cancelled),
        }
    }

    /// Returns what decides about the entries of the workspace at this real path.
    fn filter(&mut self, real: &Path, notes: &mut Vec<String>) -> TreeFilter {
        let mut filter =
            TreeFilter::new(std::mem::take(&mut self.compiled), self.ignored.clone(), &self.pinned);
        if self.inside.as_ref().is_none_or(|(at, _)| at != real) {
            let inside = |path: &PathBuf| relative_to_workspace(&self.workspace, path);
            self.inside = Some((real.to_owned(), self.exclude.iter().map(inside).collect()));
        }
        let inside = self.inside.iter().flat_map(|(_, inside)| inside);
        for (path, inside) in self.exclude.iter().zip(inside) {
            match inside {
                Some(inside) if inside.as_os_str().is_empty() => notes.push(format!(
                    "{}: holds the whole workspace, so it was not left out of the digest",
                    path.display()
                )),
                Some(inside) => filter.exclude(inside),
                None => {}
            }
        }
        let start = self.pinned.outer_rules().cloned();
        let repository = match start.as_ref().and_then(|start| start.top(real)) {
            Some(top) => Repository::at(&top),
            None => Repository::find(real),
        };
        let mut rule_notes = Vec::new();
        let settings = repository.as_ref().map(|repository| {
            (repository, self.environment.read_settings(repository, &mut rule_notes))
        });
        let overlooking = settings.as_ref().map(|(_, settings)| settings.list_overlooking());
        self.outer =
            settings.as_ref().map_or_else(OuterRules::default, |(repository, settings)| {
                let of = (*repository, settings);
                OuterRules::read(of, real, &self.environment, &mut rule_notes)
            });
        for rules in start.iter().filter(|start| **start != self.outer).chain([&self.outer]) {
            if !filter.rules.add_outer_rules(rules) {
                notes.push(
                    "ignore rules around the workspace would hide all of it and are not used"
                        .into(),
                );
            }
        }
        notes.extend(rule_notes.iter().cloned());
        self.rule_notes = rule_notes;
        let known = start.filter(|start| start.top(real).is_some());
        match (repository, known) {
            (Some(repository), _) => {
                let tracked = self.tracked(repository, notes);
                filter.track(tracked, real, &self.outer.inside());
                filter.set_overlooking(overlooking.unwrap_or_default());
            }
            // Nobody can be led to believe that it would have the work.
            (None, Some(_)) => notes.push("the repository that it was in is gone".into()),
            (None, None) => {}
        }
        filter
    }

    /// Returns what git tracks in this repository, or why its index cannot be read, which is noted then.
    fn tracked(
        &mut self,
        repository: Repository,
        notes: &mut Vec<String>,
    ) -> Result<Arc<Tracked>, String> {
        let started = safe_fs::wall_clock();
        let fingerprint = repository.index_fingerprint();
        if let Some(known) = &self.index
            && Some(known.fingerprint) == fingerprint
            && known.repository == repository
        {
            return Ok(Arc::clone(&known.tracked));
        }
        self.index = None;
        match repository.tracked() {
            Ok(tracked) => {
                let tracked = Arc::new(tracked);
                if let Some(fingerprint) =
                    fingerprint.filter(|fingerprint| self.hasher.is_trusted(fingerprint, started))
                {
                    let tracked = Arc::clone(&tracked);
                    self.index = Some(CachedIndex { repository, fingerprint, tracked });
                }
                Ok(tracked)
            }
            Err(error) => {
                notes.push(format!(
                    "{}: git's index is not used: {error}; files that are tracked but match an \
                     ignore rule do not count",
                    repository.top.display()
                ));
                match error {
                    // Git makes no commit either: nobody can be led to believe that one has the work.
                    IndexError::Damaged | IndexError::Read(_) => Ok(Arc::default()),
                    IndexError::Unsupported(_) => Err(error.to_string()),
                }
            }
        }
    }
}
