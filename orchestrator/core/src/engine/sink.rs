//! Where the agent's events go.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::clock::Clock;
use super::inspect::{self, LONGEST_CLAIM};
use super::judge::Question;
use super::notice::{Notice, Observer};
use super::redact::Events;
use super::transcript::{self, Transcript};
use crate::machine::ContextUsage;
use ralph_orchestrator_contract::{
    CancelReason, CancelSignal, Claim, ClaimKind, ClaimSource, CompletionDetector, Event,
    EventSink, Judgement, Usage,
};

/// An event of so many bytes of text takes as much of the time on the agent's task as any other.
const STRIDE: usize = 16 * 1024;
/// Who watches the run and took so long holds up everything else too: it gets its turn at once.
const SLOW: Duration = Duration::from_millis(1);
/// The longest time until those who follow the transcript can read what was noted in it.
const TRANSCRIPT_DELAY: Duration = Duration::from_millis(100);
/// What an agent may still say once it was told to end, in bytes: an account of how it does. More would
/// only keep it from ending.
const LAST_WORDS: usize = 1024 * 1024;

/// Tells an activity that it has to end.
pub(super) struct Cancel(watch::Receiver<Option<CancelReason>>);

impl Cancel {
    pub(super) const fn new(told: watch::Receiver<Option<CancelReason>>) -> Self {
        Self(told)
    }

    /// Whether it was told so by now.
    fn is_told(&self) -> bool {
        self.0.borrow().is_some()
    }
}

#[async_trait]
impl CancelSignal for Cancel {
    async fn cancelled(&self) -> CancelReason {
        let mut told = self.0.clone();
        let reason = told.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        match reason {
            Some(reason) => reason,
            // Nobody is left who could cancel.
            None => std::future::pending().await,
        }
    }
}

/// What the driver has to hear of the agent's events.
pub(super) enum Heard {
    /// The model in use.
    Model(String),
    Usage(Usage),
    Context(ContextUsage),
    Claim(Claim),
    Note(String),
    Question(Question),
    Trouble(String),
}

/// Takes an agent's events: into the transcript, to those who watch, to the detectors, and, what
/// matters to the loop, to the driver.
pub(super) struct Sink<'a> {
    pub(super) run: &'a str,
    pub(super) iteration: u64,
    pub(super) cancel: Cancel,
    pub(super) heard: mpsc::Sender<Heard>,
    /// Everything goes through it first.
    pub(super) events: Mutex<Events>,
    pub(super) transcript: Mutex<Transcript>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) detectors: &'a [Box<dyn CompletionDetector>],
    pub(super) clock: Arc<Clock>,
    /// When the last event came, in milliseconds of runtime.
    pub(super) last_event_ms: Arc<AtomicU64>,
    /// How many tools the agent called.
    pub(super) tool_calls: AtomicU64,
    /// Bytes that it said since it was told to end.
    pub(super) last_words: AtomicUsize,
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
        if len.is_none_or(|len| self.still_listens(len)) {
            let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).next(event);
            for event in events {
                self.pass_on(event).await;
            }
        } else if let Some(len) = len {
            self.transcript.lock().unwrap_or_else(PoisonError::into_inner).pass_over(len);
        }
        // However fast it talks, timers and signals, which wait on the same task, get their turn.
        for _ in 0..=len.unwrap_or_default() / STRIDE {
            consume_budget().await;
        }
    }

    async fn judge(&self, final_text: Option<&str>) -> Judgement {
        let (answer, answered) = oneshot::channel();
        let question = Question { final_text: final_text.map(str::to_owned), answer };
        // By the same way as the events: claims that were made before are known when it is looked at.
        self.tell(Heard::Question(question)).await;
        let over = || Judgement::NotNow { why: "the iteration is being ended".to_owned() };
        answered.await.unwrap_or_else(|_| over())
    }
}

/// A claim that the agent made by a tool call of the adapter's own. Such a call is told when it has
/// come whole, so it counts whatever becomes of the iteration: at worst it costs a validation.
fn by_tool(kind: ClaimKind, text: &str) -> Claim {
    let kept = text.get(..text.floor_char_boundary(LONGEST_CLAIM)).unwrap_or(text);
    Claim { kind, detector: "tool".to_owned(), source: ClaimSource::Tool, text: kept.to_owned() }
}

impl Sink<'_> {
    /// How many tools the agent called so far.
    pub(super) fn tool_calls(&self) -> u64 {
        self.tool_calls.load(Ordering::Relaxed)
    }

    /// Whether so many more bytes of text are of interest.
    fn still_listens(&self, len: usize) -> bool {
        !self.cancel.is_told()
            || self.last_words.fetch_add(len, Ordering::Relaxed).saturating_add(len) <= LAST_WORDS
    }

    /// Writes the transcript out at a pace that does not depend on the number of events.
    pub(super) async fn keep_transcript_current(&self) -> Infallible {
        loop {
            self.unwritten.notified().await;
            sleep(TRANSCRIPT_DELAY).await;
            let trouble = self.transcript.lock().unwrap_or_else(PoisonError::into_inner).flush();
            if let Some(trouble) = trouble {
                self.tell(Heard::Trouble(trouble)).await;
            }
        }
    }

    /// Nothing comes any more.
    pub(super) async fn finish(&self) -> Option<String> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).rest();
        for event in events {
            self.pass_on(event).await;
        }
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner).finish()
    }

    async fn pass_on(&self, event: Event) {
        let trouble = self.transcript.lock().unwrap_or_else(PoisonError::into_inner).note(&event);
        self.unwritten.notify_one();
        if let Some(trouble) = trouble {
            self.tell(Heard::Trouble(trouble)).await;
        }
        for detector in self.detectors.iter().filter(|detector| detector.observes()) {
            for claim in detector.observe(&event).await {
                self.tell(Heard::Claim(inspect::bounded(claim))).await;
            }
        }
        if let Event::Session { model: Some(model), .. } = &event {
            self.tell(Heard::Model(model.clone())).await;
        }
        let iteration = self.iteration;
        let notice = match event {
            Event::Usage { usage } => return self.tell(Heard::Usage(usage)).await,
            Event::Claim { kind, text } => {
                return self.tell(Heard::Claim(by_tool(kind, &text))).await;
            }
            Event::Note { text } => return self.tell(Heard::Note(text)).await,
            Event::Context { used, window } => {
                self.tell(Heard::Context(ContextUsage { used, window })).await;
                Notice::Context { iteration, used, window }
            }
            Event::Raw { .. } | Event::Unknown => return,
            Event::Text { text } => Notice::AgentText { iteration, text },
            Event::ToolCall { name, input, .. } => {
                self.tool_calls.fetch_add(1, Ordering::Relaxed);
                Notice::AgentTool { iteration, name, input }
            }
            Event::Warning { message } => Notice::Warning { iteration, message },
            Event::Waiting { reason, delay_ms } => {
                Notice::Waiting { iteration, ms: delay_ms.unwrap_or_default(), reason }
            }
            detail => Notice::AgentEvent { iteration, detail },
        };
        let began = Instant::now();
        self.observer.notice(self.run, &notice);
        if began.elapsed() >= SLOW {
            yield_now().await;
        }
    }

    async fn tell(&self, heard: Heard) {
        // A driver that no longer listens has given the iteration up.
        drop(self.heard.send(heard).await);
    }
}
