//! Work that no clone of a commit would have as it is: such checks do not see, or it is rejected.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ralph_orchestrator_checkout::PreparedCheckout;
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_text::escape_line;
use ralph_orchestrator_workspace::{
    IndexMark, PinnedPaths, TreeSnapshot, Uncommitted, UncommittedReason,
};

/// What a commit of the work would not carry, and would have carried when the run began.
#[derive(Clone, Debug)]
pub(super) struct UncommittedWork {
    found: Vec<Uncommitted>,
    /// Those of which it would have nothing.
    hidden: HashSet<PathBuf>,
}

impl UncommittedWork {
    pub(super) fn find(pinned: &PinnedPaths, work: &TreeSnapshot) -> Self {
        let found = pinned.find_uncommitted(work);
        let hidden = found.iter().filter(|one| is_hidden(&one.reason));
        Self { hidden: hidden.map(|one| one.path.clone()).collect(), found }
    }

    /// Whether a commit would have nothing at this path, so that checks see nothing of it either if it was changed.
    pub(super) fn hides(&self, path: &Path) -> bool {
        self.hidden.contains(path)
    }

    /// Says of what checks do not see why a commit would not have it.
    pub(super) fn describe_hidden(&self, checkout: &PreparedCheckout) -> Vec<String> {
        let is_covered =
            |path: &Path| checkout.hidden.iter().any(|hidden| path.starts_with(hidden));
        let hidden =
            self.found.iter().filter(|found| is_hidden(&found.reason) && is_covered(&found.path));
        hidden.map(describe).collect()
    }

    /// Returns what checks do not see for another reason than that a commit cannot have it.
    pub(super) fn list_ignored(&self, checkout: &PreparedCheckout) -> Vec<PathBuf> {
        let is_other = |path: &&PathBuf| !self.hidden.iter().any(|hidden| hidden.starts_with(path));
        checkout.hidden.iter().filter(is_other).cloned().collect()
    }

    /// Rejects work that a commit would have as it was before; `None` if there is none.
    pub(super) fn reject(&self, checkout: &PreparedCheckout) -> Option<Verdict> {
        let is_changed = |found: &Path| {
            let is_of_it = |work: &PathBuf| work.starts_with(found) || found.starts_with(work);
            checkout.work.iter().any(is_of_it)
        };
        let overlooked = self.found.iter().filter(|found| !is_hidden(&found.reason));
        let reasons: Vec<String> =
            overlooked.filter(|found| is_changed(&found.path)).map(describe).collect();
        (!reasons.is_empty()).then_some(Verdict::Rejected { reasons })
    }
}

const fn is_hidden(reason: &UncommittedReason) -> bool {
    match reason {
        UncommittedReason::Untracked
        | UncommittedReason::LeadsOutside { .. }
        | UncommittedReason::NoFile => true,
        UncommittedReason::Overlooked { .. } | UncommittedReason::UnreadIndex { .. } => false,
    }
}

fn describe(found: &Uncommitted) -> String {
    let path = match escape_line(&found.path.to_string_lossy()) {
        path if path.is_empty() => "many files".into(),
        path => path,
    };
    match &found.reason {
        UncommittedReason::Untracked => format!(
            "git no longer tracks {path}, and ignores it, so no commit has it: do not ignore it, and `git add {path}`"
        ),
        UncommittedReason::LeadsOutside { target } => format!(
            "{path} leads to {}, outside of the repository, which no clone has: put the file itself there",
            escape_line(target)
        ),
        UncommittedReason::NoFile => {
            format!(
                "{path} is neither a file nor a link, so no commit can have it: make it where it is needed"
            )
        }
        UncommittedReason::Overlooked { mark } => {
            let option = match mark {
                IndexMark::AssumeUnchanged => "--no-assume-unchanged",
                IndexMark::SkipWorktree => "--no-skip-worktree",
            };
            format!(
                "git takes {path} for unchanged, so no commit has the work in it: `git update-index {option} {path}`"
            )
        }
        UncommittedReason::UnreadIndex { problem } => format!(
            "git's index says nothing of what a commit would have: {problem}. When the run began it could be read: put it \
             back, such as by `git update-index --no-split-index`"
        ),
    }
}
