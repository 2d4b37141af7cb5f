//! What the required checks make of a change that nobody made: shown to them in a checkout, outside of any run, and decided
//! as a run would decide it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_checkout::Variant;
use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_contract::{CancelReason, Change, ChangeKind, Verdict};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_test_results::{ResultDifference, TestResults, compare_test_results};
use ralph_orchestrator_workspace::{Baseline, TreeSnapshot};

use super::bytecode::BytecodeDir;
use super::check_tests::CheckTests;
use super::error::EngineError;
use super::execution::WaitEnd;
use super::prompt::PromptSource;
use super::setup::{CheckSite, time_out};
use super::stop::{StopRequests, stop_requested};
use super::test_floor::TestFloor;
use super::validation_policy::{CompletionPolicy, ConfiguredValidator};

/// What changes are compared with: the workspace as it is, and what the checks say of that.
pub struct Rehearsal<'a> {
    policy: &'a CompletionPolicy,
    workspace: PathBuf,
    counted: TreeSnapshot,
    protected: Baseline,
    floor: TestFloor,
    base: BTreeMap<String, BaseCheck>,
    stop: StopRequests,
}

/// What a check said of the workspace as it is.
struct BaseCheck {
    is_accepted: bool,
    results: Option<TestResults>,
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RehearsedOutcome {
    /// It would be accepted.
    Accepted,
    /// It would be, once the tests pass that fail without it, too: the checks do not notice it.
    Unnoticed,
    /// It would be rejected, and why.
    Rejected {
        /// By which validator.
        validator: String,
        /// In one sentence.
        reason: String,
    },
    /// Checks do not see it.
    Unseen,
    /// The checks ran the same tests as without it, with the same results.
    Unchanged,
    /// It cannot be said, and why.
    Unknown {
        /// In one sentence.
        why: String,
    },
}

impl<'a> Rehearsal<'a> {
    /// Runs the required checks on the workspace as it is; `None` if a stop was requested.
    ///
    /// # Errors
    /// The workspace cannot be read.
    pub async fn begin(
        policy: &'a CompletionPolicy,
        loaded: &LoadedConfig,
        site: CheckSite<'_>,
        (at_most, stop): (Duration, StopRequests),
    ) -> Result<Option<Self>, EngineError> {
        let (config, workspace) = (&loaded.config, real_path(&loaded.config.run.workspace));
        let prompt = PromptSource::find(config);
        let mut hasher = policy.tree_hasher(&workspace, config.run.prompt.clone(), &prompt);
        let mut rehearsal = Self {
            policy,
            counted: hasher.snapshot()?,
            protected: policy.take_baseline(loaded, &workspace)?,
            workspace,
            floor: TestFloor::default(),
            base: BTreeMap::new(),
            stop,
        };
        let bytecode = BytecodeDir::create("rehearsal").ok();
        let env = site.environment(bytecode.as_ref());
        let site = CheckSite { env: &env, ..site };
        let is_prepared = policy.set_up(site).await;
        for check in rehearsal.checks().filter(|check| check.info.runs_check) {
            let executed = match &is_prepared {
                Err(message) => {
                    let verdict = Verdict::Error { message: message.clone() };
                    Some((verdict, CheckTests::default()))
                }
                Ok(()) => check.execute_outside(site, &[], rehearsal.end(check, at_most)).await,
            };
            let Some((verdict, tests)) = executed else { return Ok(None) };
            let results = tests.results.clone();
            let base = BaseCheck { is_accepted: verdict.is_accepted(), results };
            rehearsal.floor.record(&check.info.name, &verdict, tests);
            rehearsal.base.insert(check.info.name.clone(), base);
        }
        Ok(Some(rehearsal))
    }

    /// Returns the names of the checks that accept the workspace as it is.
    #[must_use]
    pub fn accepting(&self) -> Vec<&str> {
        let accepting = self.base.iter().filter(|(_, base)| base.is_accepted);
        accepting.map(|(name, _)| name.as_str()).collect()
    }

    /// The validators whose verdict on a change can be known before there is a run.
    fn checks(&self) -> impl Iterator<Item = &'a ConfiguredValidator> + use<'a> {
        let is_known = |check: &&ConfiguredValidator| {
            check.info.required && (check.info.runs_check || !check.validator.protects().is_empty())
        };
        self.policy.validators.iter().filter(is_known)
    }

    /// Returns what checks would see of a change: nothing of what git ignores, or of what is new where something is protected.
    #[must_use]
    pub fn find_visible(&self, change: &Variant) -> Variant {
        let visible = change.iter().filter_map(|(path, content)| {
            if self.counted.has(path) {
                return Some((path.clone(), content.clone()));
            }
            if self.is_there(path) {
                // It is no work, and not as it was, so that a checkout has nothing of it.
                return Some((path.clone(), None));
            }
            let is_seen = !self.is_ignored(path) && !self.policy.protected.contains(path);
            is_seen.then(|| (path.clone(), content.clone()))
        });
        visible.collect()
    }

    fn is_ignored(&self, path: &Path) -> bool {
        let ignored = self.counted.ignored_folders();
        path.ancestors().skip(1).any(|folder| ignored.iter().any(|known| known == folder))
    }

    fn is_there(&self, path: &Path) -> bool {
        self.workspace.join(path).symlink_metadata().is_ok()
    }

    /// Has the checks decide about a change of which they see `visible`; `None` if a stop was requested.
    ///
    /// # Errors
    /// A glob is wrong.
    pub async fn play(
        &self,
        visible: &Variant,
        site: CheckSite<'_>,
        at_most: Duration,
    ) -> Result<Option<RehearsedOutcome>, EngineError> {
        if visible.is_empty() {
            return Ok(Some(RehearsedOutcome::Unseen));
        }
        let changes: Vec<Change> =
            visible.iter().map(|(path, now)| self.kind(path, now.is_some())).collect();
        let after = self.protected.with_changes(&changes);
        let bytecode = BytecodeDir::create("rehearsal").ok();
        let env = site.environment(bytecode.as_ref());
        let site = CheckSite { env: &env, ..site };
        if let Err(why) = self.prepare(visible, site).await {
            return Ok(Some(RehearsedOutcome::Unknown { why }));
        }
        let (mut is_noticed, mut is_same) = (true, true);
        for check in self.checks() {
            let mut globs = check.validator.protects();
            globs.extend(self.protected.reserved(&check.validator.reserved_paths()));
            let changed = self.protected.changes(&after, &globs);
            let changed = changed.map_err(|error| EngineError::Workspace(error.to_string()))?;
            if !check.info.runs_check && changed.is_empty() {
                continue;
            }
            let executed = check.execute_outside(site, &changed, self.end(check, at_most)).await;
            let Some((verdict, tests)) = executed else { return Ok(None) };
            match self.decide(check, (verdict, tests.results.as_ref()), !changed.is_empty()) {
                Decision::Accepted => {}
                Decision::AsBefore => is_noticed = false,
                Decision::Ended(outcome) => return Ok(Some(outcome)),
            }
            is_same &= self.has_same_results(check, tests.results.as_ref());
        }
        Ok(Some(match (is_same, is_noticed) {
            (true, _) => RehearsedOutcome::Unchanged,
            (false, true) => RehearsedOutcome::Accepted,
            (false, false) => RehearsedOutcome::Unnoticed,
        }))
    }

    fn kind(&self, path: &Path, is_left: bool) -> Change {
        let kind = match (self.is_there(path), is_left) {
            (_, false) => ChangeKind::Removed,
            (true, true) => ChangeKind::Modified,
            (false, true) => ChangeKind::Added,
        };
        Change { path: path.to_owned(), kind }
    }

    /// Runs the setup where what it makes is not there, or was made from something else.
    async fn prepare(&self, visible: &Variant, site: CheckSite<'_>) -> Result<(), String> {
        let Some(setup) = &self.policy.checkout.setup else { return Ok(()) };
        let is_input = |path: &Path| setup.inputs.iter().any(|input| path == input);
        let is_made = !setup.outputs.is_empty()
            && setup.outputs.iter().all(|output| site.workspace.join(output).exists());
        if is_made && !visible.keys().any(|path| is_input(path)) {
            return Ok(());
        }
        self.policy.set_up(site).await
    }

    /// Decides about the verdict of a check as a run would, and, where the check rejects the workspace as it is, too, whether
    /// it notices the change at all.
    fn decide(
        &self,
        check: &ConfiguredValidator,
        (verdict, now): (Verdict, Option<&TestResults>),
        is_protected: bool,
    ) -> Decision {
        let verdict = self.floor.apply(check, verdict, now);
        let reason = match &verdict {
            Verdict::Accepted { .. } => return Decision::Accepted,
            Verdict::Rejected { reasons } => reasons.first().cloned().unwrap_or_default(),
            Verdict::Error { message } => message.clone(),
        };
        let name = &check.info.name;
        let rejected = |reason: String| {
            Decision::Ended(RehearsedOutcome::Rejected { validator: name.clone(), reason })
        };
        let Some(base) = self.base.get(name).filter(|base| !base.is_accepted && !is_protected)
        else {
            return rejected(reason);
        };
        let is_loss = |found: &ResultDifference| match found {
            ResultDifference::Fewer { .. } => !check.validator.allows_fewer_tests(),
            ResultDifference::Unreadable { .. } => true,
            _ => false,
        };
        let differences = compare_test_results(base.results.as_ref(), now, false);
        if let Some(lost) = differences.iter().find(|found| is_loss(found)) {
            return rejected(lost.describe());
        }
        match (&base.results, now) {
            (Some(before), Some(now)) if now.counts.failed > before.counts.failed => {
                rejected(reason)
            }
            (Some(_), Some(_)) => Decision::AsBefore,
            _ => Decision::Ended(RehearsedOutcome::Unknown {
                why: format!(
                    "`{name}` rejects the work as it is, too, and prints no number of tests by which one could tell more"
                ),
            }),
        }
    }

    fn has_same_results(&self, check: &ConfiguredValidator, now: Option<&TestResults>) -> bool {
        let base = self.base.get(&check.info.name).and_then(|base| base.results.as_ref());
        let same = base.zip(now).is_some_and(|(base, now)| {
            base.counts == now.counts
                && compare_test_results(Some(base), Some(now), false).is_empty()
        });
        same || !check.info.runs_check
    }

    async fn end(&self, check: &ConfiguredValidator, at_most: Duration) -> WaitEnd {
        let mut stop = self.stop.clone();
        tokio::select! {
            end = time_out(at_most.min(check.timeout)) => end,
            () = stop_requested(&mut stop, 1) => WaitEnd::Cancelled(CancelReason::Signal),
        }
    }
}

/// What one check means for the outcome.
enum Decision {
    Accepted,
    /// It says what it said without the change.
    AsBefore,
    Ended(RehearsedOutcome),
}
