//! Waits for a provider that refuses requests.

use super::input::Effect;
use super::record::Record;
use super::stop::StopReason;
use super::transition::Transition;

/// The wait after the first refusal by the provider that does not say until when; doubled each time.
const FIRST_DEFERRAL_MS: u64 = 30_000;
/// The longest such wait.
const LONGEST_DEFERRAL_MS: u64 = 30 * 60_000;
/// So many refusals in a row are tried again when the provider says; after that no sooner than without a time.
const MOST_TIMED_DEFERRALS: u32 = 5;

/// Whether the wait is over that the last refusal led to.
pub(super) fn is_over(next: &Transition) -> bool {
    next.state.waiting.as_ref().is_some_and(|wait| wait.until_ms <= next.now.unix_ms)
}

/// Waits until the provider accepts requests again, if that is not too long.
pub(super) fn defer(next: &mut Transition, reason: String, retry_at_ms: Option<u64>) {
    let now = next.now.unix_ms;
    if let Some(wait) = &next.state.waiting {
        return next.effect(Effect::WaitUntil(wait.until_ms));
    }
    let until_ms = retry_at(next, retry_at_ms);
    let wait_ms = until_ms.saturating_sub(now);
    let limits = &next.state.limits;
    if wait_ms > limits.max_wait_ms {
        let message = format!("{reason}; the wait would be longer than limits.max_wait");
        return next.finish(StopReason::NeedsHuman, message);
    }
    let left = limits.max_runtime_ms.map(|max| max.saturating_sub(next.runtime_ms()));
    if left.is_some_and(|left| wait_ms >= left) {
        let message = format!("{reason}; the wait would last beyond limits.max_runtime");
        return next.finish(StopReason::MaxRuntime, message);
    }
    next.record(Record::Waiting { until_ms, reason });
    next.effect(Effect::WaitUntil(until_ms));
}

/// Returns when to try again: when the provider said, or later each time.
pub(super) fn retry_at(next: &Transition, until_ms: Option<u64>) -> u64 {
    let now = next.now.unix_ms;
    let deferrals = next.state.agent.deferrals;
    let after = |deferrals: u32| {
        let doubled = FIRST_DEFERRAL_MS.saturating_mul(1 << deferrals.saturating_sub(1).min(16));
        now.saturating_add(doubled.min(LONGEST_DEFERRAL_MS))
    };
    // A time in the past means at once. A second one in a row means that the clocks differ.
    let Some(until) = until_ms.filter(|until| *until > now || deferrals <= 1) else {
        return after(deferrals);
    };
    // Sessions that are refused use up no iteration, so that nothing else bounds how often they are started.
    let further = deferrals.saturating_sub(MOST_TIMED_DEFERRALS);
    if further == 0 { until.max(now) } else { until.max(after(further)) }
}
