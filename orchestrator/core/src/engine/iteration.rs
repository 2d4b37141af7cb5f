//! One iteration: the agent runs while its figures, its time and the prompt file are watched.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tracing::{Instrument as _, info, info_span};

use super::agent_message::AgentMessage;
use super::cancel::CancelToken;
use super::completion_phrases::{says_all_done, says_done};
use super::error::EngineError;
use super::fingerprint::StartDetails;
use super::in_session_validation::next_validation;
use super::inspect::cut;
use super::iteration_files::IterationFiles;
use super::iteration_watch::{
    EXIT_GRACE, InspectionOutcome, IterationWatch, PendingInspection, next_inspection,
};
use super::pending_records::Remaining;
use super::redact::StreamRedactor;
use super::session::Session;
use super::sink::Sink;
use super::stop::stop_requested;
use super::transcript::Transcript;
use crate::machine::{Effect, Ended, Input, Latch, Outcome, StartIteration, Timer};
use crate::workspace::PromptWatch;
use ralph_orchestrator_config::SandboxMode;
use ralph_orchestrator_contract::{
    AgentError, CancelReason, Claim, ClaimKind, ErrorClass, Iteration, Report, Usage,
    survivors_complaint,
};

/// How many messages of the agent may wait to be handled; with more, the agent waits.
const QUEUE: usize = 64;
/// The longest account of a failure that is kept, in bytes.
const LONGEST_MESSAGE: usize = 8 * 1024;
/// Most names of processes that were left, and the longest of them in bytes.
const MOST_NAMES: usize = 50;
const LONGEST_NAME: usize = 256;

type AgentRun<'a> = Pin<Box<dyn Future<Output = Result<Report, AgentError>> + Send + 'a>>;

impl Session {
    /// Runs the agent once. What it leads to is told by the machine's inputs.
    pub(super) async fn run_iteration(
        &mut self,
        start: StartIteration,
    ) -> Result<Vec<Input>, EngineError> {
        self.held.verify()?;
        let (number, began_ms) = (start.iteration, self.clock.runtime_ms());
        self.began_ms = began_ms;
        let folder = self.layout().iteration(&self.run, number);
        let files = IterationFiles::new(self.store.disk().clone(), self.layout().root(), folder);
        let (task, seen) = self
            .prepared
            .take()
            .ok_or_else(|| EngineError::Internal("an iteration without a task".into()))?;
        // As its final message will be.
        self.sent_prompt =
            Some(self.redactor.text(&String::from_utf8_lossy(&task.prompt)).into_owned());
        let kept = (self.prompt_to_keep(&task.prompt), self.start_to_keep(seen));

        let (cancel, cancelled) = watch::channel(None);
        let (sender, messages) = mpsc::channel(QUEUE);
        let last_event_ms = Arc::new(AtomicU64::new(began_ms));
        let transcript = Mutex::new(Transcript::new(files.clone()));
        let detectors = Arc::clone(&self.policy.detectors);
        let run = self.run.clone();
        self.agents.current_mut(&self.state).pricing().begin();
        let sink = Sink {
            run: &run,
            iteration: number,
            cancel: CancelToken::new(cancelled),
            messages: sender,
            redactor: Mutex::new(StreamRedactor::new(self.redactor.clone())),
            transcript,
            observer: Arc::clone(&self.observer),
            detectors: &detectors,
            clock: Arc::clone(&self.clock),
            last_event_ms: Arc::clone(&last_event_ms),
            bytes_after_cancel: AtomicUsize::new(0),
            tool_calls: AtomicU64::new(0),
            unwritten: Notify::new(),
        };
        self.mark_tree();
        let agent = Arc::clone(&self.agents.current(&self.state).configured.agent);
        let watch = IterationWatch::new(self, last_event_ms, cancel, messages);
        if let Some(prompt_watch) = &mut self.prompt_watch {
            prompt_watch.restart();
        }
        let name = self.agents.current(&self.state).name.as_str();
        let span = info_span!("session", agent = name);
        let session = Box::pin(agent.run(task, &sink).instrument(span));
        let agent = self.start_agent(session, kept, &files).await;
        info!("session begins");
        let result = tokio::select! {
            biased;
            result = self.run_to_end(watch, agent) => result,
            never = sink.keep_transcript_current() => match never {},
        };
        log_end(&result);
        let tool_calls = self.close_sink(sink).await;
        let (result, held) = result?;
        let mut ended = self.iteration_end(self.redactor.result(result), tool_calls);
        ended.usage = held.map_or(ended.usage, |held| held.max(ended.usage));
        // While the iteration is not over on record: a claim in its last words is not lost then.
        let mut inputs = self.find_claims().await?;
        inputs.push(Input::Ended(ended));
        Ok(inputs)
    }

    /// Nothing comes from the agent any more. Returns how many tools it called.
    async fn close_sink(&self, sink: Sink<'_>) -> u64 {
        if let Some(trouble) = sink.finish().await {
            self.warn_unrecorded(&trouble);
        }
        sink.tool_calls()
    }

    /// Sets the agent going. It comes first: what is written for people is written while it starts.
    async fn start_agent<'a>(
        &self,
        mut agent: AgentRun<'a>,
        (prompt, start): (Option<Vec<u8>>, Option<Vec<u8>>),
        files: &IterationFiles,
    ) -> AgentRun<'a> {
        self.known_tree.set(None);
        let early = std::future::poll_fn(|context| Poll::Ready(agent.as_mut().poll(context))).await;
        let troubles = [
            prompt.and_then(|prompt| files.keep_prompt(&prompt)),
            start.and_then(|start| files.keep_start(&start)),
        ];
        for trouble in troubles.into_iter().flatten() {
            self.warn_unrecorded(&trouble);
        }
        match early {
            Poll::Ready(result) => Box::pin(std::future::ready(result)),
            Poll::Pending => agent,
        }
    }

    /// The prompt, unless it is the one that was kept last.
    fn prompt_to_keep(&mut self, prompt: &[u8]) -> Option<Vec<u8>> {
        let digest = blake3::hash(prompt);
        let other = self.stored_prompt.replace(digest) != Some(digest);
        other.then(|| self.redactor.bytes(prompt).into_owned())
    }

    /// How the agent is started, unless it is as it was kept last.
    fn start_to_keep(&mut self, seen: StartDetails) -> Option<Vec<u8>> {
        let other = self.stored_start.as_ref() != Some(&seen);
        let bytes = other.then(|| serde_json::to_vec_pretty(&seen).unwrap_or_default());
        self.stored_start = Some(seen);
        bytes
    }

    /// What the agent is given.
    pub(super) fn iteration_task(
        &mut self,
        start: &StartIteration,
        prompt: Vec<u8>,
    ) -> Result<Iteration, EngineError> {
        let scratch = self.scratch.fresh(&self.run)?.to_owned();
        let mut env = self.agents.current(&self.state).env.clone();
        env.insert("RALPH_RUN_ID".into(), self.run.clone());
        env.insert("RALPH_ITERATION".into(), start.iteration.to_string());
        if self.config.sandbox.mode != SandboxMode::Off {
            // The one folder outside the workspace that is its own.
            env.insert("TMPDIR".into(), scratch.display().to_string());
        }
        let timeout = self.config.limits.iteration_timeout;
        let mut budget = start.budget;
        budget.time = Some(budget.time.map_or(timeout, |left| left.min(timeout)));
        Ok(Iteration {
            run: self.run.clone(),
            number: start.iteration,
            prompt,
            workspace: self.workspace.clone(),
            env,
            budget,
            scratch,
        })
    }

    /// Waits for the agent's end, and for everything that may bring it about. Returns what it came to, and
    /// figures that are not written down yet. When the state cannot be written any more the agent is ended
    /// before that is told.
    async fn run_to_end(
        &mut self,
        mut watch: IterationWatch,
        mut agent: AgentRun<'_>,
    ) -> SessionResult {
        let result = self.watch_agent(&mut watch, &mut agent).await;
        if result.is_err() {
            watch.end(CancelReason::Signal);
        }
        // Before the agent is waited for: it may wait for the answer.
        watch.drop_requests();
        if let Some(judging) = watch.validation.take() {
            self.hasher = judging.end().await;
        }
        if result.is_err() {
            let end = async {
                loop {
                    tokio::select! {
                        _ = &mut agent => break,
                        // It must not wait for somebody to listen.
                        Some(_) = watch.messages.recv() => {}
                    }
                }
            };
            // Dropping it ends what does not end.
            drop(tokio::time::timeout(EXIT_GRACE, end).await);
        }
        drop(agent);
        let result = result?;
        // What it had to say before its end still counts.
        while let Ok(heard) = watch.messages.try_recv() {
            match heard {
                // Nobody waits for the answer.
                AgentMessage::Validation(_) => {}
                heard => self.handle_message(heard, &mut watch)?,
            }
        }
        let usage = self.write_held(&mut watch)?;
        Ok((result, usage))
    }

    /// Deadlines and requests to stop are looked at first, in every turn: an agent that always has
    /// something more to say does not keep them from being met.
    async fn watch_agent(
        &mut self,
        watch: &mut IterationWatch,
        agent: &mut AgentRun<'_>,
    ) -> Result<Result<Report, AgentError>, EngineError> {
        let mut prompt_watch = self.prompt_watch.take();
        if prompt_watch.is_none() {
            // One for the whole run. The agent starts meanwhile.
            prompt_watch = self.prompt.file().map(PromptWatch::new);
        }
        let result = self.event_loop(watch, agent, prompt_watch.as_mut()).await;
        self.prompt_watch = prompt_watch;
        result
    }

    async fn event_loop(
        &mut self,
        watch: &mut IterationWatch,
        agent: &mut AgentRun<'_>,
        mut prompt_watch: Option<&mut PromptWatch>,
    ) -> Result<Result<Report, AgentError>, EngineError> {
        let mut stop = self.stop.clone();
        let clock = Arc::clone(&self.clock);
        let mut timer = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            if let Some(given_up) = self.handle_deadlines(watch)? {
                return Ok(Err(given_up));
            }
            watch.arm(timer.as_mut(), self);
            let (requests, inspects) = (watch.requests, watch.can_inspect(self));
            tokio::select! {
                biased;
                // Both are looked at above.
                () = stop_requested(&mut stop, requests + 1), if requests < 2 => {}
                () = timer.as_mut() => {}
                done = next_validation(watch.validation.as_mut()) => self.handle_validation(done, watch)?,
                findings = next_inspection(watch.inspection.as_mut()) => {
                    self.handle_inspection(findings, watch)?;
                }
                // Who waits for a judgement by now is not idle.
                idle = watch.idle.probe_result(&clock) => if idle && watch.validation.is_none() {
                    self.feed(Input::Timer(Timer::Idle), watch)?;
                },
                () = prompt_changed(prompt_watch.as_deref_mut()), if inspects => {
                    self.prompt_changed(watch);
                }
                Some(heard) = watch.messages.recv() => self.handle_message(heard, watch)?,
                result = &mut *agent => return Ok(result),
            }
        }
    }

    /// Does what its time has come for. What it returns ends the iteration without the agent.
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
            self.feed(Input::Used(usage), watch)?;
        }
        if let Some(context) = context {
            self.feed(Input::ContextSeen(context), watch)?;
        }
        if in_time {
            return Ok(None);
        }
        // Nobody knows what of it lives on.
        let survived = self.processes.of_iteration(&self.run, self.state.iterations);
        let message = match requests {
            0 | 1 => "it did not end when told to and was given up",
            _ => "asked to stop twice",
        };
        let error = AgentError::new(ErrorClass::Cancelled, message);
        Ok(Some(error.with_report(Report { survived, ..Report::default() })))
    }

    fn handle_message(
        &mut self,
        heard: AgentMessage,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        let now_ms = self.clock.runtime_ms();
        match heard {
            AgentMessage::Usage(usage) => self.handle_usage(usage, watch),
            AgentMessage::Model(model) => {
                self.agents.current_mut(&self.state).pricing().uses(model.clone());
                self.feed(Input::ModelSeen(model), watch)
            }
            AgentMessage::Context(context) => match watch.pending.admit_context(context, now_ms) {
                Some(context) => self.feed(Input::ContextSeen(context), watch),
                None => Ok(()),
            },
            AgentMessage::Note(text) if watch.pending.admit_text([text.as_str()], now_ms) => {
                self.feed(Input::Noted(text), watch)
            }
            AgentMessage::Note(_) => Ok(()),
            AgentMessage::Validation(question) => {
                self.request_validation(question, watch);
                Ok(())
            }
            AgentMessage::Claim(claim) => self.handle_claim(claim, watch),
            AgentMessage::Warning(message) => self.feed(Input::Warn(message), watch),
        }
    }

    /// A limit is compared with every figure; only what is written down keeps a pace.
    fn handle_usage(
        &mut self,
        usage: Usage,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        let usage = self.agents.current_mut(&self.state).with_cost(usage);
        let Some(current) = &self.state.current else { return Ok(()) };
        let usage = current.usage.max(usage);
        if usage == current.usage {
            return Ok(());
        }
        let reached = current.cancelling.is_none() && self.state.reached_by(usage).is_some();
        match watch.pending.admit_usage(usage, reached, self.clock.runtime_ms()) {
            Some(usage) => self.feed(Input::Used(usage), watch),
            None => Ok(()),
        }
    }

    /// Records a claim that was seen while the agent runs.
    pub(super) fn handle_claim(
        &mut self,
        claim: Claim,
        watch: &mut IterationWatch,
    ) -> Result<(), EngineError> {
        let first = match claim.kind {
            ClaimKind::Complete => self.state.latch == Latch::Open,
            ClaimKind::NeedsHuman => self.state.human.is_none(),
        };
        match watch.pending.admit_claim(claim, first, self.clock.runtime_ms()) {
            Some(claim) => self.feed(Input::ClaimSeen(claim), watch),
            None => Ok(()),
        }
    }

    fn prompt_changed(&self, watch: &mut IterationWatch) {
        watch.inspection_began(self.clock.runtime_ms());
        if let Some(text) = self.prompt.glance() {
            watch.inspection = Some(PendingInspection::begin(self.inspection(text, None), None));
        }
    }

    /// The detectors have looked at the prompt as it is while the agent runs.
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
                    self.feed(Input::Warn(warning), watch)?;
                }
            }
            self.begin_preview(question, watch);
        }
        if let Some(question) = watch.queued_request.take() {
            self.request_validation(question, watch);
        }
        Ok(())
    }

    /// What was held back is written down now, but for the figures, which are part of the record of the
    /// iteration's end.
    fn write_held(&mut self, watch: &mut IterationWatch) -> Result<Option<Usage>, EngineError> {
        let Remaining { usage, context, claims, dropped } = watch.pending.finish();
        if let Some(context) = context {
            self.feed(Input::ContextSeen(context), watch)?;
        }
        for claim in claims {
            self.feed(Input::ClaimSeen(claim), watch)?;
        }
        if dropped > 0 {
            let what = "notes and answers of this iteration were too many to be kept";
            self.feed(Input::Warn(format!("{dropped} {what}")), watch)?;
        }
        Ok(usage)
    }

    /// Feeds the machine while the agent runs; all it can want is to cancel.
    pub(super) fn feed(&mut self, input: Input, watch: &IterationWatch) -> Result<(), EngineError> {
        for effect in self.advance(input)? {
            if let Effect::Cancel(reason) = effect {
                watch.end(reason);
            }
        }
        Ok(())
    }

    fn iteration_end(&mut self, result: Result<Report, AgentError>, tool_calls: u64) -> Ended {
        let (outcome, mut report) = match result {
            Ok(report) => (Outcome::Succeeded, report),
            Err(error) => (outcome_of(&error.class, error.message), *error.report),
        };
        let good = outcome == Outcome::Succeeded;
        let final_text = report.final_text.as_deref().unwrap_or_default();
        let (says_done, says_all_done) = (says_done(final_text), says_all_done(final_text));
        let told = self.agents.current(&self.state).configured.description.capabilities.tool_calls;
        let count = report.left_behind.len();
        let left_behind = shortened(std::mem::take(&mut report.left_behind));
        if !left_behind.is_empty() {
            let names = left_behind.join(", ");
            self.warn_unrecorded(&format!(
                "the agent left {count} processes behind, which were ended: {names}"
            ));
        }
        if let Some(complaint) = survivors_complaint(&report.survived) {
            self.warn_unrecorded(&complaint);
        }
        self.final_text = report.final_text.filter(|_| good);
        Ended {
            outcome,
            usage: self.agents.current_mut(&self.state).with_cost(report.usage),
            says_done,
            says_all_done,
            tool_calls: told.then_some(tool_calls),
            left_behind,
            survived: report.survived,
        }
    }
}

/// What a session came to, and figures that are not written down yet.
type SessionResult = Result<(Result<Report, AgentError>, Option<Usage>), EngineError>;

fn log_end(result: &SessionResult) {
    match result {
        Ok((Err(error), _)) => info!(class = error.class.word(), "session failed"),
        _ => info!("session is over"),
    }
}

/// No more names than are of use to anybody.
fn shortened(mut names: Vec<String>) -> Vec<String> {
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    for name in &mut names {
        cut(name, LONGEST_NAME);
    }
    names.extend((more > 0).then(|| format!("and {more} more")));
    names
}

fn outcome_of(class: &ErrorClass, mut message: String) -> Outcome {
    cut(&mut message, LONGEST_MESSAGE);
    let word = class.word().to_owned();
    match class {
        ErrorClass::RateLimited { until_ms } => {
            Outcome::Deferred { class: word, message, until_ms: *until_ms }
        }
        ErrorClass::Overloaded => Outcome::Deferred { class: word, message, until_ms: None },
        ErrorClass::AgentLimit => Outcome::Bounded { message },
        ErrorClass::Unauthenticated
        | ErrorClass::Billing
        | ErrorClass::InvalidRequest
        | ErrorClass::NotFound
        | ErrorClass::ContextExceeded
        | ErrorClass::Crashed
        | ErrorClass::TimedOut
        | ErrorClass::Cancelled
        | ErrorClass::Unavailable => Outcome::Failed { class: word, message },
    }
}

async fn prompt_changed(watch: Option<&mut PromptWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
