//! The way to one receiver: its notices in order, each until it is answered.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use ralph_orchestrator_config::NoticeTopic;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::deliveries::Deliveries;
use crate::notice::Notice;
use crate::receiver::Receiver;
use crate::retries::{Retries, Retry};
use crate::transport::{SendError, Transport};

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
        let mut retries = Retries::default();
        loop {
            retries.begin(&self.closing);
            let sent = match deliveries.find_changed_script(&name, &self.receiver.scripts) {
                Some(path) => Err(changed_script(&path)),
                None => self.transport.send(&self.receiver, notice).await,
            };
            let failure = match sent {
                Ok(delivery) => {
                    self.record(deliveries.end(&name, &notice.id, &delivery.answer, true));
                    if retries.failures() > 0 {
                        (self.say)(&format!("notify {name}: delivered again"));
                    }
                    return true;
                }
                Err(failure) => failure,
            };
            let SendError { message, is_refusal } = failure;
            let retry = retries.fail(is_refusal);
            if retry == Retry::Never {
                (self.say)(&format!(
                    "notify {name}: {message}; the notice on {} is not sent again",
                    notice.topic.word()
                ));
                self.record(deliveries.end(&name, &notice.id, &message, false));
                return true;
            }
            if retries.failures() == 1 {
                (self.say)(&format!("notify {name}: {message}; it is sent again later"));
            }
            if retry == Retry::Later {
                return false;
            }
            retries.wait(&mut self.closing).await;
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

/// Says why a command is not run: what it runs may be the agent's by now.
fn changed_script(path: &str) -> SendError {
    let message = format!(
        "{path} was changed since the run began, so it is not run; if the change is yours, `ralph-orchestrator notify` \
         accepts it"
    );
    SendError { message, is_refusal: true }
}
