//! What counted in a workspace at one time, entry by entry, so that two times can be compared.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::TreeDigest;
use crate::workspace::protected::is_cache;
use ralph_orchestrator_safe_fs::{escape, unescape};

/// More new files than this are named by their folders, where these are new too.
const FILES_NAMED: usize = 64;

/// An entry's digest: of its kind, and of its content or target. Long enough to tell the contents of one
/// path at two times apart.
pub(super) type EntryDigest = u128;

/// Returns the digest of an entry of this kind and content.
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
    entries: BTreeMap<Box<[u8]>, EntryDigest>,
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
#[derive(Serialize, Deserialize)]
struct StoredSnapshot {
    tree: TreeDigest,
    entries: BTreeMap<String, String>,
}

impl TreeSnapshot {
    pub(super) const fn new(digest: TreeDigest, entries: BTreeMap<Box<[u8]>, EntryDigest>) -> Self {
        Self { digest, entries }
    }

    /// Returns the digest of all of it.
    #[must_use]
    pub const fn digest(&self) -> &TreeDigest {
        &self.digest
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
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.entries.keys().map(|path| to_path(path))
    }

    /// Returns what is different in `later`.
    #[must_use]
    pub fn diff(&self, later: &Self) -> TreeDiff {
        let mut diff = TreeDiff::default();
        for (path, digest) in &later.entries {
            match self.entries.get(path) {
                None => diff.added.push(to_path(path)),
                Some(before) if before != digest => diff.modified.push(to_path(path)),
                Some(_) => {}
            }
        }
        let gone = self.entries.keys().filter(|path| !later.entries.contains_key(*path));
        diff.removed.extend(gone.map(|path| to_path(path)));
        diff
    }

    /// Names paths that were added to this snapshot: a folder that is new stands for all that is in it if
    /// it is the cache of a tool, and wherever there are too many to name each.
    #[must_use]
    pub fn summarize_added(&self, added: &[PathBuf]) -> Vec<PathBuf> {
        let many = added.len() > FILES_NAMED;
        let mut named: Vec<PathBuf> = added
            .iter()
            .map(|path| {
                let new = self.new_folders(path);
                let cache = |folder: &&Path| folder.file_name().is_some_and(is_cache);
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
        let mut from = self.entries.range(prefix.clone().into_boxed_slice()..);
        from.next().is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    /// Converts it to JSON, to be stored.
    #[must_use]
    pub fn to_json(&self) -> String {
        let entries = self.entries.iter();
        let entries =
            entries.map(|(path, digest)| (escape(&to_path(path)), format!("{digest:032x}")));
        let kept = StoredSnapshot { tree: self.digest.clone(), entries: entries.collect() };
        // Strings in maps of strings: this cannot fail.
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// Reads what [`to_json`](Self::to_json) made; `None` if it cannot have made this.
    #[must_use]
    pub fn from_json(json: &[u8]) -> Option<Self> {
        let kept: StoredSnapshot = serde_json::from_slice(json).ok()?;
        let entries = kept.entries.into_iter().map(|(path, digest)| {
            let path = unescape(&path)?.as_os_str().as_bytes().into();
            Some((path, EntryDigest::from_str_radix(&digest, 16).ok()?))
        });
        Some(Self { digest: kept.tree, entries: entries.collect::<Option<_>>()? })
    }
}

fn to_path(path: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path))
}
