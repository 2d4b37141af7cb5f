//! Performs the trials of a job, beside other workers if there are any.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use ralph_orchestrator_contract::Usd;

use super::budget::SpentMoney;
use super::claims::Claim;
use super::error::JobError;
use super::plan::JobPlan;
use super::store::{JobContents, JobStore, StartedTrial, read_attempts};
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

/// How often a worker that can begin nothing looks whether others have ended trials, or are gone.
const LOOK: Duration = Duration::from_secs(1);

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

    /// Waits for so long, or until a stop is requested.
    async fn idle(&self, time: Duration);
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
    /// An attempt of this process ended after another worker had taken it for lost: its record is kept, and does not count.
    fn trial_superseded(&self, record: &TrialRecord);
    /// This process has nothing to do until other workers have ended trials.
    fn waits_for_others(&self);
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
    /// What other workers perform.
    elsewhere: Vec<Claim>,
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
        let (records, started) = read_attempts(store.dir(), &plan)?;
        let ended: BTreeSet<_> =
            records.iter().map(|record| (record.key.clone(), record.attempt)).collect();
        let mut schedule = Self::from_records(&plan, records, again);
        schedule.add_costs(store)?;
        let mut claimed = BTreeSet::new();
        while let Some(claim) = store.read_claim()? {
            let attempt = (claim.key.clone(), claim.attempt);
            if !ended.contains(&attempt) {
                claimed.insert(attempt);
                schedule.add_claim(claim);
            }
        }
        for StartedTrial { key, attempt, .. } in started {
            // Nobody says that they perform it.
            if !claimed.contains(&(key.clone(), attempt)) {
                let record = schedule.recover(store, runner, &key, attempt).await?;
                schedule.dequeue(&key);
                schedule.settle(&record, &plan, true);
            }
        }
        schedule.look_at_others(store, runner, true).await?;
        Ok(schedule)
    }

    /// Adds what was paid since the last time.
    fn add_costs(&mut self, store: &mut JobStore) -> Result<(), JobError> {
        for entry in store.read_new_costs()? {
            self.spent.add(&entry);
            self.usual_costs.add(&entry);
        }
        Ok(())
    }

    /// Records an attempt that was lost, unless somebody else has recorded how it ended. Returns the record that counts.
    async fn recover(
        &mut self,
        store: &mut JobStore,
        runner: &dyn TrialRunner,
        key: &TrialKey,
        attempt: u32,
    ) -> Result<TrialRecord, JobError> {
        // Who claimed it may have ended before it made the folder. If it comes back, it finds that there is one.
        store.begin_attempt(key, attempt)?;
        let dir = store.plan().trial_layout(store.dir(), key).attempt(attempt);
        let started = StartedTrial { key: key.clone(), attempt, dir };
        let usual = self.usual_costs.of(&key.column.agent);
        let name = store.plan().trial_name(key);
        let (record, costs) = runner.recover(&started, &name, usual).await;
        costs.iter().for_each(|entry| self.spent.add(entry));
        Ok(store.end_attempt(&record, &costs)?.unwrap_or(record))
    }

    /// Leaves a trial to the worker who has claimed an attempt at it.
    fn add_claim(&mut self, claim: Claim) {
        self.dequeue(&claim.key);
        self.spent.reserve(&claim.key.column.agent, claim.max_cost);
        self.elsewhere.push(claim);
    }

    fn dequeue(&mut self, key: &TrialKey) {
        // Others take trials from the front, too.
        if let Some(place) = self.queue.iter().position(|(queued, _)| queued == key) {
            self.queue.remove(place);
        }
    }

    /// Takes note of what other workers have claimed and ended, and if `asks`, records the attempts of those that are gone as
    /// lost.
    async fn look_at_others(
        &mut self,
        store: &mut JobStore,
        runner: &dyn TrialRunner,
        asks: bool,
    ) -> Result<(), JobError> {
        while let Some(claim) = store.read_claim()? {
            self.add_claim(claim);
        }
        if self.elsewhere.is_empty() {
            return Ok(());
        }
        let mut ended = Vec::new();
        for claim in std::mem::take(&mut self.elsewhere) {
            let mut record = store.read_record(&claim.key, claim.attempt)?;
            if record.is_none() && asks && store.is_abandoned(&claim) {
                record = Some(self.recover(store, runner, &claim.key, claim.attempt).await?);
            }
            match record {
                Some(record) => ended.push((claim, record)),
                None => self.elsewhere.push(claim),
            }
        }
        if ended.is_empty() {
            return Ok(());
        }
        // What a trial cost was written before its record, so nothing is missing where its reservation is taken back.
        self.add_costs(store)?;
        let mut repeated = BTreeSet::new();
        for (claim, record) in ended {
            self.spent.release(&claim.key.column.agent, claim.max_cost);
            if repeated.remove(&claim.key) {
                self.dequeue(&claim.key);
            }
            if self.settle(&record, store.plan(), true) {
                repeated.insert(claim.key);
            }
        }
        let claimed: Vec<TrialKey> = self.elsewhere.iter().map(|claim| claim.key.clone()).collect();
        claimed.iter().for_each(|key| self.dequeue(key));
        Ok(())
    }

    /// Takes note of how an attempt ended. Returns whether another one follows, where trials are repeated.
    fn settle(&mut self, record: &TrialRecord, plan: &JobPlan, repeats: bool) -> bool {
        let is_retried = self.wants_retry(record, plan) && repeats;
        if is_retried {
            self.ended.remove(&record.key);
            self.repeat(record);
        } else if !record.is_cancelled() {
            self.ended.insert(record.key.clone(), record.reward());
        }
        is_retried
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
            elsewhere: Vec::new(),
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
    fn take_next(&mut self, plan: &JobPlan, now: Timestamp, workers: u32) -> NextTrial {
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
            let elsewhere = self.elsewhere.iter().filter(|claim| claim.key.column.agent == agent);
            let elsewhere = u32::try_from(elsewhere.count()).unwrap_or(u32::MAX);
            let running = self.running.get(agent).copied().unwrap_or(0);
            limit.is_none_or(|limit| running.saturating_add(elsewhere) < *limit)
        };
        let is_alone = running == 0 && self.elsewhere.is_empty();
        // What one may cost is stated, or else is its share of what is left.
        let slots = match plan.budgets.trial {
            Some(_) => 1,
            None => self.count_slots(plan, running, workers),
        };
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
            // With less than it may cost it would be cut short for want of money that may come back.
            let is_cut = !is_alone && plan.budgets.trial > allowance;
            if allowance == Some(Usd::ZERO) || is_cut {
                is_broke = true;
                continue;
            }
            let (key, attempt) = (key.clone(), *attempt);
            let pause = self.pause_of(&key, now);
            return NextTrial::Begin { key, attempt, max_cost: allowance, pause };
        }
        // What others have reserved may come back.
        if is_broke && is_alone { NextTrial::OutOfBudget } else { NextTrial::Wait }
    }

    /// Returns how many trials are to be begun at once, at least one: by all workers, of whom each performs as many as this one.
    fn count_slots(&self, plan: &JobPlan, running: u32, workers: u32) -> u32 {
        let elsewhere = u32::try_from(self.elsewhere.len()).unwrap_or(u32::MAX);
        let all = plan.options.concurrency.max(1).saturating_mul(workers.max(1));
        let free = all.saturating_sub(running).saturating_sub(elsewhere);
        free.min(u32::try_from(self.queue.len()).unwrap_or(u32::MAX)).max(1)
    }

    /// Begins an attempt, if no other worker was quicker.
    fn begin(
        &mut self,
        store: &mut JobStore,
        (key, attempt): (TrialKey, u32),
        max_cost: Option<Usd>,
        pause: Duration,
    ) -> Result<Option<TrialOrder>, JobError> {
        let Some(claim) = store.claim(&key, attempt, max_cost)? else { return Ok(None) };
        self.dequeue(&key);
        self.resting.remove(&key);
        let Some(dir) = store.begin_attempt(&key, attempt)? else {
            // This process was taken for gone in this moment, and its attempt for lost.
            self.add_claim(claim);
            return Ok(None);
        };
        let name = store.plan().trial_name(&key);
        let agent = &key.column.agent;
        let usual_cost = self.usual_costs.of(agent);
        *self.running.entry(agent.clone()).or_default() += 1;
        self.spent.reserve(agent, max_cost);
        Ok(Some(TrialOrder { key, name, attempt, dir, max_cost, usual_cost, pause }))
    }

    /// Takes note of how an attempt of this process ended. Returns the record that counts, and whether another one follows.
    fn end(
        &mut self,
        store: &mut JobStore,
        observer: &dyn JobObserver,
        (max_cost, record, costs): (Option<Usd>, TrialRecord, &[LedgerEntry]),
        repeats: bool,
    ) -> Result<(TrialRecord, bool), JobError> {
        let agent = &record.key.column.agent;
        if let Some(count) = self.running.get_mut(agent) {
            *count = count.saturating_sub(1);
        }
        self.spent.release(agent, max_cost);
        for entry in costs {
            self.spent.add(entry);
            self.usual_costs.add(entry);
        }
        let other = store.end_attempt(&record, costs)?;
        if other.is_some() {
            observer.trial_superseded(&record);
        }
        let record = other.unwrap_or(record);
        let is_retried = self.settle(&record, store.plan(), repeats);
        Ok((record, is_retried))
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
    // While there is something to begin, those who are gone can wait.
    let mut asks = false;
    loop {
        while end == JobEnd::Finished {
            if stop.is_stopping() {
                end = JobEnd::Stopped;
                break;
            }
            schedule.look_at_others(store, runner, std::mem::take(&mut asks)).await?;
            if observer.is_decided(&schedule.ended) {
                end = JobEnd::Decided;
                break;
            }
            // Only a share of the job's money depends on how many there are.
            let workers = if plan.budgets.job.or(plan.budgets.agent).is_some() {
                store.count_workers()
            } else {
                1
            };
            match schedule.take_next(&plan, Timestamp::now(), workers) {
                NextTrial::Begin { key, attempt, max_cost, pause } => {
                    let begun = schedule.begin(store, (key, attempt), max_cost, pause)?;
                    let Some(order) = begun else { continue };
                    observer.trial_started(&order, schedule.progress());
                    running.push(async move { (max_cost, runner.run(order).await) });
                }
                NextTrial::OutOfBudget => end = JobEnd::OutOfBudget,
                NextTrial::Wait | NextTrial::None => break,
            }
        }
        let waits_for_others = end == JobEnd::Finished && !schedule.elsewhere.is_empty();
        let next = match (running.is_empty(), waits_for_others) {
            (true, false) => break,
            (true, true) => {
                observer.waits_for_others();
                runner.idle(LOOK).await;
                None
            }
            (false, false) => running.next().await,
            (false, true) => match select(pin!(running.next()), pin!(runner.idle(LOOK))).await {
                Either::Left((next, _)) => next,
                Either::Right(_) => None,
            },
        };
        let Some((max_cost, (record, costs))) = next else {
            asks = true;
            continue;
        };
        let ended = (max_cost, record, costs.as_slice());
        let (record, is_retried) = schedule.end(store, observer, ended, !stop.is_stopping())?;
        observer.trial_ended(&record, is_retried, schedule.progress());
    }
    let is_whole = schedule.ended.len() == schedule.planned;
    store.leave(is_whole);
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
