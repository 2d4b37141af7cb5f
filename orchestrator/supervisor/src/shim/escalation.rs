//! The escalation of a stop as a pure state machine: interrupt, terminate, kill, give up.

use std::time::{Duration, Instant};

use crate::spec::{Grace, Stop};

/// The intervals at which SIGKILL is repeated, for newly forked processes: at first, and after
/// [`SLOW_AFTER`].
const KILL_INTERVAL: Duration = Duration::from_millis(10);
const SLOW_KILL_INTERVAL: Duration = Duration::from_millis(250);
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// How long what ends by itself may take when the leader has ended.
const FINISH: Duration = Duration::from_secs(2);
/// The time after the first SIGKILL at which survivors (another user's, or stuck in the kernel) are given
/// up.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(30);

/// An action on the process tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopAction {
    Interrupt,
    Terminate,
    Kill,
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EscalationState {
    Running,
    Finishing { until: Instant },
    Interrupted { until: Instant },
    Terminated { until: Instant },
    Killed { since: Instant, next: Instant },
    GivenUp,
}

#[derive(Debug)]
pub(super) struct StopEscalation {
    grace: Grace,
    state: EscalationState,
}

impl StopEscalation {
    pub(super) fn new(grace: Grace) -> Self {
        Self { grace, state: EscalationState::Running }
    }

    /// Requests a stop. A repeated or weaker request changes nothing.
    pub(super) fn request(&mut self, stop: Stop, now: Instant) -> Option<StopAction> {
        match (stop, self.state) {
            (Stop::Gracefully, EscalationState::Running) => {
                self.state =
                    EscalationState::Interrupted { until: after(now, self.grace.interrupt) };
                Some(StopAction::Interrupt)
            }
            (
                Stop::Terminate,
                EscalationState::Running
                | EscalationState::Finishing { .. }
                | EscalationState::Interrupted { .. },
            ) => Some(self.terminate(now, self.grace.terminate)),
            (
                Stop::Kill,
                EscalationState::Running
                | EscalationState::Finishing { .. }
                | EscalationState::Interrupted { .. }
                | EscalationState::Terminated { .. },
            ) => Some(self.kill(now, now)),
            _ => None,
        }
    }

    /// Handles the end of the leader where the rest of its tree ends by itself, but for what takes too long.
    pub(super) fn finish(&mut self, now: Instant) -> Option<StopAction> {
        if self.state != EscalationState::Running {
            return self.leader_ended(now);
        }
        self.state = EscalationState::Finishing { until: after(now, FINISH) };
        None
    }

    /// Handles the end of the leader: the rest of its tree has to end too.
    pub(super) fn leader_ended(&mut self, now: Instant) -> Option<StopAction> {
        match self.state {
            EscalationState::Running
            | EscalationState::Finishing { .. }
            | EscalationState::Interrupted { .. } => {
                Some(self.terminate(now, self.grace.leftovers))
            }
            EscalationState::Terminated { until } => {
                let until = until.min(after(now, self.grace.leftovers));
                self.state = EscalationState::Terminated { until };
                Some(StopAction::Terminate)
            }
            EscalationState::Killed { .. } | EscalationState::GivenUp => None,
        }
    }

    /// Returns the action that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<StopAction> {
        match self.state {
            EscalationState::Interrupted { until } if until <= now => {
                Some(self.terminate(now, self.grace.terminate))
            }
            EscalationState::Finishing { until } if until <= now => self.leader_ended(now),
            EscalationState::Terminated { until } if until <= now => Some(self.kill(now, now)),
            EscalationState::Killed { since, .. } if after(since, GIVE_UP) <= now => {
                self.state = EscalationState::GivenUp;
                Some(StopAction::GiveUp)
            }
            EscalationState::Killed { since, next } if next <= now => Some(self.kill(since, now)),
            _ => None,
        }
    }

    /// Returns the time until the next action is due; `None` if there is none.
    pub(super) fn time_to_next(&self, now: Instant) -> Option<Duration> {
        match self.state {
            EscalationState::Running | EscalationState::GivenUp => None,
            EscalationState::Finishing { until }
            | EscalationState::Interrupted { until }
            | EscalationState::Terminated { until }
            | EscalationState::Killed { next: until, .. } => {
                Some(until.saturating_duration_since(now))
            }
        }
    }

    fn terminate(&mut self, now: Instant, grace: Duration) -> StopAction {
        self.state = EscalationState::Terminated { until: after(now, grace) };
        StopAction::Terminate
    }

    fn kill(&mut self, since: Instant, now: Instant) -> StopAction {
        let tick = if now.saturating_duration_since(since) < SLOW_AFTER {
            KILL_INTERVAL
        } else {
            SLOW_KILL_INTERVAL
        };
        self.state = EscalationState::Killed { since, next: after(now, tick) };
        StopAction::Kill
    }
}

/// Adds a grace period, limited to a century: a longer one may overflow the clock.
fn after(now: Instant, grace: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    now.checked_add(grace.min(CENTURY)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn escalation() -> (StopEscalation, Instant) {
        let grace = Grace { interrupt: 100 * MS, terminate: 200 * MS, leftovers: 50 * MS };
        (StopEscalation::new(grace), Instant::now())
    }

    #[test]
    fn nothing_is_due_while_it_runs() {
        let (mut escalation, now) = escalation();
        assert_eq!(escalation.due(now + 1_000_000 * MS), None);
        assert_eq!(escalation.time_to_next(now), None);
    }

    #[test]
    fn each_step_waits_for_its_grace() {
        let (mut escalation, now) = escalation();
        assert_eq!(escalation.request(Stop::Gracefully, now), Some(StopAction::Interrupt));
        assert_eq!(escalation.time_to_next(now + MS), Some(99 * MS));
        assert_eq!(escalation.due(now + 99 * MS), None);
        assert_eq!(escalation.due(now + 100 * MS), Some(StopAction::Terminate));
        assert_eq!(escalation.due(now + 299 * MS), None);
        assert_eq!(escalation.due(now + 300 * MS), Some(StopAction::Kill));
        assert_eq!(escalation.due(now + 301 * MS), None);
        assert_eq!(
            escalation.due(now + 310 * MS),
            Some(StopAction::Kill),
            "for what was forked meanwhile"
        );
        assert_eq!(escalation.due(now + 31_000 * MS), Some(StopAction::GiveUp));
        assert_eq!(escalation.time_to_next(now), None);
    }

    #[test]
    fn the_same_or_a_weaker_stop_changes_nothing_and_a_stronger_one_is_obeyed_at_once() {
        let (mut escalation, now) = escalation();
        assert_eq!(escalation.request(Stop::Gracefully, now), Some(StopAction::Interrupt));
        assert_eq!(escalation.request(Stop::Gracefully, now + 99 * MS), None);
        assert_eq!(escalation.request(Stop::Terminate, now + 10 * MS), Some(StopAction::Terminate));
        assert_eq!(escalation.request(Stop::Gracefully, now + 10 * MS), None);
        assert_eq!(escalation.request(Stop::Terminate, now + 209 * MS), None);
        assert_eq!(
            escalation.time_to_next(now + 10 * MS),
            Some(200 * MS),
            "the grace is not begun again"
        );
        assert_eq!(escalation.request(Stop::Kill, now + 20 * MS), Some(StopAction::Kill));
        for weaker in [Stop::Gracefully, Stop::Terminate, Stop::Kill] {
            assert_eq!(escalation.request(weaker, now + 21 * MS), None);
        }
        assert_eq!(escalation.leader_ended(now + 22 * MS), None);
    }

    #[test]
    fn leftovers_get_their_own_grace_but_never_a_longer_one() {
        let (mut fresh, now) = escalation();
        assert_eq!(fresh.leader_ended(now), Some(StopAction::Terminate));
        assert_eq!(fresh.due(now + 49 * MS), None);
        assert_eq!(fresh.due(now + 50 * MS), Some(StopAction::Kill));

        let (mut late, now) = escalation();
        late.request(Stop::Terminate, now);
        assert_eq!(late.leader_ended(now + 180 * MS), Some(StopAction::Terminate));
        assert_eq!(late.due(now + 200 * MS), Some(StopAction::Kill));
    }

    #[test]
    fn what_ends_by_itself_is_ended_only_if_it_takes_too_long_or_a_stop_is_requested() {
        let (mut slow, now) = escalation();
        assert_eq!(slow.finish(now), None);
        assert_eq!(slow.time_to_next(now), Some(FINISH));
        assert_eq!(slow.due(now + FINISH), Some(StopAction::Terminate));
        assert_eq!(slow.due(now + FINISH + 50 * MS), Some(StopAction::Kill));

        let (mut stopped, now) = escalation();
        stopped.finish(now);
        assert_eq!(stopped.request(Stop::Terminate, now), Some(StopAction::Terminate));

        let (mut late, now) = escalation();
        late.request(Stop::Gracefully, now);
        assert_eq!(late.finish(now), Some(StopAction::Terminate));
    }

    #[test]
    fn no_grace_is_no_wait_and_an_endless_one_does_not_overflow() {
        let now = Instant::now();
        let zero = Duration::ZERO;
        let mut escalation =
            StopEscalation::new(Grace { interrupt: zero, terminate: zero, leftovers: zero });
        assert_eq!(escalation.request(Stop::Gracefully, now), Some(StopAction::Interrupt));
        assert_eq!(escalation.due(now), Some(StopAction::Terminate));
        assert_eq!(escalation.due(now), Some(StopAction::Kill));

        let max = Duration::MAX;
        let mut escalation =
            StopEscalation::new(Grace { interrupt: max, terminate: max, leftovers: max });
        assert_eq!(escalation.request(Stop::Gracefully, now), Some(StopAction::Interrupt));
        assert_eq!(escalation.due(now + 1_000_000 * MS), None);
    }
}
