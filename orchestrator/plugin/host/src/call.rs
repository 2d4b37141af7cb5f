//! A call in progress.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_contract::{CancelReason, Guidance, ValidationPreview};
use ralph_orchestrator_plugin_protocol::{HostFrame, WINDOW};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::call_event::{CallEvent, CallOutcome};
use crate::session_state::Shared;

/// Credit is granted in batches of so many events.
const CREDIT_BATCH: u32 = WINDOW / 2;

/// A call in progress. Dropping it cancels the call.
pub struct CallHandle {
    shared: Arc<Shared>,
    call: u64,
    /// What was received before the call.
    before: VecDeque<CallEvent>,
    events: mpsc::Receiver<CallEvent>,
    /// Events received since credit was last granted.
    ungranted: u32,
    ended: bool,
    _turn: Option<OwnedSemaphorePermit>,
}

impl CallHandle {
    pub(crate) fn new(
        shared: Arc<Shared>,
        call: u64,
        (before, events): (VecDeque<CallEvent>, mpsc::Receiver<CallEvent>),
        turn: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { shared, call, before, events, ungranted: 0, ended: false, _turn: turn }
    }

    /// Receives the next event. Not to be called again after [`CallEvent::Ended`]. Not calling it slows
    /// the plugin down. Cancel safe.
    pub async fn next_event(&mut self) -> CallEvent {
        if let Some(event) = self.before.pop_front() {
            return event;
        }
        let event = self.events.recv().await.unwrap_or_else(|| {
            CallEvent::Ended(CallOutcome::SessionClosed(self.shared.close_reason().0))
        });
        match &event {
            CallEvent::Agent(_) => {
                self.ungranted += 1;
                if self.ungranted >= CREDIT_BATCH {
                    self.grant_credit();
                }
            }
            CallEvent::Ended(_) => self.ended = true,
            _ => {}
        }
        event
    }

    /// Waits for the outcome and discards all other events.
    pub async fn outcome(&mut self) -> CallOutcome {
        loop {
            if let CallEvent::Ended(outcome) = self.next_event().await {
                return outcome;
            }
        }
    }

    /// Asks the plugin to end the call within `grace`. The caller enforces the grace period.
    pub fn cancel(&self, reason: CancelReason, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let cancel = self.shared.state().protocol.cancel(self.call, reason, grace_ms);
        self.send(cancel.map(HostFrame::Cancel));
    }

    /// Answers [`CallEvent::PreviewRequested`].
    pub fn send_preview(&self, request: u64, preview: ValidationPreview) {
        let result = self.shared.state().protocol.answer_preview(self.call, request, preview);
        self.send(result.map(HostFrame::PreviewResult));
    }

    /// Answers [`CallEvent::WriteCheckRequested`].
    pub fn send_write_check(&self, request: u64, refused: bool) {
        let result = self.shared.state().protocol.answer_write_check(self.call, request, refused);
        self.send(result.map(HostFrame::WriteCheckResult));
    }

    /// Answers [`CallEvent::GuidanceRequested`].
    pub fn send_guidance(&self, request: u64, guidance: Vec<Guidance>) {
        let result = self.shared.state().protocol.answer_guidance(self.call, request, guidance);
        self.send(result.map(HostFrame::GuidanceResult));
    }

    fn grant_credit(&mut self) {
        let events = std::mem::take(&mut self.ungranted);
        let credit = self.shared.state().protocol.grant_credit(self.call, events);
        self.send(credit.map(HostFrame::Credit));
    }

    fn send(&self, frame: Option<HostFrame>) {
        // A failure closes the session, which the next event reports.
        frame.map(|frame| self.shared.send(&frame).ok());
    }
}

impl Drop for CallHandle {
    fn drop(&mut self) {
        if !self.ended {
            let method = self.shared.state().protocol.method_of(self.call);
            if let Some(method) = method {
                self.shared.options.remarks.unanswered(self.call, method);
            }
            self.cancel(CancelReason::Signal, Duration::ZERO);
        }
    }
}
