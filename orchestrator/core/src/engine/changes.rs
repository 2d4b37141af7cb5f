//! What validators do to the workspace while they check it.
//!
//! The agent's processes have ended by then. New files that validators leave are artefacts: no part of
//! the work. What they change or delete of what was there before has to be validated once more, as it is
//! then; a check that changes files each time it runs proves nothing of what is there afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::allowance::cancellable;
use super::error::EngineError;
use super::plan::Check;
use super::session::Session;
use crate::contract::Verdict;
use crate::machine::Input;
use crate::state::read_regular;
use crate::workspace::{TreeDiff, TreeError, TreeHasher, TreeSnapshot, escape_path, unescape_path};

/// How many paths a message names.
const PATHS_NAMED: usize = 10;
/// More artefacts than this cannot be told from work.
const MOST_ARTEFACTS: usize = 1000;
/// The largest kept snapshot that is read, in bytes.
const LARGEST_SNAPSHOT: u64 = 64 * 1024 * 1024;

/// What one validator did to the workspace in one execution.
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
    workspace: PathBuf,
    /// As it was before the first validator of this attempt.
    before: TreeSnapshot,
    /// As it was last seen.
    now: TreeSnapshot,
    artefacts: BTreeMap<String, Vec<String>>,
    /// What was there before and is another or gone, in this attempt.
    changes: Vec<Change>,
    /// The same in the attempt before.
    earlier: Vec<Change>,
    warnings: Vec<String>,
}

/// What came of it, for the validation.
pub(super) struct Outcome {
    pub(super) tree_before: String,
    pub(super) tree_after: String,
    pub(super) artefacts: BTreeMap<String, Vec<String>>,
    pub(super) warnings: Vec<String>,
}

impl WorkspaceChanges {
    pub(super) fn begin(workspace: &Path, before: TreeSnapshot) -> Self {
        Self {
            workspace: workspace.to_owned(),
            now: before.clone(),
            before,
            artefacts: BTreeMap::new(),
            changes: Vec::new(),
            earlier: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Takes in what `check` did. Returns the paths that are no part of the work from now on, and the
    /// validator's error if it must not change anything.
    pub(super) fn observe(
        &mut self,
        check: &Check,
        now: TreeSnapshot,
    ) -> (Vec<PathBuf>, Option<Verdict>) {
        let diff = self.now.diff(&now);
        if diff.is_empty() {
            return (Vec::new(), None);
        }
        if check.is_read_only() {
            self.now = now;
            return (Vec::new(), Some(read_only_error(&diff)));
        }
        let added = self.now.summarize_added(&diff.added);
        let too_many = added.len() > MOST_ARTEFACTS;
        let paths = diff.modified.iter().chain(&diff.removed);
        let paths: BTreeSet<PathBuf> =
            paths.chain(diff.added.iter().filter(|_| too_many)).cloned().collect();
        if !paths.is_empty() {
            let (validator, place) = (check.info.name.clone(), check.place.clone());
            let named = named(&diff, too_many);
            self.changes.push(Change { validator, place, paths, named });
        }
        self.now = now;
        let artefacts = if too_many { Vec::new() } else { added };
        self.leave(&check.info.name, &artefacts);
        (artefacts.iter().map(|path| self.workspace.join(path)).collect(), None)
    }

    fn leave(&mut self, validator: &str, artefacts: &[PathBuf]) {
        if !artefacts.is_empty() {
            let left = self.artefacts.entry(validator.to_owned()).or_default();
            left.extend(artefacts.iter().map(|path| escape_path(path)));
        }
    }

    /// The workspace without what became an artefact, as it is now.
    pub(super) fn settle(&mut self, now: TreeSnapshot) {
        self.now = now;
    }

    /// Whether what was validated is still there: nothing of it was changed.
    pub(super) const fn is_settled(&self) -> bool {
        self.changes.is_empty()
    }

    /// Begins again with the workspace as it is now.
    pub(super) fn begin_again(&mut self) {
        for change in &self.changes {
            self.warnings.push(format!(
                "the validator `{}` changed {} while it checked the work, which is validated once more \
                 as it is now",
                change.validator, change.named
            ));
        }
        self.earlier = std::mem::take(&mut self.changes);
        self.before = self.now.clone();
    }

    /// What each validator that changed files in both attempts is to be told for: it is at fault, not the
    /// work.
    pub(super) fn errors(&self) -> BTreeMap<&str, Verdict> {
        let message = |change: &Change| {
            let globs: Vec<String> =
                change.paths.iter().take(PATHS_NAMED).map(|path| format!("{path:?}")).collect();
            format!(
                "it changes files of the workspace each time it runs: {}; so what it checks is not what \
                 is there afterwards. If it writes them as its own reports, add `artefacts = [{}]` to \
                 the validator at {}, or list them in .gitignore; otherwise let it leave them alone",
                change.named,
                globs.join(", "),
                change.place
            )
        };
        let error = |change: &Change| Verdict::Error { message: message(change) };
        self.changes.iter().map(|change| (change.validator.as_str(), error(change))).collect()
    }

    /// Takes what checks changed in both attempts for artefacts, as is right before any work is done: it
    /// is another each time they run, so it is their own output. Returns it.
    pub(super) fn adopt_output(&mut self) -> Vec<PathBuf> {
        let paths = |changes: &[Change]| -> BTreeSet<PathBuf> {
            changes.iter().flat_map(|change| change.paths.iter().cloned()).collect()
        };
        let earlier = paths(&self.earlier);
        let mut output = Vec::new();
        for change in std::mem::take(&mut self.changes) {
            let both: Vec<PathBuf> = change.paths.intersection(&earlier).cloned().collect();
            self.leave(&change.validator, &both);
            output.extend(both);
        }
        output.iter().map(|path| self.workspace.join(path)).collect()
    }

    pub(super) fn into_outcome(self) -> Outcome {
        Outcome {
            tree_before: self.before.digest().to_string(),
            tree_after: self.now.digest().to_string(),
            artefacts: self.artefacts,
            warnings: self.warnings,
        }
    }

    /// The same for an agent that goes on working: what is new may be its own, and is no artefact.
    pub(super) fn into_preview(self) -> Outcome {
        let before = self.before.digest().to_string();
        let settled = self.changes.is_empty();
        Outcome {
            tree_after: if settled { before.clone() } else { self.now.digest().to_string() },
            tree_before: before,
            artefacts: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }
}

/// The absolute paths of artefacts as they are recorded.
pub(super) fn artefact_paths<'a>(
    workspace: &'a Path,
    recorded: impl IntoIterator<Item = &'a String> + 'a,
) -> impl Iterator<Item = PathBuf> + 'a {
    recorded.into_iter().filter_map(|path| unescape_path(path)).map(|path| workspace.join(path))
}

fn read_only_error(diff: &TreeDiff) -> Verdict {
    let message = format!("it changed {}, which `read_only = true` forbids", named(diff, true));
    Verdict::Error { message }
}

/// What is different, in words; what was added only if asked for.
fn named(diff: &TreeDiff, with_added: bool) -> String {
    let added = diff.added.iter().filter(|_| with_added).map(|path| (path, "added"));
    let modified = diff.modified.iter().map(|path| (path, "modified"));
    let removed = diff.removed.iter().map(|path| (path, "deleted"));
    let all: Vec<(&PathBuf, &str)> = added.chain(modified).chain(removed).collect();
    let mut words: Vec<String> = all
        .iter()
        .take(PATHS_NAMED)
        .map(|(path, what)| format!("`{}` ({what})", path.to_string_lossy().escape_debug()))
        .collect();
    if let Some(more) = all.len().checked_sub(PATHS_NAMED).filter(|more| *more > 0) {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}

/// What counts in the workspace; `None` if it took longer than until `enough`.
pub(super) async fn snapshot(
    hasher: TreeHasher,
    enough: impl Future<Output = ()>,
) -> Result<(TreeHasher, Option<TreeSnapshot>), EngineError> {
    let observe = move |flag| {
        let mut hasher = hasher.cancelled_by(flag);
        let result = hasher.snapshot();
        (hasher, result)
    };
    let (hasher, result) = cancellable(enough, observe).await?;
    match result {
        Ok(snapshot) => Ok((hasher, Some(snapshot))),
        Err(TreeError::Cancelled) => Ok((hasher, None)),
        Err(error) => Err(error.into()),
    }
}

impl Session {
    /// What validators left that nobody saw end: the orchestrator was gone. Nothing else ran since the
    /// workspace was last observed.
    pub(super) async fn find_artefacts(&mut self) -> Result<Option<Input>, EngineError> {
        let state = &self.state;
        if state.current.is_some() || !state.is_validation_due() {
            return Ok(None);
        }
        let file = self.layout().snapshot(&self.run);
        let kept = read_regular(&file, LARGEST_SNAPSHOT).ok();
        let kept = kept.and_then(|json| TreeSnapshot::from_json(&json));
        let Some(before) = kept.filter(|kept| state.is_same_tree(kept.digest().as_str())) else {
            return Ok(None);
        };
        let enough = self.time_to_look().over();
        let (mut hasher, now) = snapshot(self.take_hasher(), enough).await?;
        let added = now.map(|now| before.summarize_added(&before.diff(&now).added));
        let added = added.filter(|added| added.len() <= MOST_ARTEFACTS).unwrap_or_default();
        hasher.exclude(added.iter().map(|path| self.workspace.join(path)));
        self.hasher = Some(hasher);
        let paths = added.iter().map(|path| escape_path(path)).collect();
        Ok(Some(Input::ArtefactsFound(paths)))
    }
}
