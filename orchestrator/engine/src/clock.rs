//! The runtime of a run: wall time, without the time it was down, suspended or stopped.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ralph_orchestrator_store::Heartbeat;

/// How often the clock is read, whatever else happens.
const BEAT: Duration = Duration::from_millis(250);

/// How much runtime passes between two signs of life.
const HEARTBEAT_MS: u64 = 1_000;

/// A gap longer than this between two readings counts as one beat: the process was stopped or frozen.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// The longest sleep between two readings of this clock, which stops while the machine is suspended.
pub(super) const LONGEST_SLEEP_MS: u64 = 10_000;

/// A stopwatch that continues where an earlier start of the orchestrator left it.
#[derive(Debug)]
pub(super) struct Clock {
    marks: Mutex<Marks>,
}

#[derive(Debug)]
struct Marks {
    counted: Duration,
    last: Instant,
    /// The run is paused: no time passes.
    is_halted: bool,
}

impl Clock {
    pub(super) fn starting_at(runtime_ms: u64) -> Self {
        let counted = Duration::from_millis(runtime_ms);
        Self { marks: Mutex::new(Marks { counted, last: Instant::now(), is_halted: false }) }
    }

    /// Stands still until [`run`](Self::run).
    pub(super) fn halt(&self) {
        self.set_halted(true);
    }

    /// Runs again.
    pub(super) fn run(&self) {
        self.set_halted(false);
    }

    fn set_halted(&self, is_halted: bool) {
        // What passed until now counts as it passed.
        self.runtime_ms();
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).is_halted = is_halted;
    }

    /// Returns the runtime so far, in milliseconds.
    pub(super) fn runtime_ms(&self) -> u64 {
        self.tick(Instant::now())
    }

    fn tick(&self, now: Instant) -> u64 {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let gap = now.saturating_duration_since(marks.last);
        let passed = if gap > LONGEST_GAP { BEAT } else { gap };
        if !marks.is_halted {
            marks.counted += passed;
        }
        marks.last = now;
        u64::try_from(marks.counted.as_millis()).unwrap_or(u64::MAX)
    }

    /// Reads the clock at every beat as long as it is in use, so that a longer gap can only be a
    /// suspension. A thread of its own does it, because a slow disk may block the event loop.
    /// From time to time it says so, for a start that is killed between two records of the runtime.
    pub(super) fn keep(clock: &Arc<Self>, heartbeat: Option<Heartbeat>) -> std::io::Result<()> {
        let mut due_ms = clock.runtime_ms().saturating_add(HEARTBEAT_MS);
        let clock = Arc::downgrade(clock);
        let beats = move || {
            while let Some(clock) = clock.upgrade() {
                let runtime_ms = clock.runtime_ms();
                drop(clock);
                if let Some(heartbeat) = heartbeat.as_ref().filter(|_| runtime_ms >= due_ms) {
                    heartbeat.write(runtime_ms);
                    due_ms = runtime_ms.saturating_add(HEARTBEAT_MS);
                }
                std::thread::sleep(BEAT);
            }
        };
        std::thread::Builder::new().name("clock".to_owned()).spawn(beats).map(drop)
    }
}

/// Returns the wall clock, in milliseconds since the Unix epoch.
pub(super) fn unix_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_where_it_was_and_skips_a_standstill() {
        let clock = Clock::starting_at(1_000);
        let start = clock.marks.lock().unwrap().last;
        assert_eq!(clock.tick(start + Duration::from_millis(500)), 1_500);
        let after_an_hour = start + Duration::from_secs(3_600);
        assert_eq!(clock.tick(after_an_hour), 1_750, "the hour was no runtime");
        assert_eq!(clock.tick(after_an_hour + Duration::from_secs(1)), 2_750);
    }

    #[test]
    fn stands_still_while_the_run_is_paused() {
        let clock = Clock::starting_at(1_000);
        clock.halt();
        let halted = clock.runtime_ms();
        let now = clock.marks.lock().unwrap().last;
        assert_eq!(clock.tick(now + Duration::from_millis(900)), halted);
        assert_eq!(clock.tick(now + Duration::from_secs(90)), halted);
        clock.marks.lock().unwrap().is_halted = false;
        assert_eq!(clock.tick(now + Duration::from_millis(90_500)), halted + 500);
    }
}
