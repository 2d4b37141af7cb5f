//! What happens to protected paths while validators run.
//!
//! A validator runs what the agent wrote: a `Makefile` that overwrites the protected test and then runs
//! it. So the paths are compared after each execution, and again at the end.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashSet};
use std::mem::discriminant;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use ralph_orchestrator_contract::{Change, describe_remedy};
use ralph_orchestrator_safe_fs::FileFingerprint;
use ralph_orchestrator_workspace::{
    Baseline, FolderWatch, PinnedPaths, ProgramDigests, ProtectedError, ProtectedHasher,
    ProtectedPaths, shadowed_folder,
};

use super::blocking::cancellable;
use super::error::EngineError;
use super::validation_policy::{CompletionPolicy, ConfiguredValidator};

/// How many paths a message names.
pub(super) const NAMED: usize = 10;

/// The protected paths of a run.
pub(super) struct ProtectedState {
    /// What they were when the run began.
    baseline: Baseline,
    /// Files are read again only when they were touched.
    hasher: Mutex<ProtectedHasher>,
    programs: Mutex<ProgramDigests>,
}

impl ProtectedState {
    pub(super) fn new(baseline: Baseline) -> Self {
        Self { baseline, hasher: Mutex::default(), programs: Mutex::default() }
    }

    /// Returns which of these files outside of the workspace are not as they were when the run began.
    fn outside_changes(&self, files: &[PathBuf]) -> Vec<Change> {
        let mut digests = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        self.baseline.outside_changes(files, &mut digests)
    }
}

/// What a run protects and is not as it was when the run began.
pub(super) struct ProtectedChanges {
    /// For people.
    pub(super) text: String,
    /// Whether a person made one of the changes: the agent had not worked since.
    pub(super) is_by_person: bool,
}

impl ProtectedChanges {
    /// Finds them before a run goes on, if there are any; code of the agent ran last at the time `worked`, if that is known.
    /// Checks in a checkout see nothing of protected files but those that `seen` has, which counted when the run began.
    pub(super) async fn find(
        policy: &CompletionPolicy,
        state: Arc<ProtectedState>,
        workspace: &Path,
        (worked, seen): (Option<Timestamp>, Option<&PinnedPaths>),
    ) -> Result<Option<Self>, EngineError> {
        let checks: Vec<&ConfiguredValidator> = policy.validators.iter().collect();
        let now = Protection::begin(&checks, state, workspace, std::future::pending()).await?;
        let is_seen = |change: &Change| {
            !policy.protected.contains(&change.path)
                || seen.is_none_or(|seen| seen.contains(&change.path))
        };
        Ok(now.and_then(|mut now| {
            now.known.retain(is_seen);
            let is_by_person = worked.is_some_and(|worked| now.has_changed_since(worked));
            Some(Self { text: now.describe_changes()?, is_by_person })
        }))
    }
}

/// The protected paths during one validation.
pub(super) struct Protection {
    state: Arc<ProtectedState>,
    workspace: PathBuf,
    /// The globs of all validators.
    globs: Vec<String>,
    /// The globs of the required validators.
    required: Vec<String>,
    /// The paths outside of the list of globs that required validators depend on.
    passed: Vec<PathBuf>,
    /// The paths as last observed.
    now: Baseline,
    /// The known changes.
    known: Vec<Change>,
    tampering: Vec<String>,
    /// The folders that required protected paths are in, and those above, but for the workspace itself.
    folders: BTreeSet<PathBuf>,
    watch: Option<FolderWatch>,
    warning: Option<String>,
    /// What was touched since the comparison before, even if its content is the same.
    touched: Vec<PathBuf>,
}

impl Protection {
    pub(super) async fn begin(
        checks: &[&ConfiguredValidator],
        state: Arc<ProtectedState>,
        workspace: &Path,
        enough: impl Future<Output = ()>,
    ) -> Result<Option<Self>, EngineError> {
        let globs_of = |required: bool| -> Vec<String> {
            let checks = checks.iter().filter(|check| check.info.required || !required);
            checks.flat_map(|check| globs(check, &state.baseline)).collect()
        };
        let (globs, required) = (globs_of(false), globs_of(true));
        let required_checks = checks.iter().filter(|check| check.info.required);
        let passed = required_checks.flat_map(|check| passed_paths(check)).collect();
        let mut protection = Self {
            state,
            workspace: workspace.to_owned(),
            globs,
            required,
            passed,
            now: Baseline::default(),
            known: Vec::new(),
            tampering: Vec::new(),
            folders: BTreeSet::new(),
            watch: None,
            warning: None,
            touched: Vec::new(),
        };
        if !protection.is_empty() {
            if !protection.observe(enough).await? {
                return Ok(None);
            }
            protection.known = protection.required_changes()?;
            protection.watch_folders()?;
        }
        Ok(Some(protection))
    }

    /// Watches the folders of what is protected, from now on.
    fn watch_folders(&mut self) -> Result<(), EngineError> {
        if self.required.is_empty() {
            return Ok(());
        }
        let required = self.required()?;
        let there = self.now.paths().filter(|path| required.contains(path)).map(Path::to_owned);
        let named = self.required.iter().map(|glob| literal_part(glob));
        let mut folders = BTreeSet::new();
        for path in there.chain(named) {
            let above =
                path.ancestors().skip(1).take_while(|folder| !folder.as_os_str().is_empty());
            folders.extend(above.map(Path::to_owned));
        }
        self.folders = folders;
        let all = self.folders.iter().map(PathBuf::as_path).chain([Path::new("")]);
        match FolderWatch::begin(&self.workspace, all) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                self.warning = Some(format!(
                    "the folders of protected paths cannot be watched ({error}): what is put there and \
                     removed again while a validator runs is not noticed"
                ));
            }
        }
        Ok(())
    }

    fn required(&self) -> Result<ProtectedPaths, EngineError> {
        ProtectedPaths::new(&self.required)
            .map_err(|error| EngineError::Workspace(error.to_string()))
    }

    /// Returns what there is to say of this validation beside the verdicts.
    pub(super) fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// Returns the changes since the run began of what this validator protects, as last observed.
    pub(super) fn changes_for(
        &self,
        check: &ConfiguredValidator,
    ) -> Result<Vec<Change>, EngineError> {
        let mut changes = self.changes(&globs(check, &self.state.baseline))?;
        changes.extend(self.passed_changes(&passed_paths(check)));
        Ok(changes)
    }

    /// Returns the changes since the run began of what required validators depend on, as last observed.
    fn required_changes(&self) -> Result<Vec<Change>, EngineError> {
        let mut changes = self.changes(&self.required)?;
        changes.extend(self.passed_changes(&self.passed));
        Ok(changes)
    }

    /// Returns what there is to say before a run goes on, if what required validators depend on is not as when it began.
    fn describe_changes(&self) -> Option<String> {
        (!self.known.is_empty()).then(|| {
            format!(
                "protected paths are not as they were when the run began, and it rejects all work until they are: {}; \
                 {}, or, if the change is yours, `run --restart` begins a new run with it",
                describe(&self.known),
                remedy(&self.known)
            )
        })
    }

    /// Whether one of the changes was made after this time, as far as the file system can say: of what was removed it knows
    /// the folder.
    fn has_changed_since(&self, time: Timestamp) -> bool {
        self.known.iter().any(|change| is_touched_since(&self.workspace.join(&change.path), time))
    }

    /// Returns which of these paths hold, or lead to, something else than when the run began.
    fn passed_changes(&self, paths: &[PathBuf]) -> Vec<Change> {
        let mut changes = self.state.outside_changes(paths);
        changes.extend(self.state.baseline.passed_changes(&self.workspace, paths));
        changes
    }

    /// Returns whether nothing is protected.
    pub(super) const fn is_empty(&self) -> bool {
        self.globs.is_empty() && self.passed.is_empty()
    }

    /// Observes the paths. Returns false if that took longer than until `enough`.
    async fn observe(&mut self, enough: impl Future<Output = ()>) -> Result<bool, EngineError> {
        let (workspace, globs) = (self.workspace.clone(), self.globs.clone());
        let state = Arc::clone(&self.state);
        let observe = move |flag| {
            let mut hasher = state.hasher.lock().unwrap_or_else(PoisonError::into_inner);
            let now = hasher.observe(&workspace, &globs, flag);
            now.map(|now| (now, hasher.touched().to_vec()))
        };
        match cancellable(enough, observe).await? {
            Ok((now, touched)) => (self.now, self.touched) = (now, touched),
            Err(ProtectedError::Cancelled) => return Ok(false),
            Err(error) => return Err(EngineError::Workspace(error.to_string())),
        }
        Ok(true)
    }

    /// Returns the changes since the run began within these globs, as last observed.
    fn changes(&self, globs: &[String]) -> Result<Vec<Change>, EngineError> {
        if globs.is_empty() {
            return Ok(Vec::new());
        }
        let changes = self.state.baseline.changes(&self.now, globs);
        changes.map_err(|error| EngineError::Workspace(error.to_string()))
    }

    /// Compares again, after an execution by `whom`. Returns whether that changed nothing; `None` if it took
    /// longer than until `enough`.
    pub(super) async fn compare(
        &mut self,
        whom: &str,
        enough: impl Future<Output = ()>,
    ) -> Result<Option<bool>, EngineError> {
        if self.is_empty() {
            return Ok(Some(true));
        }
        if !self.observe(enough).await? {
            return Ok(None);
        }
        let changes = self.required_changes()?;
        let new = find_new(&changes, &self.known);
        if !new.is_empty() {
            let names = new.iter().map(|change| named(change)).collect();
            self.tampering.push(format!(
                "{whom} changed protected paths while the work was validated: {}; {}, and see to it that nothing \
                 that is run changes them",
                join_names(names),
                describe_remedy(new.iter().map(|change| change.kind))
            ));
            self.known = changes;
            return Ok(Some(false));
        }
        // As they are now they were before; what was run meanwhile may have been something else.
        let touched = self.take_touched()?;
        if touched.is_empty() {
            return Ok(Some(true));
        }
        self.tampering.push(format!(
            "{whom} wrote to protected paths while the work was validated, and put them back: {}; see to \
             it that nothing that is run writes to them",
            join_names(touched)
        ));
        Ok(Some(false))
    }

    /// Returns the required protected paths, and folders of theirs, to which something was done since the
    /// comparison before.
    fn take_touched(&mut self) -> Result<Vec<String>, EngineError> {
        let required = self.required()?;
        let mut touched: BTreeSet<PathBuf> =
            std::mem::take(&mut self.touched).into_iter().collect();
        touched.retain(|path| required.contains(path));
        let mut names = Vec::new();
        match self.watch.as_mut().map(FolderWatch::take) {
            Some(Some(moved)) => touched.extend(moved.into_iter().filter(|path| {
                let shadowed = shadowed_folder(path);
                self.folders.contains(path)
                    || shadowed.is_some_and(|folder| self.folders.contains(&folder))
                    || !required.ignores(path)
            })),
            Some(None) => names.push("more than could be followed".to_owned()),
            None => {}
        }
        let quoted = |path: &PathBuf| format!("`{}`", path.to_string_lossy().escape_debug());
        names.extend(touched.iter().map(quoted));
        Ok(names)
    }

    /// Returns what was changed during the validation, for the agent.
    pub(super) fn into_tampering(self) -> Vec<String> {
        self.tampering
    }
}

/// Returns the changes that are not known yet. An agent can make very many.
fn find_new<'a>(changes: &'a [Change], known: &[Change]) -> Vec<&'a Change> {
    let identify = |change: &'_ Change| (change.path.clone(), discriminant(&change.kind));
    let known: HashSet<_> = known.iter().map(identify).collect();
    changes.iter().filter(|change| !known.contains(&identify(change))).collect()
}

/// What a validator protects, and what must not appear: only what was not there when the run began, as
/// recorded then.
fn globs(check: &ConfiguredValidator, baseline: &Baseline) -> Vec<String> {
    let mut globs = check.validator.protects();
    globs.extend(baseline.reserved(&check.validator.reserved_paths()));
    globs
}

/// Returns what a validator depends on by its path.
fn passed_paths(check: &ConfiguredValidator) -> Vec<PathBuf> {
    let mut paths = check.validator.outside_files();
    paths.extend(check.validator.passed_paths());
    paths.sort();
    paths.dedup();
    paths
}

/// Returns the beginning of a glob, with a bit of its first part that is a pattern.
fn literal_part(glob: &str) -> PathBuf {
    let end = glob.find(['*', '?', '[', '{', '\\']);
    let start = end.and_then(|end| glob.get(..=end)).unwrap_or(glob);
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
    Path::new(start).components().filter(is_name).collect()
}

/// Joins the first of these names, and adds how many more there are.
pub(super) fn join_names(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let named: Vec<String> = names.into_iter().take(NAMED).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// Names changes, for people.
pub(super) fn describe(changes: impl IntoIterator<Item = impl Borrow<Change>>) -> String {
    join_names(changes.into_iter().map(|change| named(change.borrow())).collect())
}

/// Whether a path was touched after this time, as far as the file system can say: of what was removed it knows the folder.
pub(super) fn is_touched_since(path: &Path, time: Timestamp) -> bool {
    let is_later = |path: &Path| {
        let found = FileFingerprint::from_path_nofollow(path).ok()?;
        Some(found.ctime > time.as_nanosecond())
    };
    path.ancestors().find_map(is_later).unwrap_or(false)
}

fn remedy(changes: &[Change]) -> &'static str {
    describe_remedy(changes.iter().map(|change| change.kind))
}

fn named(change: &Change) -> String {
    format!("`{}` ({})", change.path.to_string_lossy().escape_debug(), change.kind.describe())
}

#[cfg(test)]
mod tests {
    use ralph_orchestrator_contract::ChangeKind;

    use super::*;

    #[test]
    fn very_many_changes_are_compared_in_no_time() {
        let change = |i: usize| Change { path: format!("t/{i}").into(), kind: ChangeKind::Added };
        let known: Vec<Change> = (0..200_000).map(change).collect();
        let mut changes = known.clone();
        assert!(find_new(&changes, &known).is_empty());
        changes[7].kind = ChangeKind::Removed;
        changes.push(change(200_000));
        assert_eq!(find_new(&changes, &known), [&changes[7], &changes[200_000]]);
    }
}
