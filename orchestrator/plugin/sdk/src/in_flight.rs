//! The calls in flight.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ralph_orchestrator_contract::{CancelReason, Guidance, ValidationPreview};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use crate::sink::Requests;

/// A call in flight.
pub(crate) struct InFlightCall {
    pub(crate) cancel: watch::Sender<Option<CancelReason>>,
    pub(crate) credits: Option<Arc<Semaphore>>,
    pub(crate) previews: Arc<Requests<ValidationPreview>>,
    pub(crate) write_checks: Option<Arc<Requests<bool>>>,
    pub(crate) guidance: Option<Arc<Requests<Vec<Guidance>>>>,
    pub(crate) task: AbortHandle,
}

/// The calls in flight, by number. Frames for other calls come too late and are ignored.
#[derive(Default)]
pub(crate) struct InFlight {
    calls: Mutex<HashMap<u64, InFlightCall>>,
    removed: Condvar,
}

impl InFlight {
    fn calls(&self) -> MutexGuard<'_, HashMap<u64, InFlightCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, number: u64, call: InFlightCall) {
        self.calls().insert(number, call);
    }

    pub(crate) fn remove(&self, number: u64) {
        self.calls().remove(&number);
        self.removed.notify_all();
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.calls().contains_key(&number)
    }

    pub(crate) fn cancel(&self, number: u64, reason: CancelReason) {
        if let Some(call) = self.calls().get(&number) {
            call.cancel.send_if_modified(|now| now.replace(reason).is_none());
        }
    }

    pub(crate) fn cancel_all(&self, reason: CancelReason) {
        for call in self.calls().values() {
            call.cancel.send_if_modified(|now| now.replace(reason).is_none());
        }
    }

    pub(crate) fn abort(&self, number: u64) {
        if let Some(call) = self.calls().get(&number) {
            call.task.abort();
        }
    }

    pub(crate) fn abort_all(&self) {
        for call in self.calls().values() {
            call.task.abort();
        }
    }

    pub(crate) fn complete_preview(&self, number: u64, request: u64, preview: ValidationPreview) {
        if let Some(call) = self.calls().get(&number) {
            call.previews.complete(request, preview);
        }
    }

    pub(crate) fn complete_write_check(&self, number: u64, request: u64, refused: bool) {
        let calls = self.calls();
        let write_checks = calls.get(&number).and_then(|call| call.write_checks.as_ref());
        if let Some(write_checks) = write_checks {
            write_checks.complete(request, refused);
        }
    }

    pub(crate) fn complete_guidance(&self, number: u64, request: u64, guidance: Vec<Guidance>) {
        let calls = self.calls();
        let requests = calls.get(&number).and_then(|call| call.guidance.as_ref());
        if let Some(requests) = requests {
            requests.complete(request, guidance);
        }
    }

    pub(crate) fn add_credit(&self, number: u64, events: u32) {
        if let Some(credits) = self.calls().get(&number).and_then(|call| call.credits.as_ref()) {
            let room = Semaphore::MAX_PERMITS.saturating_sub(credits.available_permits());
            credits.add_permits(usize::try_from(events).unwrap_or(room).min(room));
        }
    }

    /// Waits until all calls have ended, up to `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let (calls, _) = self
            .removed
            .wait_timeout_while(self.calls(), timeout, |calls| !calls.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        drop(calls);
    }
}
