//! The events of a run, on their way to a program that may not read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ralph_orchestrator_engine::{RunEvent, RunObserver};
use tokio::sync::mpsc;

/// So much of what an agent reports waits to be read, in bytes.
const MOST: usize = 16 * 1024 * 1024;
/// What an event takes beside its texts.
const EACH: usize = 256;

/// What happened since the last update.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunUpdate {
    /// Something happened in the run.
    Event(RunEvent),
    /// So many reports of the agent were discarded since the last update, because the updates were not read in
    /// time: its texts, tools and figures. Everything else is kept.
    Missed(u64),
}

/// The queue of one run: the engine never waits for its reader.
pub(super) fn queue() -> (EventSender, EventReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::<Waiting>::default();
    let sender = EventSender { sender, waiting: Arc::clone(&waiting) };
    (sender, EventReceiver { receiver, waiting, next: None })
}

#[derive(Default)]
struct Waiting {
    bytes: AtomicUsize,
    missed: AtomicU64,
}

pub(super) struct EventSender {
    sender: mpsc::UnboundedSender<RunEvent>,
    waiting: Arc<Waiting>,
}

pub(super) struct EventReceiver {
    receiver: mpsc::UnboundedReceiver<RunEvent>,
    waiting: Arc<Waiting>,
    /// Comes after the number of those before it that were discarded.
    next: Option<RunEvent>,
}

impl EventSender {
    pub(super) fn send(&self, event: RunEvent) {
        let size = reported_size(&event);
        if let Some(size) = size {
            let before = self.waiting.bytes.fetch_add(size, Ordering::Relaxed);
            if before.saturating_add(size) > MOST {
                self.waiting.bytes.fetch_sub(size, Ordering::Relaxed);
                self.waiting.missed.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        // Nobody reads any more: then there is nobody to send it to.
        drop(self.sender.send(event));
    }
}

impl RunObserver for EventSender {
    fn on_event(&self, _run: &str, event: &RunEvent) {
        self.send(event.clone());
    }
}

impl EventReceiver {
    pub(super) async fn next(&mut self) -> Option<RunUpdate> {
        if let Some(event) = self.next.take() {
            return Some(RunUpdate::Event(event));
        }
        let event = self.receiver.recv().await;
        if let Some(size) = event.as_ref().and_then(reported_size) {
            self.waiting.bytes.fetch_sub(size, Ordering::Relaxed);
        }
        match self.waiting.missed.swap(0, Ordering::Relaxed) {
            0 => event.map(RunUpdate::Event),
            missed => {
                self.next = event;
                Some(RunUpdate::Missed(missed))
            }
        }
    }
}

/// What the agent itself can send without end, in bytes; `None` of what the run sends.
fn reported_size(event: &RunEvent) -> Option<usize> {
    let size = match event {
        RunEvent::AgentText { text, .. } | RunEvent::Note { text, .. } => text.len(),
        RunEvent::AgentTool { name, input, .. } => name.len() + input.to_string().len(),
        RunEvent::AgentEvent { detail, .. } => detail.weight(),
        RunEvent::Usage { .. } | RunEvent::Context { .. } => 0,
        _ => return None,
    };
    Some(size.saturating_add(EACH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(length: usize) -> RunEvent {
        RunEvent::AgentText { iteration: 1, text: "x".repeat(length) }
    }

    fn warning() -> RunEvent {
        RunEvent::Warning { iteration: 1, message: "w".to_owned() }
    }

    #[tokio::test]
    async fn what_is_not_read_in_time_is_counted_and_the_rest_is_kept() {
        let (sender, mut receiver) = queue();
        for _ in 0..20 {
            sender.send(text(MOST / 10));
        }
        sender.send(warning());
        assert_eq!(receiver.next().await, Some(RunUpdate::Missed(11)));
        for _ in 0..9 {
            assert!(matches!(
                receiver.next().await,
                Some(RunUpdate::Event(RunEvent::AgentText { .. }))
            ));
        }
        assert_eq!(receiver.next().await, Some(RunUpdate::Event(warning())));
        // There is room again.
        sender.send(text(MOST / 2));
        assert_eq!(receiver.next().await, Some(RunUpdate::Event(text(MOST / 2))));
        drop(sender);
        assert_eq!(receiver.next().await, None);
    }

    #[tokio::test]
    async fn a_flood_of_small_reports_is_bounded_too() {
        let (sender, mut receiver) = queue();
        for _ in 0..MOST / EACH + 5 {
            sender.send(text(0));
        }
        assert_eq!(receiver.next().await, Some(RunUpdate::Missed(5)));
    }
}
