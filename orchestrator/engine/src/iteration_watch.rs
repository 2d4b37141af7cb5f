//! The deadlines of an iteration, and what runs in it beside the agent.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ralph_orchestrator_contract::{CancelReason, Findings};
use ralph_orchestrator_machine::{Timer, millis};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep};

use super::agent_message::{AgentMessage, ValidationRequest};
use super::agent_slot::AgentSlot;
use super::guidance::GuidanceQueue;
use super::idle::IdleMonitor;
use super::in_session_validation::PendingValidation;
use super::inspect::InspectionTask;
use super::pending_records::PendingRecords;
use super::run_journal::RunJournal;
use super::token_bucket::TokenBucket;

/// How long a cancelled agent may take to exit, beyond the graces that its adapter has.
pub(super) const EXIT_GRACE: Duration = Duration::from_secs(60);
/// How long it may take after a second request to stop.
const KILL_GRACE: Duration = Duration::from_secs(10);
/// The shortest and the longest time between two records of the runtime.
const SHORTEST_TICK_MS: u64 = 250;
const LONGEST_TICK_MS: u64 = 30_000;
/// Share of `max_runtime` between two such records.
const TICK_SHARE: u64 = 100;
/// Inspections of a changed prompt: so many at once, then so many a second.
const INSPECTIONS: u64 = 8;
const INSPECTIONS_PER_SECOND: u64 = 4;
/// After an inspection, at least so many times its duration passes before the next.
const INSPECTION_PAUSE_FACTOR: u64 = 3;

/// What detectors found, and the validation request that it is needed for.
pub(super) type InspectionOutcome = (Findings, Option<ValidationRequest>);

/// A running inspection by the detectors.
pub(super) struct PendingInspection {
    work: Pin<Box<dyn Future<Output = Findings> + Send>>,
    request: Option<ValidationRequest>,
}

impl PendingInspection {
    pub(super) fn begin(inspection: InspectionTask, request: Option<ValidationRequest>) -> Self {
        Self { work: Box::pin(inspection.run()), request }
    }
}

/// Resolves when the pending inspection ends; never without one.
pub(super) async fn next_inspection(
    inspection: Option<&mut PendingInspection>,
) -> InspectionOutcome {
    let Some(inspection) = inspection else { return std::future::pending().await };
    let findings = (&mut inspection.work).await;
    (findings, inspection.request.take())
}

/// An iteration while its agent runs.
pub(super) struct IterationWatch {
    began_ms: u64,
    next_tick_ms: u64,
    pub(super) idle: IdleMonitor,
    cancel: watch::Sender<Option<CancelReason>>,
    pub(super) messages: mpsc::Receiver<AgentMessage>,
    /// When the agent was cancelled.
    cancelled_ms: Option<u64>,
    /// When it is no longer waited for after a second request to stop.
    kill_deadline_ms: Option<u64>,
    /// The time for which the timer is set.
    armed_ms: u64,
    /// How many requests to stop were handled.
    pub(super) requests: u32,
    /// What is not recorded yet.
    pub(super) pending: PendingRecords,
    inspections: TokenBucket,
    /// When the last inspection of a changed prompt began, and the earliest time for the next.
    inspection_began_ms: u64,
    next_inspection_ms: u64,
    /// The inspection that is running.
    pub(super) inspection: Option<PendingInspection>,
    /// A validation request that waits for that inspection.
    pub(super) queued_request: Option<ValidationRequest>,
    /// The validation that the agent waits for.
    pub(super) validation: Option<PendingValidation>,
    pub(super) guidance: GuidanceQueue,
}

impl IterationWatch {
    pub(super) fn new(
        journal: &RunJournal,
        last_event_ms: Arc<AtomicU64>,
        cancel: watch::Sender<Option<CancelReason>>,
        messages: mpsc::Receiver<AgentMessage>,
        guidance: &GuidanceQueue,
    ) -> Self {
        let began_ms = journal.began_ms;
        Self {
            began_ms,
            next_tick_ms: began_ms.saturating_add(tick_interval_ms(journal)),
            idle: IdleMonitor::new(journal.context.config.limits.idle_timeout, last_event_ms),
            cancel,
            messages,
            cancelled_ms: None,
            kill_deadline_ms: None,
            armed_ms: u64::MAX,
            requests: 0,
            pending: PendingRecords::new(began_ms),
            inspections: TokenBucket::new(INSPECTIONS, INSPECTIONS_PER_SECOND, began_ms),
            inspection_began_ms: began_ms,
            next_inspection_ms: began_ms,
            inspection: None,
            queued_request: None,
            validation: None,
            guidance: guidance.clone(),
        }
    }

    /// Cancels the agent, and validators that run for it.
    pub(super) fn end(&self, reason: CancelReason) {
        self.cancel.send_replace(Some(reason));
        if let Some(validation) = &self.validation {
            validation.cancel(reason);
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.cancel.borrow().is_some()
    }

    pub(super) fn mark_active(&self, now_ms: u64) {
        self.idle.mark_active(now_ms);
    }

    /// Sets the time after which the agent is no longer waited for.
    pub(super) fn set_kill_deadline(&mut self, now_ms: u64) {
        self.kill_deadline_ms = Some(now_ms.saturating_add(millis(KILL_GRACE)));
    }

    /// Drops the validation requests that are not answered yet.
    pub(super) fn drop_requests(&mut self) {
        self.inspection = None;
        self.queued_request = None;
    }

    /// Returns whether a changed prompt may be inspected now. If not, the change stays pending.
    pub(super) fn can_inspect(&self, now_ms: u64) -> bool {
        self.inspection.is_none() && now_ms >= self.next_inspection_ms
    }

    /// Notes that an inspection of a changed prompt begins.
    pub(super) fn inspection_began(&mut self, now_ms: u64) {
        self.inspection_began_ms = now_ms;
        self.inspections.take(1, now_ms);
        self.next_inspection_ms = self.inspections.ready_ms(1);
    }

    /// Notes that it is over.
    pub(super) fn inspection_ended(&mut self, now_ms: u64) {
        self.inspection = None;
        let took_ms = now_ms.saturating_sub(self.inspection_began_ms);
        let next_ms = now_ms.saturating_add(took_ms.saturating_mul(INSPECTION_PAUSE_FACTOR));
        self.next_inspection_ms = self.next_inspection_ms.max(next_ms);
    }

    /// Returns the deadlines, in milliseconds of runtime.
    fn deadlines(&self, journal: &RunJournal, agent: &AgentSlot) -> [(u64, Timer); 5] {
        let limits = &journal.context.config.limits;
        // An agent that waits for a validation is not idle.
        let idle_ms = match self.validation {
            Some(_) => u64::MAX,
            None => self.idle.due_ms(),
        };
        let max_runtime = journal.state.limits.max_runtime_ms.unwrap_or(u64::MAX);
        [
            (max_runtime, Timer::MaxRuntime),
            (
                self.began_ms.saturating_add(millis(limits.iteration_timeout)),
                Timer::IterationTimeout,
            ),
            (self.handoff_ms(journal, agent), Timer::Handoff),
            (idle_ms, Timer::Idle),
            (self.next_tick_ms, Timer::Clock),
        ]
    }

    /// Returns how much of `limits.iteration_timeout` is left, in milliseconds.
    pub(super) fn left_ms(&self, journal: &RunJournal) -> u64 {
        let end_ms =
            self.began_ms.saturating_add(millis(journal.context.config.limits.iteration_timeout));
        end_ms.saturating_sub(journal.clock.runtime_ms())
    }

    /// Returns when an agent that does not report its context is handed off.
    fn handoff_ms(&self, journal: &RunJournal, agent: &AgentSlot) -> u64 {
        let agent = agent.current(&journal.state);
        let reports = agent.configured.description.capabilities.context;
        let after = journal.context.config.handoff.after.filter(|_| !reports);
        after.map_or(u64::MAX, |after| self.began_ms.saturating_add(millis(after)))
    }

    /// Returns when the agent is no longer waited for, if it was cancelled.
    fn give_up_ms(&self) -> Option<u64> {
        let exit_ms = self.cancelled_ms.map(|at| at.saturating_add(millis(EXIT_GRACE)));
        exit_ms.into_iter().chain(self.kill_deadline_ms).min()
    }

    /// Sets the timer for the next deadline. It is only ever set earlier: a timer that fires for nothing
    /// is cheaper than one set at every event.
    pub(super) fn arm(
        &mut self,
        mut timer: Pin<&mut Sleep>,
        journal: &RunJournal,
        agent: &AgentSlot,
    ) {
        let now = journal.clock.runtime_ms();
        let is_cancelled = self.cancelled_ms.is_some();
        let times = self.deadlines(journal, agent).into_iter();
        let inspection = Some(self.next_inspection_ms).filter(|at| *at > now);
        let next = times
            .filter(|(_, timer)| !is_cancelled || *timer == Timer::Clock)
            .map(|(at, _)| at)
            .chain(self.give_up_ms())
            .chain(self.pending.due_ms())
            .chain(inspection)
            .min()
            .unwrap_or(u64::MAX);
        if timer.is_elapsed() || next < self.armed_ms {
            let pause = next.saturating_sub(now).clamp(1, LONGEST_TICK_MS);
            self.armed_ms = now.saturating_add(pause);
            timer.as_mut().reset(Instant::now() + Duration::from_millis(pause));
        }
    }

    /// Returns the timers that are due.
    pub(super) fn due_timers(&mut self, journal: &RunJournal, agent: &AgentSlot) -> Vec<Timer> {
        let now = journal.clock.runtime_ms();
        let mut due = Vec::new();
        for (at, timer) in self.deadlines(journal, agent) {
            if at > now || (self.cancelled_ms.is_some() && timer != Timer::Clock) {
                continue;
            }
            let (context, iteration) = (&journal.context, journal.state.iterations);
            if timer == Timer::Idle
                && !self.idle.check(now, &context.processes, &context.run, iteration)
            {
                continue;
            }
            if timer == Timer::Clock {
                self.next_tick_ms = now.saturating_add(tick_interval_ms(journal));
            }
            due.push(timer);
        }
        due
    }

    /// Returns false if the agent was cancelled and is no longer waited for.
    pub(super) fn is_awaited(&mut self, now_ms: u64) -> bool {
        if self.cancelled_ms.is_none() && self.is_ending() {
            self.cancelled_ms = Some(now_ms);
        }
        self.give_up_ms().is_none_or(|at| now_ms < at)
    }
}

/// Returns how often the runtime is recorded: a crash loses no more than that.
fn tick_interval_ms(journal: &RunJournal) -> u64 {
    let share = journal.state.limits.max_runtime_ms.unwrap_or(u64::MAX) / TICK_SHARE;
    share.clamp(SHORTEST_TICK_MS, LONGEST_TICK_MS)
}
