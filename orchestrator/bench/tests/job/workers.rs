//! Several workers of one job, and what becomes of the trials of those that die.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_bench::job::{
    Budgets, JobContents, JobEnd, JobError, JobObserver, JobPlan, JobProgress, JobStore,
    LedgerEntry, Schedule, StartedTrial, StopSignal, TrialOrder, TrialRunner, run_job,
};
use ralph_orchestrator_bench::trial::{TrialKey, TrialRecord};
use ralph_orchestrator_contract::Usd;

use super::scripted::{LOST, Yield, costs, create, dollars, lost, plan, record};

/// What a trial costs.
const COST: f64 = 0.5;

/// What goes on in all workers.
#[derive(Default)]
struct World {
    /// What the attempts that run now may cost, and what others have cost.
    promised: Cell<u64>,
    spent: Cell<u64>,
    most: Cell<u64>,
    begun: RefCell<Vec<(TrialKey, u32)>>,
    superseded: Cell<usize>,
    /// Attempts that could spend less than a trial may, while others might have left more.
    cut: Cell<usize>,
    /// First attempts do not end.
    holds: Cell<bool>,
}

/// A worker that gives way to the others at each step.
struct Worker<'a> {
    world: &'a World,
    /// Steps that it has left.
    life: Cell<usize>,
}

impl Worker<'_> {
    async fn step(&self) {
        self.life.set(self.life.get().saturating_sub(1));
        Yield(false).await;
    }
}

#[async_trait(?Send)]
impl TrialRunner for Worker<'_> {
    async fn run(&self, order: TrialOrder) -> (TrialRecord, Vec<LedgerEntry>) {
        let world = self.world;
        world.begun.borrow_mut().push((order.key.clone(), order.attempt));
        let promised = order.max_cost.map_or(0, Usd::nanos);
        let is_cut = order.max_cost.is_some_and(|most| most < dollars(COST));
        world.cut.set(world.cut.get() + usize::from(is_cut && world.promised.get() > 0));
        world.promised.set(world.promised.get() + promised);
        world.most.set(world.most.get().max(world.promised.get() + world.spent.get()));
        self.step().await;
        while world.holds.get() && order.attempt == 1 {
            self.step().await;
        }
        world.promised.set(world.promised.get() - promised);
        let cost = order.max_cost.map_or(dollars(COST), |most| dollars(COST).min(most));
        world.spent.set(world.spent.get() + cost.nanos());
        self.step().await;
        let costs = costs(&order.name, &order.key.column.agent, order.attempt, cost);
        (record(&order.key, order.attempt, None), costs)
    }

    async fn recover(
        &self,
        started: &StartedTrial,
        name: &str,
        _: Option<Usd>,
    ) -> (TrialRecord, Vec<LedgerEntry>) {
        self.step().await;
        let agent = &started.key.column.agent;
        (lost(started), costs(name, agent, started.attempt, dollars(LOST)))
    }

    async fn idle(&self, _: Duration) {
        self.step().await;
    }
}

impl JobObserver for Worker<'_> {
    fn trial_started(&self, _order: &TrialOrder, _progress: JobProgress) {}
    fn trial_ended(&self, _record: &TrialRecord, _is_retried: bool, _progress: JobProgress) {}
    fn waits_for_others(&self) {}
    fn trial_superseded(&self, _record: &TrialRecord) {
        self.world.superseded.set(self.world.superseded.get() + 1);
    }
    fn is_decided(&self, _ended: &BTreeMap<TrialKey, Option<f64>>) -> bool {
        false
    }
}

impl StopSignal for Worker<'_> {
    fn is_stopping(&self) -> bool {
        false
    }
}

type Work<'a> = Pin<Box<dyn Future<Output = Result<JobEnd, JobError>> + 'a>>;

fn work<'a>(dir: &'a Path, worker: &'a Worker<'a>) -> Work<'a> {
    Box::pin(async move {
        let mut store = JobStore::join(dir)?;
        let schedule = Schedule::resume(&mut store, worker, &[]).await?;
        run_job(&mut store, schedule, worker, worker, worker).await
    })
}

fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Performs a job by workers of so many steps each, a step of one after a step of another. Returns how those ended that lived.
fn perform(dir: &Path, world: &World, lives: &[usize]) -> Vec<JobEnd> {
    let workers: Vec<Worker<'_>> =
        lives.iter().map(|life| Worker { world, life: Cell::new(*life) }).collect();
    let mut works: Vec<Option<Work<'_>>> =
        workers.iter().map(|worker| Some(work(dir, worker))).collect();
    let mut ends = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000 {
        for (place, worker) in works.iter_mut().zip(&workers) {
            let Some(work) = place else { continue };
            if worker.life.get() == 0 {
                // As at kill -9: the kernel gives its locks back, and nothing else happens.
                *place = None;
            } else if let Poll::Ready(end) = work.as_mut().poll(&mut context) {
                ends.push(end.unwrap());
                *place = None;
            }
        }
        if works.iter().all(Option::is_none) {
            return ends;
        }
    }
    panic!("it does not end: {lives:?}");
}

fn check_whole(dir: &Path, job: &JobPlan, what: &str) {
    let contents = JobContents::read(dir).unwrap();
    assert!(contents.started.is_empty(), "{what}: {:?}", contents.started);
    let judged = contents.records.iter().filter(|record| record.is_judged());
    let judged: Vec<&TrialKey> = judged.map(|record| &record.key).collect();
    let planned: BTreeSet<TrialKey> = job.trials().into_iter().collect();
    assert_eq!(judged.len(), planned.len(), "{what}: none counts twice");
    assert!(judged.into_iter().all(|key| planned.contains(key)), "{what}: none is lost");
    let has_ended = contents.workers.iter().all(|worker| worker.has_ended == Some(true));
    assert!(has_ended && !contents.is_running, "{what}: {:?}", contents.workers);
}

fn shared(dir: &Path, job: &JobPlan) {
    create(dir, job.clone()).leave(true);
}

#[test]
fn each_trial_is_performed_by_one_of_them() {
    let (dir, job, world) = (in_memory(), plan(&["a", "b"], 5, 2), World::default());
    shared(dir.path(), &job);
    assert_eq!(perform(dir.path(), &world, &[usize::MAX; 3]), [JobEnd::Finished; 3]);
    check_whole(dir.path(), &job, "three");
    let begun = world.begun.borrow();
    assert_eq!(begun.len(), 20, "each once");
    assert!(begun[..10].iter().all(|(key, _)| key.trial == 1), "in the order of the plan");
}

#[test]
fn whichever_step_is_the_last_of_one_the_others_perform_the_rest() {
    let job = plan(&["a", "b"], 3, 2);
    let mut steps = 1;
    loop {
        for lives in [[steps, usize::MAX, usize::MAX], [steps, steps + 1, usize::MAX]] {
            let (dir, world) = (in_memory(), World::default());
            shared(dir.path(), &job);
            let ends = perform(dir.path(), &world, &lives);
            assert!(ends.iter().all(|end| *end == JobEnd::Finished), "{lives:?}: {ends:?}");
            check_whole(dir.path(), &job, &format!("{lives:?}"));
            if ends.len() == 3 {
                assert!(steps > 6, "a worker takes more steps than {steps}");
                return;
            }
        }
        steps += 1;
    }
}

#[test]
fn the_last_dollar_is_promised_once() {
    for (budget, trials) in [(2.0, 4), (1.75, 3), (0.4, 0)] {
        let (dir, mut job, world) = (in_memory(), plan(&["a"], 8, 1), World::default());
        job.budgets =
            Budgets { job: Some(dollars(budget)), trial: Some(dollars(COST)), agent: None };
        shared(dir.path(), &job);
        let ends = perform(dir.path(), &world, &[usize::MAX; 3]);
        assert_eq!(ends, [JobEnd::OutOfBudget; 3], "{budget}");
        assert!(world.most.get() <= dollars(budget).nanos(), "{budget}: {}", world.most.get());
        assert_eq!(world.cut.get(), 0, "{budget}");
        let contents = JobContents::read(dir.path()).unwrap();
        assert!(contents.records.len() >= trials, "{budget}: {}", contents.records.len());
    }
}

#[test]
fn no_more_trials_of_an_agent_run_at_once_than_the_job_allows() {
    let (dir, mut job, world) = (in_memory(), plan(&["a"], 6, 1), World::default());
    job.options.agent_concurrency.insert("a".to_owned(), 1);
    job.budgets.trial = Some(dollars(COST));
    shared(dir.path(), &job);
    assert_eq!(perform(dir.path(), &world, &[usize::MAX; 3]), [JobEnd::Finished; 3]);
    // All that was ever spent, and one more.
    assert!(world.most.get() <= dollars(6.0 * COST).nanos());
    check_whole(dir.path(), &job, "one at once");
}

#[test]
fn one_that_comes_back_after_it_was_taken_for_gone_counts_for_nothing() {
    let (dir, job, world) = (in_memory(), plan(&["a"], 2, 1), World::default());
    shared(dir.path(), &job);
    world.holds.set(true);
    let worker = |life| Worker { world: &world, life: Cell::new(life) };
    let (slow, quick) = (worker(usize::MAX), worker(usize::MAX));
    let mut context = Context::from_waker(Waker::noop());
    let mut late = work(dir.path(), &slow);
    while world.begun.borrow().is_empty() {
        assert!(late.as_mut().poll(&mut context).is_pending());
    }
    // Another file in the place of the one that it holds locked: nothing says any more that it lives.
    for entry in fs::read_dir(dir.path().join("workers")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, text).unwrap();
    }
    let mut other = work(dir.path(), &quick);
    // It takes the other trial first, which is held too, and then what was lost.
    while world.begun.borrow().len() < 2 {
        assert!(other.as_mut().poll(&mut context).is_pending());
    }
    world.holds.set(false);
    while other.as_mut().poll(&mut context).is_pending() {}
    while late.as_mut().poll(&mut context).is_pending() {}
    assert_eq!(world.superseded.get(), 1);
    let contents = JobContents::read(dir.path()).unwrap();
    let judged = contents.records.iter().filter(|record| record.is_judged()).count();
    assert_eq!((judged, contents.records.len()), (2, 3), "lost, again, and the other one");
    let first = contents.records.iter().find(|record| record.is_cancelled()).unwrap();
    let late = contents.plan.trial_layout(dir.path(), &first.key).attempt(1).join("late.json");
    assert!(fs::read_to_string(late).unwrap().contains("\"reward\": 1.0"), "it is kept");
    let paid: u64 = contents.ledger.iter().filter_map(|line| line.cost_usd).map(Usd::nanos).sum();
    assert_eq!(paid, dollars(3.0 * COST + LOST).nanos(), "what it has cost was paid");
}
