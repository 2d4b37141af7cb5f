//! One execution of a validator, within its time.

use std::time::Duration;

use tokio::sync::watch;

use super::cancel::CancelToken;
use super::validation_policy::ConfiguredValidator;
use ralph_orchestrator_contract::{CancelReason, ValidationContext, Verdict};

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

/// Executes a validator until `end` resolves; `None` if it was cancelled.
pub(super) async fn execute(
    check: &ConfiguredValidator,
    context: ValidationContext<'_>,
    end: impl Future<Output = WaitEnd>,
) -> Option<Verdict> {
    let (cancel_sender, cancelled) = watch::channel(None);
    let cancel = CancelToken::new(cancelled);
    let mut work = check.validator.validate(context, &cancel);
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
    cancel_sender.send_replace(Some(reason));
    drop(tokio::time::timeout(GRACE, &mut work).await);
    verdict
}

fn timed_out(after: Duration) -> Verdict {
    let seconds = after.as_secs_f64();
    Verdict::Error { message: format!("it did not end within {seconds} s") }
}
