//! A call that goes on.

use std::sync::Arc;
use std::time::Duration;

use plugin_protocol::{HostFrame, LogLine, WINDOW};
use ralph_orchestrator_contract::{CancelReason, Event, Judgement};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::session::Shared;
use crate::talk::Outcome;

/// After so many events that were taken, credit is given for as many.
const BATCH: u32 = WINDOW / 2;

/// What is told of a call.
#[derive(Debug)]
pub enum Told {
    /// Something happened inside it.
    Event(Event),
    /// The plugin printed a line on its standard error.
    Stderr(String),
    /// The plugin logged something.
    Log(LogLine),
    /// It is asked what would become of the work; see [`Running::answer`].
    Judge {
        /// The number of the question.
        ask: u64,
        /// What the agent's last message would be.
        final_text: Option<String>,
    },
    /// It came to its end. The last that is told.
    Ended(Outcome),
}

/// A call that goes on. When it is dropped, the plugin is told that nobody waits for it any more.
pub struct Running {
    shared: Arc<Shared>,
    call: u64,
    told: mpsc::Receiver<Told>,
    taken: u32,
    ended: bool,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Running {
    pub(crate) const fn new(
        shared: Arc<Shared>,
        call: u64,
        told: mpsc::Receiver<Told>,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { shared, call, told, taken: 0, ended: false, _turn: turn }
    }

    /// What is told next. Not to be called again after [`Told::Ended`]. Whoever does not call it slows
    /// the plugin down. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Told {
        let told = self.told.recv().await;
        match told {
            Some(Told::Event(event)) => {
                self.taken += 1;
                if self.taken >= BATCH {
                    self.grant();
                }
                Told::Event(event)
            }
            Some(Told::Ended(outcome)) => {
                self.ended = true;
                Told::Ended(outcome)
            }
            Some(told) => told,
            None => {
                self.ended = true;
                Told::Ended(Outcome::Broken(self.shared.why().0))
            }
        }
    }

    /// How it ends, whatever else is told.
    pub async fn outcome(&mut self) -> Outcome {
        loop {
            if let Told::Ended(outcome) = self.next().await {
                return outcome;
            }
        }
    }

    /// Asks the plugin to bring the call to its end; after `grace` nobody waits for it any more, which
    /// is the caller's to keep.
    pub fn cancel(&self, reason: CancelReason, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let cancel = self.shared.state().talk.cancel(self.call, reason, grace_ms);
        self.send(cancel.map(HostFrame::Cancel));
    }

    /// Answers a question.
    pub fn answer(&self, ask: u64, judgement: Judgement) {
        let given = self.shared.state().talk.judgement(self.call, ask, judgement);
        self.send(given.map(HostFrame::Judgement));
    }

    fn grant(&mut self) {
        let events = std::mem::take(&mut self.taken);
        let credit = self.shared.state().talk.credit(self.call, events);
        self.send(credit.map(HostFrame::Credit));
    }

    fn send(&self, frame: Option<HostFrame>) {
        // If it cannot be sent, the conversation is broken, and the next that is told says so.
        frame.map(|frame| self.shared.send(&frame).ok());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.cancel(CancelReason::Signal, Duration::ZERO);
        }
    }
}
