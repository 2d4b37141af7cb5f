//! The event sink of a call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use ralph_orchestrator_contract::{
    CancelReason, CancelSignal, Event, EventSink, ValidationPreview, async_trait,
};
use ralph_orchestrator_plugin_protocol::{
    EventSent, LogLevel, LogLine, PluginFrame, PreviewRequest,
};
use tokio::sync::{Mutex, Semaphore, oneshot, watch};

use crate::log;
use crate::outbox::{Outbox, SendError};

/// The preview requests of a call. The host accepts one at a time.
#[derive(Debug, Default)]
pub(crate) struct PreviewRequests {
    next: AtomicU64,
    pending: StdMutex<HashMap<u64, oneshot::Sender<ValidationPreview>>>,
    /// The receiver of the last request, if it is unanswered; kept even if its caller stopped waiting.
    last: Mutex<Option<oneshot::Receiver<ValidationPreview>>>,
}

impl PreviewRequests {
    fn register(&self) -> (u64, oneshot::Receiver<ValidationPreview>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (preview_tx, preview_rx) = oneshot::channel();
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(number, preview_tx);
        (number, preview_rx)
    }

    pub(crate) fn complete(&self, number: u64, preview: ValidationPreview) {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        if let Some(pending) = pending {
            // The call may have ended meanwhile.
            drop(pending.send(preview));
        }
    }
}

/// The sink of one call.
pub(crate) struct CallSink {
    pub(crate) call: u64,
    pub(crate) outbox: Outbox,
    /// The number of events that may be sent, if credit is negotiated.
    pub(crate) credits: Option<Arc<Semaphore>>,
    pub(crate) cancelled: watch::Receiver<Option<CancelReason>>,
    pub(crate) previews: Arc<PreviewRequests>,
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
        let not_now = |why: &str| ValidationPreview::NotNow { why: why.to_owned() };
        let mut last = self.previews.last.lock().await;
        if let Some(before) = last.as_mut() {
            // Its caller stopped waiting; the preview was for another text.
            drop(before.await);
            *last = None;
        }
        let (request, preview_rx) = self.previews.register();
        let final_text = final_text.map(ToOwned::to_owned);
        let frame = PluginFrame::Preview(PreviewRequest { call: self.call, request, final_text });
        let preview = match self.outbox.send(&frame).await {
            Ok(()) => {
                let preview_rx = last.insert(preview_rx);
                preview_rx.await.map_err(|_| not_now("the orchestrator did not answer"))
            }
            Err(SendError::Encode(error)) => Err(not_now(&error.to_string())),
            Err(SendError::Disconnected) => Err(not_now("the orchestrator is gone")),
        };
        *last = None;
        preview.unwrap_or_else(|not_now| not_now)
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
