//! Whether a silent agent is idle: not if its processes are busy, but always after twice the time-out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ralph_orchestrator_machine::millis;
use tokio::task::{JoinHandle, spawn_blocking};

use super::clock::Clock;
use super::processes::Processes;

/// How many time-outs a busy agent may be silent.
const BUSY_FACTOR: u64 = 2;
/// Share of the time-out between two probes of its processes, and for which each of them lasts.
const SHARE: u64 = 10;
/// The shortest and the longest time between two probes.
const SHORTEST_PAUSE_MS: u64 = 500;
const LONGEST_PAUSE_MS: u64 = 60_000;
/// The longest duration of a probe.
const LONGEST_WINDOW_MS: u64 = 1_000;

/// Watches an agent for silence.
pub(super) struct IdleMonitor {
    timeout_ms: u64,
    /// When its last event came, in milliseconds of runtime.
    last_event_ms: Arc<AtomicU64>,
    /// The probe that is running, and the time of the last event when it began.
    probe: Option<(u64, JoinHandle<bool>)>,
    /// It was busy: the time of the last event then, and when to probe again.
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

    /// Notes that the agent sent something, or had a reason to be silent.
    pub(super) fn mark_active(&self, now_ms: u64) {
        self.last_event_ms.store(now_ms, Ordering::Relaxed);
    }

    fn end_ms(&self) -> u64 {
        self.last_ms().saturating_add(self.timeout_ms.saturating_mul(BUSY_FACTOR))
    }

    fn pause_ms(&self) -> u64 {
        (self.timeout_ms / SHARE).clamp(SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS)
    }

    /// Returns when [`check`](Self::check) is due, in milliseconds of runtime.
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

    /// Returns true if the agent has been silent for too long, busy or not; else begins to probe its
    /// processes, see [`probe_result`](Self::probe_result).
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

    /// Resolves to whether the agent is idle once a probe ends; never without one. Cancel-safe.
    pub(super) async fn probe_result(&mut self, clock: &Clock) -> bool {
        let Some((then, question)) = &mut self.probe else { return std::future::pending().await };
        // A probe that failed shows no activity.
        let busy = question.await.unwrap_or(false);
        let then = *then;
        self.probe = None;
        if busy {
            self.last_busy = Some((then, clock.runtime_ms().saturating_add(self.pause_ms())));
        }
        !busy && then == self.last_ms()
    }
}
