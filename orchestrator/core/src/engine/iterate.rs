//! One iteration: the agent runs while its figures, its time and the prompt file are watched.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tracing::{Instrument as _, info, info_span};

use super::error::EngineError;
use super::files::Files;
use super::fingerprint::Start;
use super::idle::Idle;
use super::judge::{Judging, examined};
use super::phrases::{says_all_done, says_done};
use super::plan;
use super::redact::Events;
use super::rest::asked;
use super::session::Session;
use super::sink::{Cancel, Heard, Sink};
use super::transcript::Transcript;
use crate::config::SandboxMode;
use crate::contract::{
    AgentError, CancelReason, ErrorClass, Iteration, Report, survivors_complaint,
};
use crate::machine::{Effect, Ended, Input, Outcome, StartIteration, Timer};
use crate::workspace::PromptWatch;

/// Events that may wait for the driver; more and the agent waits.
const QUEUE: usize = 64;
/// How long an agent that was told to end may take, beyond the graces that it has itself.
const LAST_GRACE: Duration = Duration::from_secs(60);
/// How long it may take that was asked to end twice.
const KILLED_GRACE: Duration = Duration::from_secs(10);
/// The shortest and the longest time between two notes of how much time has passed.
const SHORTEST_TICK_MS: u64 = 250;
const LONGEST_TICK_MS: u64 = 30_000;
/// Share of `max_runtime` between two such notes.
const TICK_SHARE: u64 = 100;

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
            tool_calls: AtomicU64::new(0),
        };
        let agent = Arc::clone(&self.drivers.of(&self.state).driver.agent);
        let next_tick_ms = began_ms.saturating_add(tick_pause(self));
        let watching = Watching {
            began_ms,
            next_tick_ms,
            idle: Idle::new(self.config.limits.idle_timeout, last_event_ms),
            tell,
            hear,
            told_ms: None,
            judging: None,
        };
        let name = self.drivers.of(&self.state).name.as_str();
        let span = info_span!("session", agent = name);
        let session = Box::pin(agent.run(task, &sink).instrument(span));
        let agent = self.start(session, kept, &files).await;
        info!("session begins");
        let result = self.attend(watching, agent).await;
        match &result {
            Ok(Err(error)) => info!(class = error.class.word(), "session failed"),
            _ => info!("session is over"),
        }
        if let Some(trouble) = sink.finish().await {
            self.warn_only(&trouble);
        }
        let tool_calls = sink.tool_calls();
        drop(sink);
        let ended = self.ended(self.redactor.result(result?), tool_calls);
        // While the iteration is not over on record: a claim in its last words is not lost then.
        let mut inputs = self.find_claims().await?;
        inputs.push(Input::Ended(ended));
        Ok(inputs)
    }

    /// Sets the agent going. It comes first: what is written for people is written while it starts.
    async fn start<'a>(
        &self,
        mut agent: AgentRun<'a>,
        (prompt, start): (Option<Vec<u8>>, Option<Vec<u8>>),
        files: &Files,
    ) -> AgentRun<'a> {
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

    /// Waits for the agent's end, and for everything that may bring it about. When the state cannot
    /// be written any more the agent is ended before that is told.
    async fn attend(
        &mut self,
        mut watching: Watching,
        mut agent: AgentRun<'_>,
    ) -> Result<Result<Report, AgentError>, EngineError> {
        let result = self.watch(&mut watching, &mut agent).await;
        if result.is_err() {
            watching.end(CancelReason::Signal);
        }
        // Before the agent is waited for: it may wait for the answer.
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
            self.heard(heard, &watching)?;
        }
        Ok(result)
    }

    async fn watch(
        &mut self,
        watching: &mut Watching,
        agent: &mut AgentRun<'_>,
    ) -> Result<Result<Report, AgentError>, EngineError> {
        let mut prompt_watch = self.prompt.file().map(PromptWatch::new);
        let mut stop = self.stop.clone();
        let mut requests = 0;
        let clock = Arc::clone(&self.clock);
        let mut given_up = std::pin::pin!(tokio::time::sleep(Duration::MAX));
        loop {
            let pause = watching.next_look(self);
            tokio::select! {
                biased;
                Some(heard) = watching.hear.recv() => match heard {
                    Heard::Question(question) => self.question(question, watching).await?,
                    heard => self.heard(heard, watching)?,
                },
                result = &mut *agent => return Ok(result),
                done = examined(watching.judging.as_mut()) => self.judged(done, watching)?,
                () = asked(&mut stop, requests + 1), if requests < 2 => {
                    requests += 1;
                    if requests == 1 {
                        self.act(Input::Signal, watching)?;
                    } else {
                        // Whoever asked has seen to it that its processes are killed.
                        given_up.as_mut().reset(tokio::time::Instant::now() + KILLED_GRACE);
                    }
                }
                () = &mut given_up, if requests == 2 => {
                    return Ok(Err(AgentError::new(ErrorClass::Cancelled, "asked to stop twice")));
                }
                () = prompt_changed(prompt_watch.as_mut()) => self.prompt_changed(watching).await?,
                // Who waits for a judgement by now is not idle.
                idle = watching.idle.answered(&clock) => if idle && watching.judging.is_none() {
                    self.act(Input::Timer(Timer::Idle), watching)?;
                },
                () = tokio::time::sleep(pause) => {
                    if !watching.look(self)? {
                        return Ok(Err(self.given_up()));
                    }
                }
            }
        }
    }

    /// An agent that does not end when it is told to: nobody knows what of it lives on.
    fn given_up(&self) -> AgentError {
        let survived = self.processes.of_iteration(&self.run, self.state.iterations);
        let message = "it did not end when told to and was given up";
        AgentError::new(ErrorClass::Cancelled, message)
            .with_report(Report { survived, ..Report::default() })
    }

    fn heard(&mut self, heard: Heard, watching: &Watching) -> Result<(), EngineError> {
        match heard {
            Heard::Usage(usage) => {
                let usage = self.drivers.of_mut(&self.state).with_cost(usage);
                self.act(Input::Used(usage), watching)
            }
            Heard::Model(model) => {
                self.drivers.of_mut(&self.state).pricing().uses(model.clone());
                self.act(Input::ModelSeen(model), watching)
            }
            Heard::Context(context) => self.act(Input::ContextSeen(context), watching),
            Heard::Note(text) => self.act(Input::Noted(text), watching),
            // The agent has ended: nobody waits for the answer.
            Heard::Question(_) => Ok(()),
            Heard::Claim(claim) => self.act(Input::ClaimSeen(claim), watching),
            Heard::Trouble(message) => self.act(Input::Warn(message), watching),
        }
    }

    async fn prompt_changed(&mut self, watching: &Watching) -> Result<(), EngineError> {
        let Some(text) = self.prompt.glance() else { return Ok(()) };
        let findings = self.inspect(&text, None).await;
        for claim in findings.claims {
            self.act(Input::ClaimSeen(claim), watching)?;
        }
        Ok(())
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

    fn ended(&mut self, result: Result<Report, AgentError>, tool_calls: u64) -> Ended {
        let (outcome, report) = match result {
            Ok(report) => (Outcome::Succeeded, report),
            Err(error) => (outcome_of(&error.class, error.message), *error.report),
        };
        let good = outcome == Outcome::Succeeded;
        let final_text = report.final_text.as_deref().unwrap_or_default();
        let (says_done, says_all_done) = (says_done(final_text), says_all_done(final_text));
        let told = self.drivers.of(&self.state).driver.description.capabilities.tool_calls;
        if !report.left_behind.is_empty() {
            let names = report.left_behind.join(", ");
            let count = report.left_behind.len();
            self.warn_only(&format!(
                "the agent left {count} processes behind, which were ended: {names}"
            ));
        }
        if let Some(complaint) = survivors_complaint(&report.survived) {
            self.warn_only(&complaint);
        }
        self.final_text = report.final_text.filter(|_| good);
        Ended {
            outcome,
            usage: self.drivers.of_mut(&self.state).with_cost(report.usage),
            says_done,
            says_all_done,
            tool_calls: told.then_some(tool_calls),
            left_behind: report.left_behind,
            survived: report.survived,
        }
    }
}

fn outcome_of(class: &ErrorClass, message: String) -> Outcome {
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

/// How often it is noted how much time has passed: a crash loses no more than that.
fn tick_pause(session: &Session) -> u64 {
    let share = session.state.limits.max_runtime_ms.unwrap_or(u64::MAX) / TICK_SHARE;
    share.clamp(SHORTEST_TICK_MS, LONGEST_TICK_MS)
}

/// The times that an iteration must keep, and what goes on in it beside the agent.
pub(super) struct Watching {
    began_ms: u64,
    next_tick_ms: u64,
    idle: Idle,
    tell: watch::Sender<Option<CancelReason>>,
    hear: mpsc::Receiver<Heard>,
    /// When the agent was first told to end.
    told_ms: Option<u64>,
    /// The validators are at work because the agent asked for a judgement.
    pub(super) judging: Option<Judging>,
}

impl Watching {
    /// Ends the iteration, validators included.
    fn end(&self, reason: CancelReason) {
        self.tell.send_replace(Some(reason));
        if let Some(judging) = &self.judging {
            judging.cancel(reason);
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.tell.borrow().is_some()
    }

    pub(super) fn heard_something(&self, now_ms: u64) {
        self.idle.heard(now_ms);
    }

    /// When each of the times has come, in milliseconds of runtime.
    fn times(&self, session: &Session) -> [(u64, Timer); 4] {
        let limits = &session.config.limits;
        // An agent that waits for a judgement is not idle.
        let idle_ms = match self.judging {
            Some(_) => u64::MAX,
            None => self.idle.due_ms(),
        };
        let max_runtime = session.state.limits.max_runtime_ms.unwrap_or(u64::MAX);
        [
            (max_runtime, Timer::MaxRuntime),
            (
                self.began_ms.saturating_add(plan::millis(limits.iteration_timeout)),
                Timer::IterationTimeout,
            ),
            (idle_ms, Timer::Idle),
            (self.next_tick_ms, Timer::Tick),
        ]
    }

    /// How long there is nothing to look at.
    fn next_look(&self, session: &Session) -> Duration {
        let now = session.clock.runtime_ms();
        let told = self.told_ms.is_some();
        let next = self
            .times(session)
            .into_iter()
            .filter(|(_, timer)| !told || *timer == Timer::Tick)
            .map(|(at, _)| at)
            .min()
            .unwrap_or(u64::MAX);
        Duration::from_millis(next.saturating_sub(now).clamp(1, LONGEST_TICK_MS))
    }

    /// Tells the machine which times have come. False if the agent was told to end long ago.
    fn look(&mut self, session: &mut Session) -> Result<bool, EngineError> {
        let now = session.clock.runtime_ms();
        for (at, timer) in self.times(session) {
            if at > now || (self.told_ms.is_some() && timer != Timer::Tick) {
                continue;
            }
            if timer == Timer::Idle
                && !self.idle.come(now, &session.processes, &session.run, session.state.iterations)
            {
                continue;
            }
            session.act(Input::Timer(timer), self)?;
            if timer == Timer::Tick {
                self.next_tick_ms = now.saturating_add(tick_pause(session));
            }
        }
        if self.told_ms.is_none() && self.tell.borrow().is_some() {
            self.told_ms = Some(now);
        }
        Ok(self.told_ms.is_none_or(|told| now.saturating_sub(told) < plan::millis(LAST_GRACE)))
    }
}
