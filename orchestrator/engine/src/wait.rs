//! Pauses between iterations, and waits for the provider.

use std::time::Duration;

use ralph_orchestrator_machine::millis;
use ralph_orchestrator_machine::{Input, Now, Timer};

use super::clock::{self, LONGEST_SLEEP_MS};
use super::error::EngineError;
use super::session::Session;
use super::stop::stop_requested;

/// The longest pause after failures, and the shortest, whatever `run.delay` is: an agent that fails at
/// once must not be started again at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

impl Session {
    fn pause_length(&self, failures: u32) -> Duration {
        let pause = shortest_pause(self.config.run.delay, failures);
        if failures == 0 { pause } else { pause + pause.mul_f64(random_quarter()) }
    }

    pub(super) async fn wait_until(&mut self, until_ms: u64) -> Result<Vec<Input>, EngineError> {
        let reason =
            self.state.waiting.as_ref().map(|wait| wait.reason.clone()).unwrap_or_default();
        let wait = ProviderWait::new(
            until_ms,
            Now { runtime_ms: self.clock.runtime_ms(), unix_ms: clock::unix_ms() },
            self.state.limits.max_wait_ms,
        );
        let ms = wait.left(wait.began);
        self.announce_wait(ms, reason);
        self.wait_for(|runtime_ms| wait.left(Now { runtime_ms, unix_ms: clock::unix_ms() })).await
    }

    /// Pauses between two iterations.
    pub(super) async fn pause(&mut self, failures: u32) -> Result<Vec<Input>, EngineError> {
        let pause = self.pause_length(failures);
        if !pause.is_zero() {
            self.announce_pause(millis(pause));
        }
        let until_ms = self.clock.runtime_ms().saturating_add(millis(pause));
        self.wait_for(|now_ms| until_ms.saturating_sub(now_ms)).await
    }

    /// Waits until `left`, given the runtime, is 0, but no longer than `max_runtime` allows and not once
    /// the run is asked to stop or to pause. Records the runtime from time to time.
    async fn wait_for(&mut self, left: impl Fn(u64) -> u64) -> Result<Vec<Input>, EngineError> {
        let mut inbox = self.lend_inbox_watch();
        let result = loop {
            self.take_controls()?;
            if *self.stop.borrow() > 0 {
                break vec![Input::Signal, Input::WaitFinished];
            }
            if self.is_wait_obsolete() {
                break vec![Input::WaitFinished];
            }
            let now_ms = self.clock.runtime_ms();
            let allowed = self.state.limits.max_runtime_ms.unwrap_or(u64::MAX);
            let piece = left(now_ms).min(allowed.saturating_sub(now_ms)).min(LONGEST_SLEEP_MS);
            if piece == 0 {
                break vec![Input::WaitFinished];
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(piece)) => {}
                () = stop_requested(&mut self.stop, 1) => {}
                () = inbox.changed() => {}
            }
            self.tick()?;
        };
        self.return_inbox_watch(inbox);
        Ok(result)
    }

    /// Records the runtime, so that a crash does not lose it.
    pub(super) fn tick(&mut self) -> Result<(), EngineError> {
        self.advance(Input::Timer(Timer::Clock)).map(drop)
    }
}

/// A wait for a time of the wall clock, which may be set to anything meanwhile.
struct ProviderWait {
    until_ms: u64,
    longest_ms: u64,
    began: Now,
}

impl ProviderWait {
    fn new(until_ms: u64, began: Now, max_ms: u64) -> Self {
        let longest_ms = until_ms.saturating_sub(began.unix_ms).min(max_ms);
        Self { until_ms, longest_ms, began }
    }

    /// The wall clock ends it, so that a suspended machine does not wait longer than needed, and so
    /// does the runtime, so that a clock that was set back does not prolong it.
    fn left(&self, now: Now) -> u64 {
        let waited = now.runtime_ms.saturating_sub(self.began.runtime_ms);
        self.until_ms.saturating_sub(now.unix_ms).min(self.longest_ms.saturating_sub(waited))
    }
}

/// Returns `run.delay`; after failures doubled with each of them in a row, and never nothing. Up to a quarter is
/// added to that at random.
fn shortest_pause(delay: Duration, failures: u32) -> Duration {
    if failures == 0 {
        return delay;
    }
    let factor = 1_u32 << failures.saturating_sub(1).min(16);
    delay.max(SHORTEST_PAUSE).saturating_mul(factor).min(LONGEST_PAUSE.max(delay))
}

/// Returns a number between 0 and 0.25.
fn random_quarter() -> f64 {
    let mut byte = [0_u8];
    // Without random numbers there is no jitter, which does no harm.
    if getrandom::fill(&mut byte).is_err() {
        return 0.0;
    }
    f64::from(byte[0]) / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_after_a_failure_is_never_nothing_and_grows() {
        let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
        assert_eq!(shortest_pause(zero, 0), zero, "nothing failed");
        let pauses: Vec<_> = (1..=4).map(|n| shortest_pause(zero, n).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800]);
        assert_eq!(shortest_pause(second, 3), 4 * second);
        assert_eq!(shortest_pause(zero, u32::MAX), LONGEST_PAUSE);
        assert_eq!(
            shortest_pause(1000 * second, 9),
            1000 * second,
            "as configured, if it is longer"
        );
    }

    #[test]
    fn a_wait_ends_however_the_wall_clock_is_set() {
        let at = |runtime_ms, unix_ms| Now { runtime_ms, unix_ms };
        let wait = ProviderWait::new(10_000, at(500, 4_000), 60_000);
        assert_eq!(wait.left(at(500, 4_000)), 6_000);
        assert_eq!(wait.left(at(1_500, 5_000)), 5_000);
        assert_eq!(wait.left(at(1_500, 20_000)), 0, "set forward, or the machine was suspended");
        assert_eq!(wait.left(at(1_500, 0)), 5_000, "set back");
        assert_eq!(wait.left(at(6_500, 0)), 0, "set back, and the time has passed");
        let far = ProviderWait::new(u64::MAX, at(0, 0), 60_000);
        assert_eq!(far.left(at(0, 0)), 60_000, "no longer than limits.max_wait");
        assert_eq!(ProviderWait::new(0, at(0, 10), 60_000).left(at(0, 10)), 0);
    }
}
