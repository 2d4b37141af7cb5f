//! How long a shim may take to end its tree, and when it is checked.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::shim::GIVE_UP;
use crate::spec::{Grace, Stop};

/// Between two checks of those who supervise a tree.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a shim may take beyond the graces, on a busy machine.
const MARGIN: Duration = Duration::from_secs(5);

/// The patience with one shim.
#[derive(Debug)]
pub(crate) struct Patience {
    grace: Grace,
    next_check: Instant,
    /// When the shim must have reported the leader's end; later, that of the tree. `None` while neither is due.
    until: Mutex<Option<Instant>>,
}

impl Patience {
    pub(crate) fn new(grace: Grace, now: Instant) -> Self {
        Self { grace, next_check: now + CHECK_INTERVAL, until: Mutex::new(None) }
    }

    pub(crate) const fn next_check(&self) -> Instant {
        self.next_check
    }

    /// Whether it is time for a check, which is made then.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next_check <= now;
        if due {
            self.next_check = now + CHECK_INTERVAL;
        }
        due
    }

    /// Whether the shim has taken too long. If so, whoever has to act next gets a time of its own.
    pub(crate) fn is_exhausted(&self, now: Instant) -> bool {
        let mut until = self.until();
        let exhausted = until.is_some_and(|until| until <= now);
        if exhausted {
            *until = Some(now + MARGIN);
        }
        exhausted
    }

    /// Handles a stop of the leader. A stronger one may shorten the time, none prolongs it.
    pub(crate) fn stopped(&self, how: Stop, now: Instant) {
        let Grace { interrupt, terminate, .. } = self.grace;
        let grace = match how {
            Stop::Gracefully => interrupt.saturating_add(terminate),
            Stop::Terminate => terminate,
            Stop::Kill => Duration::ZERO,
        };
        let by = now.checked_add(grace.saturating_add(MARGIN));
        let mut until = self.until();
        *until = until.into_iter().chain(by).min();
    }

    /// Handles the end of the leader: the shim now has the rest of the tree to end, and gives up at some time.
    pub(crate) fn leader_ended(&self, now: Instant) {
        let grace = self.grace.leftovers.max(self.grace.terminate);
        let by = grace.saturating_add(GIVE_UP).saturating_add(MARGIN);
        *self.until() = now.checked_add(by);
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn patience() -> (Patience, Instant) {
        let now = Instant::now();
        (Patience::new(Grace::default(), now), now)
    }

    #[test]
    fn a_stop_ends_it_after_the_graces_and_a_stronger_one_sooner() {
        let (gentle, now) = patience();
        assert!(!gentle.is_exhausted(now + 1000 * S), "nothing is due");
        gentle.stopped(Stop::Gracefully, now);
        assert!(!gentle.is_exhausted(now + 14 * S));
        assert!(gentle.is_exhausted(now + 15 * S));
        assert!(!gentle.is_exhausted(now + 16 * S), "the next one has a time of its own");
        assert!(gentle.is_exhausted(now + 20 * S));
        let (urgent, now) = patience();
        for how in [Stop::Gracefully, Stop::Kill, Stop::Terminate] {
            urgent.stopped(how, now);
        }
        assert!(!urgent.is_exhausted(now + 4 * S) && urgent.is_exhausted(now + 5 * S));
    }

    #[test]
    fn the_end_of_the_leader_gives_it_the_time_to_give_up() {
        let (patience, now) = patience();
        patience.stopped(Stop::Kill, now);
        patience.leader_ended(now);
        assert!(!patience.is_exhausted(now + GIVE_UP + 9 * S));
        assert!(patience.is_exhausted(now + GIVE_UP + 10 * S));
        let endless = Grace { terminate: Duration::MAX, ..Grace::default() };
        let patience = Patience::new(endless, now);
        patience.stopped(Stop::Gracefully, now);
        patience.leader_ended(now);
        assert!(!patience.is_exhausted(now + 1000 * S));
    }

    #[test]
    fn a_check_is_due_from_time_to_time() {
        let (mut patience, now) = patience();
        assert!(!patience.is_due(now));
        assert!(patience.is_due(now + S) && !patience.is_due(now + S));
    }
}
