//! Performs the trials of a job.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use ralph_orchestrator_contract::Usd;

use super::budget::SpentMoney;
use super::error::JobError;
use super::plan::JobPlan;
use super::store::{JobContents, JobStore, StartedTrial, read_attempts, read_ledger};
use super::usual_cost::UsualCosts;
use crate::job::ledger_entry::LedgerEntry;
use crate::trial::{Cause, TrialKey, TrialRecord};

/// The kind of fault of a trial whose configuration is wrong.
pub const CONFIGURATION_ERROR: &str = "ConfigurationError";

/// The kind of fault of a task whose environment cannot be made, since one of its commands fails.
pub const TASK_SETUP_ERROR: &str = "TaskSetupError";

/// The kind of fault of a machine that lacks what the tests of a task need.
pub const MISSING_PROGRAM_ERROR: &str = "MissingProgramError";

/// Faults that the next attempt would only meet again.
const LASTING: [&str; 7] = [
    "AuthenticationError",
    "BillingError",
    "ModelNotFoundError",
    "AgentNotAvailableError",
    CONFIGURATION_ERROR,
    TASK_SETUP_ERROR,
    MISSING_PROGRAM_ERROR,
];

/// The pause before the second attempt at a trial that the provider refused; doubled each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

/// An attempt to be performed.
#[derive(Clone, Debug)]
pub struct TrialOrder {
    /// Which trial.
    pub key: TrialKey,
    /// The name of the trial.
    pub name: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Its folder, which is there and empty.
    pub dir: PathBuf,
    /// What it may cost at most, in US dollars; none is no limit beside those of the configuration.
    pub max_cost: Option<Usd>,
    /// What an iteration of its agent usually costs, if that is known: what one is charged with that cannot say.
    pub usual_cost: Option<Usd>,
    /// How long to wait before it begins, since the provider refused the attempt before.
    pub pause: Duration,
}

/// Performs attempts. What goes wrong is part of their records.
#[async_trait(?Send)]
pub trait TrialRunner {
    /// Performs an attempt, and returns its record and what it cost.
    async fn run(&self, order: TrialOrder) -> (TrialRecord, Vec<LedgerEntry>);

    /// Returns what is known of an attempt that was lost with the process that performed it, and what it cost.
    /// `usual_cost` is as in [`TrialOrder`].
    async fn recover(
        &self,
        started: &StartedTrial,
        name: &str,
        usual_cost: Option<Usd>,
    ) -> (TrialRecord, Vec<LedgerEntry>);
}

/// Whether a stop was requested.
pub trait StopSignal {
    /// Whether no further trial is to be begun.
    fn is_stopping(&self) -> bool;
}

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobProgress {
    /// Trials of the job.
    pub planned: usize,
    /// Trials that have ended for good.
    pub ended: usize,
    /// Trials that are being performed.
    pub running: usize,
    /// What the job has cost so far, in US dollars.
    pub cost: Usd,
}

/// Told of what happens in a job.
pub trait JobObserver {
    /// An attempt begins.
    fn trial_started(&self, order: &TrialOrder, progress: JobProgress);
    /// An attempt ended; `is_retried` says whether another one follows.
    fn trial_ended(&self, record: &TrialRecord, is_retried: bool, progress: JobProgress);
    /// Returns whether the job has found what it was to find, from the rewards of all trials that ended: none where
    /// a trial was not judged.
    fn is_decided(&self, ended: &BTreeMap<TrialKey, Option<f64>>) -> bool;
}

/// Why a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// All trials have ended.
    Finished,
    /// It has found what it was to find.
    Decided,
    /// A stop was requested; it can be resumed.
    Stopped,
    /// The money is used up; trials that were not begun are left.
    OutOfBudget,
}

/// What is left to do of a job.
pub struct Schedule {
    queue: VecDeque<(TrialKey, u32)>,
    /// Repetitions after faults, of each trial.
    retries: BTreeMap<TrialKey, u32>,
    /// When trials may begin again that the provider refused.
    resting: BTreeMap<TrialKey, Timestamp>,
    /// No more of a trial than what the job goes on by: with the whole records a long job would grow without end.
    ended: BTreeMap<TrialKey, Option<f64>>,
    running: BTreeMap<String, u32>,
    spent: SpentMoney,
    usual_costs: UsualCosts,
    planned: usize,
}

impl Schedule {
    /// Returns what is left of a job, after what is on disk of it. Attempts that were lost are recorded first.
    ///
    /// Trials whose last attempt failed by one of the causes in `again` are performed again.
    ///
    /// # Errors
    /// Something of the job cannot be read or written.
    pub async fn resume(
        store: &mut JobStore,
        runner: &dyn TrialRunner,
        again: &[Cause],
    ) -> Result<Self, JobError> {
        let plan = store.plan().clone();
        let (mut records, lost) = read_attempts(store.dir(), &plan)?;
        let mut usual_costs = UsualCosts::default();
        read_ledger(store.dir())?.iter().for_each(|entry| usual_costs.add(entry));
        if !lost.is_empty() {
            for started in &lost {
                let name = plan.trial_name(&started.key);
                let usual = usual_costs.of(&started.key.column.agent);
                let (record, costs) = runner.recover(started, &name, usual).await;
                store.end_attempt(&record, &costs)?;
            }
            (records, _) = read_attempts(store.dir(), &plan)?;
        }
        let mut schedule = Self::from_records(&plan, records, again);
        read_ledger(store.dir())?.iter().for_each(|entry| schedule.spent.add(entry));
        schedule.spent.settle();
        schedule.usual_costs = usual_costs;
        Ok(schedule)
    }

    /// Returns what is left of a job after these attempts, of which none is being performed.
    pub(super) fn from_records(plan: &JobPlan, records: Vec<TrialRecord>, again: &[Cause]) -> Self {
        let trials = plan.trials();
        let mut schedule = Self {
            queue: VecDeque::new(),
            retries: BTreeMap::new(),
            resting: BTreeMap::new(),
            ended: BTreeMap::new(),
            running: BTreeMap::new(),
            spent: SpentMoney::default(),
            usual_costs: UsualCosts::default(),
            planned: trials.len(),
        };
        let mut next: BTreeMap<TrialKey, u32> = BTreeMap::new();
        for record in records {
            next.insert(record.key.clone(), record.attempt.saturating_add(1));
            let cause = record.fault.as_ref().map(|fault| fault.cause);
            if cause.is_some_and(|cause| again.contains(&cause)) {
                // What a person asks for counts anew.
                schedule.retries.remove(&record.key);
                schedule.ended.remove(&record.key);
            } else if schedule.wants_retry(&record, plan) {
                schedule.ended.remove(&record.key);
            } else {
                let reward = record.reward();
                schedule.ended.insert(record.key, reward);
            }
        }
        let open = trials.into_iter().filter(|key| !schedule.ended.contains_key(key));
        schedule.queue =
            open.map(|key| (key.clone(), next.get(&key).copied().unwrap_or(1))).collect();
        schedule
    }

    /// Returns how far the job is.
    #[must_use]
    pub fn progress(&self) -> JobProgress {
        JobProgress {
            planned: self.planned,
            ended: self.ended.len(),
            running: self.running.values().map(|count| usize::try_from(*count).unwrap_or(0)).sum(),
            cost: self.spent.total(),
        }
    }

    /// Whether another attempt follows this one. Counts it.
    fn wants_retry(&mut self, record: &TrialRecord, plan: &JobPlan) -> bool {
        let Some(fault) = &record.fault else { return false };
        match fault.cause {
            // Nobody's fault, so it is not counted.
            Cause::Cancelled => true,
            _ if LASTING.contains(&fault.kind.as_str()) => false,
            Cause::Provider | Cause::Sandbox | Cause::Infrastructure => {
                let retries = self.retries.entry(record.key.clone()).or_default();
                *retries = retries.saturating_add(1);
                *retries <= plan.options.max_retries
            }
            Cause::Agent | Cause::Budget | Cause::Verifier => false,
        }
    }

    /// Queues another attempt at a trial, behind all others. The provider is given time.
    fn repeat(&mut self, record: &TrialRecord) {
        let key = record.key.clone();
        if record.fault.as_ref().is_some_and(|fault| fault.cause == Cause::Provider) {
            let earlier = self.retries.get(&key).copied().unwrap_or(1).saturating_sub(1);
            let pause = FIRST_PAUSE.saturating_mul(1 << earlier.min(16)).min(LONGEST_PAUSE);
            if let Ok(until) = record.finished.checked_add(pause) {
                self.resting.insert(key.clone(), until);
            }
        }
        self.queue.push_back((key, record.attempt.saturating_add(1)));
    }

    /// Returns how long a trial still has to wait.
    fn pause_of(&self, key: &TrialKey, now: Timestamp) -> Duration {
        let until = self.resting.get(key);
        until.map_or(Duration::ZERO, |until| {
            until.duration_since(now).try_into().unwrap_or_default()
        })
    }

    /// Takes the next attempt that can begin now, with what it may cost: one that need not wait before one that has to.
    fn take_next(&mut self, plan: &JobPlan, now: Timestamp) -> NextTrial {
        let running: u32 = self.running.values().sum();
        let free = plan.options.concurrency.max(1).saturating_sub(running);
        if self.queue.is_empty() {
            return NextTrial::None;
        }
        if free == 0 {
            return NextTrial::Wait;
        }
        let can_begin = |agent: &str| {
            let limit = plan.options.agent_concurrency.get(agent);
            let running = self.running.get(agent).copied().unwrap_or(0);
            limit.is_none_or(|limit| running < *limit)
        };
        let slots = free.min(u32::try_from(self.queue.len()).unwrap_or(u32::MAX));
        let mut is_broke = false;
        let has_to_wait = |key: &TrialKey| !self.pause_of(key, now).is_zero();
        let mut order: Vec<usize> = (0..self.queue.len()).collect();
        order.sort_by_key(|index| self.queue.get(*index).is_some_and(|(key, _)| has_to_wait(key)));
        for index in order {
            let Some((key, attempt)) = self.queue.get(index) else { break };
            let agent = key.column.agent.as_str();
            if !can_begin(agent) {
                continue;
            }
            let allowance = self.spent.allowance(&plan.budgets, agent, slots);
            if allowance == Some(Usd::ZERO) {
                is_broke = true;
                continue;
            }
            let (key, attempt) = (key.clone(), *attempt);
            let pause = self.pause_of(&key, now);
            self.queue.remove(index);
            self.resting.remove(&key);
            return NextTrial::Begin { key, attempt, max_cost: allowance, pause };
        }
        // What others have reserved may come back.
        if is_broke && running == 0 { NextTrial::OutOfBudget } else { NextTrial::Wait }
    }
}

/// What can be done now.
enum NextTrial {
    Begin {
        key: TrialKey,
        attempt: u32,
        max_cost: Option<Usd>,
        pause: Duration,
    },
    /// One that is being performed has to end first.
    Wait,
    OutOfBudget,
    None,
}

/// Performs what is left of a job, several trials at a time, and records each attempt when it has ended.
///
/// # Errors
/// Something of the job cannot be written. What is being performed is ended first.
pub async fn run_job(
    store: &mut JobStore,
    mut schedule: Schedule,
    runner: &dyn TrialRunner,
    observer: &dyn JobObserver,
    stop: &dyn StopSignal,
) -> Result<JobEnd, JobError> {
    let plan = store.plan().clone();
    let mut running = FuturesUnordered::new();
    let mut end = JobEnd::Finished;
    loop {
        while end == JobEnd::Finished {
            if stop.is_stopping() {
                end = JobEnd::Stopped;
                break;
            }
            if observer.is_decided(&schedule.ended) {
                end = JobEnd::Decided;
                break;
            }
            match schedule.take_next(&plan, Timestamp::now()) {
                NextTrial::Begin { key, attempt, max_cost, pause } => {
                    let dir = store.begin_attempt(&key, attempt)?;
                    let name = plan.trial_name(&key);
                    let usual_cost = schedule.usual_costs.of(&key.column.agent);
                    let order = TrialOrder { key, name, attempt, dir, max_cost, usual_cost, pause };
                    let agent = order.key.column.agent.clone();
                    *schedule.running.entry(agent.clone()).or_default() += 1;
                    schedule.spent.reserve(&agent, max_cost);
                    observer.trial_started(&order, schedule.progress());
                    running.push(async move { (max_cost, runner.run(order).await) });
                }
                NextTrial::OutOfBudget => end = JobEnd::OutOfBudget,
                NextTrial::Wait | NextTrial::None => break,
            }
        }
        let Some((max_cost, (record, costs))) = running.next().await else { break };
        let agent = &record.key.column.agent;
        if let Some(count) = schedule.running.get_mut(agent) {
            *count = count.saturating_sub(1);
        }
        schedule.spent.release(agent, max_cost);
        for entry in &costs {
            schedule.spent.add(entry);
            schedule.usual_costs.add(entry);
        }
        schedule.spent.settle();
        store.end_attempt(&record, &costs)?;
        let is_retried = schedule.wants_retry(&record, &plan) && !stop.is_stopping();
        if is_retried {
            schedule.repeat(&record);
        } else if !record.is_cancelled() {
            schedule.ended.insert(record.key.clone(), record.reward());
        }
        observer.trial_ended(&record, is_retried, schedule.progress());
    }
    let is_whole = schedule.ended.len() == schedule.planned;
    Ok(if is_whole && end == JobEnd::Stopped { JobEnd::Finished } else { end })
}

impl JobContents {
    /// Returns how many trials have ended for good: those that are to be repeated after a fault, or were stopped, have
    /// not.
    #[must_use]
    pub fn count_ended(&self) -> usize {
        Schedule::from_records(&self.plan, self.records.clone(), &[]).progress().ended
    }
}
