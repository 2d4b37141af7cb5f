//! What makes an acceptance a proof: the checks accept the work without what the first checks built, and still reject the
//! workspace without the work.

use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_checkout::Visibility;
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_explain::{CheckedVariant, VariantOutcome};
use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_workspace::TreeSnapshot;

use super::error::EngineError;
use super::explanation::CheckoutChecker;
use super::protection::Protection;
use super::validation_policy::ConfiguredValidator;
use super::validation_task::{Selection, ValidationTask};

/// Checks are limited by their own time-outs.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

const COLD: &str = "green only with what the checks wrote before any work, such as products of a build: in a fresh \
                    checkout they are red";
const WITHOUT_WORK: &str = "green, but so is the workspace without the work, which was red when the run began: something \
                            outside of the work, such as a file in another folder or a service, makes the difference, \
                            and proves nothing; `run --restart` begins a run that starts from there";

impl ValidationTask {
    /// Returns the verdicts that count of a claim whose checks said this; `None` if it was cancelled. While the agent runs, its
    /// work is not proved yet.
    pub(super) async fn prove(
        &mut self,
        checks: &[&ConfiguredValidator],
        protection: &mut Protection,
        counted: &Arc<TreeSnapshot>,
        mut verdicts: Vec<ValidatorVerdict>,
    ) -> Result<Option<Vec<ValidatorVerdict>>, EngineError> {
        let Some(known) = &self.checkout else { return Ok(Some(verdicts)) };
        if self.selection != Selection::All || self.is_preview || !are_accepted(&verdicts) {
            return Ok(Some(verdicts));
        }
        if known.checkout.has_base() {
            let cold = self.run_once(checks, protection, counted, Visibility::Cold).await?;
            let Some(cold) = cold else { return Ok(None) };
            verdicts = cold;
            verdicts.iter_mut().for_each(|named| add_reason(named, COLD));
        }
        if !self.base_rejected.is_empty() && are_accepted(&verdicts) {
            let Some(cause) = self.find_outside_cause(counted).await? else { return Ok(None) };
            if let Some(cause) = cause {
                let rejected =
                    |named: &&mut ValidatorVerdict| self.base_rejected.contains(&named.validator);
                for named in verdicts.iter_mut().filter(rejected) {
                    named.verdict = Verdict::rejected(cause);
                }
            }
        }
        Ok(Some(verdicts))
    }

    /// Says so if the checks, which accept the work, would accept the workspace without it as well; `None` if it was
    /// cancelled. Nothing is said where not all is known that was there when the run began.
    async fn find_outside_cause(
        &mut self,
        counted: &Arc<TreeSnapshot>,
    ) -> Result<Option<Option<&'static str>>, EngineError> {
        let Some(mut checker) = CheckoutChecker::begin(self, Arc::clone(counted)).await? else {
            return Ok(None);
        };
        let Some(start) = checker.without_work() else { return Ok(Some(None)) };
        let checked = checker.run_checks(&Arc::new(start), NO_LIMIT).await?;
        let green = |checked: CheckedVariant| checked.outcome == VariantOutcome::Green;
        Ok(checked.map(|checked| green(checked).then_some(WITHOUT_WORK)))
    }
}

fn are_accepted(verdicts: &[ValidatorVerdict]) -> bool {
    verdicts.iter().all(|named| !named.required || named.verdict.is_accepted())
}

/// Says this first in a rejection.
fn add_reason(named: &mut ValidatorVerdict, reason: &str) {
    if let Verdict::Rejected { reasons } = &mut named.verdict {
        reasons.insert(0, reason.to_owned());
    }
}
