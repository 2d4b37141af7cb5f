//! What the agent of the run before has changed of what is protected, and left so: for the next run that is not how it was.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_orchestrator_contract::{Change, ChangeKind};
use ralph_orchestrator_machine::{Stop, StopReason};
use ralph_orchestrator_store::{StoredRun, list_runs};
use ralph_orchestrator_workspace::{Baseline, Differences, ProtectedError, ProtectedPaths};

use super::error::EngineError;
use super::existing_run::RunSetup;
use super::protection::{describe, is_touched_since};
use super::stored_runs::{read_baseline, read_newest};
use super::validation_policy::CompletionPolicy;

/// What the agent of an earlier run has changed.
pub(super) struct EarlierChanges {
    before: Baseline,
    differences: Differences,
}

impl EarlierChanges {
    /// Finds what the agent of the newest run of a state directory has changed that is still so, if anything. `now` is the baseline of
    /// the run that begins; `is_same_start`: nobody could have changed anything between the two.
    pub(super) async fn find(
        setup: RunSetup<'_>,
        (policy, workspace): (&CompletionPolicy, &Path),
        (now, is_same_start): (&Baseline, bool),
    ) -> Result<Option<Self>, EngineError> {
        let newest = list_runs(setup.layout).ok().and_then(|runs| runs.into_iter().next());
        let Some(newest) = newest else { return Ok(None) };
        let stored = read_baseline(setup.layout, &newest);
        let Ok(before) = serde_json::from_slice::<Baseline>(&stored) else { return Ok(None) };
        let failed = |error: ProtectedError| EngineError::Workspace(error.to_string());
        let differences = before.differences(workspace, now, &policy.protects());
        let mut differences = differences.map_err(failed)?;
        if differences.is_empty() {
            return Ok(None);
        }
        let Some(found) = read_newest(setup.layout) else { return Ok(None) };
        let since = if is_same_start { None } else { last_work(&found) };
        let work = AgentWork { since, workspace };
        // Of what was removed the file system knows nothing.
        let is_agents = |it: &Change| it.kind == ChangeKind::Removed || work.is_agents(&it.path);
        differences.changes.retain(is_agents);
        differences.redirected.retain(|path| work.is_agents(path));
        differences.outside.retain(|path| work.is_agents(path));
        let mut appeared = Vec::new();
        for glob in differences.appeared {
            let there = Baseline::take(workspace, std::slice::from_ref(&glob)).map_err(failed)?;
            if there.paths().any(|path| work.is_agents(path)) {
                appeared.push(glob);
            }
        }
        differences.appeared = appeared;
        let is_prepared = |stop: &Stop| stop.reason == StopReason::Initialized;
        if found.state.stop.as_ref().is_some_and(is_prepared) {
            // The tests that it writes for others are protected from then on.
            differences.changes.retain(|change| change.kind != ChangeKind::Added);
        }
        if differences.changes.iter().any(|change| change.kind == ChangeKind::Added) {
            // What was not protected then may have been there.
            let frozen = setup.load_frozen_policy(&found.run).await;
            let globs = frozen.map(|frozen| frozen.policy.protects()).unwrap_or_default();
            let of_run = ProtectedPaths::new(&globs).map_err(failed)?;
            let is_new = |change: &Change| !of_run.ignores(&change.path);
            differences.changes.retain(|it| it.kind != ChangeKind::Added || is_new(it));
        }
        Ok((!differences.is_empty()).then_some(Self { before, differences }))
    }

    /// Has a run begin with what was there before.
    pub(super) fn carry_into(&self, baseline: &mut Baseline) {
        baseline.carry_on(&self.before, &self.differences);
    }

    /// Returns what was changed, for people.
    pub(super) fn describe(&self) -> String {
        let Differences { changes, appeared, redirected, outside } = &self.differences;
        let change = |path: &PathBuf, kind| Change { path: path.clone(), kind };
        let others = redirected.iter().map(|path| change(path, ChangeKind::Redirected));
        let others = others.chain(outside.iter().map(|path| change(path, ChangeKind::Modified)));
        let added = appeared.iter().map(|glob| change(&PathBuf::from(glob), ChangeKind::Added));
        describe(changes.iter().cloned().chain(others).chain(added))
    }
}

/// When code of an agent ran last.
struct AgentWork<'a> {
    /// `None`: it may have run until now.
    since: Option<Timestamp>,
    workspace: &'a Path,
}

impl AgentWork<'_> {
    /// Whether a change is the agent's, as far as the file system can say: nobody has touched the path since.
    fn is_agents(&self, path: &Path) -> bool {
        self.since.is_none_or(|since| !is_touched_since(&self.workspace.join(path), since))
    }
}

/// Returns when code of the agent ran last; `None` if that was cut off.
fn last_work(found: &StoredRun) -> Option<Timestamp> {
    match found.state.running {
        Some(_) => None,
        // What was carried into a run that never worked was there when it began.
        None => found.worked.or(found.started),
    }
}
