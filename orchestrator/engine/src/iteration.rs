//! One iteration: its agent is started, and everything that may happen while it runs is handled in one task.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use ralph_orchestrator_contract::{
    AgentError, CancelReason, Claim, ClaimKind, ErrorClass, Report, Usage, ValidationPreview,
};
use ralph_orchestrator_machine::{
    ContextUsage, Effect, FrozenPolicy, Input, Latch, RateWindow, StartIteration, Timer,
    is_unchecked,
};
use ralph_orchestrator_workspace::PromptWatch;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::{Instrument as _, info, info_span};

use super::agent_message::{AgentMessage, ValidationRequest};
use super::agent_slot::KeptStart;
use super::cancel::CancelToken;
use super::controls::InboxWatch;
use super::error::EngineError;
use super::event_observers::{EventQueues, OBSERVE_GRACE, observe_events};
use super::guidance::GuidanceQueue;
use super::in_session_validation::{PendingValidation, ValidationOutcome, next_validation};
use super::iteration_files::IterationFiles;
use super::iteration_watch::{
    EXIT_GRACE, InspectionOutcome, IterationWatch, PendingInspection, next_inspection,
};
use super::pending_records::{Due, Remaining};
use super::redact::stream::StreamRedactor;
use super::session::Session;
use super::sink::Sink;
use super::stop::{stop_input, stop_requested};
use super::transcript::Transcript;
use super::warning_limit::{MOST_WARNINGS, WarningLimit};

/// How many messages of the agent may wait to be handled; with more, the agent waits.
const QUEUE: usize = 64;

pub(super) type AgentRun<'a> =
    Pin<Box<dyn Future<Output = Result<Report, AgentError>> + Send + 'a>>;

/// The result of an agent's session, and figures that are not recorded yet.
pub(super) type SessionResult = Result<(Result<Report, AgentError>, Option<Usage>), EngineError>;

impl Session {
    /// Runs the agent once. Returns the inputs that its end leads to.
    pub(super) async fn run_iteration(
        &mut self,
        start: StartIteration,
    ) -> Result<Vec<Input>, EngineError> {
        self.observer.held.verify()?;
        let (number, began_ms) = (start.iteration, self.journal.clock.runtime_ms());
        let began_ticks = self.context.processes.clock_ticks();
        self.journal.began_ms = began_ms;
        let store = &self.journal.store;
        let folder = store.layout().iteration(&self.context.run, number);
        let files = IterationFiles::new(store.disk().clone(), store.layout().root(), folder);
        let (task, kept) = self.agent.take_task()?;
        let (cancel, cancelled) = watch::channel(None);
        let (sender, messages) = mpsc::channel(QUEUE);
        let last_event_ms = Arc::new(AtomicU64::new(began_ms));
        let (detectors, run) =
            (Arc::clone(&self.context.policy.detectors), self.context.run.clone());
        self.agent.current_mut(&self.journal.state).pricing().begin();
        let cancelled = CancelToken::new(cancelled);
        let timeout = self.journal.context.config.limits.iteration_timeout;
        let (observed, observers) = observe_events(&detectors, timeout, &cancelled, &sender);
        let sink = Sink {
            run: &run,
            iteration: number,
            cancel: cancelled,
            messages: sender,
            redactor: Mutex::new(StreamRedactor::new(self.context.redactor.clone())),
            transcript: Mutex::new(Transcript::new(files.clone())),
            observer: Arc::clone(&self.journal.observer),
            observed,
            write_guard: self.agent.agents.write_guard.clone(),
            clock: Arc::clone(&self.journal.clock),
            last_event_ms: Arc::clone(&last_event_ms),
            bytes_after_cancel: AtomicUsize::new(0),
            tool_calls: AtomicU64::new(0),
            unwritten: Notify::new(),
            guidance: GuidanceQueue::default(),
            warnings: Mutex::new(WarningLimit::new(MOST_WARNINGS)),
        };
        self.observer.mark_tree();
        let working = self.agent.current(&self.journal.state);
        let agent = Arc::clone(&working.configured.agent);
        let span = info_span!("session", agent = working.name.as_str());
        let watch =
            IterationWatch::new(&self.journal, last_event_ms, cancel, messages, &sink.guidance);
        if let Some(prompt_watch) = &mut self.prompts.watch {
            prompt_watch.restart();
        }
        let session = Box::pin(sink.run(&*agent, task).instrument(span));
        let agent = self.start_agent(session, kept, &files).await;
        let result = tokio::select! {
            biased;
            result = self.run_to_end(watch, agent, &sink.observed) => result,
            never = observers.run() => match never {},
            never = sink.keep_transcript_current() => match never {},
        };
        log_end(&result);
        let tool_calls = self.close_sink(sink).await?;
        let (result, held) = result?;
        self.end_iteration(self.context.redactor.result(result), held, (began_ticks, tool_calls))
            .await
    }

    /// Looks for claims in what the agent left. Returns the input that its end is.
    async fn end_iteration(
        &mut self,
        result: Result<Report, AgentError>,
        held: Option<Usage>,
        facts: (u64, u64),
    ) -> Result<Vec<Input>, EngineError> {
        // What an initializer says of being done is not about the task.
        let report = result.as_ref().ok().filter(|_| !self.journal.state.runs_initializer());
        let final_text = report.and_then(|report| report.final_text.clone());
        let mut ended = self.agent.iteration_end(&self.journal, result, facts);
        ended.usage = held.map_or(ended.usage, |held| held.max(ended.usage));
        // Before the end of the iteration is recorded: a claim in the final message is not lost then.
        self.record_claims(final_text).await?;
        Ok(vec![Input::IterationEnded(ended)])
    }

    /// Closes the sink after the agent's last event, and records how many warnings it left out. Returns how many tools the agent
    /// called.
    async fn close_sink(&mut self, mut sink: Sink<'_>) -> Result<u64, EngineError> {
        if let Some(warning) = sink.finish().await {
            self.journal.warn_unrecorded(&warning);
        }
        let tool_calls = sink.tool_calls();
        let warnings = sink.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(left_out) = warnings.summary("the agent") {
            self.journal.advance(Input::Warning(left_out))?;
        }
        Ok(tool_calls)
    }

    /// Starts the agent, then writes what is kept of the start for people: meanwhile the agent begins.
    async fn start_agent<'a>(
        &self,
        mut agent: AgentRun<'a>,
        KeptStart { prompt, start }: KeptStart,
        files: &IterationFiles,
    ) -> AgentRun<'a> {
        self.observer.known_tree.set(None);
        let early = std::future::poll_fn(|context| Poll::Ready(agent.as_mut().poll(context))).await;
        let warnings = [
            prompt.and_then(|prompt| files.store_prompt(&prompt)),
            start.and_then(|start| files.store_start(&start)),
        ];
        for warning in warnings.into_iter().flatten() {
            self.journal.warn_unrecorded(&warning);
        }
        info!("session begins");
        match early {
            Poll::Ready(result) => Box::pin(std::future::ready(result)),
            Poll::Pending => agent,
        }
    }

    /// Waits for the agent's end, and for everything that may bring it about. If the state cannot be
    /// written any more, cancels the agent and returns the error once it has ended.
    pub(super) async fn run_to_end(
        &mut self,
        mut watch: IterationWatch,
        mut agent: AgentRun<'_>,
        observed: &EventQueues,
    ) -> SessionResult {
        // One for the whole run. The agent starts meanwhile.
        let prompt_watch = self.prompts.watch.take();
        let mut prompt_watch =
            prompt_watch.or_else(|| self.prompts.source.file().map(PromptWatch::new));
        let mut inbox = self.controls.lend_inbox_watch(&self.journal);
        let watched = (prompt_watch.as_mut(), &mut inbox);
        let result = self.event_loop(&mut watch, &mut agent, watched).await;
        self.prompts.watch = prompt_watch;
        self.controls.return_inbox_watch(inbox);
        if result.is_err() {
            watch.end(CancelReason::Signal);
        }
        // Before the agent is waited for: it may wait for the answer.
        watch.drop_requests();
        if let Some(validation) = watch.validation.take() {
            self.observer.hasher = validation.end().await;
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
        self.settle_observers(&mut watch, observed).await?;
        // What it sent before its end still counts.
        while let Ok(message) = watch.messages.try_recv() {
            self.handle_late_message(message, &mut watch)?;
        }
        self.record_guidance(&watch)?;
        let usage = self.record_remaining(&mut watch)?;
        Ok((result, usage))
    }

    /// Waits for what detectors find in the last events of an agent that has ended, for as long as the iteration may take.
    async fn settle_observers(
        &mut self,
        watch: &mut IterationWatch,
        observed: &EventQueues,
    ) -> Result<(), EngineError> {
        let left = Duration::from_millis(watch.left_ms(&self.journal)).max(OBSERVE_GRACE);
        let enough = self.controls.observation_allowance(&self.journal).expired_or_stopped();
        let settled = observed.settle_until(async {
            drop(tokio::time::timeout(left, enough).await);
        });
        let mut settled = std::pin::pin!(settled);
        let warnings = loop {
            tokio::select! {
                biased;
                warnings = &mut settled => break warnings,
                Some(message) = watch.messages.recv() => self.handle_late_message(message, watch)?,
            }
        };
        warnings.into_iter().try_for_each(|warning| self.feed(Input::Warning(warning), watch))
    }

    fn handle_late_message(
        &mut self,
        message: AgentMessage,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        match message {
            // Nobody waits for the answer.
            AgentMessage::Validation(_) => Ok(()),
            message => self.handle_message(message, watch),
        }
    }

    /// Handles events until the agent ends. Deadlines and requests to stop come first in every turn: no
    /// flood of events keeps them from being met.
    async fn event_loop(
        &mut self,
        watch: &mut IterationWatch,
        agent: &mut AgentRun<'_>,
        (mut prompt_watch, inbox): (Option<&mut PromptWatch>, &mut InboxWatch),
    ) -> Result<Result<Report, AgentError>, EngineError> {
        let mut stop = self.controls.stop.clone();
        let clock = Arc::clone(&self.journal.clock);
        let taken = watch.guidance.clone();
        let mut timer = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        self.take_controls_in_iteration(watch)?;
        loop {
            if let Some(given_up) = self.handle_deadlines(watch)? {
                return Ok(Err(given_up));
            }
            watch.arm(timer.as_mut(), &self.journal, &self.agent);
            let (requests, inspects) =
                (watch.requests, watch.can_inspect(self.journal.clock.runtime_ms()));
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
        let requests = self.controls.stop.borrow().times;
        let asked = stop_input(&self.controls.stop).filter(|_| watch.requests == 0);
        if let Some(asked) = asked {
            watch.requests = 1;
            self.feed(asked, watch)?;
        }
        if requests > 1 && watch.requests == 1 {
            // Whoever asked has seen to it that its processes are killed.
            watch.requests = 2;
            watch.set_kill_deadline(self.journal.clock.runtime_ms());
        }
        let now_ms = self.journal.clock.runtime_ms();
        for timer in watch.due_timers(&self.journal, &self.agent) {
            self.feed(Input::Timer(timer), watch)?;
        }
        let in_time = watch.is_awaited(now_ms);
        let Due { usage, context, windows } =
            watch.pending.take_due(self.journal.clock.runtime_ms());
        if let Some(usage) = usage {
            self.feed(Input::Usage(usage), watch)?;
        }
        self.feed_figures(context, windows, watch)?;
        if in_time {
            return Ok(None);
        }
        // Which of its processes live on is not known from the agent.
        let survived =
            self.context.processes.of_iteration(&self.context.run, self.journal.state.iterations);
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
        let now_ms = self.journal.clock.runtime_ms();
        match message {
            AgentMessage::Usage(usage) => self.handle_usage(usage, watch),
            AgentMessage::Model(model) => {
                self.agent.current_mut(&self.journal.state).pricing().set_model(model.clone());
                self.feed(Input::Model(model), watch)
            }
            AgentMessage::Context(context) => self.handle_context(context, watch),
            AgentMessage::RateWindow(window) => {
                let admitted = watch.pending.admit_window(window, now_ms);
                admitted.map_or(Ok(()), |window| self.feed(Input::RateWindow(window), watch))
            }
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
        let usage = self.agent.current_mut(&self.journal.state).with_cost(usage);
        let Some(current) = &self.journal.state.running else { return Ok(()) };
        let usage = current.usage.max(usage);
        if usage == current.usage {
            return Ok(());
        }
        let reached =
            current.cancelling.is_none() && self.journal.state.limit_reached_by(usage).is_some();
        match watch.pending.admit_usage(usage, reached, self.journal.clock.runtime_ms()) {
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
        let capabilities =
            self.agent.current(&self.journal.state).configured.description.capabilities;
        let is_due = self.journal.state.reaches_handoff(context)
            && !capabilities.handoff
            && !watch.is_ending();
        let admitted = watch.pending.admit_context(context, self.journal.clock.runtime_ms());
        if let Some(context) = admitted.or(is_due.then_some(context)) {
            self.feed(Input::Context(context), watch)?;
        }
        if is_due { self.feed(Input::Timer(Timer::Handoff), watch) } else { Ok(()) }
    }

    /// Records figures that were held back.
    fn feed_figures(
        &mut self,
        context: Option<ContextUsage>,
        windows: Vec<RateWindow>,
        watch: &IterationWatch,
    ) -> Result<(), EngineError> {
        let windows = windows.into_iter().map(Input::RateWindow);
        for input in context.map(Input::Context).into_iter().chain(windows) {
            self.feed(input, watch)?;
        }
        Ok(())
    }

    /// Records a claim that was seen while the agent runs.
    pub(super) fn handle_claim(
        &mut self,
        claim: Claim,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        let first = match claim.kind {
            ClaimKind::Complete => self.journal.state.latch == Latch::Open,
            ClaimKind::NeedsHuman => self.journal.state.claims.human_request.is_none(),
        };
        match watch.pending.admit_claim(claim, first, self.journal.clock.runtime_ms()) {
            Some(claim) => self.feed(Input::Claimed(claim), watch),
            None => Ok(()),
        }
    }

    fn prompt_changed(&self, watch: &mut IterationWatch) {
        watch.inspection_began(self.journal.clock.runtime_ms());
        if let Some(text) = self.prompts.source.glance() {
            watch.inspection = Some(PendingInspection::begin(self.inspection(text, None), None));
        }
    }

    /// Records the claims that the detectors found in the prompt as it is while the agent runs.
    fn handle_inspection(
        &mut self,
        (findings, question): InspectionOutcome,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        watch.inspection_ended(self.journal.clock.runtime_ms());
        for claim in findings.claims {
            self.handle_claim(claim, watch)?;
        }
        if let Some(question) = question {
            for warning in findings.warnings {
                if watch.pending.admit_text([warning.as_str()], self.journal.clock.runtime_ms()) {
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
        let Remaining { due: Due { usage, context, windows }, claims, dropped } =
            watch.pending.finish();
        self.feed_figures(context, windows, watch)?;
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
        for effect in self.journal.advance(input)? {
            if let Effect::Cancel(reason) = effect {
                watch.end(reason);
            }
        }
        Ok(())
    }

    /// The same while the agent runs. The only effect is to cancel the agent.
    pub(super) fn take_controls_in_iteration(
        &mut self,
        watch: &IterationWatch,
    ) -> Result<(), EngineError> {
        for effect in self.controls.take_controls(&mut self.journal)? {
            if let Effect::Cancel(reason) = effect {
                watch.end(reason);
            }
        }
        self.offer_guidance(watch);
        Ok(())
    }

    /// Offers the running agent what people sent and it was not given.
    pub(super) fn offer_guidance(&self, watch: &IterationWatch) {
        watch.guidance.offer(self.journal.state.undelivered_guidance());
    }

    /// Records what the running agent has taken.
    pub(super) fn record_guidance(&mut self, watch: &IterationWatch) -> Result<(), EngineError> {
        let taken = watch.guidance.unrecorded();
        if taken.is_empty() {
            return Ok(());
        }
        if let Some(sent) = &mut self.agent.sent_prompt {
            for guidance in &taken {
                sent.push('\n');
                sent.push_str(&self.context.redactor.text(&guidance.text));
            }
        }
        let ids = taken.iter().map(|guidance| guidance.id.clone()).collect();
        self.feed(Input::GuidanceTaken(ids), watch)?;
        watch.guidance.forget(&taken);
        Ok(())
    }

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
        let final_text = final_text.map(|text| self.context.redactor.text(text).into_owned());
        let prompt = self.prompts.source.glance().unwrap_or_default();
        let inspection = self.inspection(prompt, final_text);
        watch.inspection = Some(PendingInspection::begin(inspection, Some(request)));
    }

    /// Begins to validate the work if a claim is pending, once what the detectors found is recorded.
    pub(super) fn begin_preview(&mut self, request: ValidationRequest, watch: &mut IterationWatch) {
        let answer = request.answer;
        if watch.is_ending() {
            return reply(answer, not_now("the iteration is being ended"));
        }
        let Latch::Claimed { claim, .. } = &self.journal.state.latch else {
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
        self.observer.hasher = hasher;
        // The agent waited for the answer.
        watch.mark_active(self.journal.clock.runtime_ms());
        let Some(PendingValidation { answer, .. }) = watch.validation.take() else { return Ok(()) };
        let preview = match result {
            Ok(Some(validation)) => {
                let policy = self
                    .journal
                    .state
                    .policy()
                    .map_or_else(FrozenPolicy::default, FrozenPolicy::clone);
                let policy = self.context.policy.without_reviews(policy);
                let reasons = validation.rejection_reasons(&policy);
                let is_checked = !is_unchecked(&validation.verdicts, &reasons);
                let reasons = self.context.redactor.redact(reasons);
                let accepted = reasons.is_empty();
                let now_ms = self.journal.clock.runtime_ms();
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
            Err(error) => not_now(&self.context.redactor.text(&error.to_string())),
        };
        reply(answer, preview);
        Ok(())
    }
}

async fn prompt_changed(watch: Option<&mut PromptWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

fn not_now(why: &str) -> ValidationPreview {
    ValidationPreview::NotNow { why: why.to_owned() }
}

fn reply(answer: oneshot::Sender<ValidationPreview>, preview: ValidationPreview) {
    // An agent that no longer listens has given up.
    drop(answer.send(preview));
}

fn log_end(result: &SessionResult) {
    match result {
        Ok((Err(error), _)) => info!(class = error.class.word(), "session failed"),
        _ => info!("session is over"),
    }
}
