//! The times that an iteration must keep, and what goes on in it beside the agent.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep};

use super::error::EngineError;
use super::held::Held;
use super::idle::Idle;
use super::inspect::Inspection;
use super::judge::{Judging, Question};
use super::pace::Pace;
use super::plan;
use super::session::Session;
use super::sink::Heard;
use crate::machine::{Input, Timer};
use ralph_orchestrator_contract::{CancelReason, Findings};

/// How long an agent that was told to end may take, beyond the graces that it has itself.
pub(super) const LAST_GRACE: Duration = Duration::from_secs(60);
/// How long it may take that was asked to end twice.
const KILLED_GRACE: Duration = Duration::from_secs(10);
/// The shortest and the longest time between two notes of how much time has passed.
const SHORTEST_TICK_MS: u64 = 250;
const LONGEST_TICK_MS: u64 = 30_000;
/// Share of `max_runtime` between two such notes.
const TICK_SHARE: u64 = 100;
/// Looks at a changed prompt: so many at once, then so many a second.
const INSPECTIONS: u64 = 8;
const INSPECTIONS_PER_SECOND: u64 = 4;
/// After a look that took long, so many times as long passes before the next.
const INSPECTION_REST: u64 = 3;

/// What detectors found, and the question that it is needed for.
pub(super) type Inspected = (Findings, Option<Question>);

/// The detectors are at work.
pub(super) struct Inspecting {
    work: Pin<Box<dyn Future<Output = Findings> + Send>>,
    question: Option<Question>,
}

impl Inspecting {
    pub(super) fn begin(inspection: Inspection, question: Option<Question>) -> Self {
        Self { work: Box::pin(inspection.run()), question }
    }
}

/// Resolves when the detectors have come to an end, if they are at work.
pub(super) async fn inspected(inspecting: Option<&mut Inspecting>) -> Inspected {
    let Some(inspecting) = inspecting else { return std::future::pending().await };
    let findings = (&mut inspecting.work).await;
    (findings, inspecting.question.take())
}

/// An iteration while its agent runs.
pub(super) struct Watching {
    began_ms: u64,
    next_tick_ms: u64,
    pub(super) idle: Idle,
    tell: watch::Sender<Option<CancelReason>>,
    pub(super) hear: mpsc::Receiver<Heard>,
    /// When the agent was first told to end.
    told_ms: Option<u64>,
    /// When it is given up because it was asked to end twice.
    killed_ms: Option<u64>,
    /// For which time the timer is set.
    armed_ms: u64,
    /// Requests to stop that were seen to.
    pub(super) requests: u32,
    /// What is not written down yet.
    pub(super) held: Held,
    inspections: Pace,
    /// When the last look at a changed prompt began, and before when there is none.
    inspection_began_ms: u64,
    next_inspection_ms: u64,
    /// The detectors look at the prompt.
    pub(super) inspecting: Option<Inspecting>,
    /// A question that came while they did.
    pub(super) waiting: Option<Question>,
    /// The validators are at work because the agent asked for a judgement.
    pub(super) judging: Option<Judging>,
}

impl Watching {
    pub(super) fn new(
        session: &Session,
        last_event_ms: Arc<AtomicU64>,
        tell: watch::Sender<Option<CancelReason>>,
        hear: mpsc::Receiver<Heard>,
    ) -> Self {
        let began_ms = session.began_ms;
        Self {
            began_ms,
            next_tick_ms: began_ms.saturating_add(tick_pause(session)),
            idle: Idle::new(session.config.limits.idle_timeout, last_event_ms),
            tell,
            hear,
            told_ms: None,
            killed_ms: None,
            armed_ms: u64::MAX,
            requests: 0,
            held: Held::new(began_ms),
            inspections: Pace::new(INSPECTIONS, INSPECTIONS_PER_SECOND, began_ms),
            inspection_began_ms: began_ms,
            next_inspection_ms: began_ms,
            inspecting: None,
            waiting: None,
            judging: None,
        }
    }

    /// Ends the iteration, validators included.
    pub(super) fn end(&self, reason: CancelReason) {
        self.tell.send_replace(Some(reason));
        if let Some(judging) = &self.judging {
            judging.cancel(reason);
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.tell.borrow().is_some()
    }

    pub(super) fn heard_something(&self, now_ms: u64) {
        self.idle.heard(now_ms);
    }

    /// It is given up soon.
    pub(super) fn killed(&mut self, now_ms: u64) {
        self.killed_ms = Some(now_ms.saturating_add(plan::millis(KILLED_GRACE)));
    }

    /// Whoever has asked is told nothing any more.
    pub(super) fn drop_questions(&mut self) {
        self.inspecting = None;
        self.waiting = None;
    }

    /// Whether a change of the prompt is looked at now. A change that is not stays one.
    pub(super) fn may_inspect(&self, session: &Session) -> bool {
        self.inspecting.is_none() && session.clock.runtime_ms() >= self.next_inspection_ms
    }

    /// A look at a changed prompt begins.
    pub(super) fn prompt_changed(&mut self, now_ms: u64) {
        self.inspection_began_ms = now_ms;
        self.inspections.take(1, now_ms);
        self.next_inspection_ms = self.inspections.ready_ms(1);
    }

    /// It is over.
    pub(super) fn was_inspected(&mut self, now_ms: u64) {
        self.inspecting = None;
        let took_ms = now_ms.saturating_sub(self.inspection_began_ms);
        let next_ms = now_ms.saturating_add(took_ms.saturating_mul(INSPECTION_REST));
        self.next_inspection_ms = self.next_inspection_ms.max(next_ms);
    }

    /// When each of the times has come, in milliseconds of runtime.
    fn times(&self, session: &Session) -> [(u64, Timer); 4] {
        let limits = &session.config.limits;
        // An agent that waits for a judgement is not idle.
        let idle_ms = match self.judging {
            Some(_) => u64::MAX,
            None => self.idle.due_ms(),
        };
        let max_runtime = session.state.limits.max_runtime_ms.unwrap_or(u64::MAX);
        [
            (max_runtime, Timer::MaxRuntime),
            (
                self.began_ms.saturating_add(plan::millis(limits.iteration_timeout)),
                Timer::IterationTimeout,
            ),
            (idle_ms, Timer::Idle),
            (self.next_tick_ms, Timer::Clock),
        ]
    }

    /// When it is given up, if it was told to end.
    fn given_up_ms(&self) -> Option<u64> {
        let told = self.told_ms.map(|told| told.saturating_add(plan::millis(LAST_GRACE)));
        told.into_iter().chain(self.killed_ms).min()
    }

    /// Sets the timer for the next time at which there is something to look at. A timer that is set is
    /// only ever set earlier: one that goes off for nothing is cheaper than one set at every event.
    pub(super) fn arm(&mut self, mut timer: Pin<&mut Sleep>, session: &Session) {
        let now = session.clock.runtime_ms();
        let told = self.told_ms.is_some();
        let times = self.times(session).into_iter();
        let inspection = Some(self.next_inspection_ms).filter(|at| *at > now);
        let next = times
            .filter(|(_, timer)| !told || *timer == Timer::Clock)
            .map(|(at, _)| at)
            .chain(self.given_up_ms())
            .chain(self.held.due_ms())
            .chain(inspection)
            .min()
            .unwrap_or(u64::MAX);
        if timer.is_elapsed() || next < self.armed_ms {
            let pause = next.saturating_sub(now).clamp(1, LONGEST_TICK_MS);
            self.armed_ms = now.saturating_add(pause);
            timer.as_mut().reset(Instant::now() + Duration::from_millis(pause));
        }
    }

    /// Tells the machine which times have come. False if the agent was told to end long ago.
    pub(super) fn look(&mut self, session: &mut Session) -> Result<bool, EngineError> {
        let now = session.clock.runtime_ms();
        for (at, timer) in self.times(session) {
            if at > now || (self.told_ms.is_some() && timer != Timer::Clock) {
                continue;
            }
            if timer == Timer::Idle
                && !self.idle.come(now, &session.processes, &session.run, session.state.iterations)
            {
                continue;
            }
            session.act(Input::Timer(timer), self)?;
            if timer == Timer::Clock {
                self.next_tick_ms = now.saturating_add(tick_pause(session));
            }
        }
        if self.told_ms.is_none() && self.is_ending() {
            self.told_ms = Some(now);
        }
        Ok(self.given_up_ms().is_none_or(|at| now < at))
    }
}

/// How often it is noted how much time has passed: a crash loses no more than that.
fn tick_pause(session: &Session) -> u64 {
    let share = session.state.limits.max_runtime_ms.unwrap_or(u64::MAX) / TICK_SHARE;
    share.clamp(SHORTEST_TICK_MS, LONGEST_TICK_MS)
}
