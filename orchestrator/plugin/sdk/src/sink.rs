//! What a call gets to send its events with, and to learn that it has to end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use plugin_protocol::{EventSent, Judge, LogLevel, LogLine, PluginFrame};
use ralph_orchestrator_contract::{
    CancelReason, CancelSignal, Event, EventSink, Judgement, async_trait,
};
use tokio::sync::{Mutex, Semaphore, oneshot, watch};

use crate::log;
use crate::out::{Out, SendError};

/// Questions of a call to the host. The host wants one at a time.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    next: AtomicU64,
    waiting: StdMutex<HashMap<u64, oneshot::Sender<Judgement>>>,
    /// The answer to the question that was asked last, if it is still to come: also when who asked
    /// does not wait for it any more.
    last: Mutex<Option<oneshot::Receiver<Judgement>>>,
}

impl Asks {
    fn ask(&self) -> (u64, oneshot::Receiver<Judgement>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, answer);
        (number, answered)
    }

    pub(crate) fn answer(&self, number: u64, judgement: Judgement) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        if let Some(waiting) = waiting {
            // The call may have ended meanwhile.
            drop(waiting.send(judgement));
        }
    }
}

/// The sink of one call.
pub(crate) struct CallSink {
    pub(crate) call: u64,
    pub(crate) out: Out,
    /// How many events may be sent, if the host counts them.
    pub(crate) credits: Option<Arc<Semaphore>>,
    pub(crate) cancelled: watch::Receiver<Option<CancelReason>>,
    pub(crate) asks: Arc<Asks>,
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
        let sent = self.out.send(&PluginFrame::Event(EventSent { call: self.call, event })).await;
        if let Err(SendError::Frame(error)) = sent {
            // It was not sent, so it cost nothing.
            if let Some(credits) = &self.credits {
                credits.add_permits(1);
            }
            log::say(warning(format!("an event of the agent is lost: {error}")));
        }
    }

    async fn judge(&self, final_text: Option<&str>) -> Judgement {
        let not_now = |why: &str| Judgement::NotNow { why: why.to_owned() };
        let mut last = self.asks.last.lock().await;
        if let Some(before) = last.as_mut() {
            // Whoever asked that has gone; the answer was for another text.
            drop(before.await);
            *last = None;
        }
        let (ask, answered) = self.asks.ask();
        let final_text = final_text.map(ToOwned::to_owned);
        let question = PluginFrame::Judge(Judge { call: self.call, ask, final_text });
        let answer = match self.out.send(&question).await {
            Ok(()) => {
                let answered = last.insert(answered);
                answered.await.map_err(|_| not_now("the orchestrator did not answer"))
            }
            Err(SendError::Frame(error)) => Err(not_now(&error.to_string())),
            Err(SendError::Gone) => Err(not_now("the orchestrator is gone")),
        };
        *last = None;
        answer.unwrap_or_else(|not_now| not_now)
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
