//! One execution of a validator, within its time.

use std::time::Duration;

use ralph_orchestrator_contract::{CancelReason, Verdict};
use tokio::sync::watch;

use super::cancel::CancelToken;

/// How long a cancelled validator may take to end.
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// Why a validator is no longer waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// It used up its time.
    TimedOut(Duration),
    /// The validation was cancelled.
    Cancelled(CancelReason),
}

/// One execution of a validator.
pub(super) struct Execution {
    /// Ends it early.
    pub(super) cancel: CancelToken,
    sender: watch::Sender<Option<CancelReason>>,
}

impl Default for Execution {
    fn default() -> Self {
        let (sender, cancelled) = watch::channel(None);
        Self { cancel: CancelToken::new(cancelled), sender }
    }
}

impl Execution {
    /// Waits for its verdict until `end` resolves; `None` if it was cancelled.
    pub(super) async fn wait(
        &self,
        mut work: impl Future<Output = Verdict> + Unpin,
        end: impl Future<Output = WaitEnd>,
    ) -> Option<Verdict> {
        let end = tokio::select! {
            biased;
            verdict = &mut work => return Some(verdict),
            end = end => end,
        };
        let (reason, verdict) = match end {
            WaitEnd::TimedOut(after) => (CancelReason::Timeout, Some(timed_out(after))),
            WaitEnd::Cancelled(reason) => (reason, None),
        };
        // The validator ends its processes; if it cannot, dropping it does.
        self.sender.send_replace(Some(reason));
        drop(tokio::time::timeout(GRACE, work).await);
        verdict
    }
}

fn timed_out(after: Duration) -> Verdict {
    let seconds = after.as_secs_f64();
    Verdict::Error { message: format!("it did not end within {seconds} s") }
}
