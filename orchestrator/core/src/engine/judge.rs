//! What would become of the work if the agent ended now.
//!
//! The answer is recorded and decides nothing: what an agent is told here never touches the claim, the
//! count of rejections, or what counts as seen.

use std::pin::Pin;

use tokio::sync::{oneshot, watch};
use tracing::{Instrument as _, info_span};

use super::error::EngineError;
use super::execution::GRACE;
use super::session::Session;
use super::validate::Examined;
use super::watching::{Inspecting, Watching};
use crate::machine::{FrozenPolicy, Input, Latch};
use crate::workspace::TreeHasher;
use ralph_orchestrator_contract::{CancelReason, Judgement};

/// An agent asks, and waits for the answer.
pub(super) struct Question {
    pub(super) final_text: Option<String>,
    pub(super) answer: oneshot::Sender<Judgement>,
}

/// The validators are at work while the agent waits.
pub(super) struct Judging {
    work: Pin<Box<dyn Future<Output = Examined> + Send>>,
    tell: watch::Sender<Option<CancelReason>>,
    answer: oneshot::Sender<Judgement>,
}

impl Judging {
    /// Breaks it off.
    pub(super) fn cancel(&self, reason: CancelReason) {
        self.tell.send_replace(Some(reason));
    }

    /// Breaks it off and waits until no process of a validator is left.
    pub(super) async fn end(self) -> Option<TreeHasher> {
        self.cancel(CancelReason::Signal);
        tokio::time::timeout(GRACE, self.work).await.ok().and_then(|(hasher, _)| hasher)
    }
}

/// Resolves when the validators have come to an end, if they are at work.
pub(super) async fn examined(judging: Option<&mut Judging>) -> Examined {
    let Some(judging) = judging else { return std::future::pending().await };
    tokio::select! {
        biased;
        done = &mut judging.work => return done,
        // Nobody waits for the answer any more.
        () = judging.answer.closed() => {}
    }
    judging.tell.send_replace(Some(CancelReason::Signal));
    (&mut judging.work).await
}

impl Session {
    /// Looks for claims, to judge the work if one is pending.
    pub(super) fn question(&mut self, question: Question, watching: &mut Watching) {
        if watching.judging.is_some() || watching.waiting.is_some() {
            return reply(question.answer, not_now("a judgement goes on already"));
        }
        if watching.inspecting.is_some() {
            // Its turn comes when the detectors are done.
            watching.waiting = Some(question);
            return;
        }
        let final_text = question.final_text.as_deref();
        let final_text = final_text.map(|text| self.redactor.text(text).into_owned());
        let prompt = self.prompt.glance().unwrap_or_default();
        let inspection = self.inspection(prompt, final_text);
        watching.inspecting = Some(Inspecting::begin(inspection, Some(question)));
    }

    /// What the detectors found is recorded: begins to examine the work if a claim is pending.
    pub(super) fn judge(&mut self, question: Question, watching: &mut Watching) {
        let answer = question.answer;
        if watching.is_ending() {
            return reply(answer, not_now("the iteration is being ended"));
        }
        let Latch::Claimed { claim, .. } = &self.state.latch else {
            return reply(answer, Judgement::NoClaim);
        };
        let claim = claim.clone();
        let (tell, told) = watch::channel(None);
        let span = info_span!("validation", in_session = true);
        let work = Box::pin(self.examination(claim, told, true).run().instrument(span));
        watching.judging = Some(Judging { work, tell, answer });
    }

    /// The validators have come to an end: records what they say and tells the agent.
    pub(super) fn judged(
        &mut self,
        (hasher, result): Examined,
        watching: &mut Watching,
    ) -> Result<(), EngineError> {
        self.hasher = hasher;
        // The agent was not idle, it waited.
        watching.heard_something(self.clock.runtime_ms());
        let Some(Judging { answer, .. }) = watching.judging.take() else { return Ok(()) };
        let judgement = match result {
            Ok(Some(validation)) => {
                let policy =
                    self.state.policy().map_or_else(FrozenPolicy::default, FrozenPolicy::clone);
                let reasons = validation.rejection_reasons(&policy);
                let reasons = self.redactor.all_of(reasons);
                let accepted = reasons.is_empty();
                let now_ms = self.clock.runtime_ms();
                if watching.held.words(reasons.iter().map(String::as_str), now_ms) {
                    self.act(Input::Previewed { accepted, reasons: reasons.clone() }, watching)?;
                }
                if accepted { Judgement::Accepted } else { Judgement::Rejected { reasons } }
            }
            Ok(None) => not_now("the validators were broken off"),
            Err(error) => not_now(&self.redactor.text(&error.to_string())),
        };
        reply(answer, judgement);
        Ok(())
    }
}

fn not_now(why: &str) -> Judgement {
    Judgement::NotNow { why: why.to_owned() }
}

fn reply(answer: oneshot::Sender<Judgement>, judgement: Judgement) {
    // An agent that no longer listens has given up.
    drop(answer.send(judgement));
}
