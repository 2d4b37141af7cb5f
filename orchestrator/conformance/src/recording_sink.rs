//! An event sink that records events.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use ralph_orchestrator_contract::{
    CancelReason, CancelSignal, Event, EventSink, Guidance, Usage, ValidationPreview, async_trait,
};
use tokio::sync::watch;

/// No preview takes longer to be requested.
const TIMEOUT: Duration = Duration::from_secs(60);

type EventFilter = Box<dyn Fn(&Event) -> bool + Send + Sync>;

/// Records events, answers preview requests, and may cancel.
pub struct RecordingSink {
    events: Mutex<Vec<Event>>,
    cancel: watch::Sender<Option<CancelReason>>,
    /// Cancels at the first event that matches.
    cancel_at: Option<EventFilter>,
    /// Why it cancels then.
    cancel_reason: CancelReason,
    /// The answers to preview requests, in order; `None` never answers.
    previews: Mutex<VecDeque<Option<ValidationPreview>>>,
    /// The final texts of the preview requests so far.
    requested: watch::Sender<Vec<Option<String>>>,
    guidance: Mutex<Vec<Guidance>>,
}

impl Default for RecordingSink {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordingSink {
    /// Creates a sink that answers preview requests with `NoClaim`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            events: Mutex::default(),
            cancel: watch::channel(None).0,
            cancel_at: None,
            cancel_reason: CancelReason::Signal,
            previews: Mutex::default(),
            requested: watch::channel(Vec::new()).0,
            guidance: Mutex::default(),
        }
    }

    /// Creates a sink that cancels at the first event that matches.
    #[must_use]
    pub fn cancelling_at(event: impl Fn(&Event) -> bool + Send + Sync + 'static) -> Self {
        Self { cancel_at: Some(Box::new(event)), ..Self::new() }
    }

    /// Cancels for this reason at the event that matches.
    #[must_use]
    pub fn with_reason(self, reason: CancelReason) -> Self {
        Self { cancel_reason: reason, ..self }
    }

    /// Creates a sink that answers preview requests in order; `None` never answers.
    #[must_use]
    pub fn with_previews(previews: impl IntoIterator<Item = Option<ValidationPreview>>) -> Self {
        let previews = Mutex::new(previews.into_iter().collect());
        Self { previews, ..Self::new() }
    }

    /// Offers the agent guidance of a person.
    ///
    /// # Panics
    /// If a test has panicked with the guidance.
    pub fn send_guidance(&self, id: &str, text: &str) {
        let guidance = Guidance { id: id.to_owned(), text: text.to_owned() };
        self.guidance.lock().unwrap().push(guidance);
    }

    /// Cancels.
    pub fn cancel(&self, reason: CancelReason) {
        self.cancel.send_replace(Some(reason));
    }

    /// Returns the events so far.
    ///
    /// # Panics
    /// If a test has panicked with them.
    pub fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap()
    }

    /// Returns the usage events so far.
    #[must_use]
    pub fn usages(&self) -> Vec<Usage> {
        let usage = |event: &Event| match event {
            Event::Usage { usage } => Some(*usage),
            _ => None,
        };
        self.events().iter().filter_map(usage).collect()
    }

    /// Whether a warning contains this text.
    #[must_use]
    pub fn has_warning(&self, text: &str) -> bool {
        let matches =
            |event: &Event| matches!(event, Event::Warning { message } if message.contains(text));
        self.events().iter().any(matches)
    }

    /// Returns the final texts of the preview requests so far.
    #[must_use]
    pub fn preview_requests(&self) -> Vec<Option<String>> {
        self.requested.borrow().clone()
    }

    /// Waits for a preview request.
    ///
    /// # Panics
    /// On timeout.
    pub async fn wait_for_preview_request(&self) {
        let mut requested = self.requested.subscribe();
        let wait = requested.wait_for(|requested| !requested.is_empty());
        let result = tokio::time::timeout(TIMEOUT, wait).await;
        assert!(result.is_ok(), "no preview was requested");
    }
}

#[async_trait]
impl CancelSignal for RecordingSink {
    async fn cancelled(&self) -> CancelReason {
        let mut receiver = self.cancel.subscribe();
        let reason = receiver.wait_for(Option::is_some).await.unwrap();
        reason.unwrap()
    }
}

#[async_trait]
impl EventSink for RecordingSink {
    async fn emit(&self, event: Event) {
        if self.cancel_at.as_ref().is_some_and(|wanted| wanted(&event)) {
            self.cancel(self.cancel_reason);
        }
        self.events().push(event);
    }

    async fn preview(&self, final_text: Option<&str>) -> ValidationPreview {
        self.requested.send_modify(|requested| requested.push(final_text.map(str::to_owned)));
        let preview = self.previews.lock().unwrap().pop_front();
        match preview {
            Some(Some(preview)) => preview,
            Some(None) => std::future::pending().await,
            None => ValidationPreview::NoClaim,
        }
    }

    fn take_guidance(&self) -> Vec<Guidance> {
        std::mem::take(&mut self.guidance.lock().unwrap())
    }
}
