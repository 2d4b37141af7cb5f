//! What files that do not count as work held when the run began: one that was written anew with the same content is as it
//! was. Tools that install or generate write much again that has not changed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_safe_fs::{self as safe_fs, escape, path_bytes, unescape};
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use crate::inventory::{Inventory, Stamp};

/// A larger file is not read.
const LARGEST: u64 = 256 * 1024 * 1024;
/// No more is read in all.
const MOST_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// The digests of files and links by path relative to the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<(String, String)>", try_from = "Vec<(String, String)>")]
pub struct ContentDigests(BTreeMap<PathBuf, blake3::Hash>);

impl ContentDigests {
    /// Reads what is as `files` has it and is wanted, until `stop`. What changes while it is read is left out.
    pub(crate) fn read(
        workspace: &Path,
        files: &Inventory,
        is_wanted: &dyn Fn(&Path) -> bool,
        stop: &AtomicBool,
    ) -> Self {
        let mut found = BTreeMap::new();
        let mut left = MOST_BYTES;
        for (path, stamp) in &files.entries {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if stamp.is_folder() || stamp.size() > LARGEST.min(left) || !is_wanted(path) {
                continue;
            }
            left = left.saturating_sub(stamp.size());
            if let Some(digest) = digest_unchanged(&workspace.join(path), stamp) {
                found.insert(path.clone(), digest);
            }
        }
        Self(found)
    }
}

impl From<ContentDigests> for Vec<(String, String)> {
    fn from(digests: ContentDigests) -> Self {
        digests.0.iter().map(|(path, digest)| (escape(path), digest.to_hex().to_string())).collect()
    }
}

impl TryFrom<Vec<(String, String)>> for ContentDigests {
    type Error = String;

    fn try_from(entries: Vec<(String, String)>) -> Result<Self, String> {
        let read = |(path, digest): (String, String)| {
            let digest = blake3::Hash::from_hex(&digest).ok();
            unescape(&path).zip(digest).ok_or_else(|| format!("{path:?} has no digest"))
        };
        Ok(Self(entries.into_iter().map(read).collect::<Result<_, _>>()?))
    }
}

/// The digests of the start, which may still be read, and what was found out with them.
#[derive(Debug, Default)]
pub(crate) struct StartContents {
    state: Mutex<Reading>,
    is_read: Condvar,
}

#[derive(Debug, Default)]
struct Reading {
    is_running: bool,
    digests: ContentDigests,
    /// What was read of files that were written anew, with their state at that time.
    later: BTreeMap<PathBuf, (Stamp, Option<blake3::Hash>)>,
}

impl StartContents {
    /// From now on, whoever asks waits for the end.
    pub(crate) fn begin(&self) {
        self.lock().is_running = true;
    }

    pub(crate) fn set(&self, digests: ContentDigests) {
        let mut state = self.lock();
        state.digests = digests;
        state.is_running = false;
        self.is_read.notify_all();
    }

    /// Whether a file that is not as it was still holds the same, under the same mode.
    pub(crate) fn is_restored(
        &self,
        workspace: &Path,
        path: &Path,
        (before, now): (&Stamp, &Stamp),
    ) -> bool {
        if before.is_folder() || !before.has_kind_and_size_of(now) {
            return false;
        }
        let mut state = self.lock();
        while state.is_running {
            state = self.is_read.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(known) = state.digests.0.get(path).copied() else { return false };
        let read = state.later.get(path).filter(|(then, _)| then == now).map(|(_, found)| *found);
        let found = read.unwrap_or_else(|| {
            let found = digest_unchanged(&workspace.join(path), now);
            state.later.insert(path.to_owned(), (*now, found));
            found
        });
        found == Some(known)
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the digest of a file, or of where a link leads to, that has this state before and after it is read.
fn digest_unchanged(path: &Path, stamp: &Stamp) -> Option<blake3::Hash> {
    stamp.read_unchanged(path, |path| digest(path, stamp.file_type()))
}

fn digest(path: &Path, kind: FileType) -> Option<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    match kind {
        FileType::RegularFile => {
            let file = safe_fs::open_no_symlinks(path, safe_fs::read_flags()).ok()?;
            io::copy(&mut File::from(file), &mut hasher).ok()?;
        }
        FileType::Symlink => {
            hasher.update(path_bytes(&std::fs::read_link(path).ok()?));
        }
        _ => return None,
    }
    Some(hasher.finalize())
}
