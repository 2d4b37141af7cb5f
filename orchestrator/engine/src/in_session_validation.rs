//! Validation within a session: a preview of the verdict if the agent ended now.
//!
//! The answer is recorded and decides nothing: it never touches the claim, the count of rejections, or
//! what counts as observed.

use std::pin::Pin;

use ralph_orchestrator_contract::{CancelReason, ValidationPreview};
use ralph_orchestrator_machine::{FrozenPolicy, Input, Latch, Validation, is_unchecked};
use ralph_orchestrator_workspace::TreeHasher;
use tokio::sync::{oneshot, watch};
use tracing::{Instrument as _, info_span};

use super::agent_message::ValidationRequest;
use super::error::EngineError;
use super::execution::GRACE;
use super::iteration_watch::{IterationWatch, PendingInspection};
use super::session::Session;

/// The hasher that was lent to a validation, and its result; `None` if it was cancelled.
type ValidationOutcome = (Option<TreeHasher>, Result<Option<Validation>, EngineError>);

/// A validation that the agent waits for.
pub(super) struct PendingValidation {
    work: Pin<Box<dyn Future<Output = ValidationOutcome> + Send>>,
    cancel: watch::Sender<Option<CancelReason>>,
    answer: oneshot::Sender<ValidationPreview>,
}

impl PendingValidation {
    /// Cancels it.
    pub(super) fn cancel(&self, reason: CancelReason) {
        self.cancel.send_replace(Some(reason));
    }

    /// Cancels it and waits until no process of a validator is left.
    pub(super) async fn end(self) -> Option<TreeHasher> {
        self.cancel(CancelReason::Signal);
        tokio::time::timeout(GRACE, self.work).await.ok().and_then(|(hasher, _)| hasher)
    }
}

/// Resolves when the pending validation ends; never without one.
pub(super) async fn next_validation(pending: Option<&mut PendingValidation>) -> ValidationOutcome {
    let Some(pending) = pending else { return std::future::pending().await };
    tokio::select! {
        biased;
        done = &mut pending.work => return done,
        // The agent does not wait for the answer any more.
        () = pending.answer.closed() => {}
    }
    pending.cancel.send_replace(Some(CancelReason::Signal));
    (&mut pending.work).await
}

impl Session {
    /// Asks the detectors for claims first: the work is validated if a claim is pending.
    pub(super) fn request_validation(
        &mut self,
        request: ValidationRequest,
        watch: &mut IterationWatch,
    ) {
        if watch.validation.is_some() || watch.queued_request.is_some() {
            return reply(request.answer, not_now("another validation is running"));
        }
        if watch.inspection.is_some() {
            // Its turn comes when the detectors are done.
            watch.queued_request = Some(request);
            return;
        }
        let final_text = request.final_text.as_deref();
        let final_text = final_text.map(|text| self.redactor.text(text).into_owned());
        let prompt = self.prompt.glance().unwrap_or_default();
        let inspection = self.inspection(prompt, final_text);
        watch.inspection = Some(PendingInspection::begin(inspection, Some(request)));
    }

    /// Begins to validate the work if a claim is pending, once what the detectors found is recorded.
    pub(super) fn begin_preview(&mut self, request: ValidationRequest, watch: &mut IterationWatch) {
        let answer = request.answer;
        if watch.is_ending() {
            return reply(answer, not_now("the iteration is being ended"));
        }
        let Latch::Claimed { claim, .. } = &self.state.latch else {
            return reply(answer, ValidationPreview::NoClaim);
        };
        let claim = claim.clone();
        let (cancel, cancelled) = watch::channel(None);
        let span = info_span!("validation", in_session = true);
        let mut task = self.preview_task(claim, cancelled);
        let work = async move {
            let result = task.run().await;
            (task.hasher, result)
        };
        let work = Box::pin(work.instrument(span));
        watch.validation = Some(PendingValidation { work, cancel, answer });
    }

    /// Records the result of a validation and sends it to the agent.
    pub(super) fn handle_validation(
        &mut self,
        (hasher, result): ValidationOutcome,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        self.hasher = hasher;
        // The agent waited for the answer.
        watch.mark_active(self.clock.runtime_ms());
        let Some(PendingValidation { answer, .. }) = watch.validation.take() else { return Ok(()) };
        let preview = match result {
            Ok(Some(validation)) => {
                let policy =
                    self.state.policy().map_or_else(FrozenPolicy::default, FrozenPolicy::clone);
                let reasons = validation.rejection_reasons(&policy);
                let is_checked = !is_unchecked(&validation.verdicts, &reasons);
                let reasons = self.redactor.redact(reasons);
                let accepted = reasons.is_empty();
                let now_ms = self.clock.runtime_ms();
                if watch.pending.admit_text(reasons.iter().map(String::as_str), now_ms) {
                    self.feed(Input::Previewed { accepted, reasons: reasons.clone() }, watch)?;
                }
                if accepted {
                    ValidationPreview::Accepted
                } else if is_checked {
                    ValidationPreview::Rejected { reasons }
                } else {
                    // The agent can do nothing about a check that fails to run.
                    not_now(&reasons.join("; "))
                }
            }
            Ok(None) => not_now("the validators were cancelled"),
            Err(error) => not_now(&self.redactor.text(&error.to_string())),
        };
        reply(answer, preview);
        Ok(())
    }
}

fn not_now(why: &str) -> ValidationPreview {
    ValidationPreview::NotNow { why: why.to_owned() }
}

fn reply(answer: oneshot::Sender<ValidationPreview>, preview: ValidationPreview) {
    // An agent that no longer listens has given up.
    drop(answer.send(preview));
}
