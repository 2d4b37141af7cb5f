//! Pauses between iterations, waits for the provider, and notes of the time that passes meanwhile.

use std::time::Duration;

use super::clock;
use super::error::EngineError;
use super::notice::Notice;
use super::plan;
use super::session::{Session, StopRequests};
use crate::machine::{Input, Now, Timer};

/// The longest pause after failures, and the shortest, whatever `run.delay` is: an agent that fails at
/// once must not be started again at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The longest time between two notes of how much time has passed.
pub(super) const LONGEST_REST_MS: u64 = 10_000;

impl Session {
    fn pause_length(&self, failures: u32) -> Duration {
        let pause = shortest_pause(self.config.run.delay, failures);
        if failures == 0 { pause } else { pause + pause.mul_f64(random_quarter()) }
    }

    pub(super) async fn wait_until(&mut self, until_ms: u64) -> Result<Vec<Input>, EngineError> {
        let reason =
            self.state.waiting.as_ref().map(|wait| wait.reason.clone()).unwrap_or_default();
        let wait = Wait::new(
            until_ms,
            Now { runtime_ms: self.clock.runtime_ms(), unix_ms: clock::unix_ms() },
            self.state.limits.max_wait_ms,
        );
        let ms = wait.left(wait.began);
        self.notice(&Notice::Waiting { iteration: self.state.iterations, ms, reason });
        self.rest(|runtime_ms| wait.left(Now { runtime_ms, unix_ms: clock::unix_ms() })).await
    }

    /// The pause between two iterations.
    pub(super) async fn pause(&mut self, failures: u32) -> Result<Vec<Input>, EngineError> {
        let pause = self.pause_length(failures);
        if !pause.is_zero() {
            let (iteration, ms) = (self.state.iterations, plan::millis(pause));
            self.notice(&Notice::Paused { iteration, ms });
        }
        let until_ms = self.clock.runtime_ms().saturating_add(plan::millis(pause));
        self.rest(|now_ms| until_ms.saturating_sub(now_ms)).await
    }

    /// Rests as long as `left` says, given the runtime, but no longer than `max_runtime` allows and not
    /// once the run is asked to stop. Notes from time to time how much time has passed.
    async fn rest(&mut self, left: impl Fn(u64) -> u64) -> Result<Vec<Input>, EngineError> {
        loop {
            if *self.stop.borrow() > 0 {
                return Ok(vec![Input::Signal, Input::WaitFinished]);
            }
            let now_ms = self.clock.runtime_ms();
            let allowed = self.state.limits.max_runtime_ms.unwrap_or(u64::MAX);
            let piece = left(now_ms).min(allowed.saturating_sub(now_ms)).min(LONGEST_REST_MS);
            if piece == 0 {
                return Ok(vec![Input::WaitFinished]);
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(piece)) => {}
                () = asked(&mut self.stop, 1) => {}
            }
            self.tick()?;
        }
    }

    /// Notes how much time has passed, so that a crash does not make it undone.
    pub(super) fn tick(&mut self) -> Result<(), EngineError> {
        self.advance(Input::Timer(Timer::Clock)).map(drop)
    }
}

/// A wait for a time of the wall clock, which may be set to anything meanwhile.
struct Wait {
    until_ms: u64,
    longest_ms: u64,
    began: Now,
}

impl Wait {
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

/// Resolves once the run was asked to stop that often.
pub(super) async fn asked(stop: &mut StopRequests, times: u32) {
    if stop.wait_for(|count| *count >= times).await.is_err() {
        // Nobody is left who could ask.
        std::future::pending::<()>().await;
    }
}

/// `run.delay`; after failures doubled with each of them in a row, and never nothing. Up to a quarter is
/// added to that at random.
fn shortest_pause(delay: Duration, failures: u32) -> Duration {
    if failures == 0 {
        return delay;
    }
    let factor = 1_u32 << failures.saturating_sub(1).min(16);
    delay.max(SHORTEST_PAUSE).saturating_mul(factor).min(LONGEST_PAUSE.max(delay))
}

/// Between 0 and 0.25.
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
        let wait = Wait::new(10_000, at(500, 4_000), 60_000);
        assert_eq!(wait.left(at(500, 4_000)), 6_000);
        assert_eq!(wait.left(at(1_500, 5_000)), 5_000);
        assert_eq!(wait.left(at(1_500, 20_000)), 0, "set forward, or the machine was suspended");
        assert_eq!(wait.left(at(1_500, 0)), 5_000, "set back");
        assert_eq!(wait.left(at(6_500, 0)), 0, "set back, and the time has passed");
        let far = Wait::new(u64::MAX, at(0, 0), 60_000);
        assert_eq!(far.left(at(0, 0)), 60_000, "no longer than limits.max_wait");
        assert_eq!(Wait::new(0, at(0, 10), 60_000).left(at(0, 10)), 0);
    }
}
