//! One iteration: what the agent is given, its session, and how that ended.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use ralph_orchestrator_config::SandboxMode;
use ralph_orchestrator_contract::{AgentError, ErrorClass, Iteration, Report, survivors_complaint};
use ralph_orchestrator_machine::{Input, IterationEnd, IterationOutcome, StartIteration};
use tokio::sync::{Notify, mpsc, watch};
use tracing::{Instrument as _, info, info_span};

use super::cancel::CancelToken;
use super::completion_phrases::{says_all_done, says_done};
use super::error::EngineError;
use super::event_loop::{AgentRun, SessionResult};
use super::fingerprint::StartDetails;
use super::guidance::GuidanceQueue;
use super::inspect::cut;
use super::iteration_files::IterationFiles;
use super::iteration_watch::IterationWatch;
use super::redact::StreamRedactor;
use super::session::Session;
use super::sink::Sink;
use super::transcript::Transcript;

/// How many messages of the agent may wait to be handled; with more, the agent waits.
const QUEUE: usize = 64;
/// The longest message of a failure that is stored, in bytes.
const LONGEST_MESSAGE: usize = 8 * 1024;
/// Most names of processes that were left, and the longest of them in bytes.
const MOST_NAMES: usize = 50;
const LONGEST_NAME: usize = 256;

impl Session {
    /// Runs the agent once. Returns the inputs that its end leads to.
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
        self.keep_sent_prompt(&task.prompt);
        let kept = (self.changed_prompt(&task.prompt), self.changed_start(seen));

        let (cancel, cancelled) = watch::channel(None);
        let (sender, messages) = mpsc::channel(QUEUE);
        let last_event_ms = Arc::new(AtomicU64::new(began_ms));
        let transcript = Mutex::new(Transcript::new(files.clone()));
        let (detectors, run) = (Arc::clone(&self.policy.detectors), self.run.clone());
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
            write_guard: self.agents.write_guard.clone(),
            clock: Arc::clone(&self.clock),
            last_event_ms: Arc::clone(&last_event_ms),
            bytes_after_cancel: AtomicUsize::new(0),
            tool_calls: AtomicU64::new(0),
            unwritten: Notify::new(),
            guidance: GuidanceQueue::default(),
        };
        self.mark_tree();
        let agent = Arc::clone(&self.agents.current(&self.state).configured.agent);
        let watch = IterationWatch::new(self, last_event_ms, cancel, messages, &sink.guidance);
        if let Some(prompt_watch) = &mut self.prompt_watch {
            prompt_watch.restart();
        }
        let span = info_span!("session", agent = self.agents.current(&self.state).name.as_str());
        let session = Box::pin(agent.run(task, &sink).instrument(span));
        let agent = self.start_agent(session, kept, &files).await;
        let result = tokio::select! {
            biased;
            result = self.run_to_end(watch, agent) => result,
            never = sink.keep_transcript_current() => match never {},
        };
        log_end(&result);
        let tool_calls = self.close_sink(sink).await;
        let (result, held) = result?;
        let result = self.redactor.result(result);
        // What an initializer says of being done is not about the task.
        let report = result.as_ref().ok().filter(|_| !self.state.runs_initializer());
        let final_text = report.and_then(|report| report.final_text.clone());
        let mut ended = self.iteration_end(result, tool_calls);
        ended.usage = held.map_or(ended.usage, |held| held.max(ended.usage));
        // Before the end of the iteration is recorded: a claim in the final message is not lost then.
        self.record_claims(final_text).await?;
        Ok(vec![Input::IterationEnded(ended)])
    }

    /// Closes the sink after the agent's last event. Returns how many tools it called.
    async fn close_sink(&self, sink: Sink<'_>) -> u64 {
        if let Some(warning) = sink.finish().await {
            self.warn_unrecorded(&warning);
        }
        sink.tool_calls()
    }

    /// Starts the agent, then writes what is kept of the start for people: meanwhile the agent begins.
    async fn start_agent<'a>(
        &self,
        mut agent: AgentRun<'a>,
        (prompt, start): (Option<Vec<u8>>, Option<Vec<u8>>),
        files: &IterationFiles,
    ) -> AgentRun<'a> {
        self.known_tree.set(None);
        let early = std::future::poll_fn(|context| Poll::Ready(agent.as_mut().poll(context))).await;
        let warnings = [
            prompt.and_then(|prompt| files.store_prompt(&prompt)),
            start.and_then(|start| files.store_start(&start)),
        ];
        for warning in warnings.into_iter().flatten() {
            self.warn_unrecorded(&warning);
        }
        info!("session begins");
        match early {
            Poll::Ready(result) => Box::pin(std::future::ready(result)),
            Poll::Pending => agent,
        }
    }

    /// Returns the prompt, unless it is the one that was stored last.
    fn changed_prompt(&mut self, prompt: &[u8]) -> Option<Vec<u8>> {
        let digest = blake3::hash(prompt);
        let other = self.stored_prompt.replace(digest) != Some(digest);
        other.then(|| self.redactor.bytes(prompt).into_owned())
    }

    /// Returns how the agent is started, unless it is as it was stored last.
    fn changed_start(&mut self, seen: StartDetails) -> Option<Vec<u8>> {
        let other = self.stored_start.as_ref() != Some(&seen);
        let bytes = other.then(|| serde_json::to_vec_pretty(&seen).unwrap_or_default());
        self.stored_start = Some(seen);
        bytes
    }

    /// Returns what the agent is given.
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

    fn iteration_end(
        &mut self,
        result: Result<Report, AgentError>,
        tool_calls: u64,
    ) -> IterationEnd {
        let (outcome, mut report) = match result {
            Ok(report) => (IterationOutcome::Succeeded, report),
            Err(error) => (outcome_of(error.class, error.message), *error.report),
        };
        let final_text = report.final_text.as_deref().unwrap_or_default();
        let (says_done, says_all_done) = (says_done(final_text), says_all_done(final_text));
        let capabilities = self.agents.current(&self.state).configured.description.capabilities;
        let is_counted = capabilities.tool_calls;
        let count = report.left_behind.len();
        let left_behind = shortened(std::mem::take(&mut report.left_behind));
        if !left_behind.is_empty() {
            let names = left_behind.join(", ");
            let message = match count {
                1 => format!("the agent left a process behind, which was ended: {names}"),
                _ => format!("the agent left {count} processes behind, which were ended: {names}"),
            };
            self.warn_unrecorded(&message);
        }
        if let Some(complaint) = survivors_complaint(&report.survived) {
            self.warn_unrecorded(&complaint);
        }
        IterationEnd {
            outcome,
            usage: self.agents.current_mut(&self.state).with_cost(report.usage),
            promises_cost: capabilities.cost && !capabilities.free,
            says_done,
            says_all_done,
            tool_calls: is_counted.then_some(tool_calls),
            left_behind,
            survived: report.survived,
        }
    }
}

fn log_end(result: &SessionResult) {
    match result {
        Ok((Err(error), _)) => info!(class = error.class.word(), "session failed"),
        _ => info!("session is over"),
    }
}

/// Returns at most as many names, and each at most as long, as a reader can use.
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
