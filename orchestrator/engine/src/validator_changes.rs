//! What validators do to the workspace while they check it.
//!
//! The agent's processes have ended by then. New files that validators leave are artefacts: no part of
//! the work. What they change or delete of what was there before has to be validated once more, as it is
//! then; a check that changes files each time it runs proves nothing of what is there afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_safe_fs::{escape, unescape};
use ralph_orchestrator_workspace::{PinnedPaths, TreeDiff, TreeDigest, TreeSnapshot};

use super::protection::{NAMED, join_names};
use super::validation_policy::ConfiguredValidator;

/// More artefacts than this cannot be told from work.
const MOST_ARTEFACTS: usize = 1000;
/// Stands for a validator where it is not known which one it was.
const UNKNOWN: &str = "";
/// The largest kept snapshot that is read, in bytes.
pub(super) const LARGEST_SNAPSHOT: usize = 64 * 1024 * 1024;

/// What one validator changed or deleted of what was there before.
#[derive(Debug, Default)]
struct Change {
    validator: String,
    /// Where the validator is configured, such as `ralph.toml:13:1`.
    place: String,
    paths: BTreeSet<PathBuf>,
    /// Some of them, with what became of them.
    named: String,
}

/// What validators did to the workspace in one validation.
#[derive(Debug)]
pub(super) struct WorkspaceChanges {
    /// Digest of it before the first validator of this attempt.
    before: TreeDigest,
    /// As it was last seen.
    now: Arc<TreeSnapshot>,
    /// What was there when the run began is work, whoever makes it again.
    pinned: Arc<PinnedPaths>,
    /// Artefacts, those of this validation included.
    known: BTreeSet<PathBuf>,
    /// Those of this validation, by validator.
    artefacts: BTreeMap<String, Vec<String>>,
    /// What happened to work in this attempt.
    changes: Vec<Change>,
    /// A validator that must not change anything did.
    is_read_only_broken: bool,
    /// Validators write elsewhere: whatever changes here is changed by something else.
    is_beside_checkout: bool,
    warnings: Vec<String>,
    /// Why nothing will be accepted.
    hopeless: Vec<String>,
}

/// What came of it, for the validation.
pub(super) struct Outcome {
    pub(super) tree_before: String,
    pub(super) tree_after: String,
    pub(super) tree_left: String,
    pub(super) artefacts: BTreeMap<String, Vec<String>>,
    pub(super) warnings: Vec<String>,
    pub(super) hopeless: Vec<String>,
}

impl WorkspaceChanges {
    pub(super) fn begin(
        before: Arc<TreeSnapshot>,
        pinned: Arc<PinnedPaths>,
        known: BTreeSet<PathBuf>,
    ) -> Self {
        Self {
            before: before.digest().clone(),
            now: before,
            pinned,
            known,
            artefacts: BTreeMap::new(),
            changes: Vec::new(),
            is_read_only_broken: false,
            is_beside_checkout: false,
            warnings: Vec::new(),
            hopeless: Vec::new(),
        }
    }

    /// Takes whether the validators run in a checkout.
    pub(super) fn beside_checkout(self, is_beside_checkout: bool) -> Self {
        Self { is_beside_checkout, ..self }
    }

    /// Observes what `check` did. Returns its error if it must not change anything.
    pub(super) fn observe(
        &mut self,
        check: &ConfiguredValidator,
        now: TreeSnapshot,
    ) -> Option<Verdict> {
        let mut diff = self.now.diff(&now);
        if diff.is_empty() {
            return None;
        }
        let now = Arc::new(now);
        if check.is_read_only() {
            self.is_read_only_broken = true;
            self.now = now;
            return Some(read_only_error(&diff));
        }
        let new = self.new_artefacts(&diff.added);
        let is_work = |path: &PathBuf| !is_beneath(&self.known, path);
        diff.added.retain(|path| is_work(path) && !is_beneath(&new, path));
        diff.modified.retain(is_work);
        diff.removed.retain(is_work);
        if !new.is_empty() {
            let left = self.artefacts.entry(check.info.name.clone()).or_default();
            left.extend(new.iter().map(|path| escape(path)));
            self.known.extend(new);
        }
        if !diff.is_empty() {
            let paths = diff.added.iter().chain(&diff.modified).chain(&diff.removed);
            let (validator, place) = (check.info.name.clone(), check.place.clone());
            let (paths, named) = (paths.cloned().collect(), named(&diff));
            self.changes.push(Change { validator, place, paths, named });
        }
        self.now = now;
        None
    }

    /// Returns which of these new paths are artefacts. Too many cannot be told from work.
    fn new_artefacts(&self, added: &[PathBuf]) -> BTreeSet<PathBuf> {
        let new: Vec<PathBuf> = added
            .iter()
            .filter(|path| !self.pinned.contains(path) && !is_beneath(&self.known, path))
            .cloned()
            .collect();
        let named = self.now.summarize_added(&new);
        if named.len() > MOST_ARTEFACTS { BTreeSet::new() } else { named.into_iter().collect() }
    }

    /// Returns whether what was validated is still there: no work was changed.
    pub(super) const fn is_settled(&self) -> bool {
        self.changes.is_empty()
    }

    /// Begins the second attempt with the workspace as it is now.
    pub(super) fn begin_again(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            let (validator, named) = (&change.validator, &change.named);
            let what = match self.is_beside_checkout {
                true => format!("something changed {named} while `{validator}` checked the work"),
                false => {
                    format!("the validator `{validator}` changed {named} while it checked the work")
                }
            };
            self.warnings.push(format!("{what}, which is validated once more as it is now"));
        }
        self.before = self.now.digest().clone();
    }

    /// Returns the error of each validator that changed work in the second attempt too: it is at fault, not
    /// the work.
    pub(super) fn errors(&self) -> BTreeMap<&str, String> {
        let message = |change: &Change| {
            let globs: Vec<String> =
                change.paths.iter().take(NAMED).map(|path| format!("{path:?}")).collect();
            if self.is_beside_checkout {
                return format!(
                    "something else than the checks changes files of the workspace each time they run: {}; so what is \
                     checked is not what is there afterwards. Stop what writes them, such as a server or a watcher; or add \
                     `bookkeeping = [{}]` below [run], or have git ignore them, and begin anew with `run --restart`",
                    change.named,
                    globs.join(", ")
                );
            }
            format!(
                "it changes files of the workspace each time it runs: {}; so what it checks is not what \
                 is there afterwards. If it writes them as its own reports, list them in .gitignore, or \
                 add `artefacts = [{}]` to the validator at {} and begin anew with `run --restart`; \
                 otherwise let it leave them alone",
                change.named,
                globs.join(", "),
                change.place
            )
        };
        self.changes.iter().map(|change| (change.validator.as_str(), message(change))).collect()
    }

    /// Notes, before there is any work, why nothing will be accepted.
    pub(super) fn note_hopeless(&mut self) {
        let is_beside = self.is_beside_checkout;
        let note = |(validator, error): (&str, String)| match is_beside {
            true => error,
            false => format!("the validator `{validator}` will accept nothing: {error}"),
        };
        let mut notes: Vec<String> = self.errors().into_iter().map(note).collect();
        notes.dedup();
        self.hopeless.extend(notes);
    }

    pub(super) fn into_outcome(self) -> Outcome {
        let before = self.before.to_string();
        let left = self.now.digest().to_string();
        let is_settled = self.changes.is_empty() && !self.is_read_only_broken;
        Outcome {
            tree_after: if is_settled { before.clone() } else { left.clone() },
            tree_before: before,
            tree_left: left,
            artefacts: self.artefacts,
            warnings: self.warnings,
            hopeless: self.hopeless,
        }
    }

    /// Returns the same while the agent is running: what is new may be its own, and is no artefact.
    pub(super) fn into_preview(self) -> Outcome {
        Outcome { artefacts: BTreeMap::new(), warnings: Vec::new(), ..self.into_outcome() }
    }

    /// Returns what cancelled validators had left, with the workspace as it is now.
    pub(super) fn into_artefacts(mut self, now: &TreeSnapshot) -> BTreeMap<String, Vec<String>> {
        let new = self.new_artefacts(&self.now.diff(now).added);
        if !new.is_empty() {
            let left = self.artefacts.entry(UNKNOWN.to_owned()).or_default();
            left.extend(new.iter().map(|path| escape(path)));
        }
        self.artefacts
    }
}

/// Returns whether one of these is this path or a folder above it.
fn is_beneath(paths: &BTreeSet<PathBuf>, path: &Path) -> bool {
    !paths.is_empty() && path.ancestors().any(|above| paths.contains(above))
}

/// Returns artefacts as paths relative to the workspace, as they are recorded.
pub(super) fn artefact_paths(recorded: &BTreeSet<String>) -> impl Iterator<Item = PathBuf> + '_ {
    recorded.iter().filter_map(|path| unescape(path))
}

fn read_only_error(diff: &TreeDiff) -> Verdict {
    let message = format!("it changed {}, which `read_only = true` forbids", named(diff));
    Verdict::Error { message }
}

/// Names the differences.
fn named(diff: &TreeDiff) -> String {
    let added = diff.added.iter().map(|path| (path, "added"));
    let modified = diff.modified.iter().map(|path| (path, "modified"));
    let removed = diff.removed.iter().map(|path| (path, "deleted"));
    let all = added.chain(modified).chain(removed);
    let name = |(path, what): (&PathBuf, &str)| {
        format!("`{}` ({what})", path.to_string_lossy().escape_debug())
    };
    join_names(all.map(name).collect())
}
