//! Plans, and trials that are only said to be performed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use ralph_orchestrator_bench::host::Host;
use ralph_orchestrator_bench::job::{
    Budgets, FORMAT, Goal, JobEnd, JobObserver, JobPlan, JobProgress, JobStore, LedgerEntry,
    PlannedTask, RunOptions, Schedule, StartedTrial, StopSignal, TrialOrder, TrialRunner, run_job,
};
use ralph_orchestrator_bench::trial::{Cause, Column, Durations, Fault, TrialKey, TrialRecord};
use ralph_orchestrator_contract::{Usage, Usd};

pub(crate) fn dollars(amount: f64) -> Usd {
    Usd::from_dollars(amount).unwrap()
}

pub(crate) fn plan(agents: &[&str], tasks: usize, trials: u32) -> JobPlan {
    let column = |agent: &&str| Column { agent: (*agent).to_owned(), variant: None };
    JobPlan {
        format: FORMAT,
        id: "job".to_owned(),
        name: "job".to_owned(),
        created: Timestamp::UNIX_EPOCH,
        program: "0".to_owned(),
        configuration: None,
        lock: None,
        goal: Goal::Solve,
        sets: Vec::new(),
        host: Host::default(),
        columns: agents.iter().map(column).collect(),
        tasks: (0..tasks)
            .map(|task| PlannedTask {
                name: format!("task-{task}"),
                path: "/tasks".into(),
                digest: String::new(),
            })
            .collect(),
        trials,
        seed: 7,
        budgets: Budgets::default(),
        options: RunOptions { concurrency: 1, agent_concurrency: BTreeMap::new(), max_retries: 2 },
    }
}

pub(crate) fn record(key: &TrialKey, attempt: u32, fault: Option<Fault>) -> TrialRecord {
    let is_judged = fault.is_none();
    TrialRecord {
        key: key.clone(),
        attempt,
        task_digest: String::new(),
        started: Timestamp::UNIX_EPOCH,
        finished: Timestamp::UNIX_EPOCH,
        rewards: is_judged.then(|| ("reward".to_owned(), 1.0)).into_iter().collect(),
        fault,
        run: None,
        stop_reason: None,
        reused: None,
        regraded: None,
        machine: None,
        contention: None,
        resources: BTreeMap::new(),
        agent_version: None,
        model: None,
        usage: Usage::default(),
        iterations: 1,
        claims: 0,
        completed: false,
        durations: Durations::default(),
        curve: Vec::new(),
        cheating: Vec::new(),
        warnings: Vec::new(),
    }
}

pub(crate) fn fault(cause: Cause, kind: &str) -> Fault {
    Fault { cause, kind: kind.to_owned(), message: String::new() }
}

/// What an attempt is charged with that was lost.
pub(crate) const LOST: f64 = 0.25;

/// The record of an attempt that was lost.
pub(crate) fn lost(started: &StartedTrial) -> TrialRecord {
    let fault = fault(Cause::Cancelled, "CancelledError");
    record(&started.key, started.attempt, Some(fault))
}

pub(crate) type Script = dyn Fn(&TrialOrder) -> (Option<Fault>, Usd);

/// Performs nothing: a script says how each attempt ends.
pub(crate) struct ScriptedRunner {
    script: Box<Script>,
    orders: RefCell<Vec<TrialOrder>>,
    /// How often each attempt gives way to others before it ends.
    turns: usize,
    running: Cell<usize>,
    pub(crate) most_running: Cell<usize>,
    /// What the attempts that run now may cost, all together.
    promised: Cell<u64>,
    pub(crate) most_promised: Cell<u64>,
    spent: Cell<u64>,
}

impl ScriptedRunner {
    pub(crate) fn new(script: impl Fn(&TrialOrder) -> (Option<Fault>, Usd) + 'static) -> Self {
        Self {
            script: Box::new(script),
            orders: RefCell::default(),
            turns: 3,
            running: Cell::default(),
            most_running: Cell::default(),
            promised: Cell::default(),
            most_promised: Cell::default(),
            spent: Cell::default(),
        }
    }

    pub(crate) fn good(cost: f64) -> Self {
        Self::new(move |_| (None, dollars(cost)))
    }

    /// How long each attempt at a task is to wait, in seconds.
    pub(crate) fn pauses(&self, task: &str) -> Vec<f64> {
        let orders = self.orders.borrow();
        let of_task = orders.iter().filter(|order| order.key.task == task);
        of_task.map(|order| order.pause.as_secs_f64()).collect()
    }

    pub(crate) fn begun(&self) -> Vec<(TrialKey, u32)> {
        self.orders.borrow().iter().map(|order| (order.key.clone(), order.attempt)).collect()
    }
}

/// Gives way to others once.
pub(crate) struct Yield(pub(crate) bool);

impl Future for Yield {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

pub(crate) fn costs(name: &str, agent: &str, attempt: u32, cost: Usd) -> Vec<LedgerEntry> {
    vec![LedgerEntry {
        trial: name.to_owned(),
        agent: agent.to_owned(),
        attempt,
        iteration: 1,
        run: String::new(),
        tokens: None,
        cost_usd: Some(cost),
        estimated: false,
    }]
}

#[async_trait(?Send)]
impl TrialRunner for ScriptedRunner {
    async fn run(&self, order: TrialOrder) -> (TrialRecord, Vec<LedgerEntry>) {
        self.orders.borrow_mut().push(order.clone());
        self.running.set(self.running.get() + 1);
        self.most_running.set(self.most_running.get().max(self.running.get()));
        let promised = order.max_cost.map_or(0, Usd::nanos);
        self.promised.set(self.promised.get() + promised);
        self.most_promised
            .set(self.most_promised.get().max(self.promised.get() + self.spent.get()));
        for _ in 0..self.turns {
            Yield(false).await;
        }
        let (fault, cost) = (self.script)(&order);
        let cost = order.max_cost.map_or(cost, |most| cost.min(most));
        self.running.set(self.running.get() - 1);
        self.promised.set(self.promised.get() - promised);
        self.spent.set(self.spent.get() + cost.nanos());
        let agent = &order.key.column.agent;
        let mut record = record(&order.key, order.attempt, fault);
        if record.fault.as_ref().is_some_and(|fault| fault.cause == Cause::Provider) {
            // What follows depends on how long ago that was.
            record.finished = Timestamp::now();
        }
        (record, costs(&order.name, agent, order.attempt, cost))
    }

    async fn recover(
        &self,
        started: &StartedTrial,
        name: &str,
        _: Option<Usd>,
    ) -> (TrialRecord, Vec<LedgerEntry>) {
        let agent = &started.key.column.agent;
        (lost(started), costs(name, agent, started.attempt, dollars(LOST)))
    }

    async fn idle(&self, _: Duration) {
        Yield(false).await;
    }
}

#[derive(Default)]
pub(crate) struct Silent {
    pub(crate) stop_after: Cell<Option<usize>>,
    pub(crate) decided_after: Option<usize>,
    pub(crate) ended: Cell<usize>,
    pub(crate) superseded: Cell<usize>,
}

impl JobObserver for Silent {
    fn trial_started(&self, _order: &TrialOrder, _progress: JobProgress) {}
    fn trial_ended(&self, _record: &TrialRecord, _is_retried: bool, _progress: JobProgress) {
        self.ended.set(self.ended.get() + 1);
    }
    fn waits_for_others(&self) {}
    fn trial_superseded(&self, _record: &TrialRecord) {
        self.superseded.set(self.superseded.get() + 1);
    }
    fn is_decided(&self, ended: &BTreeMap<TrialKey, Option<f64>>) -> bool {
        self.decided_after.is_some_and(|most| ended.len() >= most)
    }
}

impl StopSignal for Silent {
    fn is_stopping(&self) -> bool {
        self.stop_after.get().is_some_and(|most| self.ended.get() >= most)
    }
}

/// Nothing in these tests waits for anything, so a few polls are enough.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    for _ in 0..1_000_000 {
        if let Some(value) = future.as_mut().now_or_never() {
            return value;
        }
    }
    panic!("it waits for something");
}

pub(crate) fn perform(store: &mut JobStore, runner: &ScriptedRunner, silent: &Silent) -> JobEnd {
    block_on(async {
        let schedule = Schedule::resume(store, runner, &[]).await.unwrap();
        run_job(store, schedule, runner, silent, silent).await.unwrap()
    })
}

pub(crate) fn create(dir: &Path, plan: JobPlan) -> JobStore {
    JobStore::create(dir, plan).unwrap()
}
