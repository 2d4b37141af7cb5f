//! Where the agent's events go.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::agent_message::{AgentMessage, ValidationRequest};
use super::announce::event_of_agent;
use super::cancel::CancelToken;
use super::clock::Clock;
use super::inspect::{self, LONGEST_CLAIM};
use super::redact::StreamRedactor;
use super::run_event::RunObserver;
use super::transcript::{self, Transcript};
use crate::machine::Context;
use ralph_orchestrator_contract::{
    CancelReason, CancelSignal, Claim, ClaimKind, ClaimSource, CompletionDetector, Event,
    EventSink, Judgement,
};

/// An event of so many bytes of text takes as much of the time on the agent's task as any other.
const STRIDE: usize = 16 * 1024;
/// Who watches the run and took so long holds up everything else too: it gets its turn at once.
const SLOW_OBSERVER: Duration = Duration::from_millis(1);
/// The longest time until those who follow the transcript can read what was noted in it.
const TRANSCRIPT_DELAY: Duration = Duration::from_millis(100);
/// What an agent may still say once it was told to end, in bytes: an account of how it does. More would
/// only keep it from ending.
const MOST_BYTES_AFTER_CANCEL: usize = 1024 * 1024;

/// Takes an agent's events: into the transcript, to those who watch, to the detectors, and, what
/// matters to the loop, to the driver.
pub(super) struct Sink<'a> {
    pub(super) run: &'a str,
    pub(super) iteration: u64,
    pub(super) cancel: CancelToken,
    pub(super) messages: mpsc::Sender<AgentMessage>,
    /// Everything goes through it first.
    pub(super) redactor: Mutex<StreamRedactor>,
    pub(super) transcript: Mutex<Transcript>,
    pub(super) observer: Arc<dyn RunObserver>,
    pub(super) detectors: &'a [Box<dyn CompletionDetector>],
    pub(super) clock: Arc<Clock>,
    /// When the last event came, in milliseconds of runtime.
    pub(super) last_event_ms: Arc<AtomicU64>,
    /// How many tools the agent called.
    pub(super) tool_calls: AtomicU64,
    /// Bytes that it said since it was told to end.
    pub(super) bytes_after_cancel: AtomicUsize,
    /// There are events in the transcript that are not in its file yet.
    pub(super) unwritten: Notify,
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
        // However fast it talks, timers and signals, which wait on the same task, get their turn.
        for _ in 0..=len.unwrap_or_default() / STRIDE {
            consume_budget().await;
        }
    }

    async fn judge(&self, final_text: Option<&str>) -> Judgement {
        let (answer, answered) = oneshot::channel();
        let question = ValidationRequest { final_text: final_text.map(str::to_owned), answer };
        // By the same way as the events: claims that were made before are known when it is looked at.
        self.send(AgentMessage::Validation(question)).await;
        let over = || Judgement::NotNow { why: "the iteration is being ended".to_owned() };
        answered.await.unwrap_or_else(|_| over())
    }
}

/// A claim that the agent made by a tool call of the adapter's own. Such a call is told when it has
/// come whole, so it counts whatever becomes of the iteration: at worst it costs a validation.
fn claim_by_tool(kind: ClaimKind, text: &str) -> Claim {
    let kept = text.get(..text.floor_char_boundary(LONGEST_CLAIM)).unwrap_or(text);
    Claim { kind, detector: "tool".to_owned(), source: ClaimSource::Tool, text: kept.to_owned() }
}

impl Sink<'_> {
    /// How many tools the agent called so far.
    pub(super) fn tool_calls(&self) -> u64 {
        self.tool_calls.load(Ordering::Relaxed)
    }

    /// Whether so many more bytes of text are of interest.
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
            let trouble = self.transcript.lock().unwrap_or_else(PoisonError::into_inner).flush();
            if let Some(trouble) = trouble {
                self.send(AgentMessage::Warning(trouble)).await;
            }
        }
    }

    /// Nothing comes any more.
    pub(super) async fn finish(&self) -> Option<String> {
        let events = self.redactor.lock().unwrap_or_else(PoisonError::into_inner).finish();
        for event in events {
            self.dispatch(event).await;
        }
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner).finish()
    }

    async fn dispatch(&self, event: Event) {
        let trouble = self.transcript.lock().unwrap_or_else(PoisonError::into_inner).append(&event);
        self.unwritten.notify_one();
        if let Some(trouble) = trouble {
            self.send(AgentMessage::Warning(trouble)).await;
        }
        for detector in self.detectors.iter().filter(|detector| detector.observes()) {
            for claim in detector.observe(&event).await {
                self.send(AgentMessage::Claim(inspect::bounded(claim))).await;
            }
        }
        if let Event::Session { model: Some(model), .. } = &event {
            self.send(AgentMessage::Model(model.clone())).await;
        }
        let message = match &event {
            Event::Usage { usage } => Some(AgentMessage::Usage(*usage)),
            Event::Claim { kind, text } => Some(AgentMessage::Claim(claim_by_tool(*kind, text))),
            Event::Note { text } => Some(AgentMessage::Note(text.clone())),
            Event::Context { used, window } => {
                Some(AgentMessage::Context(Context { used: *used, window: *window }))
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

    async fn send(&self, message: AgentMessage) {
        // A driver that no longer listens has given the iteration up.
        drop(self.messages.send(message).await);
    }
}
