//! Whether an agent that says nothing is idle: not if it is at work all the same, but never after twice
//! the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

use super::clock::Clock;
use super::clock::millis;
use super::processes::Processes;

/// How many times as long an agent may be silent that is at work.
const AT_WORK: u64 = 2;
/// Share of the time-out between two questions whether it is at work, and for which it is watched then.
const SHARE: u64 = 10;
/// The shortest and the longest time between two questions.
const SHORTEST_PAUSE_MS: u64 = 500;
const LONGEST_PAUSE_MS: u64 = 60_000;
/// The longest time for which it is watched.
const LONGEST_WINDOW_MS: u64 = 1_000;

/// The silence of an agent.
pub(super) struct IdleMonitor {
    timeout_ms: u64,
    /// When it was last heard, in milliseconds of runtime.
    last_event_ms: Arc<AtomicU64>,
    /// The question that is under way, and when the agent had been heard last by then.
    probe: Option<(u64, JoinHandle<bool>)>,
    /// It was at work: when it had been heard last by then, and when to ask again.
    last_busy: Option<(u64, u64)>,
}

impl IdleMonitor {
    pub(super) fn new(timeout: Duration, last_event_ms: Arc<AtomicU64>) -> Self {
        let timeout_ms = millis(timeout);
        Self { timeout_ms, last_event_ms, probe: None, last_busy: None }
    }

    fn last_ms(&self) -> u64 {
        self.last_event_ms.load(Ordering::Relaxed)
    }

    /// The agent was heard, or had a reason to be silent.
    pub(super) fn mark_active(&self, now_ms: u64) {
        self.last_event_ms.store(now_ms, Ordering::Relaxed);
    }

    fn end_ms(&self) -> u64 {
        self.last_ms().saturating_add(self.timeout_ms.saturating_mul(AT_WORK))
    }

    fn pause_ms(&self) -> u64 {
        (self.timeout_ms / SHARE).clamp(SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS)
    }

    /// When there is something to do, in milliseconds of runtime.
    pub(super) fn due_ms(&self) -> u64 {
        if self.probe.is_some() {
            return self.end_ms();
        }
        let last = self.last_ms();
        let first = last.saturating_add(self.timeout_ms);
        match self.last_busy {
            Some((then, again)) if then == last => again.max(first).min(self.end_ms()),
            _ => first,
        }
    }

    /// The time has come. True if the agent is idle whatever it does; else it is asked whether it is at
    /// work, for [`probe_result`](Self::probe_result) to tell.
    pub(super) fn check(
        &mut self,
        now_ms: u64,
        processes: &Arc<dyn Processes>,
        run: &str,
        iteration: u64,
    ) -> bool {
        if now_ms >= self.end_ms() {
            return true;
        }
        if self.probe.is_none() {
            let (processes, run) = (Arc::clone(processes), run.to_owned());
            let window = Duration::from_millis(self.pause_ms().min(LONGEST_WINDOW_MS));
            let question = spawn_blocking(move || processes.are_busy(&run, iteration, window));
            self.probe = Some((self.last_ms(), question));
        }
        false
    }

    /// Resolves when it is known whether the agent is idle; never if nobody asks. Nothing is lost when
    /// the future is dropped.
    pub(super) async fn probe_result(&mut self, clock: &Clock) -> bool {
        let Some((then, question)) = &mut self.probe else { return std::future::pending().await };
        // Who cannot be looked at is not known to be at work.
        let busy = question.await.unwrap_or(false);
        let then = *then;
        self.probe = None;
        if busy {
            self.last_busy = Some((then, clock.runtime_ms().saturating_add(self.pause_ms())));
        }
        !busy && then == self.last_ms()
    }
}
