//! One execution of a validator, within its time.

use std::time::Duration;

use tokio::sync::watch;

use super::cancel::CancelToken;
use super::validation_policy::ConfiguredValidator;
use ralph_orchestrator_contract::{CancelReason, ValidationContext, Verdict};

/// How long a validator that was told to end may take to do so.
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// Why a validator is waited for no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// It had all the time that it may take: so much.
    TimedOut(Duration),
    /// Nobody wants its verdict any more.
    Cancelled(CancelReason),
}

/// Executes a validator until `over` resolves; `None` if it was cancelled.
pub(super) async fn execute(
    check: &ConfiguredValidator,
    context: ValidationContext<'_>,
    over: impl Future<Output = Over>,
) -> Option<Verdict> {
    let (tell, told) = watch::channel(None);
    let cancel = CancelToken::new(told);
    let mut work = check.validator.validate(context, &cancel);
    let over = tokio::select! {
        biased;
        verdict = &mut work => return Some(verdict),
        over = over => over,
    };
    let (reason, verdict) = match over {
        Over::TimedOut(after) => (CancelReason::Timeout, Some(timed_out(after))),
        Over::Cancelled(reason) => (reason, None),
    };
    // The validator ends its processes; if it cannot, dropping it does.
    tell.send_replace(Some(reason));
    drop(tokio::time::timeout(GRACE, &mut work).await);
    verdict
}

fn timed_out(after: Duration) -> Verdict {
    let seconds = after.as_secs_f64();
    Verdict::Error { message: format!("it did not end within {seconds} s") }
}
