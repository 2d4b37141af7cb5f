//! When to send what, as a pure state machine: interrupt, terminate, kill, give up.

use std::time::{Duration, Instant};

use crate::spec::{Grace, Stop};

/// How often SIGKILL is repeated, for what is forked meanwhile: first, and after [`TIRED`].
const TICK: Duration = Duration::from_millis(10);
const SLOW_TICK: Duration = Duration::from_millis(250);
const TIRED: Duration = Duration::from_secs(1);
/// How long after the first SIGKILL those that are still there (another user's, or stuck in the kernel)
/// are left alone, since nothing more can be done.
const GIVE_UP: Duration = Duration::from_secs(30);

/// What to do to the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Interrupt,
    Terminate,
    Kill,
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    Interrupted { until: Instant },
    Terminated { until: Instant },
    Killed { since: Instant, next: Instant },
    GaveUp,
}

#[derive(Debug)]
pub(super) struct Ladder {
    grace: Grace,
    stage: Stage,
}

impl Ladder {
    pub(super) fn new(grace: Grace) -> Self {
        Self { grace, stage: Stage::Running }
    }

    /// The tree shall end. The same again, or something weaker, changes nothing.
    pub(super) fn ask(&mut self, stop: Stop, now: Instant) -> Option<Act> {
        match (stop, self.stage) {
            (Stop::Gracefully, Stage::Running) => {
                self.stage = Stage::Interrupted { until: after(now, self.grace.interrupt) };
                Some(Act::Interrupt)
            }
            (Stop::Terminate, Stage::Running | Stage::Interrupted { .. }) => {
                Some(self.terminate(now, self.grace.terminate))
            }
            (Stop::Kill, Stage::Running | Stage::Interrupted { .. } | Stage::Terminated { .. }) => {
                Some(self.kill(now, now))
            }
            _ => None,
        }
    }

    /// The leader ended: what is left of its tree shall end too.
    pub(super) fn leader_ended(&mut self, now: Instant) -> Option<Act> {
        match self.stage {
            Stage::Running | Stage::Interrupted { .. } => {
                Some(self.terminate(now, self.grace.leftovers))
            }
            Stage::Terminated { until } => {
                let until = until.min(after(now, self.grace.leftovers));
                self.stage = Stage::Terminated { until };
                Some(Act::Terminate)
            }
            Stage::Killed { .. } | Stage::GaveUp => None,
        }
    }

    /// What is due by now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Act> {
        match self.stage {
            Stage::Interrupted { until } if until <= now => {
                Some(self.terminate(now, self.grace.terminate))
            }
            Stage::Terminated { until } if until <= now => Some(self.kill(now, now)),
            Stage::Killed { since, .. } if after(since, GIVE_UP) <= now => {
                self.stage = Stage::GaveUp;
                Some(Act::GiveUp)
            }
            Stage::Killed { since, next } if next <= now => Some(self.kill(since, now)),
            _ => None,
        }
    }

    /// How long nothing will be due; `None` is for ever.
    pub(super) fn idle(&self, now: Instant) -> Option<Duration> {
        match self.stage {
            Stage::Running | Stage::GaveUp => None,
            Stage::Interrupted { until }
            | Stage::Terminated { until }
            | Stage::Killed { next: until, .. } => Some(until.saturating_duration_since(now)),
        }
    }

    fn terminate(&mut self, now: Instant, grace: Duration) -> Act {
        self.stage = Stage::Terminated { until: after(now, grace) };
        Act::Terminate
    }

    fn kill(&mut self, since: Instant, now: Instant) -> Act {
        let tick = if now.saturating_duration_since(since) < TIRED { TICK } else { SLOW_TICK };
        self.stage = Stage::Killed { since, next: after(now, tick) };
        Act::Kill
    }
}

/// A grace of ages is one that no clock can hold; a century is as long.
fn after(now: Instant, grace: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    now.checked_add(grace.min(CENTURY)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn ladder() -> (Ladder, Instant) {
        let grace = Grace { interrupt: 100 * MS, terminate: 200 * MS, leftovers: 50 * MS };
        (Ladder::new(grace), Instant::now())
    }

    #[test]
    fn nothing_is_due_while_it_runs() {
        let (mut ladder, now) = ladder();
        assert_eq!(ladder.due(now + 1_000_000 * MS), None);
        assert_eq!(ladder.idle(now), None);
    }

    #[test]
    fn each_step_waits_for_its_grace() {
        let (mut ladder, now) = ladder();
        assert_eq!(ladder.ask(Stop::Gracefully, now), Some(Act::Interrupt));
        assert_eq!(ladder.idle(now + MS), Some(99 * MS));
        assert_eq!(ladder.due(now + 99 * MS), None);
        assert_eq!(ladder.due(now + 100 * MS), Some(Act::Terminate));
        assert_eq!(ladder.due(now + 299 * MS), None);
        assert_eq!(ladder.due(now + 300 * MS), Some(Act::Kill));
        assert_eq!(ladder.due(now + 301 * MS), None);
        assert_eq!(ladder.due(now + 310 * MS), Some(Act::Kill), "for what was forked meanwhile");
        assert_eq!(ladder.due(now + 31_000 * MS), Some(Act::GiveUp));
        assert_eq!(ladder.idle(now), None);
    }

    #[test]
    fn the_same_or_a_weaker_stop_changes_nothing_and_a_stronger_one_is_obeyed_at_once() {
        let (mut ladder, now) = ladder();
        assert_eq!(ladder.ask(Stop::Gracefully, now), Some(Act::Interrupt));
        assert_eq!(ladder.ask(Stop::Gracefully, now + 99 * MS), None);
        assert_eq!(ladder.ask(Stop::Terminate, now + 10 * MS), Some(Act::Terminate));
        assert_eq!(ladder.ask(Stop::Gracefully, now + 10 * MS), None);
        assert_eq!(ladder.ask(Stop::Terminate, now + 209 * MS), None);
        assert_eq!(ladder.idle(now + 10 * MS), Some(200 * MS), "the grace is not begun again");
        assert_eq!(ladder.ask(Stop::Kill, now + 20 * MS), Some(Act::Kill));
        for weaker in [Stop::Gracefully, Stop::Terminate, Stop::Kill] {
            assert_eq!(ladder.ask(weaker, now + 21 * MS), None);
        }
        assert_eq!(ladder.leader_ended(now + 22 * MS), None);
    }

    #[test]
    fn leftovers_get_their_own_grace_but_never_a_longer_one() {
        let (mut fresh, now) = ladder();
        assert_eq!(fresh.leader_ended(now), Some(Act::Terminate));
        assert_eq!(fresh.due(now + 49 * MS), None);
        assert_eq!(fresh.due(now + 50 * MS), Some(Act::Kill));

        let (mut late, now) = ladder();
        late.ask(Stop::Terminate, now);
        assert_eq!(late.leader_ended(now + 180 * MS), Some(Act::Terminate));
        assert_eq!(late.due(now + 200 * MS), Some(Act::Kill));
    }

    #[test]
    fn no_grace_is_no_wait_and_an_endless_one_does_not_overflow() {
        let now = Instant::now();
        let zero = Duration::ZERO;
        let mut ladder = Ladder::new(Grace { interrupt: zero, terminate: zero, leftovers: zero });
        assert_eq!(ladder.ask(Stop::Gracefully, now), Some(Act::Interrupt));
        assert_eq!(ladder.due(now), Some(Act::Terminate));
        assert_eq!(ladder.due(now), Some(Act::Kill));

        let max = Duration::MAX;
        let mut ladder = Ladder::new(Grace { interrupt: max, terminate: max, leftovers: max });
        assert_eq!(ladder.ask(Stop::Gracefully, now), Some(Act::Interrupt));
        assert_eq!(ladder.due(now + 1_000_000 * MS), None);
    }
}
