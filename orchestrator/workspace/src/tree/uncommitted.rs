//! Work that a commit of all that counts would not carry as it is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use ralph_orchestrator_safe_fs::escape;
use serde::{Deserialize, Serialize};

use crate::git::IndexMark;

/// Of more marked files than this, such as those that a sparse checkout left out, none is named.
const MOST_MARKED: usize = 1000;

/// Why a commit would not carry work as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncommittedReason {
    /// Git ignores it, and does not track it, though it was work when the run began.
    Untracked,
    /// It is a link that leads out of the repository.
    LeadsOutside {
        /// Where it leads to, escaped.
        target: String,
    },
    /// It is neither a file nor a link.
    NoFile,
    /// Git takes it for unchanged, whatever it holds.
    Overlooked {
        /// Why.
        mark: IndexMark,
    },
    /// Nothing is known of what git tracks.
    UnreadIndex {
        /// Why not.
        problem: String,
    },
}

/// Work that a commit would not carry as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncommitted {
    /// Relative to the workspace; empty if it is about all of it.
    pub path: PathBuf,
    /// Why not.
    pub reason: UncommittedReason,
}

impl Uncommitted {
    pub(super) fn new(path: &[u8], reason: UncommittedReason) -> Self {
        Self { path: PathBuf::from(OsStr::from_bytes(path)), reason }
    }

    /// Whether this one, found when a run began, says that the other one is no news.
    pub(super) fn covers(&self, later: &Self) -> bool {
        let is_same_kind = match (&self.reason, &later.reason) {
            (UncommittedReason::UnreadIndex { .. }, UncommittedReason::UnreadIndex { .. }) => true,
            (one, other) => one == other,
        };
        is_same_kind && (self.path == later.path || self.path.as_os_str().is_empty())
    }
}

/// Returns those of these paths that have this mark, or one that stands for all of the workspace if there are too many.
pub(super) fn find_marked<'a>(
    marked: impl Iterator<Item = (&'a [u8], IndexMark)>,
    mark: IndexMark,
) -> Vec<Uncommitted> {
    let reason = UncommittedReason::Overlooked { mark };
    let of_mark = marked.filter(|(_, of)| *of == mark).take(MOST_MARKED + 1);
    let found: Vec<Uncommitted> =
        of_mark.map(|(path, _)| Uncommitted::new(path, reason.clone())).collect();
    if found.len() > MOST_MARKED { vec![Uncommitted::new(b"", reason)] } else { found }
}

/// Whether the link at `path` leads out of the repository in which the workspace has the path `inside`, as far as its text
/// tells. Absolute ones into the workspace do not.
pub(super) fn leads_outside(
    path: &[u8],
    target: &[u8],
    (workspace, inside): (&Path, &Path),
) -> Option<UncommittedReason> {
    let target = Path::new(OsStr::from_bytes(target));
    let is_outside = if target.is_absolute() {
        !target.starts_with(workspace)
            || target.components().any(|part| part == Component::ParentDir)
    } else {
        let folder = inside.join(OsStr::from_bytes(path));
        let mut depth = folder.components().count().saturating_sub(1);
        target.components().any(|part| match part {
            Component::ParentDir => match depth.checked_sub(1) {
                Some(above) => {
                    depth = above;
                    false
                }
                None => true,
            },
            Component::Normal(_) => {
                depth += 1;
                false
            }
            _ => false,
        })
    };
    is_outside.then(|| UncommittedReason::LeadsOutside { target: escape(target) })
}
