//! Detectors that observe an agent's events as they come: each at its own pace, beside the agent. None that is slow or hangs may
//! use up the agent's time, or keep another's claims.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ralph_orchestrator_contract::{CancelSignal as _, Claim, CompletionDetector, Event};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::sleep;

use super::agent_message::AgentMessage;
use super::cancel::CancelToken;
use super::inspect;

/// How long a detector may take to answer to an event; half of the iteration's time, if that is less.
const OBSERVE_LIMIT: Duration = Duration::from_secs(10);
/// How long once the agent is cancelled, or if it ends when the iteration's time is used up.
pub(super) const OBSERVE_GRACE: Duration = Duration::from_secs(1);
/// How many bytes of events may wait for a detector. For more room the agent waits.
const QUEUE_BYTES: u32 = 1024 * 1024;
/// What an event takes of it beside its text.
const EVENT_BYTES: usize = 256;

/// An event that waits for a detector's answer, and the room that it takes.
struct QueuedEvent {
    event: Arc<Event>,
    _room: OwnedSemaphorePermit,
}

/// The events that wait for a detector.
struct EventQueue {
    detector: String,
    sender: mpsc::UnboundedSender<QueuedEvent>,
    /// Closed once the detector is asked no more.
    room: Arc<Semaphore>,
}

/// The queues of all detectors that observe.
#[derive(Default)]
pub(super) struct EventQueues(Vec<EventQueue>);

/// A detector that observes, and what it needs for that.
struct EventObserver<'a> {
    detector: &'a dyn CompletionDetector,
    receiver: mpsc::UnboundedReceiver<QueuedEvent>,
    room: Arc<Semaphore>,
    limit: Duration,
    cancel: CancelToken,
    messages: mpsc::Sender<AgentMessage>,
}

/// All detectors that observe.
pub(super) struct EventObservers<'a>(Vec<EventObserver<'a>>);

/// Returns the queues and the detectors of an iteration that may take so long. What the detectors find goes to `messages`.
pub(super) fn observe_events<'a>(
    detectors: &'a [Box<dyn CompletionDetector>],
    iteration_timeout: Duration,
    cancel: &CancelToken,
    messages: &mpsc::Sender<AgentMessage>,
) -> (EventQueues, EventObservers<'a>) {
    let (mut queues, mut observers) = (Vec::new(), Vec::new());
    for detector in detectors.iter().filter(|detector| detector.observes()) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(QUEUE_BYTES as usize));
        let queue =
            EventQueue { detector: detector.name().to_owned(), sender, room: Arc::clone(&room) };
        queues.push(queue);
        observers.push(EventObserver {
            detector: detector.as_ref(),
            receiver,
            room,
            limit: OBSERVE_LIMIT.min(iteration_timeout / 2),
            cancel: cancel.clone(),
            messages: messages.clone(),
        });
    }
    (EventQueues(queues), EventObservers(observers))
}

impl EventQueues {
    /// Queues an event for each detector that is still asked. Waits for room.
    pub(super) async fn push(&self, event: &Event) {
        if self.0.is_empty() {
            return;
        }
        let bytes = u32::try_from(event.weight().saturating_add(EVENT_BYTES)).unwrap_or(u32::MAX);
        let event = Arc::new(event.clone());
        for queue in &self.0 {
            let room = Arc::clone(&queue.room).acquire_many_owned(bytes.min(QUEUE_BYTES)).await;
            if let Ok(room) = room {
                // A detector that is asked no more has closed both.
                drop(queue.sender.send(QueuedEvent { event: Arc::clone(&event), _room: room }));
            }
        }
    }

    /// Waits until the detectors have answered to all events so far, or are asked no more.
    pub(super) async fn settle(&self) {
        for queue in &self.0 {
            drop(queue.room.acquire_many(QUEUE_BYTES).await);
        }
    }

    /// The same, but no longer than until `end`. Returns warnings about those that have not answered until then.
    pub(super) async fn settle_until(&self, end: impl Future<Output = ()>) -> Vec<String> {
        tokio::select! {
            biased;
            () = self.settle() => return Vec::new(),
            () = end => {}
        }
        let is_unsettled = |queue: &&EventQueue| {
            !queue.room.is_closed() && queue.room.available_permits() < QUEUE_BYTES as usize
        };
        self.0.iter().filter(is_unsettled).map(|queue| unanswered(&queue.detector)).collect()
    }
}

impl EventObservers<'_> {
    /// Asks the detectors, beside each other.
    pub(super) async fn run(self) -> Infallible {
        let mut running: Vec<_> =
            self.0.into_iter().map(|observer| Box::pin(observer.run())).collect();
        poll_fn(|context| {
            running.retain_mut(|observer| observer.as_mut().poll(context).is_pending());
            Poll::Pending
        })
        .await
    }
}

impl EventObserver<'_> {
    /// Asks the detector about event after event, until it does not answer in time.
    async fn run(mut self) {
        while let Some(queued) = self.receiver.recv().await {
            let Some(claims) = self.ask(&queued.event).await else {
                self.send(AgentMessage::Warning(unanswered(self.detector.name()))).await;
                self.room.close();
                return;
            };
            for claim in claims {
                let claim = inspect::named(claim, self.detector.name());
                self.send(AgentMessage::Claim(inspect::bounded(claim))).await;
            }
        }
    }

    /// Returns what the detector finds in an event; `None` if it does not answer in time.
    async fn ask(&self, event: &Event) -> Option<Vec<Claim>> {
        let too_late = async {
            tokio::select! {
                () = sleep(self.limit) => {}
                _ = self.cancel.cancelled() => sleep(OBSERVE_GRACE).await,
            }
        };
        tokio::select! {
            biased;
            claims = self.detector.observe(event) => Some(claims),
            () = too_late => None,
        }
    }

    async fn send(&self, message: AgentMessage) {
        // A closed channel means that the session no longer waits for this agent.
        drop(self.messages.send(message).await);
    }
}

fn unanswered(detector: &str) -> String {
    format!(
        "the detector `{detector}` has not answered to an event of the agent, and is asked no more until the iteration ends"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use ralph_orchestrator_contract::{ClaimKind, ClaimSource, DetectorInput, Findings};
    use tokio::sync::watch;

    use super::*;

    /// Claims each event's text, or never answers.
    struct Observer {
        name: &'static str,
        hangs: bool,
        asked: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl CompletionDetector for Observer {
        fn name(&self) -> &str {
            self.name
        }

        fn observes(&self) -> bool {
            true
        }

        async fn observe(&self, event: &Event) -> Vec<Claim> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.hangs {
                std::future::pending::<()>().await;
            }
            let Event::Text { text } = event else { return Vec::new() };
            let (kind, source) = (ClaimKind::Complete, ClaimSource::Tool);
            vec![Claim { kind, detector: String::new(), source, text: text.clone() }]
        }

        async fn inspect(&self, _: DetectorInput<'_>) -> Findings {
            Findings::default()
        }

        fn instructions(&self) -> String {
            String::new()
        }
    }

    /// Sends so many events of this text to one detector that hangs and one that answers. Returns what they found and how often
    /// they were asked, in this order, and how long the agent was held up and the end took.
    async fn observe(
        (count, text): (usize, &str),
        limit_s: u64,
        left_s: u64,
    ) -> (Vec<String>, [usize; 2], [Duration; 2]) {
        let asked = [Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default()];
        let detector = |name, hangs, asked: &Arc<AtomicUsize>| {
            Box::new(Observer { name, hangs, asked: Arc::clone(asked) })
                as Box<dyn CompletionDetector>
        };
        let detectors = [detector("stuck", true, &asked[0]), detector("quick", false, &asked[1])];
        let (_sender, cancelled) = watch::channel(None);
        let (messages, mut received) = mpsc::channel(4096);
        let cancel = CancelToken::new(cancelled);
        let timeout = Duration::from_secs(limit_s);
        let (queues, observers) = observe_events(&detectors, timeout, &cancel, &messages);
        let work = async {
            let began = tokio::time::Instant::now();
            for _ in 0..count {
                queues.push(&Event::Text { text: text.to_owned() }).await;
            }
            let held = began.elapsed();
            let late = queues.settle_until(sleep(Duration::from_secs(left_s))).await;
            (late, [held, began.elapsed() - held])
        };
        let (late, took) = tokio::select! {
            ended = work => ended,
            never = observers.run() => match never {},
        };
        let mut found = late;
        while let Ok(message) = received.try_recv() {
            match message {
                AgentMessage::Claim(claim) => found.push(format!("{}: claim", claim.detector)),
                AgentMessage::Warning(warning) => found.push(warning),
                _ => {}
            }
        }
        found.sort();
        (found, asked.map(|asked| asked.load(Ordering::Relaxed)), took)
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_hangs_is_named_asked_once_and_holds_up_nobody() {
        let table = [
            // It is given up while the iteration still has time, or at its end.
            ((3, "x"), 60, 50, [0, 10]),
            ((3, "x"), 3, 3, [0, 1]),
            ((3, "x"), 60, 2, [0, 2]),
            // More than may wait for it: the agent is held up, but for less than its time.
            ((40, &*"x".repeat(64 * 1024)), 3, 3, [1, 0]),
        ];
        for ((count, text), timeout, left, seconds) in table {
            let (mut found, asked, took) = observe((count, text), timeout, left).await;
            let warning = found.pop().unwrap_or_default();
            assert_eq!(warning, unanswered("stuck"), "{found:?}");
            assert_eq!(found, vec!["quick: claim"; count]);
            assert_eq!(asked, [1, count]);
            assert_eq!(took.map(|took| took.as_secs()), seconds);
        }
    }
}
