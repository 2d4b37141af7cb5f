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

/// No provider's limit is longer. What names a later moment is mistaken.
pub(super) const LONGEST_NAMED_MS: u64 = 32 * 24 * 60 * 60_000;

/// Whether the wait is over that the last refusal led to.
pub(super) fn is_over(next: &Transition) -> bool {
    next.state.waiting.as_ref().is_some_and(|wait| wait.until_ms <= next.now.unix_ms)
}

/// Waits until the provider accepts requests again, if that is not too long.
pub(super) fn defer(next: &mut Transition, reason: String, retry_at_ms: Option<u64>) {
    if let Some(wait) = &next.state.waiting {
        return next.effect(Effect::WaitUntil(wait.until_ms));
    }
    let until_ms = retry_at(next, retry_at_ms);
    let is_named = retry_at_ms.is_some_and(|named| named >= until_ms);
    wait_until(next, Wait { reason, until_ms, is_named, too_long: StopReason::NeedsHuman });
}

/// A wait that is due.
pub(super) struct Wait {
    /// What for.
    pub(super) reason: String,
    /// Until when.
    pub(super) until_ms: u64,
    /// Whether it is known that it is over then: the provider named this moment, or the calendar.
    pub(super) is_named: bool,
    /// Why the run stops if that is too long.
    pub(super) too_long: StopReason,
}

/// Waits, if that is not too long. A wait that a pause or the end of the orchestrator broke off is resumed.
pub(super) fn wait_until(next: &mut Transition, wait: Wait) {
    let Wait { reason, until_ms, is_named, too_long } = wait;
    if next.state.waiting.as_ref().is_some_and(|wait| wait.until_ms == until_ms) {
        return next.effect(Effect::WaitUntil(until_ms));
    }
    let wait_ms = until_ms.saturating_sub(next.now.unix_ms);
    let (limits, waited_ms) = (&next.state.limits, next.state.agent.waited_ms);
    let most_ms =
        if limits.waits_until_reset && is_named { LONGEST_NAMED_MS } else { limits.max_wait_ms };
    if waited_ms.saturating_add(wait_ms) > most_ms {
        let waits = if waited_ms == 0 { "the wait" } else { "the waits together" };
        let message = format!("{reason}; {waits} would be longer than limits.max_wait");
        return next.finish(too_long, message);
    }
    next.record(Record::Waiting { until_ms, reason, wait_ms });
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
