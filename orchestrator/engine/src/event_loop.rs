//! The event loop of an iteration: everything that may happen while the agent runs, in one task.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_contract::{
    AgentError, CancelReason, Claim, ClaimKind, ErrorClass, Report, Usage,
};
use ralph_orchestrator_machine::{ContextUsage, Effect, Input, Latch, Timer};
use ralph_orchestrator_workspace::PromptWatch;

use super::agent_message::AgentMessage;
use super::controls::InboxWatch;
use super::error::EngineError;
use super::in_session_validation::next_validation;
use super::iteration_watch::{
    EXIT_GRACE, InspectionOutcome, IterationWatch, PendingInspection, next_inspection,
};
use super::pending_records::Remaining;
use super::session::Session;
use super::stop::stop_requested;

pub(super) type AgentRun<'a> =
    Pin<Box<dyn Future<Output = Result<Report, AgentError>> + Send + 'a>>;

/// The result of an agent's session, and figures that are not recorded yet.
pub(super) type SessionResult = Result<(Result<Report, AgentError>, Option<Usage>), EngineError>;

impl Session {
    /// Waits for the agent's end, and for everything that may bring it about. If the state cannot be
    /// written any more, cancels the agent and returns the error once it has ended.
    pub(super) async fn run_to_end(
        &mut self,
        mut watch: IterationWatch,
        mut agent: AgentRun<'_>,
    ) -> SessionResult {
        // One for the whole run. The agent starts meanwhile.
        let prompt_watch = self.prompt_watch.take();
        let mut prompt_watch = prompt_watch.or_else(|| self.prompt.file().map(PromptWatch::new));
        let mut inbox = self.lend_inbox_watch();
        let watched = (prompt_watch.as_mut(), &mut inbox);
        let result = self.event_loop(&mut watch, &mut agent, watched).await;
        self.prompt_watch = prompt_watch;
        self.return_inbox_watch(inbox);
        if result.is_err() {
            watch.end(CancelReason::Signal);
        }
        // Before the agent is waited for: it may wait for the answer.
        watch.drop_requests();
        if let Some(validation) = watch.validation.take() {
            self.hasher = validation.end().await;
        }
        if result.is_err() {
            let end = async {
                loop {
                    tokio::select! {
                        _ = &mut agent => break,
                        // It must not block on a full channel.
                        Some(_) = watch.messages.recv() => {}
                    }
                }
            };
            // Dropping it ends what does not end.
            drop(tokio::time::timeout(EXIT_GRACE, end).await);
        }
        drop(agent);
        let result = result?;
        // What it sent before its end still counts.
        while let Ok(message) = watch.messages.try_recv() {
            match message {
                // Nobody waits for the answer.
                AgentMessage::Validation(_) => {}
                message => self.handle_message(message, &mut watch)?,
            }
        }
        self.record_guidance(&watch)?;
        let usage = self.record_remaining(&mut watch)?;
        Ok((result, usage))
    }

    /// Handles events until the agent ends. Deadlines and requests to stop come first in every turn: no
    /// flood of events keeps them from being met.
    async fn event_loop(
        &mut self,
        watch: &mut IterationWatch,
        agent: &mut AgentRun<'_>,
        (mut prompt_watch, inbox): (Option<&mut PromptWatch>, &mut InboxWatch),
    ) -> Result<Result<Report, AgentError>, EngineError> {
        let mut stop = self.stop.clone();
        let clock = Arc::clone(&self.clock);
        let taken = watch.guidance.clone();
        let mut timer = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        self.take_controls_in_iteration(watch)?;
        loop {
            if let Some(given_up) = self.handle_deadlines(watch)? {
                return Ok(Err(given_up));
            }
            watch.arm(timer.as_mut(), self);
            let (requests, inspects) = (watch.requests, watch.can_inspect(self));
            tokio::select! {
                biased;
                // Both are handled above.
                () = stop_requested(&mut stop, requests + 1), if requests < 2 => {}
                () = timer.as_mut() => {}
                done = next_validation(watch.validation.as_mut()) => self.handle_validation(done, watch)?,
                findings = next_inspection(watch.inspection.as_mut()) => {
                    self.handle_inspection(findings, watch)?;
                }
                // An agent that waits for a validation is not idle.
                idle = watch.idle.probe_result(&clock) => if idle && watch.validation.is_none() {
                    self.feed(Input::Timer(Timer::Idle), watch)?;
                },
                () = inbox.changed() => self.take_controls_in_iteration(watch)?,
                () = taken.taken() => self.record_guidance(watch)?,
                () = prompt_changed(prompt_watch.as_deref_mut()), if inspects => {
                    self.prompt_changed(watch);
                }
                Some(message) = watch.messages.recv() => self.handle_message(message, watch)?,
                result = &mut *agent => return Ok(result),
            }
        }
    }

    /// Handles deadlines and requests to stop. An error that it returns ends the iteration without waiting
    /// for the agent.
    fn handle_deadlines(
        &mut self,
        watch: &mut IterationWatch,
    ) -> Result<Option<AgentError>, EngineError> {
        let requests = *self.stop.borrow();
        if requests > 0 && watch.requests == 0 {
            watch.requests = 1;
            self.feed(Input::Signal, watch)?;
        }
        if requests > 1 && watch.requests == 1 {
            // Whoever asked has seen to it that its processes are killed.
            watch.requests = 2;
            watch.set_kill_deadline(self.clock.runtime_ms());
        }
        let in_time = watch.fire_timers(self)?;
        let (usage, context) = watch.pending.take_due(self.clock.runtime_ms());
        if let Some(usage) = usage {
            self.feed(Input::Usage(usage), watch)?;
        }
        if let Some(context) = context {
            self.feed(Input::Context(context), watch)?;
        }
        if in_time {
            return Ok(None);
        }
        // Which of its processes live on is not known from the agent.
        let survived = self.processes.of_iteration(&self.run, self.state.iterations);
        let message = match requests {
            0 | 1 => "it did not exit after cancellation",
            _ => "asked to stop twice",
        };
        let error = AgentError::new(ErrorClass::Cancelled, message);
        Ok(Some(error.with_report(Report { survived, ..Report::default() })))
    }

    fn handle_message(
        &mut self,
        message: AgentMessage,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        let now_ms = self.clock.runtime_ms();
        match message {
            AgentMessage::Usage(usage) => self.handle_usage(usage, watch),
            AgentMessage::Model(model) => {
                self.agents.current_mut(&self.state).pricing().set_model(model.clone());
                self.feed(Input::Model(model), watch)
            }
            AgentMessage::Context(context) => self.handle_context(context, watch),
            AgentMessage::Note(text) if watch.pending.admit_text([text.as_str()], now_ms) => {
                self.feed(Input::Note(text), watch)
            }
            AgentMessage::Note(_) => Ok(()),
            AgentMessage::Validation(question) => {
                self.request_validation(question, watch);
                Ok(())
            }
            AgentMessage::Claim(claim) => self.handle_claim(claim, watch),
            AgentMessage::Warning(message) => self.feed(Input::Warning(message), watch),
        }
    }

    /// Compares every figure with the limits, and records figures at a bounded pace.
    fn handle_usage(
        &mut self,
        usage: Usage,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        let usage = self.agents.current_mut(&self.state).with_cost(usage);
        let Some(current) = &self.state.running else { return Ok(()) };
        let usage = current.usage.max(usage);
        if usage == current.usage {
            return Ok(());
        }
        let reached = current.cancelling.is_none() && self.state.limit_reached_by(usage).is_some();
        match watch.pending.admit_usage(usage, reached, self.clock.runtime_ms()) {
            Some(usage) => self.feed(Input::Usage(usage), watch),
            None => Ok(()),
        }
    }

    /// Compares every figure with the share at which the iteration is handed off, and records figures at a
    /// bounded pace.
    fn handle_context(
        &mut self,
        context: ContextUsage,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        let capabilities = self.agents.current(&self.state).configured.description.capabilities;
        let is_due =
            self.state.reaches_handoff(context) && !capabilities.handoff && !watch.is_ending();
        let admitted = watch.pending.admit_context(context, self.clock.runtime_ms());
        if let Some(context) = admitted.or(is_due.then_some(context)) {
            self.feed(Input::Context(context), watch)?;
        }
        if is_due { self.feed(Input::Timer(Timer::Handoff), watch) } else { Ok(()) }
    }

    /// Records a claim that was seen while the agent runs.
    pub(super) fn handle_claim(
        &mut self,
        claim: Claim,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        let first = match claim.kind {
            ClaimKind::Complete => self.state.latch == Latch::Open,
            ClaimKind::NeedsHuman => self.state.claims.human_request.is_none(),
        };
        match watch.pending.admit_claim(claim, first, self.clock.runtime_ms()) {
            Some(claim) => self.feed(Input::Claimed(claim), watch),
            None => Ok(()),
        }
    }

    fn prompt_changed(&self, watch: &mut IterationWatch) {
        watch.inspection_began(self.clock.runtime_ms());
        if let Some(text) = self.prompt.glance() {
            watch.inspection = Some(PendingInspection::begin(self.inspection(text, None), None));
        }
    }

    /// Records the claims that the detectors found in the prompt as it is while the agent runs.
    fn handle_inspection(
        &mut self,
        (findings, question): InspectionOutcome,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        watch.inspection_ended(self.clock.runtime_ms());
        for claim in findings.claims {
            self.handle_claim(claim, watch)?;
        }
        if let Some(question) = question {
            for warning in findings.warnings {
                if watch.pending.admit_text([warning.as_str()], self.clock.runtime_ms()) {
                    self.feed(Input::Warning(warning), watch)?;
                }
            }
            self.begin_preview(question, watch);
        }
        if let Some(question) = watch.queued_request.take() {
            self.request_validation(question, watch);
        }
        Ok(())
    }

    /// Records what was held back, except the figures, which are part of the record of the iteration's end.
    fn record_remaining(
        &mut self,
        watch: &mut IterationWatch,
    ) -> Result<Option<Usage>, EngineError> {
        let Remaining { usage, context, claims, dropped } = watch.pending.finish();
        if let Some(context) = context {
            self.feed(Input::Context(context), watch)?;
        }
        for claim in claims {
            self.feed(Input::Claimed(claim), watch)?;
        }
        if dropped > 0 {
            let what = "notes and answers of this iteration were too many to be kept";
            self.feed(Input::Warning(format!("{dropped} {what}")), watch)?;
        }
        Ok(usage)
    }

    /// Feeds the machine while the agent runs. Its only effect is to cancel the agent.
    pub(super) fn feed(&mut self, input: Input, watch: &IterationWatch) -> Result<(), EngineError> {
        for effect in self.advance(input)? {
            if let Effect::Cancel(reason) = effect {
                watch.end(reason);
            }
        }
        Ok(())
    }
}

async fn prompt_changed(watch: Option<&mut PromptWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
