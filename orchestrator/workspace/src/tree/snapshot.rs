//! What counted in a workspace at one time, entry by entry, so that two times can be compared.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{escape, path_bytes, unescape};
use serde::{Deserialize, Serialize, Serializer};

use super::TreeDigest;
use super::uncommitted::Uncommitted;
use crate::protected::{is_cache, is_cached};

/// More new files than this are named by their folders, where these are new too.
const FILES_NAMED: usize = 64;

/// An entry's digest: of its kind, and of its content or target. Long enough to tell the contents of one
/// path at two times apart.
pub(super) type EntryDigest = u128;

/// Digests of entries with their paths.
pub(super) type Entries = Vec<(Box<[u8]>, EntryDigest)>;

/// What a walk over a workspace finds, entry by entry.
#[derive(Debug, Default)]
pub(super) struct FoundEntries {
    pub(super) entries: Entries,
    /// Work that a commit would not carry as it is.
    pub(super) uncommitted: Vec<Uncommitted>,
    /// Folders in which nothing counts.
    pub(super) ignored_folders: Vec<PathBuf>,
    /// Folders with what git does not ignore and that does not count all the same.
    pub(super) uncounted_folders: Vec<PathBuf>,
}

/// Returns the digest of a file of this kind whose content has this hash.
pub(super) fn file_digest(kind: u8, content: &blake3::Hash) -> EntryDigest {
    let (half, _) = content.as_bytes().split_at(size_of::<EntryDigest>());
    let half = half.iter().fold(0, |number, byte| number << 8 | EntryDigest::from(*byte));
    half ^ EntryDigest::from(kind)
}

/// Returns the digest of another entry of this kind and content.
pub(super) fn entry_digest(kind: u8, payload: &[u8]) -> EntryDigest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[kind]).update(payload);
    let mut digest = [0; size_of::<EntryDigest>()];
    hasher.finalize_xof().fill(&mut digest);
    EntryDigest::from_be_bytes(digest)
}

/// What counted in a workspace at one time: digests by path, and the digest of it all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSnapshot {
    digest: TreeDigest,
    /// In the order of their paths.
    entries: Entries,
    /// Not stored.
    uncommitted: Vec<Uncommitted>,
    /// Not stored.
    ignored_folders: Vec<PathBuf>,
    /// Not stored.
    uncounted_folders: Vec<PathBuf>,
}

/// What is different at a later time. Paths are relative to the workspace, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeDiff {
    /// What was not there before.
    pub added: Vec<PathBuf>,
    /// What is another.
    pub modified: Vec<PathBuf>,
    /// What is gone.
    pub removed: Vec<PathBuf>,
}

impl TreeDiff {
    /// Whether there is no difference.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

/// As it is kept: JSON.
#[derive(Serialize)]
struct StoredSnapshot<'a> {
    tree: &'a TreeDigest,
    #[serde(serialize_with = "store_entries")]
    entries: &'a Entries,
}

#[derive(Deserialize)]
struct ReadSnapshot {
    tree: TreeDigest,
    entries: BTreeMap<String, String>,
}

fn store_entries<S: Serializer>(entries: &Entries, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        entries.iter().map(|(path, digest)| (escape(as_path(path)), StoredDigest(*digest))),
    )
}

struct StoredDigest(EntryDigest);

impl Serialize for StoredDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl TreeSnapshot {
    pub(super) fn new(digest: TreeDigest, found: FoundEntries) -> Self {
        let FoundEntries { mut entries, uncommitted, ignored_folders, uncounted_folders } = found;
        // The walk comes to all entries of a folder before it enters one of them. Each path is met once.
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { digest, entries, uncommitted, ignored_folders, uncounted_folders }
    }

    /// Returns the folders with what git does not ignore and that did not count all the same: the orchestrator's own, and
    /// those that are marked as caches.
    #[must_use]
    pub fn uncounted_folders(&self) -> &[PathBuf] {
        &self.uncounted_folders
    }

    /// Returns the folders in which nothing counts.
    #[must_use]
    pub fn ignored_folders(&self) -> &[PathBuf] {
        &self.ignored_folders
    }

    /// Returns the digest of all of it.
    #[must_use]
    pub const fn digest(&self) -> &TreeDigest {
        &self.digest
    }

    /// Returns the work of which a commit would not carry what is there.
    #[must_use]
    pub fn uncommitted(&self) -> &[Uncommitted] {
        &self.uncommitted
    }

    /// Whether the entry with this path, relative to the workspace, counted.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        let path = path_bytes(path);
        self.entries.binary_search_by(|(known, _)| known.as_ref().cmp(path)).is_ok()
    }

    /// Returns how many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the paths of all entries, relative to the workspace, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> + '_ {
        self.entries.iter().map(|(path, _)| as_path(path))
    }

    /// Returns what is different in `later`.
    #[must_use]
    pub fn diff(&self, later: &Self) -> TreeDiff {
        let mut diff = TreeDiff::default();
        let (mut before, mut after) =
            (self.entries.iter().peekable(), later.entries.iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return diff,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let old = before.next_if(|_| order.is_le());
            let new = after.next_if(|_| order.is_ge());
            match (old, new) {
                (Some((_, old)), Some((path, new))) if old != new => {
                    diff.modified.push(to_path(path));
                }
                (Some((path, _)), None) => diff.removed.push(to_path(path)),
                (None, Some((path, _))) => diff.added.push(to_path(path)),
                _ => {}
            }
        }
    }

    /// Names paths that were added to this snapshot: a folder that is new stands for the data in it if it is the
    /// cache of a tool, and for all that is in it wherever there are too many to name each.
    #[must_use]
    pub fn summarize_added(&self, added: &[PathBuf]) -> Vec<PathBuf> {
        let many = added.len() > FILES_NAMED;
        let mut named: Vec<PathBuf> = added
            .iter()
            .map(|path| {
                let new = self.new_folders(path);
                let cache =
                    |folder: &&Path| folder.file_name().is_some_and(is_cache) && is_cached(path);
                let folder = new.iter().copied().find(|folder| many || cache(folder));
                folder.unwrap_or(path).to_owned()
            })
            .collect();
        named.sort_unstable();
        named.dedup();
        named
    }

    /// Returns the folders above `path` in which nothing was, from the top.
    fn new_folders<'a>(&self, path: &'a Path) -> Vec<&'a Path> {
        let mut folders: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .filter(|folder| !folder.as_os_str().is_empty())
            .take_while(|folder| !self.has_beneath(folder))
            .collect();
        folders.reverse();
        folders
    }

    fn has_beneath(&self, folder: &Path) -> bool {
        let prefix = [folder.as_os_str().as_bytes(), b"/"].concat();
        let first = self.entries.partition_point(|(path, _)| **path < *prefix);
        self.entries.get(first).is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    /// Converts it to JSON, to be stored.
    #[must_use]
    pub fn to_json(&self) -> String {
        let kept = StoredSnapshot { tree: &self.digest, entries: &self.entries };
        // Strings in maps of strings: this cannot fail.
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// Reads what [`to_json`](Self::to_json) made; `None` if it cannot have made this.
    #[must_use]
    pub fn from_json(json: &[u8]) -> Option<Self> {
        let kept: ReadSnapshot = serde_json::from_slice(json).ok()?;
        let entries = kept.entries.into_iter().map(|(path, digest)| {
            let path = unescape(&path)?.as_os_str().as_bytes().into();
            Some((path, EntryDigest::from_str_radix(&digest, 16).ok()?))
        });
        let entries = entries.collect::<Option<_>>()?;
        Some(Self::new(kept.tree, FoundEntries { entries, ..FoundEntries::default() }))
    }
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

fn to_path(path: &[u8]) -> PathBuf {
    as_path(path).to_owned()
}
