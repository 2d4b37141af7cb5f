//! The sink of an agent's events.

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    Agent, AgentError, CancelReason, CancelSignal, Claim, ClaimKind, ClaimSource, Event, EventSink,
    Guidance, Iteration, Report, ValidationPreview,
};
use ralph_orchestrator_machine::{ContextUsage, RateWindow};
use ralph_orchestrator_workspace::GuardedPaths;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::agent_message::{AgentMessage, ValidationRequest};
use super::cancel::CancelToken;
use super::clock::Clock;
use super::event_observers::EventQueues;
use super::guidance::GuidanceQueue;
use super::inspect::LONGEST_CLAIM;
use super::redact::stream::StreamRedactor;
use super::run_event::RunObserver;
use super::run_journal::event_of_agent;
use super::transcript::{self, Transcript};
use super::warning_limit::WarningLimit;

/// An event of so many bytes of text takes as much of the time on the agent's task as any other.
const STRIDE: usize = 16 * 1024;
/// An observer that took so long holds up everything else too, which gets its turn at once.
const SLOW_OBSERVER: Duration = Duration::from_millis(1);
/// The longest time until an event is in the transcript's file.
const TRANSCRIPT_DELAY: Duration = Duration::from_millis(100);
/// How much text is accepted from a cancelled agent, in bytes: enough to report how it ends. More would
/// only keep it from ending.
const MOST_BYTES_AFTER_CANCEL: usize = 1024 * 1024;

/// Passes an agent's events to the transcript, the observer, the detectors and the session.
pub(super) struct Sink<'a> {
    pub(super) run: &'a str,
    pub(super) iteration: u64,
    pub(super) cancel: CancelToken,
    pub(super) messages: mpsc::Sender<AgentMessage>,
    /// Every event passes it first.
    pub(super) redactor: Mutex<StreamRedactor>,
    pub(super) transcript: Mutex<Transcript>,
    pub(super) observer: Arc<dyn RunObserver>,
    /// What detectors observe.
    pub(super) observed: EventQueues,
    /// What the agent's own tools must not write: everything, if that cannot be told.
    pub(super) write_guard: Option<Arc<GuardedPaths>>,
    pub(super) clock: Arc<Clock>,
    /// When the last event came, in milliseconds of runtime.
    pub(super) last_event_ms: Arc<AtomicU64>,
    /// How many tools the agent called.
    pub(super) tool_calls: AtomicU64,
    /// Bytes of text that it sent since it was cancelled.
    pub(super) bytes_after_cancel: AtomicUsize,
    /// There are events in the transcript that are not in its file yet.
    pub(super) unwritten: Notify,
    pub(super) guidance: GuidanceQueue,
    pub(super) warnings: Mutex<WarningLimit>,
}

#[async_trait]
impl CancelSignal for Sink<'_> {
    async fn cancelled(&self) -> CancelReason {
        self.cancel.cancelled().await
    }
}

#[async_trait]
impl EventSink for Sink<'_> {
    async fn emit(&self, event: Event) {
        self.last_event_ms.store(self.clock.runtime_ms(), Ordering::Relaxed);
        let len = transcript::text_len(&event);
        if len.is_none_or(|len| self.accepts_text(len)) {
            let events = self.redactor.lock().unwrap_or_else(PoisonError::into_inner).push(event);
            for event in events {
                self.dispatch(event).await;
            }
        } else if let Some(len) = len {
            self.transcript.lock().unwrap_or_else(PoisonError::into_inner).count_skipped(len);
        }
        // Timers and signals, which wait on the same task, get their turn however many events come.
        for _ in 0..=len.unwrap_or_default() / STRIDE {
            consume_budget().await;
        }
    }

    async fn preview(&self, final_text: Option<&str>) -> ValidationPreview {
        let (answer, answered) = oneshot::channel();
        let request = ValidationRequest { final_text: final_text.map(str::to_owned), answer };
        // What detectors find in earlier events comes first. Through the same channel: earlier claims are known when it is handled.
        self.observed.settle().await;
        self.send(AgentMessage::Validation(request)).await;
        let over = || ValidationPreview::NotNow { why: "the iteration is being ended".to_owned() };
        answered.await.unwrap_or_else(|_| over())
    }

    fn take_guidance(&self) -> Vec<Guidance> {
        self.guidance.take()
    }

    async fn is_write_refused(&self, path: &Path) -> bool {
        self.write_guard.as_ref().is_none_or(|guard| guard.contains(path))
    }
}

/// Returns the claim that the agent made by calling the adapter's own tool. Such a call is reported when
/// it is complete, so it counts whatever becomes of the iteration: at worst it costs a validation.
fn claim_by_tool(kind: ClaimKind, text: &str) -> Claim {
    let kept = text.get(..text.floor_char_boundary(LONGEST_CLAIM)).unwrap_or(text);
    Claim { kind, detector: "tool".to_owned(), source: ClaimSource::Tool, text: kept.to_owned() }
}

impl Sink<'_> {
    /// Returns how many tools the agent called so far.
    pub(super) fn tool_calls(&self) -> u64 {
        self.tool_calls.load(Ordering::Relaxed)
    }

    /// Returns whether so many more bytes of text are accepted.
    fn accepts_text(&self, len: usize) -> bool {
        !self.cancel.is_cancelled()
            || self.bytes_after_cancel.fetch_add(len, Ordering::Relaxed).saturating_add(len)
                <= MOST_BYTES_AFTER_CANCEL
    }

    /// Writes the transcript out at a pace that does not depend on the number of events.
    pub(super) async fn keep_transcript_current(&self) -> Infallible {
        loop {
            self.unwritten.notified().await;
            sleep(TRANSCRIPT_DELAY).await;
            let warning = self.transcript.lock().unwrap_or_else(PoisonError::into_inner).flush();
            if let Some(warning) = warning {
                self.send(AgentMessage::Warning(warning)).await;
            }
        }
    }

    /// Runs the agent, and passes on what was held back of its last events.
    pub(super) async fn run(
        &self,
        agent: &dyn Agent,
        task: Iteration,
    ) -> Result<Report, AgentError> {
        let result = agent.run(task, self).await;
        self.flush().await;
        result
    }

    /// Passes on what was held back for events that do not come any more.
    async fn flush(&self) {
        let events = self.redactor.lock().unwrap_or_else(PoisonError::into_inner).finish();
        for event in events {
            self.dispatch(event).await;
        }
    }

    /// Flushes what is left of an agent that was dropped. Returns what went wrong with the transcript.
    pub(super) async fn finish(&mut self) -> Option<String> {
        // Nobody asks the detectors any more.
        self.observed = EventQueues::default();
        self.flush().await;
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner).finish()
    }

    async fn dispatch(&self, event: Event) {
        let Some(event) = self.limit_warnings(event) else { return };
        let warning = self.transcript.lock().unwrap_or_else(PoisonError::into_inner).append(&event);
        self.unwritten.notify_one();
        if let Some(warning) = warning {
            self.send(AgentMessage::Warning(warning)).await;
        }
        self.observed.push(&event).await;
        if let Event::Session { model: Some(model), .. } = &event {
            self.send(AgentMessage::Model(model.clone())).await;
        }
        let message = match &event {
            Event::Usage { usage } => Some(AgentMessage::Usage(*usage)),
            Event::Claim { kind, text } => Some(AgentMessage::Claim(claim_by_tool(*kind, text))),
            Event::Note { text } => Some(AgentMessage::Note(text.clone())),
            Event::Warning { message } => Some(AgentMessage::Warning(message.clone())),
            Event::Context { used, window } => {
                Some(AgentMessage::Context(ContextUsage { used: *used, window: *window }))
            }
            Event::RateWindow { name, used, resets_at_ms } => {
                RateWindow::from_report(name, *used, *resets_at_ms).map(AgentMessage::RateWindow)
            }
            Event::ToolCall { .. } => {
                self.tool_calls.fetch_add(1, Ordering::Relaxed);
                None
            }
            _ => None,
        };
        if let Some(message) = message {
            self.send(message).await;
        }
        let Some(event) = event_of_agent(self.iteration, event) else { return };
        let began = Instant::now();
        self.observer.on_event(self.run, &event);
        if began.elapsed() >= SLOW_OBSERVER {
            yield_now().await;
        }
    }

    /// Returns the event, unless it is one warning too many.
    fn limit_warnings(&self, event: Event) -> Option<Event> {
        let Event::Warning { message } = event else { return Some(event) };
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.admit(message).map(|message| Event::Warning { message })
    }

    async fn send(&self, message: AgentMessage) {
        // A closed channel means that the session no longer waits for this agent.
        drop(self.messages.send(message).await);
    }
}
