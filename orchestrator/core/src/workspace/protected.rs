//! What must be as it was when the run began.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::hash::BuildHasher as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::at::{self, Lister, Stamp};
use super::content::{Content, FileHasher, never_again};
use super::escape::{escape, unescape};
use super::folder::{self, Closed, Subfolder, Visitor};
use super::globs::{GlobError, Globs};
use ralph_orchestrator_contract::{Change, ChangeKind};

/// The most paths that can be protected.
const MAX_PATHS: usize = 200_000;
/// How deep folders may be nested.
const MAX_DEPTH: usize = 1024;

/// Folders in which tools keep what they can make again. What happens there is no change: whoever runs
/// protected tests writes into them. Bytecode in them is not run by validators, which keep their own.
const CACHES: &[&str] = &["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"];

/// Where Python keeps bytecode, beside the source.
const BYTECODE: &str = "__pycache__";
/// Extensions of what Python runs.
const CODE: [&str; 4] = ["py", "pyc", "so", "pth"];

/// Whether a path lies in a folder of a tool's own, and is nothing that a tool would run: of what Python
/// keeps, only bytecode itself, and no program's source or library.
fn is_cached(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    let extension = path.extension().unwrap_or_default();
    if folder.file_name().is_some_and(|name| name == BYTECODE) {
        return extension == "pyc";
    }
    let is_code = CODE.iter().any(|code| extension == *code);
    let others = |name: &OsStr| is_cache(name) && name != BYTECODE;
    !is_code && folder.components().any(|part| others(part.as_os_str()))
}

/// Whether a folder of this name is a tool's own.
pub(super) fn is_cache(name: &OsStr) -> bool {
    CACHES.iter().any(|cache| name == *cache)
}

/// Why protected paths could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ProtectedError {
    /// A glob is wrong.
    #[error("protected paths: {0}")]
    Glob(#[from] GlobError),
    /// The workspace cannot be looked at.
    #[error("workspace {path}: {source}; it has to be a folder that can be read")]
    Workspace {
        /// The workspace as given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The globs match too much.
    #[error("protected paths: more than {limit} match; protect fewer paths")]
    TooMany {
        /// How many are allowed.
        limit: usize,
    },
    /// It was asked to stop, see [`Baseline::take_until`].
    #[error("looking at the protected paths was cancelled")]
    Cancelled,
}

/// The state of the protected paths at some time: for each what it is, whether it can be executed,
/// and what it holds. Files ignored by git are as protected as others; whatever is called `.git` is
/// only if a glob names it.
///
/// Serialised as an object from path to state. Bytes of a path that are not UTF-8 are written
/// `\xNN`, a backslash is doubled. A reserved glob is written as `/reserved/GLOB`, which is no path
/// in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Baseline {
    paths: BTreeMap<PathBuf, String>,
    /// There are more than these: what is missing is not known to be gone.
    is_cut: bool,
    /// Globs that nothing matched, and that nothing is to match.
    reserved: BTreeSet<String>,
}

/// What the key of a reserved glob begins with.
const RESERVED: &str = "/reserved/";
/// Its value.
const ABSENT: &str = "absent";

impl From<Baseline> for BTreeMap<String, String> {
    fn from(baseline: Baseline) -> Self {
        let reserved = baseline.reserved.into_iter();
        let reserved = reserved.map(|glob| (format!("{RESERVED}{glob}"), ABSENT.to_owned()));
        let paths = baseline.paths.into_iter().map(|(path, state)| (escape(&path), state));
        paths.chain(reserved).collect()
    }
}

impl TryFrom<BTreeMap<String, String>> for Baseline {
    type Error = String;

    fn try_from(map: BTreeMap<String, String>) -> Result<Self, String> {
        let mut baseline = Self::default();
        for (text, state) in map {
            if let Some(glob) = text.strip_prefix(RESERVED) {
                baseline.reserved.insert(glob.to_owned());
                continue;
            }
            let path = unescape(&text).ok_or_else(|| format!("{text:?} is no escaped path"))?;
            baseline.paths.insert(path, state);
        }
        Ok(baseline)
    }
}

impl Baseline {
    /// Looks at all paths in the workspace that match a glob, or lie in a folder that does. Globs are
    /// relative to the workspace; `*` stays within a name, `**` spans folders. Links are not
    /// followed: a link is protected by its target's name.
    ///
    /// # Errors
    /// If a glob is wrong, the workspace cannot be read, or more than 200,000 paths match.
    pub fn take(workspace: &Path, globs: &[String]) -> Result<Self, ProtectedError> {
        Self::take_until(workspace, globs, Arc::default())
    }

    /// The same, but ends with [`ProtectedError::Cancelled`] soon after `flag` becomes true.
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

    /// The same, to be compared with a baseline: more paths than can be protected are some too many
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

    /// Those of these globs that nothing matched when [`reserve`](Self::reserve) was called.
    #[must_use]
    pub fn reserved(&self, globs: &[String]) -> Vec<String> {
        globs.iter().filter(|glob| self.reserved.contains(*glob)).cloned().collect()
    }

    /// Whether a path that was found matches this glob.
    ///
    /// # Errors
    /// If the glob is wrong.
    pub fn has_match(&self, glob: &String) -> Result<bool, ProtectedError> {
        let glob = Globs::new(std::slice::from_ref(glob))?;
        Ok(self.paths.keys().any(|path| glob.matches(path)))
    }

    /// What is different `now`, as far as these globs go; sorted by path.
    ///
    /// # Errors
    /// If a glob is wrong.
    pub fn changes(&self, now: &Self, globs: &[String]) -> Result<Vec<Change>, ProtectedError> {
        let globs = Globs::new(globs)?;
        let paths: BTreeSet<&PathBuf> = self.paths.keys().chain(now.paths.keys()).collect();
        let counts = |path: &&PathBuf| globs.matches(path) && !is_cached(path);
        let changes = paths.into_iter().filter(counts).filter_map(|path| {
            let kind = match (self.paths.get(path), now.paths.get(path)) {
                (before, after) if before == after => return None,
                (None, _) => ChangeKind::Added,
                (_, None) if now.is_cut => return None,
                (_, None) => ChangeKind::Removed,
                _ => ChangeKind::Modified,
            };
            Some(Change { path: path.clone(), kind })
        });
        Ok(changes.collect())
    }

    /// The paths, relative to the workspace, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.keys().map(PathBuf::as_path)
    }

    /// How many paths there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether nothing is protected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

/// What globs protect, by name alone.
#[derive(Debug)]
pub struct ProtectedPaths {
    globs: Globs,
}

impl ProtectedPaths {
    /// Compiles globs that are relative to the workspace.
    ///
    /// # Errors
    /// If a glob is wrong.
    pub fn new(globs: &[String]) -> Result<Self, ProtectedError> {
        Ok(Self { globs: Globs::new(globs)? })
    }

    /// Whether there is no glob.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    /// Whether a path, relative to the workspace, is protected.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.globs.matches(path)
    }
}

/// Looks at protected paths, again and again, reading only what may have changed: see
/// [`TreeHasher`](super::TreeHasher).
#[derive(Debug)]
pub struct ProtectedHasher {
    hasher: FileHasher,
    lister: Lister,
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
            lister: Lister::new(),
            numbers: RandomState::new(),
            identities: BTreeMap::new(),
            touched: Vec::new(),
        }
    }
}

impl ProtectedHasher {
    /// As [`Baseline::observe`].
    ///
    /// # Errors
    /// If a glob is wrong or the workspace cannot be read, and when cancelled by `flag`.
    pub fn observe(
        &mut self,
        workspace: &Path,
        globs: &[String],
        flag: Arc<AtomicBool>,
    ) -> Result<Baseline, ProtectedError> {
        let globs = Globs::new(globs)?;
        if globs.is_empty() {
            return Ok(Baseline::default());
        }
        let top = at::open_folder(workspace).map_err(|error| ProtectedError::Workspace {
            path: workspace.to_owned(),
            source: error.into(),
        })?;
        self.hasher.set_cancel(flag);
        self.hasher.begin(top.as_fd());
        let mut taker = Taker {
            globs: &globs,
            hasher: &mut self.hasher,
            lister: &mut self.lister,
            numbers: &self.numbers,
            paths: BTreeMap::new(),
            identities: BTreeMap::new(),
        };
        let is_cut = folder::walk(top, &mut taker, &(), MAX_DEPTH).is_err();
        let Taker { paths, identities, .. } = taker;
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
        Ok(Baseline { paths, is_cut, reserved: BTreeSet::new() })
    }

    /// Paths that were there at the look before the last one and were written, replaced or otherwise
    /// changed between the two, even if they are as they were.
    #[must_use]
    pub fn touched(&self) -> &[PathBuf] {
        &self.touched
    }

    /// How many files the last look read; the others were known from before.
    #[must_use]
    pub const fn files_read(&self) -> u64 {
        self.hasher.reads
    }
}

struct Taker<'a> {
    globs: &'a Globs,
    hasher: &'a mut FileHasher,
    lister: &'a mut Lister,
    numbers: &'a RandomState,
    paths: BTreeMap<PathBuf, String>,
    identities: BTreeMap<PathBuf, Identity>,
}

impl Taker<'_> {
    fn state(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &Path,
        stamp: Stamp,
    ) -> Option<String> {
        let number = self.numbers.hash_one(path);
        match stamp.kind() {
            FileType::RegularFile => match self.hasher.hash(folder, name, number, stamp) {
                Content::Hash { hash, stamp } => {
                    let kind = if stamp.executable() { "executable" } else { "file" };
                    Some(format!("{kind} {}", hash.to_hex()))
                }
                Content::Gone => None,
                Content::Unreadable => Some(unreadable(Some(stamp))),
                Content::Unstable | Content::Cancelled => Some(unstable()),
            },
            FileType::Symlink => Some(at::read_link(folder, name).map_or_else(
                |_| unstable(),
                |target| format!("link {}", blake3::hash(&target).to_hex()),
            )),
            other => Some(format!("other {:o}", other.as_raw_mode())),
        }
    }

    /// One more than can be protected shows that there are more.
    fn insert(&mut self, path: &Path, state: String) -> Result<(), WalkCut> {
        self.paths.insert(path.to_owned(), state);
        if self.paths.len() > MAX_PATHS { Err(WalkCut) } else { Ok(()) }
    }
}

/// The walk ends early: there are more paths than can be protected, or it was cancelled.
struct WalkCut;

/// The state of what cannot be read: its metadata stand in for its content.
fn unreadable(stamp: Option<Stamp>) -> String {
    stamp.map_or_else(
        || "unreadable".to_owned(),
        |stamp| format!("unreadable {} {} {}", stamp.ino, stamp.size, stamp.ctime),
    )
}

/// The state of what does not stand still: equal to no other.
fn unstable() -> String {
    format!("unstable {}", never_again().to_hex())
}

impl Visitor for Taker<'_> {
    type State = ();
    type Stop = WalkCut;

    fn folder(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        (): &(),
    ) -> Result<Vec<Subfolder<()>>, WalkCut> {
        let Ok((names, _)) = self.lister.list(folder, usize::MAX) else {
            let state = unreadable(Stamp::of(folder).ok());
            let path = path.strip_suffix(b"/").unwrap_or(path);
            self.insert(Path::new(OsStr::from_bytes(path)), state)?;
            return Ok(Vec::new());
        };
        let mut subfolders = Vec::new();
        for name in names {
            if self.hasher.cancelled() {
                return Err(WalkCut);
            }
            let whole = [path, &name.bytes].concat();
            let whole = Path::new(OsStr::from_bytes(&whole));
            if name.kind == FileType::Directory {
                if self.globs.may_match_beneath(whole) {
                    subfolders.push((name.bytes, ()));
                }
                continue;
            }
            let matches = self.globs.matches(whole);
            if !matches && name.kind != FileType::Unknown {
                continue;
            }
            let Ok(stamp) = Stamp::at(folder, &name.bytes) else { continue };
            if stamp.kind() == FileType::Directory {
                if self.globs.may_match_beneath(whole) {
                    subfolders.push((name.bytes, ()));
                }
            } else if matches && let Some(state) = self.state(folder, &name.bytes, whole, stamp) {
                self.identities.insert(whole.to_owned(), (stamp.ino, stamp.ctime));
                self.insert(whole, state)?;
            }
        }
        Ok(subfolders)
    }

    fn closed(&mut self, path: &[u8], why: Closed, stamp: Option<Stamp>) {
        // A folder is protected for what lies in it, so it has a state only while that is hidden.
        if why != Closed::Gone {
            self.paths.insert(PathBuf::from(OsStr::from_bytes(path)), unreadable(stamp));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_read_is_read_again_only_when_it_was_touched() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let globs = ["*".to_owned()];
        fs::write(root.join("a"), "one").unwrap();
        fs::write(root.join("b"), "one").unwrap();
        let modified = fs::metadata(root.join("a")).unwrap().modified().unwrap();
        let mut hasher = ProtectedHasher::default();
        // As if all of it had been left alone for long.
        hasher.hasher.local_margin = i128::MIN / 4;
        let mut look = |reads| {
            let now = hasher.observe(&root, &globs, Arc::default()).unwrap();
            assert_eq!(hasher.files_read(), reads);
            now
        };
        let before = look(2);
        assert_eq!(look(0), before);
        // The clock of the file system has to move on for the stamp to differ.
        let ctime = |path: &Path| Stamp::of_path(path).unwrap().ctime;
        let was = ctime(&root.join("a"));
        while ctime(&root.join("a")) == was {
            fs::write(root.join("a"), "two").unwrap();
        }
        fs::File::options()
            .write(true)
            .open(root.join("a"))
            .unwrap()
            .set_modified(modified)
            .unwrap();
        let changes = before.changes(&look(1), &globs).unwrap();
        assert_eq!(changes.len(), 1, "{changes:?}");
        // What is executable counts, and is no content.
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(root.join("b"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(before.changes(&look(1), &globs).unwrap().len(), 2);
        fs::remove_file(root.join("b")).unwrap();
        assert_eq!(before.changes(&look(0), &globs).unwrap().len(), 2);
    }
}
