//! The calls that are going on.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ralph_orchestrator_contract::{CancelReason, Judgement};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use crate::sink::Asks;

/// A call that is going on.
pub(crate) struct Active {
    pub(crate) cancel: watch::Sender<Option<CancelReason>>,
    pub(crate) credits: Option<Arc<Semaphore>>,
    pub(crate) asks: Arc<Asks>,
    pub(crate) task: AbortHandle,
}

/// All of them, by their numbers. What is said about one that is not there comes too late, and is
/// ignored.
#[derive(Default)]
pub(crate) struct Calls {
    active: Mutex<HashMap<u64, Active>>,
    fewer: Condvar,
}

impl Calls {
    fn active(&self) -> MutexGuard<'_, HashMap<u64, Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, number: u64, active: Active) {
        self.active().insert(number, active);
    }

    pub(crate) fn remove(&self, number: u64) {
        self.active().remove(&number);
        self.fewer.notify_all();
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.active().contains_key(&number)
    }

    pub(crate) fn cancel(&self, number: u64, reason: CancelReason) {
        if let Some(active) = self.active().get(&number) {
            active.cancel.send_if_modified(|now| now.replace(reason).is_none());
        }
    }

    pub(crate) fn cancel_all(&self, reason: CancelReason) {
        for active in self.active().values() {
            active.cancel.send_if_modified(|now| now.replace(reason).is_none());
        }
    }

    pub(crate) fn abort(&self, number: u64) {
        if let Some(active) = self.active().get(&number) {
            active.task.abort();
        }
    }

    pub(crate) fn abort_all(&self) {
        for active in self.active().values() {
            active.task.abort();
        }
    }

    pub(crate) fn answer(&self, number: u64, ask: u64, judgement: Judgement) {
        if let Some(active) = self.active().get(&number) {
            active.asks.answer(ask, judgement);
        }
    }

    pub(crate) fn credit(&self, number: u64, events: u32) {
        if let Some(credits) = self.active().get(&number).and_then(|call| call.credits.as_ref()) {
            let room = Semaphore::MAX_PERMITS.saturating_sub(credits.available_permits());
            credits.add_permits(usize::try_from(events).unwrap_or(room).min(room));
        }
    }

    /// Waits until all have ended, but not longer.
    pub(crate) fn wait(&self, within: Duration) {
        let (active, _) = self
            .fewer
            .wait_timeout_while(self.active(), within, |active| !active.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        drop(active);
    }
}
