//! The way to one receiver: its notices in order, each until it is answered.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_config::NoticeTopic;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::deliveries::Deliveries;
use crate::notice::Notice;
use crate::receiver::Receiver;
use crate::transport::{SendError, Transport};

/// The pause after the first failure; it doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How often a notice is sent once the run has ended.
const MOST_LAST_ATTEMPTS: u32 = 2;
/// How often a notice is sent that is refused.
const MOST_REFUSALS: u32 = 3;

/// A notice on its way, with the record of its run.
pub(crate) struct Queued {
    pub(crate) notice: Notice,
    pub(crate) deliveries: Arc<Deliveries>,
}

/// One receiver, and what it was offered.
pub(crate) struct Lane {
    pub(crate) receiver: Arc<Receiver>,
    queue: UnboundedSender<Queued>,
    waiting: Arc<AtomicUsize>,
    /// When the last notice was made on a topic of which there can be many, by its record.
    last: HashMap<NoticeTopic, Timestamp>,
    worker: JoinHandle<()>,
}

impl Lane {
    /// Begins to serve a receiver, within a runtime.
    pub(crate) fn start(
        receiver: Receiver,
        transport: Arc<dyn Transport>,
        closing: watch::Receiver<bool>,
        say: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        let (queue, queued) = unbounded_channel();
        let receiver = Arc::new(receiver);
        let waiting = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            receiver: Arc::clone(&receiver),
            transport,
            closing,
            say,
            waiting: Arc::clone(&waiting),
        };
        let worker = tokio::spawn(worker.serve(queued));
        Self { receiver, queue, waiting, last: HashMap::new(), worker }
    }

    /// Whether the receiver is to be sent the notice. Decided by what is recorded only, so that a restart decides the
    /// same.
    pub(crate) fn wants(&mut self, notice: &Notice) -> bool {
        if !self.receiver.on.contains(&notice.topic) {
            return false;
        }
        if !notice.topic.may_repeat() {
            return true;
        }
        let cooldown = jiff::SignedDuration::try_from(self.receiver.cooldown).unwrap_or_default();
        let last = self.last.get(&notice.topic);
        let is_due = last.is_none_or(|last| notice.time.duration_since(*last) >= cooldown);
        if is_due {
            self.last.insert(notice.topic, notice.time);
        }
        is_due
    }

    /// Forgets what was sent of an earlier run.
    pub(crate) fn begin_run(&mut self) {
        self.last.clear();
    }

    pub(crate) fn push(&self, notice: &Notice, deliveries: &Arc<Deliveries>) {
        let content = self.receiver.content;
        let notice = if content { notice.clone() } else { notice.without_content() };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        drop(self.queue.send(Queued { notice, deliveries: Arc::clone(deliveries) }));
    }

    /// Takes no more, and returns what ends once all is sent, and how many wait until then.
    pub(crate) fn close(self) -> (String, Arc<AtomicUsize>, JoinHandle<()>) {
        (self.receiver.name.clone(), self.waiting, self.worker)
    }
}

struct Worker {
    receiver: Arc<Receiver>,
    transport: Arc<dyn Transport>,
    closing: watch::Receiver<bool>,
    say: Arc<dyn Fn(&str) + Send + Sync>,
    waiting: Arc<AtomicUsize>,
}

impl Worker {
    async fn serve(mut self, mut queue: UnboundedReceiver<Queued>) {
        while let Some(queued) = queue.recv().await {
            if !self.deliver(&queued).await {
                return;
            }
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sends a notice until it is answered. Returns whether it was; only when the run ends it may not be.
    async fn deliver(&mut self, Queued { notice, deliveries }: &Queued) -> bool {
        let name = self.receiver.name.clone();
        let (mut failures, mut refusals, mut pause) = (0_u32, 0_u32, FIRST_PAUSE);
        let mut last_attempts = 0_u32;
        loop {
            let is_closing = *self.closing.borrow();
            last_attempts = last_attempts.saturating_add(u32::from(is_closing));
            let failure = match self.transport.send(&self.receiver, notice).await {
                Ok(delivery) => {
                    self.record(deliveries.end(&name, &notice.id, &delivery.answer, true));
                    if failures > 0 {
                        (self.say)(&format!("notify {name}: delivered again"));
                    }
                    return true;
                }
                Err(failure) => failure,
            };
            let SendError { message, is_refusal } = failure;
            failures = failures.saturating_add(1);
            refusals = refusals.saturating_add(u32::from(is_refusal));
            if refusals >= MOST_REFUSALS {
                (self.say)(&format!(
                    "notify {name}: {message}; the notice on {} is not sent again",
                    notice.topic.word()
                ));
                self.record(deliveries.end(&name, &notice.id, &message, false));
                return true;
            }
            if failures == 1 {
                (self.say)(&format!("notify {name}: {message}; it is sent again later"));
            }
            if last_attempts >= MOST_LAST_ATTEMPTS {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.closing.wait_for(|closing| *closing), if !is_closing => {}
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    fn record(&self, written: std::io::Result<()>) {
        if let Err(error) = written {
            let name = &self.receiver.name;
            let message = format!("notify {name}: what was delivered cannot be recorded: {error}");
            (self.say)(&message);
        }
    }
}
