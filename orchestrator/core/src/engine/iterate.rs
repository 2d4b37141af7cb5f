//! One iteration: the agent runs while its figures, its time and the prompt file are watched.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tracing::{Instrument as _, info, info_span};

use super::error::EngineError;
use super::files::Files;
use super::fingerprint::Start;
use super::held::Rest;
use super::inspect::cut;
use super::judge::examined;
use super::phrases::{says_all_done, says_done};
use super::redact::Events;
use super::rest::asked;
use super::session::Session;
use super::sink::{Cancel, Heard, Sink};
use super::transcript::Transcript;
use super::watching::{Inspected, Inspecting, LAST_GRACE, Watching, inspected};
use crate::machine::{Effect, Input, IterationEnd, IterationOutcome, Latch, StartIteration, Timer};
use crate::workspace::PromptWatch;
use ralph_orchestrator_config::SandboxMode;
use ralph_orchestrator_contract::{
    AgentError, CancelReason, Claim, ClaimKind, ErrorClass, Iteration, Report, Usage,
    survivors_complaint,
};

/// Events that may wait for the driver; more and the agent waits.
const QUEUE: usize = 64;
/// The longest account of a failure that is kept, in bytes.
const LONGEST_MESSAGE: usize = 8 * 1024;
/// Most names of processes that were left, and the longest of them in bytes.
const MOST_NAMES: usize = 50;
const LONGEST_NAME: usize = 256;

type AgentRun<'a> = Pin<Box<dyn Future<Output = Result<Report, AgentError>> + Send + 'a>>;

impl Session {
    /// Runs the agent once. What it leads to is told by the machine's inputs.
    pub(super) async fn iterate(
        &mut self,
        start: StartIteration,
    ) -> Result<Vec<Input>, EngineError> {
        self.held.verify()?;
        let (number, began_ms) = (start.iteration, self.clock.runtime_ms());
        self.began_ms = began_ms;
        let folder = self.layout().iteration(&self.run, number);
        let files = Files::new(self.store.disk().clone(), self.layout().root(), folder);
        let (task, seen) = self
            .prepared
            .take()
            .ok_or_else(|| EngineError::Internal("an iteration without a task".into()))?;
        // As its final message will be.
        self.given = Some(self.redactor.text(&String::from_utf8_lossy(&task.prompt)).into_owned());
        let kept = (self.prompt_to_keep(&task.prompt), self.start_to_keep(seen));

        let (tell, told) = watch::channel(None);
        let (heard, hear) = mpsc::channel(QUEUE);
        let last_event_ms = Arc::new(AtomicU64::new(began_ms));
        let transcript = Mutex::new(Transcript::new(files.clone()));
        let detectors = Arc::clone(&self.judges.detectors);
        let run = self.run.clone();
        self.drivers.of_mut(&self.state).pricing().begin();
        let sink = Sink {
            run: &run,
            iteration: number,
            cancel: Cancel::new(told),
            heard,
            events: Mutex::new(Events::new(self.redactor.clone())),
            transcript,
            observer: Arc::clone(&self.observer),
            detectors: &detectors,
            clock: Arc::clone(&self.clock),
            last_event_ms: Arc::clone(&last_event_ms),
            last_words: AtomicUsize::new(0),
            tool_calls: AtomicU64::new(0),
            unwritten: Notify::new(),
        };
        self.mark_tree();
        let agent = Arc::clone(&self.drivers.of(&self.state).driver.agent);
        let watching = Watching::new(self, last_event_ms, tell, hear);
        if let Some(prompt_watch) = &mut self.prompt_watch {
            prompt_watch.restart();
        }
        let name = self.drivers.of(&self.state).name.as_str();
        let span = info_span!("session", agent = name);
        let session = Box::pin(agent.run(task, &sink).instrument(span));
        let agent = self.start(session, kept, &files).await;
        info!("session begins");
        let attended = tokio::select! {
            biased;
            attended = self.attend(watching, agent) => attended,
            never = sink.keep_transcript_current() => match never {},
        };
        log_end(&attended);
        let tool_calls = self.close(sink).await;
        let (result, held) = attended?;
        let mut ended = self.ended(self.redactor.result(result), tool_calls);
        ended.usage = held.map_or(ended.usage, |held| held.max(ended.usage));
        // While the iteration is not over on record: a claim in its last words is not lost then.
        let mut inputs = self.find_claims().await?;
        inputs.push(Input::IterationEnded(ended));
        Ok(inputs)
    }

    /// Nothing comes from the agent any more. Returns how many tools it called.
    async fn close(&self, sink: Sink<'_>) -> u64 {
        if let Some(trouble) = sink.finish().await {
            self.warn_only(&trouble);
        }
        sink.tool_calls()
    }

    /// Sets the agent going. It comes first: what is written for people is written while it starts.
    async fn start<'a>(
        &self,
        mut agent: AgentRun<'a>,
        (prompt, start): (Option<Vec<u8>>, Option<Vec<u8>>),
        files: &Files,
    ) -> AgentRun<'a> {
        self.known_tree.set(None);
        let early = std::future::poll_fn(|context| Poll::Ready(agent.as_mut().poll(context))).await;
        let troubles = [
            prompt.and_then(|prompt| files.keep_prompt(&prompt)),
            start.and_then(|start| files.keep_start(&start)),
        ];
        for trouble in troubles.into_iter().flatten() {
            self.warn_only(&trouble);
        }
        match early {
            Poll::Ready(result) => Box::pin(std::future::ready(result)),
            Poll::Pending => agent,
        }
    }

    /// The prompt, unless it is the one that was kept last.
    fn prompt_to_keep(&mut self, prompt: &[u8]) -> Option<Vec<u8>> {
        let digest = blake3::hash(prompt);
        let other = self.kept_prompt.replace(digest) != Some(digest);
        other.then(|| self.redactor.bytes(prompt).into_owned())
    }

    /// How the agent is started, unless it is as it was kept last.
    fn start_to_keep(&mut self, seen: Start) -> Option<Vec<u8>> {
        let other = self.kept_start.as_ref() != Some(&seen);
        let bytes = other.then(|| serde_json::to_vec_pretty(&seen).unwrap_or_default());
        self.kept_start = Some(seen);
        bytes
    }

    /// What the agent is given.
    pub(super) fn task(
        &mut self,
        start: &StartIteration,
        prompt: Vec<u8>,
    ) -> Result<Iteration, EngineError> {
        let scratch = self.scratch.fresh(&self.run)?.to_owned();
        let mut env = self.drivers.of(&self.state).env.clone();
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
    async fn attend(&mut self, mut watching: Watching, mut agent: AgentRun<'_>) -> Attended {
        let result = self.watch(&mut watching, &mut agent).await;
        if result.is_err() {
            watching.end(CancelReason::Signal);
        }
        // Before the agent is waited for: it may wait for the answer.
        watching.drop_questions();
        if let Some(judging) = watching.judging.take() {
            self.hasher = judging.end().await;
        }
        if result.is_err() {
            let end = async {
                loop {
                    tokio::select! {
                        _ = &mut agent => break,
                        // It must not wait for somebody to listen.
                        Some(_) = watching.hear.recv() => {}
                    }
                }
            };
            // Dropping it ends what does not end.
            drop(tokio::time::timeout(LAST_GRACE, end).await);
        }
        drop(agent);
        let result = result?;
        // What it had to say before its end still counts.
        while let Ok(heard) = watching.hear.try_recv() {
            match heard {
                // Nobody waits for the answer.
                Heard::Question(_) => {}
                heard => self.heard(heard, &mut watching)?,
            }
        }
        let usage = self.write_held(&mut watching)?;
        Ok((result, usage))
    }

    /// Deadlines and requests to stop are looked at first, in every turn: an agent that always has
    /// something more to say does not keep them from being met.
    async fn watch(
        &mut self,
        watching: &mut Watching,
        agent: &mut AgentRun<'_>,
    ) -> Result<Result<Report, AgentError>, EngineError> {
        let mut prompt_watch = self.prompt_watch.take();
        if prompt_watch.is_none() {
            // One for the whole run. The agent starts meanwhile.
            prompt_watch = self.prompt.file().map(PromptWatch::new);
        }
        let result = self.turn(watching, agent, prompt_watch.as_mut()).await;
        self.prompt_watch = prompt_watch;
        result
    }

    async fn turn(
        &mut self,
        watching: &mut Watching,
        agent: &mut AgentRun<'_>,
        mut prompt_watch: Option<&mut PromptWatch>,
    ) -> Result<Result<Report, AgentError>, EngineError> {
        let mut stop = self.stop.clone();
        let clock = Arc::clone(&self.clock);
        let mut timer = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            if let Some(given_up) = self.keep_times(watching)? {
                return Ok(Err(given_up));
            }
            watching.arm(timer.as_mut(), self);
            let (requests, inspects) = (watching.requests, watching.may_inspect(self));
            tokio::select! {
                biased;
                // Both are looked at above.
                () = asked(&mut stop, requests + 1), if requests < 2 => {}
                () = timer.as_mut() => {}
                done = examined(watching.judging.as_mut()) => self.judged(done, watching)?,
                findings = inspected(watching.inspecting.as_mut()) => {
                    self.inspected(findings, watching)?;
                }
                // Who waits for a judgement by now is not idle.
                idle = watching.idle.answered(&clock) => if idle && watching.judging.is_none() {
                    self.act(Input::Timer(Timer::Idle), watching)?;
                },
                () = prompt_changed(prompt_watch.as_deref_mut()), if inspects => {
                    self.prompt_changed(watching);
                }
                Some(heard) = watching.hear.recv() => self.heard(heard, watching)?,
                result = &mut *agent => return Ok(result),
            }
        }
    }

    /// Does what its time has come for. What it returns ends the iteration without the agent.
    fn keep_times(&mut self, watching: &mut Watching) -> Result<Option<AgentError>, EngineError> {
        let requests = *self.stop.borrow();
        if requests > 0 && watching.requests == 0 {
            watching.requests = 1;
            self.act(Input::Signal, watching)?;
        }
        if requests > 1 && watching.requests == 1 {
            // Whoever asked has seen to it that its processes are killed.
            watching.requests = 2;
            watching.killed(self.clock.runtime_ms());
        }
        let in_time = watching.look(self)?;
        let (usage, context) = watching.held.due(self.clock.runtime_ms());
        if let Some(usage) = usage {
            self.act(Input::Usage(usage), watching)?;
        }
        if let Some(context) = context {
            self.act(Input::Context(context), watching)?;
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

    fn heard(&mut self, heard: Heard, watching: &mut Watching) -> Result<(), EngineError> {
        let now_ms = self.clock.runtime_ms();
        match heard {
            Heard::Usage(usage) => self.used(usage, watching),
            Heard::Model(model) => {
                self.drivers.of_mut(&self.state).pricing().uses(model.clone());
                self.act(Input::Model(model), watching)
            }
            Heard::Context(context) => match watching.held.context(context, now_ms) {
                Some(context) => self.act(Input::Context(context), watching),
                None => Ok(()),
            },
            Heard::Note(text) if watching.held.words([text.as_str()], now_ms) => {
                self.act(Input::Note(text), watching)
            }
            Heard::Note(_) => Ok(()),
            Heard::Question(question) => {
                self.question(question, watching);
                Ok(())
            }
            Heard::Claim(claim) => self.claimed(claim, watching),
            Heard::Trouble(message) => self.act(Input::Warning(message), watching),
        }
    }

    /// A limit is compared with every figure; only what is written down keeps a pace.
    fn used(&mut self, usage: Usage, watching: &mut Watching) -> Result<(), EngineError> {
        let usage = self.drivers.of_mut(&self.state).with_cost(usage);
        let Some(current) = &self.state.running else { return Ok(()) };
        let usage = current.usage.max(usage);
        if usage == current.usage {
            return Ok(());
        }
        let reached = current.cancelling.is_none() && self.state.limit_reached_by(usage).is_some();
        match watching.held.usage(usage, reached, self.clock.runtime_ms()) {
            Some(usage) => self.act(Input::Usage(usage), watching),
            None => Ok(()),
        }
    }

    /// Records a claim that was seen while the agent runs.
    pub(super) fn claimed(
        &mut self,
        claim: Claim,
        watching: &mut Watching,
    ) -> Result<(), EngineError> {
        let first = match claim.kind {
            ClaimKind::Complete => self.state.latch == Latch::Open,
            ClaimKind::NeedsHuman => self.state.claims.human_request.is_none(),
        };
        match watching.held.claim(claim, first, self.clock.runtime_ms()) {
            Some(claim) => self.act(Input::Claimed(claim), watching),
            None => Ok(()),
        }
    }

    fn prompt_changed(&self, watching: &mut Watching) {
        watching.prompt_changed(self.clock.runtime_ms());
        if let Some(text) = self.prompt.glance() {
            watching.inspecting = Some(Inspecting::begin(self.inspection(text, None), None));
        }
    }

    /// The detectors have looked at the prompt as it is while the agent runs.
    fn inspected(
        &mut self,
        (findings, question): Inspected,
        watching: &mut Watching,
    ) -> Result<(), EngineError> {
        watching.was_inspected(self.clock.runtime_ms());
        for claim in findings.claims {
            self.claimed(claim, watching)?;
        }
        if let Some(question) = question {
            for warning in findings.warnings {
                if watching.held.words([warning.as_str()], self.clock.runtime_ms()) {
                    self.act(Input::Warning(warning), watching)?;
                }
            }
            self.judge(question, watching);
        }
        if let Some(question) = watching.waiting.take() {
            self.question(question, watching);
        }
        Ok(())
    }

    /// What was held back is written down now, but for the figures, which are part of the record of the
    /// iteration's end.
    fn write_held(&mut self, watching: &mut Watching) -> Result<Option<Usage>, EngineError> {
        let Rest { usage, context, claims, dropped } = watching.held.finish();
        if let Some(context) = context {
            self.act(Input::Context(context), watching)?;
        }
        for claim in claims {
            self.act(Input::Claimed(claim), watching)?;
        }
        if dropped > 0 {
            let what = "notes and answers of this iteration were too many to be kept";
            self.act(Input::Warning(format!("{dropped} {what}")), watching)?;
        }
        Ok(usage)
    }

    /// Feeds the machine while the agent runs; all it can want is to cancel.
    pub(super) fn act(&mut self, input: Input, watching: &Watching) -> Result<(), EngineError> {
        for effect in self.advance(input)? {
            if let Effect::Cancel(reason) = effect {
                watching.end(reason);
            }
        }
        Ok(())
    }

    fn ended(&mut self, result: Result<Report, AgentError>, tool_calls: u64) -> IterationEnd {
        let (outcome, mut report) = match result {
            Ok(report) => (IterationOutcome::Succeeded, report),
            Err(error) => (outcome_of(error.class, error.message), *error.report),
        };
        let good = outcome == IterationOutcome::Succeeded;
        let final_text = report.final_text.as_deref().unwrap_or_default();
        let (says_done, says_all_done) = (says_done(final_text), says_all_done(final_text));
        let told = self.drivers.of(&self.state).driver.description.capabilities.tool_calls;
        let count = report.left_behind.len();
        let left_behind = shortened(std::mem::take(&mut report.left_behind));
        if !left_behind.is_empty() {
            let names = left_behind.join(", ");
            self.warn_only(&format!(
                "the agent left {count} processes behind, which were ended: {names}"
            ));
        }
        if let Some(complaint) = survivors_complaint(&report.survived) {
            self.warn_only(&complaint);
        }
        self.final_text = report.final_text.filter(|_| good);
        IterationEnd {
            outcome,
            usage: self.drivers.of_mut(&self.state).with_cost(report.usage),
            says_done,
            says_all_done,
            tool_calls: told.then_some(tool_calls),
            left_behind,
            survived: report.survived,
        }
    }
}

/// What a session came to, and figures that are not written down yet.
type Attended = Result<(Result<Report, AgentError>, Option<Usage>), EngineError>;

fn log_end(attended: &Attended) {
    match attended {
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

fn outcome_of(class: ErrorClass, mut message: String) -> IterationOutcome {
    cut(&mut message, LONGEST_MESSAGE);
    IterationOutcome::from_error(class, message)
}

async fn prompt_changed(watch: Option<&mut PromptWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
