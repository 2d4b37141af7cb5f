//! Processes of the agent that could not be ended: nothing is validated while one of them lives.

use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_contract::survivors_complaint;
use ralph_orchestrator_machine::Input;

use super::blocking::blocking;
use super::error::EngineError;
use super::session::Session;
use super::stop::stop_requested;

/// How long they are waited for. A process that waits for an unreachable disk may still end by then.
const LONGEST_WAIT_MS: u64 = 10 * 60_000;
/// Between two attempts to end them: first, and at most. It is doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl Session {
    /// Waits until none of the processes that outlived the last iteration lives, and kills again what can
    /// be killed. Returns the input for the machine if one lives longer than a stop or `max_runtime`
    /// allows.
    pub(super) async fn wait_for_survivors(&mut self) -> Result<Option<Input>, EngineError> {
        if self.state.agent.survivors.is_empty() {
            return Ok(None);
        }
        let began_ms = self.clock.runtime_ms();
        let longest_ms = self
            .state
            .limits
            .max_runtime_ms
            .map_or(LONGEST_WAIT_MS, |max| max.saturating_sub(began_ms).min(LONGEST_WAIT_MS));
        let mut pause = FIRST_PAUSE;
        let mut survivors = self.state.agent.survivors.clone();
        loop {
            let (processes, run) = (Arc::clone(&self.processes), self.run.clone());
            let iteration = self.state.iterations;
            survivors = blocking(move || processes.end(&run, iteration, survivors)).await?;
            let Some(complaint) = survivors_complaint(&survivors) else { return Ok(None) };
            let waited_ms = self.clock.runtime_ms().saturating_sub(began_ms);
            let left_ms = longest_ms.saturating_sub(waited_ms);
            if left_ms == 0 || *self.stop.borrow() > 0 {
                let message = format!(
                    "{complaint}; nothing was validated beside them. End them, then `run` resumes"
                );
                return Ok(Some(Input::ProcessesSurvived(message)));
            }
            if pause == FIRST_PAUSE {
                let reason = format!("{complaint}; nothing is validated beside them");
                self.announce_wait(left_ms, reason);
            }
            tokio::select! {
                () = tokio::time::sleep(pause.min(Duration::from_millis(left_ms))) => {}
                () = stop_requested(&mut self.stop, 1) => {}
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            self.tick()?;
            self.take_controls()?;
        }
    }
}
