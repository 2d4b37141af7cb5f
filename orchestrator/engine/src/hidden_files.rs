//! Files that checks in a checkout do not see, where they decide.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ralph_orchestrator_checkout::{Inventory, PreparedCheckout, Visibility};
use ralph_orchestrator_contract::{GIT_END, HIDDEN_END, NEEDS_HIDDEN, Verdict};
use ralph_orchestrator_text::escape_line;
use ralph_orchestrator_workspace::{ProtectedPaths, TreeDigest, is_cache};

use super::protection::join_names;
use super::uncommitted_work::UncommittedWork;

/// To repeat a check that takes no longer costs little.
const QUICK: Duration = Duration::from_secs(10);

/// The work, and the hidden files with it, that each check has rejected once more: to try the same again would only take
/// time.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenTrials(Arc<Mutex<BTreeMap<String, Trial>>>);

/// The work, and the hidden files.
type Trial = (TreeDigest, HiddenFiles);

/// What a check does not see and may decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HiddenFiles {
    paths: Vec<PathBuf>,
    /// Git's own files, of a check that is quick or speaks of git: agents commit often, and few checks look there.
    git: Inventory,
}

impl HiddenFiles {
    /// Returns what may have decided a verdict.
    pub(super) fn find(verdict: &Verdict, taken: Duration, checkout: &PreparedCheckout) -> Self {
        let Verdict::Rejected { reasons } = verdict else {
            return Self { paths: Vec::new(), git: Inventory::default() };
        };
        let is_about_git = reasons.iter().any(|reason| {
            let words = reason.split(|c: char| !c.is_ascii_alphanumeric());
            words.into_iter().any(|word| word.eq_ignore_ascii_case("git"))
        });
        let git = if is_about_git || taken <= QUICK {
            checkout.git_changes.clone()
        } else {
            Inventory::default()
        };
        Self { paths: checkout.hidden.clone(), git }
    }

    /// Returns what has a check see them.
    pub(super) fn visibility(&self) -> Visibility {
        if self.git.is_empty() { Visibility::All } else { Visibility::AllWithGit }
    }

    fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.git.is_empty()
    }
}

impl HiddenTrials {
    /// Whether it is to be tried whether a check that rejects this work would accept it with what it did not see.
    pub(super) fn is_due(&self, check: &str, work: &TreeDigest, hidden: &HiddenFiles) -> bool {
        let tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |(of, with): &Trial| of == work && with == hidden;
        !hidden.is_empty() && !tried.get(check).is_some_and(is_same)
    }

    /// Records that it rejects it with these, too.
    pub(super) fn record(&self, check: &str, work: &TreeDigest, hidden: &HiddenFiles) {
        let mut tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tried.insert(check.to_owned(), (work.clone(), hidden.clone()));
    }
}

/// Says first in a rejection that the check accepts with what it did not see.
pub(super) fn name_decisive(
    verdict: Verdict,
    checkout: &PreparedCheckout,
    (hidden, uncommitted, protected): (&HiddenFiles, &UncommittedWork, &ProtectedPaths),
) -> Verdict {
    let Verdict::Rejected { mut reasons } = verdict else { return verdict };
    let workspace = checkout.overlays.first().map(|overlay| overlay.target.as_path());
    let is_empty =
        |path: &PathBuf| workspace.is_some_and(|workspace| holds_no_file(&workspace.join(path)));
    let (empty, others): (Vec<PathBuf>, Vec<PathBuf>) =
        without_caches(uncommitted.list_ignored(checkout)).into_iter().partition(is_empty);
    let (added, ignored): (Vec<PathBuf>, Vec<PathBuf>) =
        others.into_iter().partition(|path| protected.contains(path));
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
    let added = (!added.is_empty()).then(|| {
        format!(
            "{}, which `protect` covers and which was not there when the run began: put it elsewhere",
            name_paths(&added)
        )
    });
    let git = (!hidden.git.is_empty()).then(|| {
        format!(
            ".git{GIT_END}: checks see its branches, tags and index as they were when the run began, and these are not: {}. As \
             the user, name `.git` in `validation.link`, or have the check look at the files",
            name_paths(hidden.git.paths())
        )
    });
    let mut first = uncommitted.describe_hidden(checkout);
    let all: Vec<String> = added.into_iter().chain(ignored).chain(empty).chain(git).collect();
    if !all.is_empty() {
        first.push(format!("{NEEDS_HIDDEN}{}", all.join("; and with ")));
    }
    reasons.splice(0..0, first);
    Verdict::Rejected { reasons }
}

/// Leaves out what tools keep for themselves where anything else is there: that decides no check.
fn without_caches(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_cached = |path: &PathBuf| path.iter().any(is_cache);
    let (cached, others): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(is_cached);
    if others.is_empty() { cached } else { others }
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
pub(super) fn name_paths<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> String {
    let paths = paths.into_iter();
    join_names(paths.map(|path| escape_line(&path.as_ref().to_string_lossy())).collect())
}
