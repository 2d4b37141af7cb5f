//! What made the checks green, found out once a completion is safe. Decides nothing: whatever goes wrong here costs the
//! explanation, never the completion.

mod outcome;
mod parts;
mod variants;

use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_contract::CancelReason;
use ralph_orchestrator_explain::{ExplainConditions, Explanation, StopCause, explain, summarize};
use ralph_orchestrator_machine::{ExplainedCompletion, Input, ValidatorVerdict, millis};
use tokio::sync::watch;

use crate::error::EngineError;
use crate::session::Session;
use crate::stop::stop_requested;
use crate::validate::baseline_claim;
use crate::validation_task::{Selection, ValidationTask};
use outcome::read_outcome;
use parts::Parts;
pub(super) use variants::CheckoutChecker;

/// The shortest and the longest search that nobody asked for.
const SHORTEST_AUTO: Duration = Duration::from_secs(30);
const LONGEST_AUTO: Duration = Duration::from_secs(600);

impl Session {
    /// Whether it is to be found out what makes the checks green.
    pub(super) fn is_explained(&self) -> bool {
        let required = self.context.policy.validators.iter();
        let mut required =
            required.filter(|check| Selection::RequiredChecks.includes(check)).peekable();
        self.checkout.is_some()
            && self.context.config.validation.explain != Some(Duration::ZERO)
            // Somebody waits for what a session of their own is told.
            && !self.context.attached
            && required.peek().is_some()
            // What one would notice that looks at all of the work is not known.
            && required.all(|check| check.validator.sees_checkout())
    }

    /// Returns for how long is looked for it: no longer than the run may take.
    fn explanation_budget(&self) -> Duration {
        let (state, now_ms) = (&self.journal.state, self.journal.clock.runtime_ms());
        let checks = Duration::from_millis(state.validation.checks_ms);
        let wanted = self.context.config.validation.explain;
        let wanted = wanted.unwrap_or_else(|| checks.clamp(SHORTEST_AUTO, LONGEST_AUTO));
        let max_ms = state.limits.max_runtime_ms.unwrap_or(u64::MAX);
        wanted.min(Duration::from_millis(max_ms.saturating_sub(now_ms)))
    }

    /// Finds out what made the checks green; `None` if there is nothing to say.
    pub(super) async fn explain_completion(
        &mut self,
    ) -> Result<Option<ExplainedCompletion>, EngineError> {
        let Some(verdicts) = self.journal.state.completion().map(|done| done.verdicts.clone())
        else {
            return Ok(None);
        };
        let budget = self.explanation_budget();
        if budget.is_zero() {
            return Ok(None);
        }
        let conditions = ExplainConditions {
            base: read_outcome(&self.journal.state.validation.baseline_verdicts),
            green_run: self.green_run(&verdicts),
            budget,
        };
        self.journal.announce_explaining(millis(budget));
        let (cancel, cancelled) = watch::channel(None);
        let claim = baseline_claim();
        let task = self.validation_task(Selection::RequiredChecks, claim, cancelled, false);
        let mut work = Box::pin(find_explanation(task, conditions));
        let mut stop = self.controls.stop.clone();
        let found = tokio::select! {
            biased;
            found = &mut work => found,
            () = stop_requested(&mut stop, 1) => {
                cancel.send_replace(Some(CancelReason::Signal));
                // It ends its processes, and removes what it wrote.
                work.await
            }
        };
        match found {
            Ok(found) => Ok(found.as_ref().and_then(to_record)),
            Err(error) => {
                let text = format!("what made the checks green was not found out: {error}");
                self.journal.advance(Input::Warning(text)).map(|_| None)
            }
        }
    }

    /// Returns how long the required checks took on the accepted work, once each.
    fn green_run(&self, verdicts: &[ValidatorVerdict]) -> Duration {
        let validators = self.context.policy.validators.iter();
        let taken = validators.filter(|check| Selection::RequiredChecks.includes(check));
        let times = taken.filter_map(|check| {
            let passes = u64::from(check.validator.passes_required().max(1));
            let verdict = verdicts.iter().find(|named| named.validator == check.info.name)?;
            Some(verdict.duration_ms / passes)
        });
        Duration::from_millis(times.fold(0, u64::saturating_add))
    }
}

/// Leaves parts of the work out and runs the checks; `None` if nothing was changed, or it was cancelled before the first
/// run.
async fn find_explanation(
    mut task: ValidationTask,
    conditions: ExplainConditions,
) -> Result<Option<Explanation>, EngineError> {
    let Some(counted) = task.snapshot().await? else { return Ok(None) };
    let Some(mut checker) = CheckoutChecker::begin(&mut task, Arc::new(counted)).await? else {
        return Ok(None);
    };
    let Parts { files, unknown } = Parts::new(checker.changed_files(), checker.protected());
    if files.is_empty() && unknown.is_empty() {
        return Ok(None);
    }
    let mut explanation = explain(&files, &conditions, &mut checker).await;
    explanation.parts.extend(unknown);
    if checker.is_cancelled() {
        explanation.stopped = Some(StopCause::Cancelled);
    }
    Ok(Some(explanation))
}

fn to_record(explanation: &Explanation) -> Option<ExplainedCompletion> {
    let summary = Some(summarize(explanation)).filter(|summary| !summary.is_empty())?;
    let explanation = serde_json::to_value(explanation).ok()?;
    Some(ExplainedCompletion { summary, explanation })
}
