//! How long observations and validations may take.

use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_machine::millis;

use super::clock::{Clock, LONGEST_SLEEP_MS};
use super::controls::RunControls;
use super::run_journal::RunJournal;
use super::stop::{StopRequests, stop_requested};

/// How long an observation may take once the run was asked to stop.
pub(super) const OBSERVE_AFTER_STOP: Duration = Duration::from_secs(2);
/// How long an observation may always take, however late it begins.
const OBSERVE_WHEN_LATE: Duration = Duration::from_secs(10);
/// How long git may take once the run was asked to stop.
pub(super) const SAVE_AFTER_STOP: Duration = Duration::from_secs(10);
/// How long git may always take that begins in time: a commit is a matter of seconds without long hooks.
const SAVE_WHEN_LATE: Duration = Duration::from_secs(10);
/// How long a validation, or git, may take that begins so late: what was done in time still counts.
const VALIDATE_WHEN_LATE: Duration = Duration::from_secs(60);

/// Until when something may take: the limit on the run's time, or requests to stop, end it.
#[derive(Clone)]
pub(super) struct TimeAllowance {
    stop: StopRequests,
    clock: Arc<Clock>,
    until_ms: u64,
}

impl RunControls {
    /// Returns the allowance for an observation of the workspace, which everything else depends on.
    pub(super) fn observation_allowance(&self, journal: &RunJournal) -> TimeAllowance {
        let late_ms = journal.clock.runtime_ms().saturating_add(millis(OBSERVE_WHEN_LATE));
        self.allowance(journal, max_runtime_ms(journal).max(late_ms))
    }

    /// Returns the allowance for a validation.
    pub(super) fn validation_allowance(&self, journal: &RunJournal) -> TimeAllowance {
        let (now_ms, max_ms) = (journal.clock.runtime_ms(), max_runtime_ms(journal));
        let late_ms = now_ms.saturating_add(millis(VALIDATE_WHEN_LATE));
        self.allowance(journal, if now_ms < max_ms { max_ms } else { late_ms })
    }

    fn allowance(&self, journal: &RunJournal, until_ms: u64) -> TimeAllowance {
        TimeAllowance { stop: self.stop.clone(), clock: Arc::clone(&journal.clock), until_ms }
    }
}

/// Returns the runtime until which git may take that began at this one.
pub(super) fn saving_until_ms(journal: &RunJournal, began_ms: u64) -> u64 {
    let max_ms = max_runtime_ms(journal);
    if began_ms < max_ms {
        max_ms.max(began_ms.saturating_add(millis(SAVE_WHEN_LATE)))
    } else {
        began_ms.saturating_add(millis(VALIDATE_WHEN_LATE))
    }
}

fn max_runtime_ms(journal: &RunJournal) -> u64 {
    // Before its first record a run has no limits of its own.
    match journal.state.started {
        Some(_) => journal.state.limits.max_runtime_ms.unwrap_or(u64::MAX),
        None => journal.context.config.limits.max_runtime.map_or(u64::MAX, millis),
    }
}

impl TimeAllowance {
    /// Resolves when the run's time is used up.
    pub(super) async fn expired(&self) {
        loop {
            let left = self.until_ms.saturating_sub(self.clock.runtime_ms());
            if left == 0 {
                return;
            }
            // By the clock of the run, which stands still when the machine does.
            tokio::time::sleep(Duration::from_millis(left.min(LONGEST_SLEEP_MS))).await;
        }
    }

    /// Resolves when the time is used up, [`OBSERVE_AFTER_STOP`] after a request to stop, or at a second
    /// request.
    pub(super) async fn expired_or_stopped(self) {
        let mut stop = self.stop.clone();
        let stopped = async {
            stop_requested(&mut stop, 1).await;
            tokio::time::sleep(OBSERVE_AFTER_STOP).await;
        };
        let mut again = self.stop.clone();
        tokio::select! {
            () = self.expired() => {}
            () = stopped => {}
            () = stop_requested(&mut again, 2) => {}
        }
    }
}
