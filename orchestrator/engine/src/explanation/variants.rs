//! Runs the checks on variants of the work, each in a checkout of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_checkout::{ChangedFile, ChangedWork, Checkout, PreparedCheckout, Variant};
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_explain::{CheckedVariant, PatchVariant, VariantChecker, VariantOutcome};
use ralph_orchestrator_machine::millis;
use ralph_orchestrator_workspace::{ProtectedPaths, TreeSnapshot};

use super::outcome::read_rejection;
use super::parts::to_checkout;
use crate::blocking::blocking;
use crate::bytecode::BytecodeDir;
use crate::error::EngineError;
use crate::protection::Protection;
use crate::validation_policy::{CompletionPolicy, ConfiguredValidator};
use crate::validation_task::{Selection, ValidationTask};

/// Runs the required checks on variants of the accepted work.
pub(crate) struct CheckoutChecker<'a> {
    task: &'a mut ValidationTask,
    policy: Arc<CompletionPolicy>,
    checkout: Arc<Checkout>,
    /// What counts as work.
    counted: Arc<TreeSnapshot>,
    work: Arc<ChangedWork>,
    protection: Protection,
    began_ms: u64,
    is_cancelled: bool,
}

impl<'a> CheckoutChecker<'a> {
    /// Finds what is not as it was when the run began; `None` if it was cancelled, or checks run in no checkout.
    pub(crate) async fn begin(
        task: &'a mut ValidationTask,
        counted: Arc<TreeSnapshot>,
    ) -> Result<Option<Self>, EngineError> {
        let known = task.checkout.as_ref();
        let Some(checkout) = known.map(|known| Arc::clone(&known.checkout)) else {
            return Ok(None);
        };
        let policy = Arc::clone(&task.policy);
        let checks: Vec<&ConfiguredValidator> = required_checks(&policy).collect();
        let (baseline, end) = (Arc::clone(&task.baseline), task.observation_end());
        let protection = Protection::begin(&checks, baseline, &task.workspace, end).await?;
        let Some(protection) = protection else { return Ok(None) };
        let (start, is_work) = (Arc::clone(&checkout), task.work_test(&counted));
        let work = Arc::new(blocking(move || start.find_changed_work(&is_work)).await??);
        let began_ms = task.clock.runtime_ms();
        Ok(Some(Self {
            task,
            policy,
            checkout,
            counted,
            work,
            protection,
            began_ms,
            is_cancelled: false,
        }))
    }

    /// Returns what there is instead of the work, if it is known.
    pub(crate) fn without_work(&self) -> Option<Variant> {
        self.checkout.without_work(&self.work)
    }

    pub(super) fn changed_files(&self) -> &[ChangedFile] {
        &self.work.files
    }

    pub(super) fn protected(&self) -> &ProtectedPaths {
        &self.policy.protected
    }

    /// Whether it was broken off: what it said last means nothing.
    pub(super) const fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Runs the checks up to the first that does not accept. `None` if it was cancelled.
    pub(crate) async fn run_checks(
        &mut self,
        variant: &Arc<Variant>,
        limit: Duration,
    ) -> Result<Option<CheckedVariant>, EngineError> {
        // A variant may have the size, and almost the time, of another one, by which Python tells its bytecode.
        let bytecode = BytecodeDir::create(&self.task.run)?;
        let env = self.task.env.clone();
        let folder = bytecode.path().display().to_string();
        self.task.env.insert(BytecodeDir::VARIABLE.to_owned(), folder);
        let checked = self.run_isolated(variant, limit).await;
        self.task.env = env;
        checked
    }

    async fn run_isolated(
        &mut self,
        variant: &Arc<Variant>,
        limit: Duration,
    ) -> Result<Option<CheckedVariant>, EngineError> {
        let prepared = self.prepare(variant).await?;
        self.task.hidden.clone_from(&prepared.hidden);
        let mut outcome = VariantOutcome::Green;
        match self.task.set_up_checkout(&prepared).await? {
            None => return Ok(None),
            Some(Err(verdict)) => {
                let outcome = match verdict {
                    Verdict::Error { message } => VariantOutcome::Error(message),
                    // It worked with all of the work.
                    _ => VariantOutcome::Red { failed: BTreeSet::new(), is_built: false },
                };
                return Ok(Some(CheckedVariant { outcome, rewritten: BTreeSet::new() }));
            }
            Some(Ok(_)) => {}
        }
        // The limit is of checks: what a part of the work lets the setup do is no sign of ones that do not end.
        let until_ms = self.task.clock.runtime_ms().saturating_add(millis(limit));
        for check in required_checks(&self.policy) {
            let now_ms = self.task.clock.runtime_ms();
            let until_ms = until_ms.min(now_ms.saturating_add(millis(check.timeout)));
            let ran = self.task.execute(check, &self.protection, &prepared.overlays, until_ms);
            let Some((verdict, _)) = ran.await? else { return Ok(None) };
            outcome = match verdict {
                Verdict::Accepted { .. } => continue,
                Verdict::Rejected { reasons } => read_rejection(&reasons),
                Verdict::Error { .. } if self.task.clock.runtime_ms() >= until_ms => {
                    VariantOutcome::DidNotEnd
                }
                // It could be checked with all of the work.
                Verdict::Error { .. } => {
                    VariantOutcome::Red { failed: BTreeSet::new(), is_built: false }
                }
            };
            break;
        }
        let paths = prepared.find_rewritten(variant);
        let rewritten = paths.iter().filter_map(|path| path.to_str().map(str::to_owned)).collect();
        blocking(move || drop(prepared)).await?;
        Ok(Some(CheckedVariant { outcome, rewritten }))
    }

    async fn prepare(&self, variant: &Arc<Variant>) -> Result<PreparedCheckout, EngineError> {
        let (checkout, work) = (Arc::clone(&self.checkout), Arc::clone(&self.work));
        let (variant, is_work) = (Arc::clone(variant), self.task.work_test(&self.counted));
        Ok(blocking(move || checkout.prepare_variant(&is_work, &work, &variant)).await??)
    }
}

#[async_trait]
impl VariantChecker for CheckoutChecker<'_> {
    async fn check_variant(&mut self, variant: &PatchVariant, limit: Duration) -> CheckedVariant {
        let variant = Arc::new(to_checkout(variant));
        let error = |message: String| {
            let outcome = VariantOutcome::Error(message);
            CheckedVariant { outcome, rewritten: BTreeSet::new() }
        };
        if self.is_cancelled {
            return error("cancelled".to_owned());
        }
        match self.run_checks(&variant, limit).await {
            Ok(Some(checked)) => checked,
            Ok(None) => {
                self.is_cancelled = true;
                error("cancelled".to_owned())
            }
            Err(problem) => error(problem.to_string()),
        }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.task.clock.runtime_ms().saturating_sub(self.began_ms))
    }
}

fn required_checks(policy: &CompletionPolicy) -> impl Iterator<Item = &ConfiguredValidator> {
    let required = |check: &&ConfiguredValidator| Selection::RequiredChecks.includes(check);
    policy.validators.iter().filter(required).filter(|check| check.validator.sees_checkout())
}
