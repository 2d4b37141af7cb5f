//! Walks the protected paths of a workspace.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::hash::BuildHasher as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ralph_orchestrator_safe_fs::{
    self as safe_fs, DirEntryName, DirLister, DirVisitor, FileFingerprint, SkipReason, Subfolder,
};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::FileType;

use super::shadows::{shadowed_folder, shadows, shadows_as_folder};
use super::{Baseline, MAX_PATHS, ProtectedError, is_cached};
use crate::file_hasher::{Content, FileHasher, unique_digest};
use crate::globs::PathGlobs;

/// The state of a module that Python would take instead of a folder: only whether it is there matters.
const MODULE: &str = "module";
/// How deep folders may be nested.
const MAX_DEPTH: usize = 1024;

impl Baseline {
    /// Looks at all paths in the workspace that match a glob, or lie in a folder that does. PathGlobs are
    /// relative to the workspace; `*` stays within a name, `**` spans folders. Links are not
    /// followed: a link is protected by its target's name.
    ///
    /// # Errors
    /// If a glob is wrong, the workspace cannot be read, or more than 200,000 paths match.
    pub fn take(workspace: &Path, globs: &[String]) -> Result<Self, ProtectedError> {
        Self::take_until(workspace, globs, Arc::default())
    }

    /// Returns the same, but ends with [`ProtectedError::Cancelled`] soon after `flag` becomes true.
    ///
    /// # Errors
    /// As for [`Baseline::take`], and when cancelled.
    pub fn take_until(
        workspace: &Path,
        globs: &[String],
        flag: Arc<AtomicBool>,
    ) -> Result<Self, ProtectedError> {
        match Self::observe(workspace, globs, flag)? {
            Self { is_cut: true, .. } => Err(ProtectedError::TooMany { limit: MAX_PATHS }),
            whole => Ok(whole),
        }
    }

    /// Returns the same, to be compared with a baseline: more paths than can be protected are some too many
    /// for [`changes`](Self::changes), since there were fewer when that was taken.
    ///
    /// # Errors
    /// If a glob is wrong or the workspace cannot be read, and when cancelled by `flag`.
    pub fn observe(
        workspace: &Path,
        globs: &[String],
        flag: Arc<AtomicBool>,
    ) -> Result<Self, ProtectedError> {
        ProtectedHasher::default().observe(workspace, globs, flag)
    }

    /// Remembers those of these globs that match nothing in the workspace.
    ///
    /// # Errors
    /// As for [`Baseline::take`].
    pub fn reserve(&mut self, workspace: &Path, globs: &[String]) -> Result<(), ProtectedError> {
        let there = Self::observe(workspace, globs, Arc::default())?;
        for glob in globs {
            if !there.has_match(glob)? {
                self.reserved.insert(glob.clone());
            }
        }
        Ok(())
    }
}

/// Looks at protected paths, again and again, reading only what may have changed: see
/// [`TreeHasher`](crate::TreeHasher).
#[derive(Debug)]
pub struct ProtectedHasher {
    pub(super) hasher: FileHasher,
    lister: DirLister,
    numbers: RandomState,
    /// Which file had each path, and when it was last changed in any way, at the last look.
    identities: BTreeMap<PathBuf, Identity>,
    touched: Vec<PathBuf>,
}

/// A file's number, and the time of its last change, which no program can set.
type Identity = (u64, i128);

impl Default for ProtectedHasher {
    fn default() -> Self {
        Self {
            hasher: FileHasher::new(Arc::default()),
            lister: DirLister::default(),
            numbers: RandomState::new(),
            identities: BTreeMap::new(),
            touched: Vec::new(),
        }
    }
}

impl ProtectedHasher {
    /// Does the same as [`Baseline::observe`].
    ///
    /// # Errors
    /// If a glob is wrong or the workspace cannot be read, and when cancelled by `flag`.
    pub fn observe(
        &mut self,
        workspace: &Path,
        globs: &[String],
        flag: Arc<AtomicBool>,
    ) -> Result<Baseline, ProtectedError> {
        let globs = PathGlobs::new(globs)?;
        if globs.is_empty() {
            return Ok(Baseline::default());
        }
        let top = safe_fs::open_folder(workspace).map_err(|error| ProtectedError::Workspace {
            path: workspace.to_owned(),
            source: error.into(),
        })?;
        self.hasher.set_cancel(flag);
        self.hasher.begin(top.as_fd());
        let mut taker = BaselineWalker {
            globs: &globs,
            hasher: &mut self.hasher,
            lister: &mut self.lister,
            numbers: &self.numbers,
            paths: BTreeMap::new(),
            modules: Vec::new(),
            identities: BTreeMap::new(),
        };
        let is_cut = safe_fs::walk(top, &mut taker, &(), MAX_DEPTH).is_err();
        let BaselineWalker { paths, modules, identities, .. } = taker;
        if self.hasher.cancelled() {
            return Err(ProtectedError::Cancelled);
        }
        self.hasher.finish();
        let before = std::mem::replace(&mut self.identities, identities);
        let is_touched = |(path, now): &(&PathBuf, &Identity)| {
            before.get(*path).is_some_and(|before| before != *now) && !is_cached(path)
        };
        self.touched =
            self.identities.iter().filter(is_touched).map(|(path, _)| path.clone()).collect();
        let mut found = Baseline { paths, is_cut, ..Baseline::default() };
        // Very many of them may concern one folder.
        let mut concerned: BTreeSet<PathBuf> =
            modules.iter().map(|(folder, _)| folder.clone()).collect();
        concerned.retain(|folder| found.modules_beneath(folder).next().is_some());
        let modules = modules.into_iter().filter(|(folder, _)| concerned.contains(folder));
        found.paths.extend(modules.map(|(_, path)| (path, MODULE.to_owned())));
        Ok(found)
    }

    /// Paths that were there at the look before the last one and were written, replaced or otherwise
    /// changed between the two, even if they are as they were.
    #[must_use]
    pub fn touched(&self) -> &[PathBuf] {
        &self.touched
    }

    /// Returns how many files the last look read; the others were known from before.
    #[must_use]
    pub const fn files_read(&self) -> u64 {
        self.hasher.reads
    }
}

struct BaselineWalker<'a> {
    globs: &'a PathGlobs,
    hasher: &'a mut FileHasher,
    lister: &'a mut DirLister,
    numbers: &'a RandomState,
    paths: BTreeMap<PathBuf, String>,
    /// Modules that Python would take instead of a folder, each behind that.
    modules: Vec<(PathBuf, PathBuf)>,
    identities: BTreeMap<PathBuf, Identity>,
}

impl BaselineWalker<'_> {
    fn state(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &Path,
        fingerprint: FileFingerprint,
    ) -> Option<String> {
        let number = self.numbers.hash_one(path);
        match fingerprint.file_type() {
            FileType::RegularFile => match self.hasher.hash(folder, name, number, fingerprint) {
                Content::Hash { hash, fingerprint } => {
                    let kind = if fingerprint.is_executable() { "executable" } else { "file" };
                    Some(format!("{kind} {}", hash.to_hex()))
                }
                Content::Gone => None,
                Content::Unreadable => Some(unreadable(Some(fingerprint))),
                Content::Unstable | Content::Cancelled => Some(unstable()),
            },
            FileType::Symlink => Some(safe_fs::read_link_at(folder, name).map_or_else(
                |_| unstable(),
                |target| format!("link {}", blake3::hash(&target).to_hex()),
            )),
            other => Some(format!("other {:o}", other.as_raw_mode())),
        }
    }

    /// Whether something beneath this folder may match, or be taken instead of something that does.
    fn may_match_beneath(&self, folder: &Path) -> bool {
        self.globs.may_match_beneath(folder)
            || shadows_as_folder(folder, |source| self.globs.matches(source))
    }

    /// Adds a module that Python takes instead of the protected modules in a folder: one beside a folder that is no
    /// package, and what makes a package of a folder, if there is anything in it.
    fn add_module(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &Path,
        folders: &HashSet<&[u8]>,
    ) {
        let Some(shadowed) = shadowed_folder(path) else { return };
        if self.modules.len() >= MAX_PATHS {
            return;
        }
        let is_taken = if path.starts_with(&shadowed) {
            FileFingerprint::from_name(folder, name).is_ok_and(|module| module.size > 0)
        } else {
            let wanted = shadowed.file_name().unwrap_or_default().as_bytes();
            let init = [wanted, b"/__init__.py"].concat();
            folders.contains(wanted)
                && self.globs.may_match_beneath(&shadowed)
                && FileFingerprint::from_name(folder, &init).is_err()
        };
        if is_taken {
            self.modules.push((shadowed, path.to_owned()));
        }
    }

    /// Adds a path. One more than can be protected shows that there are more.
    fn insert(&mut self, path: &Path, state: String) -> Result<(), WalkCut> {
        self.paths.insert(path.to_owned(), state);
        if self.paths.len() > MAX_PATHS { Err(WalkCut) } else { Ok(()) }
    }
}

/// The walk ends early: there are more paths than can be protected, or it was cancelled.
struct WalkCut;

/// Returns the state of what cannot be read: its metadata stand in for its content.
fn unreadable(fingerprint: Option<FileFingerprint>) -> String {
    fingerprint.map_or_else(
        || "unreadable".to_owned(),
        |fingerprint| {
            format!("unreadable {} {} {}", fingerprint.ino, fingerprint.size, fingerprint.ctime)
        },
    )
}

/// Returns the state of what does not stand still: equal to no other.
fn unstable() -> String {
    format!("unstable {}", unique_digest().to_hex())
}

impl DirVisitor for BaselineWalker<'_> {
    type State = ();
    type Stop = WalkCut;

    fn visit(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        (): &(),
    ) -> Result<Vec<Subfolder<()>>, WalkCut> {
        let Ok((names, _)) = self.lister.list(folder, usize::MAX) else {
            let state = unreadable(FileFingerprint::from_fd(folder).ok());
            let path = path.strip_suffix(b"/").unwrap_or(path);
            self.insert(Path::new(OsStr::from_bytes(path)), state)?;
            return Ok(Vec::new());
        };
        let may_be_folder = |name: &&DirEntryName| name.file_type != FileType::RegularFile;
        let folders: HashSet<&[u8]> =
            names.iter().filter(may_be_folder).map(|name| name.bytes.as_slice()).collect();
        let mut subfolders = Vec::new();
        for name in &names {
            if self.hasher.cancelled() {
                return Err(WalkCut);
            }
            let whole = [path, &name.bytes].concat();
            let whole = Path::new(OsStr::from_bytes(&whole));
            if name.file_type == FileType::Directory {
                if self.may_match_beneath(whole) {
                    subfolders.push((name.bytes.clone(), ()));
                }
                continue;
            }
            let matches =
                self.globs.matches(whole) || shadows(whole, |source| self.globs.matches(source));
            if !matches {
                self.add_module(folder, &name.bytes, whole, &folders);
            }
            if !matches && name.file_type != FileType::Unknown {
                continue;
            }
            let Ok(fingerprint) = FileFingerprint::from_name(folder, &name.bytes) else { continue };
            if fingerprint.file_type() == FileType::Directory {
                if self.may_match_beneath(whole) {
                    subfolders.push((name.bytes.clone(), ()));
                }
            } else if matches
                && let Some(state) = self.state(folder, &name.bytes, whole, fingerprint)
            {
                self.identities.insert(whole.to_owned(), (fingerprint.ino, fingerprint.ctime));
                self.insert(whole, state)?;
            }
        }
        Ok(subfolders)
    }

    fn skip(&mut self, path: &[u8], why: SkipReason, fingerprint: Option<FileFingerprint>) {
        // A folder is protected for what lies in it, so it has a state only while that is hidden.
        if why != SkipReason::Gone {
            self.paths.insert(PathBuf::from(OsStr::from_bytes(path)), unreadable(fingerprint));
        }
    }
}
