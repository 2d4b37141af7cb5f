//! Files that checks in a checkout do not see, where they decide.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ralph_orchestrator_checkout::PreparedCheckout;
use ralph_orchestrator_contract::{HIDDEN_END, NEEDS_HIDDEN, Verdict};
use ralph_orchestrator_text::escape_line;
use ralph_orchestrator_workspace::TreeDigest;

use super::protection::join_names;
use super::uncommitted_work::UncommittedWork;

/// The work, and the hidden files with it, that each check has rejected once more: to try the same again would only take
/// time.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenTrials(Arc<Mutex<BTreeMap<String, Trial>>>);

/// The work, and the hidden files.
type Trial = (TreeDigest, Vec<PathBuf>);

impl HiddenTrials {
    /// Whether it is to be tried whether a check that rejects this work would accept it with what it did not see.
    pub(super) fn is_due(&self, check: &str, work: &TreeDigest, hidden: &[PathBuf]) -> bool {
        let tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |(of, with): &Trial| of == work && with == hidden;
        !hidden.is_empty() && !tried.get(check).is_some_and(is_same)
    }

    /// Records that it rejects it with these, too.
    pub(super) fn record(&self, check: &str, work: &TreeDigest, hidden: &[PathBuf]) {
        let mut tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tried.insert(check.to_owned(), (work.clone(), hidden.to_vec()));
    }
}

/// Says first in a rejection that the check accepts with what it did not see.
pub(super) fn name_decisive(
    verdict: Verdict,
    checkout: &PreparedCheckout,
    uncommitted: &UncommittedWork,
) -> Verdict {
    let Verdict::Rejected { mut reasons } = verdict else { return verdict };
    let workspace = checkout.overlays.first().map(|overlay| overlay.target.as_path());
    let is_empty =
        |path: &PathBuf| workspace.is_some_and(|workspace| holds_no_file(&workspace.join(path)));
    let (empty, ignored): (Vec<PathBuf>, Vec<PathBuf>) =
        uncommitted.list_ignored(checkout).into_iter().partition(is_empty);
    let ignored = (!ignored.is_empty()).then(|| {
        format!(
            "{}{HIDDEN_END} and which is new or changed since the run began, so a clean \
             checkout does not have it: have the check make it (`validation.setup` runs a command before the checks), do not \
             ignore it, or, as the user, name it in `validation.link`",
            name_paths(&ignored)
        )
    });
    let empty = (!empty.is_empty()).then(|| {
        format!(
            "{}, empty folders, which git does not keep: put a file into each",
            name_paths(&empty)
        )
    });
    let mut first = uncommitted.describe_hidden(checkout);
    let all: Vec<String> = ignored.into_iter().chain(empty).collect();
    if !all.is_empty() {
        first.push(format!("{NEEDS_HIDDEN}{}", all.join("; and with ")));
    }
    reasons.splice(0..0, first);
    Verdict::Rejected { reasons }
}

/// Whether it is a folder with nothing but folders in it, however deep.
fn holds_no_file(path: &Path) -> bool {
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let Some(entries) = is_folder(&folder).then(|| folder.read_dir().ok()).flatten() else {
            return false;
        };
        folders.extend(entries.flatten().map(|entry| entry.path()));
    }
    true
}

/// Says, where a check rejects, what was there when the run began and has been removed.
pub(super) fn name_gone(verdict: Verdict, checkout: &PreparedCheckout) -> Verdict {
    let Verdict::Rejected { mut reasons } = verdict else { return verdict };
    if !checkout.gone.is_empty() {
        reasons.push(format!(
            "these, which git ignores, were there when the run began: {}",
            name_paths(&checkout.gone)
        ));
    }
    Verdict::Rejected { reasons }
}

/// Names paths, some of them if they are many.
pub(super) fn name_paths(paths: &[PathBuf]) -> String {
    join_names(paths.iter().map(|path| escape_line(&path.to_string_lossy())).collect())
}
