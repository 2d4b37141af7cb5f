//! Waits: between iterations, for the provider, for the end of a pause, and for processes of the agent that could not be
//! ended, beside which nothing is validated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_orchestrator_contract::survivors_complaint;
use ralph_orchestrator_machine::{Input, State, millis};

use super::blocking::blocking;
use super::clock::{self, LONGEST_SLEEP_MS};
use super::controls::RunControls;
use super::error::EngineError;
use super::run_journal::RunJournal;
use super::stop::{stop_input, stop_requested};

/// The longest pause after failures, and the shortest, whatever `run.delay` is: an agent that fails at
/// once must not be started again at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// How often the run looks whether what others have reserved is free.
const OTHERS_LOOK: Duration = Duration::from_millis(500);
/// How long they are waited for. A process that waits for an unreachable disk may still end by then.
const LONGEST_SURVIVAL_MS: u64 = 10 * 60_000;
/// Between two attempts to end them: first, and at most. It is doubled each time.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

impl RunControls {
    pub(super) async fn wait_until(
        &mut self,
        journal: &mut RunJournal,
        until_ms: u64,
    ) -> Result<Vec<Input>, EngineError> {
        let planned = journal.state.waiting.as_ref();
        let reason = planned.map(|wait| wait.reason.clone()).unwrap_or_default();
        let longest_ms = planned.map(|wait| wait.wait_ms).filter(|ms| *ms > 0);
        let longest_ms = longest_ms.unwrap_or(journal.state.limits.max_wait_ms);
        let began = Instant::now();
        let wait = BoundedWait::new(until_ms, clock::unix_ms(), longest_ms);
        let left = || wait.left(millis(began.elapsed()), clock::unix_ms());
        journal.announce_wait(left(), reason);
        // Waiting for the provider is no work.
        journal.clock.halt();
        let result = self.wait_for(journal, |_| left()).await;
        journal.clock.run();
        result
    }

    /// Pauses between two iterations.
    pub(super) async fn pause(
        &mut self,
        journal: &mut RunJournal,
        failures: u32,
    ) -> Result<Vec<Input>, EngineError> {
        let pause = pause_length(journal.context.config.run.delay, failures);
        if !pause.is_zero() {
            journal.announce_pause(millis(pause));
        }
        let until_ms = journal.clock.runtime_ms().saturating_add(millis(pause));
        self.wait_for(journal, |now_ms| until_ms.saturating_sub(now_ms)).await
    }

    /// Waits until `left`, given the runtime, is 0, but not once `max_runtime` is used up, and not once the run is asked to
    /// stop or to pause. Records the runtime from time to time.
    async fn wait_for(
        &mut self,
        journal: &mut RunJournal,
        left: impl Fn(u64) -> u64,
    ) -> Result<Vec<Input>, EngineError> {
        let mut inbox = self.lend_inbox_watch(journal);
        let result = loop {
            self.take_controls(journal)?;
            if let Some(asked) = stop_input(&self.stop) {
                break vec![asked, Input::WaitFinished];
            }
            if is_wait_obsolete(&journal.state) {
                break vec![Input::WaitFinished];
            }
            let now_ms = journal.clock.runtime_ms();
            let allowed = journal.state.limits.max_runtime_ms.unwrap_or(u64::MAX);
            let piece = left(now_ms).min(allowed.saturating_sub(now_ms)).min(LONGEST_SLEEP_MS);
            if piece == 0 {
                break vec![Input::WaitFinished];
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(piece)) => {}
                () = stop_requested(&mut self.stop, 1) => {}
                () = inbox.changed() => {}
            }
            journal.tick()?;
        };
        self.return_inbox_watch(inbox);
        Ok(result)
    }

    /// Waits until the pause of the run ends, without using up its runtime.
    pub(super) async fn hold(
        &mut self,
        journal: &mut RunJournal,
    ) -> Result<Vec<Input>, EngineError> {
        let look = Duration::from_millis(LONGEST_SLEEP_MS);
        let holds = |state: &State| {
            let is_stopped = state.process.stop_requested || state.is_out_of_budget();
            Ok(!is_stopped && state.is_pause_requested())
        };
        self.halt_while(journal, (look, Input::HoldFinished), holds).await
    }

    /// Waits, without using up the run's runtime, for what iterations of other runs have reserved.
    pub(super) async fn wait_for_others(
        &mut self,
        journal: &mut RunJournal,
        mut is_reserved: impl FnMut() -> Result<bool, EngineError>,
    ) -> Result<Vec<Input>, EngineError> {
        let holds = |state: &State| Ok(!is_wait_obsolete(state) && is_reserved()?);
        self.halt_while(journal, (OTHERS_LOOK, Input::WaitFinished), holds).await
    }

    /// Waits while `holds` says so, with the clock of the run halted. It is asked every `look`, and when people ask for
    /// something. Returns `over` as an input.
    async fn halt_while(
        &mut self,
        journal: &mut RunJournal,
        (look, over): (Duration, Input),
        mut holds: impl FnMut(&State) -> Result<bool, EngineError>,
    ) -> Result<Vec<Input>, EngineError> {
        journal.clock.halt();
        let mut inbox = self.lend_inbox_watch(journal);
        let result = loop {
            if let Err(error) = self.take_controls(journal) {
                break Err(error);
            }
            if let Some(asked) = stop_input(&self.stop) {
                break Ok(vec![asked, over]);
            }
            match holds(&journal.state) {
                Ok(true) => {}
                Ok(false) => break Ok(vec![over]),
                Err(error) => break Err(error),
            }
            tokio::select! {
                () = stop_requested(&mut self.stop, 1) => {}
                () = inbox.changed() => {}
                () = tokio::time::sleep(look) => {}
            }
        };
        self.return_inbox_watch(inbox);
        journal.clock.run();
        result
    }

    /// Waits until none of the processes that outlived the last iteration lives, and kills again what can
    /// be killed. Returns the input for the machine if one lives longer than a stop or `max_runtime`
    /// allows.
    pub(super) async fn wait_for_survivors(
        &mut self,
        journal: &mut RunJournal,
    ) -> Result<Option<Input>, EngineError> {
        if journal.state.agent.survivors.is_empty() {
            return Ok(None);
        }
        let began_ms = journal.clock.runtime_ms();
        let longest_ms = journal.state.limits.max_runtime_ms.map_or(LONGEST_SURVIVAL_MS, |max| {
            max.saturating_sub(began_ms).min(LONGEST_SURVIVAL_MS)
        });
        let mut pause = FIRST_RETRY;
        let mut survivors = journal.state.agent.survivors.clone();
        loop {
            let (processes, run) =
                (Arc::clone(&journal.context.processes), journal.context.run.clone());
            let iteration = journal.state.iterations;
            survivors = blocking(move || processes.end(&run, iteration, survivors)).await?;
            let Some(complaint) = survivors_complaint(&survivors) else { return Ok(None) };
            let waited_ms = journal.clock.runtime_ms().saturating_sub(began_ms);
            let left_ms = longest_ms.saturating_sub(waited_ms);
            if left_ms == 0 || self.stop.borrow().times > 0 {
                let message = format!(
                    "{complaint}; nothing was validated beside them. End them, then `run` resumes"
                );
                return Ok(Some(Input::ProcessesSurvived(message)));
            }
            if pause == FIRST_RETRY {
                let reason = format!("{complaint}; nothing is validated beside them");
                journal.announce_wait(left_ms, reason);
            }
            tokio::select! {
                () = tokio::time::sleep(pause.min(Duration::from_millis(left_ms))) => {}
                () = stop_requested(&mut self.stop, 1) => {}
            }
            pause = pause.saturating_mul(2).min(LONGEST_RETRY);
            journal.tick()?;
            self.take_controls(journal)?;
        }
    }
}

/// Whether a wait has to end because of what people asked for.
fn is_wait_obsolete(state: &State) -> bool {
    state.process.stop_requested || state.is_pause_requested() || state.is_out_of_budget()
}

fn pause_length(delay: Duration, failures: u32) -> Duration {
    let pause = shortest_pause(delay, failures);
    if failures == 0 { pause } else { pause + pause.mul_f64(random_quarter()) }
}

/// A wait for a time of the wall clock, which may be set to anything meanwhile.
struct BoundedWait {
    until_ms: u64,
    longest_ms: u64,
}

impl BoundedWait {
    fn new(until_ms: u64, began_unix_ms: u64, max_ms: u64) -> Self {
        Self { until_ms, longest_ms: until_ms.saturating_sub(began_unix_ms).min(max_ms) }
    }

    /// The wall clock ends it, so that a suspended machine does not wait longer than needed, and so does what has
    /// passed, so that a clock that was set back does not prolong it.
    fn left(&self, passed_ms: u64, unix_ms: u64) -> u64 {
        self.until_ms.saturating_sub(unix_ms).min(self.longest_ms.saturating_sub(passed_ms))
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
        let wait = BoundedWait::new(10_000, 4_000, 60_000);
        assert_eq!(wait.left(0, 4_000), 6_000);
        assert_eq!(wait.left(1_000, 5_000), 5_000);
        assert_eq!(wait.left(1_000, 20_000), 0, "set forward, or the machine was suspended");
        assert_eq!(wait.left(1_000, 0), 5_000, "set back");
        assert_eq!(wait.left(6_000, 0), 0, "set back, and the time has passed");
        let far = BoundedWait::new(u64::MAX, 0, 60_000);
        assert_eq!(far.left(0, 0), 60_000, "no longer than it was to be");
        assert_eq!(BoundedWait::new(0, 10, 60_000).left(0, 10), 0);
    }
}
