//! How long work beside the agent may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::clock::Clock;
use super::error::EngineError;
use super::look::blocking;
use super::plan;
use super::rest::{LONGEST_REST_MS, asked};
use super::session::{Session, StopRequests};

/// How long a look may take once the run was asked to stop.
pub(super) const LAST_LOOK: Duration = Duration::from_secs(2);
/// How long a look may always take, however late it is.
const LATE_LOOK: Duration = Duration::from_secs(10);
/// How long a validation may take that begins so late: what was done in time still counts.
const LATE_VALIDATION: Duration = Duration::from_secs(60);

/// Until when something may go on: the limit on the run's time, or requests to stop, end it.
#[derive(Clone)]
pub(super) struct Allowance {
    stop: StopRequests,
    clock: Arc<Clock>,
    until_ms: u64,
}

impl Session {
    /// For a look at the workspace, which the rest depends on.
    pub(super) fn time_to_look(&self) -> Allowance {
        let late_ms = self.clock.runtime_ms().saturating_add(plan::millis(LATE_LOOK));
        self.allowance(self.max_runtime_ms().max(late_ms))
    }

    /// For a validation.
    pub(super) fn time_to_validate(&self) -> Allowance {
        let (now_ms, max_ms) = (self.clock.runtime_ms(), self.max_runtime_ms());
        let late_ms = now_ms.saturating_add(plan::millis(LATE_VALIDATION));
        self.allowance(if now_ms < max_ms { max_ms } else { late_ms })
    }

    fn max_runtime_ms(&self) -> u64 {
        self.config.limits.max_runtime.map_or(u64::MAX, plan::millis)
    }

    fn allowance(&self, until_ms: u64) -> Allowance {
        Allowance { stop: self.stop.clone(), clock: Arc::clone(&self.clock), until_ms }
    }
}

impl Allowance {
    /// Resolves when the run's time is used up.
    pub(super) async fn used_up(&self) {
        loop {
            let left = self.until_ms.saturating_sub(self.clock.runtime_ms());
            if left == 0 {
                return;
            }
            // By the clock of the run, which stands still when the machine does.
            tokio::time::sleep(Duration::from_millis(left.min(LONGEST_REST_MS))).await;
        }
    }

    /// Resolves when the time is used up, when a request to stop has come and a look has had the time
    /// that one usually takes, or at another request.
    pub(super) async fn over(self) {
        let mut stop = self.stop.clone();
        let asked_once = async {
            asked(&mut stop, 1).await;
            tokio::time::sleep(LAST_LOOK).await;
        };
        let mut again = self.stop.clone();
        tokio::select! {
            () = self.used_up() => {}
            () = asked_once => {}
            () = asked(&mut again, 2) => {}
        }
    }
}

/// Work that would hold up everything else, and that ends soon after `enough` when told so by its flag.
pub(super) async fn cancellable<T: Send + 'static>(
    enough: impl Future<Output = ()>,
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T, EngineError> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancelled);
    let mut work = std::pin::pin!(blocking(move || work(flag)));
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = enough => {}
    }
    cancelled.store(true, Ordering::Relaxed);
    work.await
}
