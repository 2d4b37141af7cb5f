//! Rate windows of the provider: what of them is recorded, and the wait before one is used up.

use super::deferral::{self, LONGEST_NAMED_MS, Wait};
use super::rate_window::RateWindow;
use super::record::Record;
use super::state::State;
use super::stop::StopReason;
use super::transition::Transition;

/// So many windows of an agent are known at most.
const MOST_WINDOWS: usize = 16;
/// A smaller change is not recorded, in thousandths.
const STEP: u64 = 5;

/// Takes what the agent reports of a window. A moment that no provider names is left out.
pub(super) fn reported(next: &mut Transition, mut window: RateWindow) {
    let (now, known) = (next.now.unix_ms, &next.state.agent.rate_windows);
    if next.state.running.is_none() || window.is_over(now) {
        return;
    }
    window.resets_at_ms =
        window.resets_at_ms.filter(|at| at.saturating_sub(now) <= LONGEST_NAMED_MS);
    let is_news = match known.get(&window.name) {
        None => known.len() < MOST_WINDOWS,
        Some(known) => {
            let limit = next.state.limits.window_per_mille(&window.name);
            let reaches = |window: &RateWindow| limit.is_some_and(|at| window.used_per_mille >= at);
            known.resets_at_ms != window.resets_at_ms
                || reaches(known) != reaches(&window)
                || known.used_per_mille.abs_diff(window.used_per_mille) >= STEP
        }
    };
    if is_news {
        next.record(Record::RateWindow(window));
    }
}

/// Waits until the windows are reset that are used up to their limits. Returns whether it does.
pub(super) fn hold(next: &mut Transition) -> bool {
    // An attached session has worked already.
    if next.state.process.attached {
        return false;
    }
    let Some((until_ms, reason)) = next.state.used_up_wait(next.now.unix_ms) else { return false };
    let too_long = StopReason::NeedsHuman;
    deferral::wait_until(next, Wait { reason, until_ms, is_named: true, too_long });
    true
}

/// Whether the wait for the window that is used up is over, whatever the clock says by now.
pub(super) fn has_waited(next: &Transition) -> bool {
    let window = next.state.used_up_window(next.now.unix_ms).map(|(window, _)| window);
    let waited = next.state.waiting.as_ref().map(|wait| wait.until_ms);
    waited.is_some() && window.and_then(|window| window.resets_at_ms) == waited
}

impl State {
    /// Returns the windows of the agent's provider that are not reset yet.
    pub fn rate_windows(&self, now_ms: u64) -> impl Iterator<Item = &RateWindow> {
        self.agent.rate_windows.values().filter(move |window| !window.is_over(now_ms))
    }

    /// Returns the window that is used up to its limit, in thousandths: of several the one that is reset last.
    #[must_use]
    pub fn used_up_window(&self, now_ms: u64) -> Option<(&RateWindow, u64)> {
        let is_ahead = |at: u64| at > now_ms && at - now_ms <= LONGEST_NAMED_MS;
        let limited =
            self.limited_windows().filter(|(window, _)| window.resets_at_ms.is_some_and(is_ahead));
        limited.max_by_key(|(window, _)| window.resets_at_ms)
    }

    /// Returns until when that window is to be waited for, and why, for people.
    #[must_use]
    pub fn used_up_wait(&self, now_ms: u64) -> Option<(u64, String)> {
        let (window, per_mille) = self.used_up_window(now_ms)?;
        let reason = format!(
            "{} % of the window `{}` is used, which reaches limits.max_window.{} ({} %)",
            window.used_per_mille / 10,
            window.name,
            window.name,
            per_mille / 10
        );
        Some((window.resets_at_ms?, reason))
    }

    /// Returns the windows that were used up to their limits when they were last reported. What is reset at an unknown
    /// moment is no reason to wait.
    pub(super) fn limited_windows(&self) -> impl Iterator<Item = (&RateWindow, u64)> {
        self.agent.rate_windows.values().filter_map(|window| {
            let at = self.limits.window_per_mille(&window.name)?;
            (window.resets_at_ms.is_some() && window.used_per_mille >= at).then_some((window, at))
        })
    }
}
