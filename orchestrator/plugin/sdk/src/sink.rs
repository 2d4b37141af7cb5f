//! The event sink of a call.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use ralph_orchestrator_contract::{
    CancelReason, CancelSignal, Event, EventSink, Guidance, ValidationPreview, async_trait,
};
use ralph_orchestrator_plugin_protocol::{
    EventSent, LogLevel, LogLine, PluginFrame, PreviewRequest, TakeGuidance, WriteCheck,
};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, oneshot, watch};

use crate::log;
use crate::outbox::{Outbox, SendError};

/// The requests of one kind of a call. The host accepts one at a time.
#[derive(Debug)]
pub(crate) struct Requests<T> {
    next: AtomicU64,
    pending: StdMutex<HashMap<u64, oneshot::Sender<T>>>,
    /// The receiver of the last request, if it is unanswered; kept even if its caller stopped waiting.
    last: Mutex<Option<oneshot::Receiver<T>>>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { next: AtomicU64::new(0), pending: StdMutex::default(), last: Mutex::new(None) }
    }
}

impl<T> Requests<T> {
    fn register(&self) -> (u64, oneshot::Receiver<T>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (answer_tx, answer_rx) = oneshot::channel();
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(number, answer_tx);
        (number, answer_rx)
    }

    /// Hands an answer to the one who waits for it.
    pub(crate) fn complete(&self, number: u64, answer: T) {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        if let Some(pending) = pending {
            // The call may have ended meanwhile.
            drop(pending.send(answer));
        }
    }

    /// Sends the request with the number that it is given, and waits for the answer; or returns why there is
    /// none.
    async fn ask(
        &self,
        outbox: &Outbox,
        frame: impl FnOnce(u64) -> PluginFrame + Send,
    ) -> Result<T, String> {
        let mut last = self.last.lock().await;
        if let Some(before) = last.as_mut() {
            // Its caller stopped waiting; the answer was for another request.
            drop(before.await);
            *last = None;
        }
        let (request, answer_rx) = self.register();
        let answer = match outbox.send(&frame(request)).await {
            Ok(()) => {
                let answer_rx = last.insert(answer_rx);
                answer_rx.await.map_err(|_| "the orchestrator did not answer".to_owned())
            }
            Err(SendError::Encode(error)) => Err(error.to_string()),
            Err(SendError::Disconnected) => Err("the orchestrator is gone".to_owned()),
        };
        *last = None;
        answer
    }
}

/// The sink of one call.
pub(crate) struct CallSink {
    pub(crate) call: u64,
    pub(crate) outbox: Outbox,
    /// The number of events that may be sent, if credit is negotiated.
    pub(crate) credits: Option<Arc<Semaphore>>,
    pub(crate) cancelled: watch::Receiver<Option<CancelReason>>,
    pub(crate) previews: Arc<Requests<ValidationPreview>>,
    /// None if the host does not answer them.
    pub(crate) write_checks: Option<Arc<Requests<bool>>>,
    /// None if the host does not answer them.
    pub(crate) guidance: Option<Arc<Requests<Vec<Guidance>>>>,
}

impl CallSink {
    /// Waits for an answer of the host in a function that is not asynchronous. The other tasks go on on other threads of the
    /// plugin's runtime.
    pub(crate) fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        tokio::task::block_in_place(|| Handle::current().block_on(answer))
    }
}

#[async_trait]
impl CancelSignal for CallSink {
    async fn cancelled(&self) -> CancelReason {
        let mut cancelled = self.cancelled.clone();
        let reason = cancelled.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        match reason {
            Some(reason) => reason,
            // The call is over.
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl EventSink for CallSink {
    async fn emit(&self, event: Event) {
        if let Some(credits) = &self.credits {
            let Ok(credit) = credits.acquire().await else { return };
            credit.forget();
        }
        let sent =
            self.outbox.send(&PluginFrame::Event(EventSent { call: self.call, event })).await;
        if let Err(SendError::Encode(error)) = sent {
            // It was not sent, so the credit is returned.
            if let Some(credits) = &self.credits {
                credits.add_permits(1);
            }
            log::send(warning(format!("an event of the agent was dropped: {error}")));
        }
    }

    async fn preview(&self, final_text: Option<&str>) -> ValidationPreview {
        let final_text = final_text.map(ToOwned::to_owned);
        let call = self.call;
        let frame =
            move |request| PluginFrame::Preview(PreviewRequest { call, request, final_text });
        let preview = self.previews.ask(&self.outbox, frame).await;
        preview.unwrap_or_else(|why| ValidationPreview::NotNow { why })
    }

    fn take_guidance(&self) -> Vec<Guidance> {
        let Some(guidance) = &self.guidance else { return Vec::new() };
        let call = self.call;
        let frame = move |request| PluginFrame::TakeGuidance(TakeGuidance { call, request });
        // What an orchestrator that is gone has is in the next prompt.
        self.wait(guidance.ask(&self.outbox, frame)).unwrap_or_default()
    }

    async fn is_write_refused(&self, path: &Path) -> bool {
        let Some(write_checks) = &self.write_checks else { return false };
        let (call, path) = (self.call, path.to_owned());
        let frame = move |request| PluginFrame::WriteCheck(WriteCheck { call, request, path });
        // A path that cannot be asked about, or an orchestrator that is gone.
        write_checks.ask(&self.outbox, frame).await.unwrap_or(true)
    }
}

fn warning(message: String) -> LogLine {
    LogLine {
        level: LogLevel::Warn,
        target: env!("CARGO_CRATE_NAME").to_owned(),
        message,
        fields: serde_json::Map::new(),
        spans: Vec::new(),
    }
}
