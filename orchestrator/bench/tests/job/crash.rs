//! The process that performs a job dies at each of its steps: what the job comes to is what it comes to without.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::future::Future;
use std::io::Write as _;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_bench::job::{
    JobContents, JobEnd, JobObserver, JobProgress, JobStore, LedgerEntry, Schedule, StartedTrial,
    StopSignal, TrialOrder, TrialRunner, run_job,
};
use ralph_orchestrator_bench::trial::{TrialKey, TrialRecord};
use ralph_orchestrator_contract::Usd;

use super::scripted::{Yield, costs, dollars, lost, plan, record};

const TRIALS: usize = 20;
const ITERATIONS: u64 = 2;
/// What an iteration is charged whose end is not known: more than any costs.
const RESERVED: f64 = 0.5;
/// What a provider bills for an iteration.
const BILLED: f64 = 0.25;

/// Steps that a process takes until it dies.
#[derive(Clone)]
struct Life(Rc<Cell<usize>>);

impl Life {
    fn of_steps(steps: usize) -> Self {
        Self(Rc::new(Cell::new(steps)))
    }

    fn is_over(&self) -> bool {
        self.0.get() == 0
    }

    /// Takes a step. Afterwards nothing is done any more, if it was the last one.
    fn step(&self) {
        self.0.set(self.0.get().saturating_sub(1));
    }

    /// Never returns if the process is dead.
    async fn go_on(&self) {
        self.step();
        Gate(self.clone()).await;
    }
}

struct Gate(Life);

impl Future for Gate {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        if self.0.is_over() { Poll::Pending } else { Poll::Ready(()) }
    }
}

/// What a provider bills, by trial and attempt. It outlives every process.
type Bill = RefCell<BTreeMap<(String, u32), Usd>>;

/// Performs trials of two iterations each, and writes of each iteration into the folder of the attempt that it begins
/// and that it has ended, as the engine does.
struct Worker<'a> {
    life: Life,
    bill: &'a Bill,
}

const JOURNAL: &str = "journal";

fn write(dir: &Path, line: &str) {
    let file = OpenOptions::new().create(true).append(true).open(dir.join(JOURNAL));
    writeln!(file.unwrap(), "{line}").unwrap();
}

/// What the journal says that an attempt cost.
fn read_costs(dir: &Path, name: &str, agent: &str, attempt: u32) -> Vec<LedgerEntry> {
    let text = fs::read_to_string(dir.join(JOURNAL)).unwrap_or_default();
    let (mut begun, mut ended) = (0, 0);
    for line in text.lines() {
        let count = if line == "begun" { &mut begun } else { &mut ended };
        *count += 1;
    }
    let line = |iteration: u64| {
        let cost = if iteration <= ended { BILLED } else { RESERVED };
        let mut entry = costs(name, agent, attempt, dollars(cost)).remove(0);
        entry.iteration = iteration;
        entry
    };
    (1..=begun).map(line).collect()
}

#[async_trait(?Send)]
impl TrialRunner for Worker<'_> {
    async fn run(&self, order: TrialOrder) -> (TrialRecord, Vec<LedgerEntry>) {
        self.life.go_on().await;
        for _ in 0..ITERATIONS {
            write(&order.dir, "begun");
            self.life.go_on().await;
            let key = (order.name.clone(), order.attempt);
            *self.bill.borrow_mut().entry(key).or_default() += dollars(BILLED);
            self.life.go_on().await;
            write(&order.dir, "ended");
            self.life.go_on().await;
        }
        let agent = &order.key.column.agent;
        let costs = read_costs(&order.dir, &order.name, agent, order.attempt);
        (record(&order.key, order.attempt, None), costs)
    }

    async fn recover(
        &self,
        started: &StartedTrial,
        name: &str,
        _: Option<Usd>,
    ) -> (TrialRecord, Vec<LedgerEntry>) {
        self.life.go_on().await;
        let agent = &started.key.column.agent;
        let costs = read_costs(&started.dir, name, agent, started.attempt);
        (lost(started), costs)
    }

    async fn idle(&self, _: Duration) {
        self.life.go_on().await;
        Yield(false).await;
    }
}

impl JobObserver for Worker<'_> {
    fn trial_started(&self, _order: &TrialOrder, _progress: JobProgress) {
        self.life.step();
    }
    fn trial_ended(&self, _record: &TrialRecord, _is_retried: bool, _progress: JobProgress) {
        self.life.step();
    }
    fn waits_for_others(&self) {}
    fn trial_superseded(&self, _record: &TrialRecord) {
        self.life.step();
    }
    fn is_decided(&self, _ended: &BTreeMap<TrialKey, Option<f64>>) -> bool {
        false
    }
}

impl StopSignal for Worker<'_> {
    fn is_stopping(&self) -> bool {
        // The dead begin nothing.
        self.life.is_over()
    }
}

/// Performs what is left of the job until it has ended or the process dies. Returns whether it has ended.
fn live(dir: &Path, life: &Life, bill: &Bill) -> bool {
    let job = plan(&["a", "b"], 5, 2);
    let mut store = JobStore::open(dir).unwrap_or_else(|_| JobStore::create(dir, job).unwrap());
    let worker = Worker { life: life.clone(), bill };
    let mut work = Box::pin(async {
        let schedule = Schedule::resume(&mut store, &worker, &[]).await.unwrap();
        run_job(&mut store, schedule, &worker, &worker, &worker).await.unwrap()
    });
    let mut context = Context::from_waker(Waker::noop());
    match work.as_mut().poll(&mut context) {
        Poll::Ready(end) => end == JobEnd::Finished,
        Poll::Pending => {
            assert!(life.is_over(), "nothing else is waited for");
            false
        }
    }
}

/// What was left at a moment within the last write of an attempt's end: of its line in the ledger so many bytes, and no
/// record.
fn cut_last_write(dir: &Path, ledger_before: usize, bytes: usize) {
    let contents = JobContents::read(dir).unwrap();
    let last = contents.ledger.last().unwrap();
    let is_last = |record: &&TrialRecord| contents.plan.trial_name(&record.key) == last.trial;
    let key = &contents.records.iter().find(is_last).unwrap().key;
    let folder = contents.plan.trial_layout(dir, key).attempt(last.attempt);
    // It is written beside its place first.
    fs::rename(folder.join("trial.json"), folder.join(".trial.json.1.tmp")).unwrap();
    let ledger = OpenOptions::new().write(true).open(dir.join("ledger.jsonl")).unwrap();
    let len = ledger.metadata().unwrap().len();
    let kept = u64::try_from(ledger_before + bytes).unwrap();
    assert!(kept <= len);
    ledger.set_len(kept).unwrap();
}

fn check_whole(dir: &Path, bill: &Bill, what: &str) {
    let contents = JobContents::read(dir).unwrap();
    assert!(contents.started.is_empty(), "{what}");
    let judged: Vec<&TrialRecord> =
        contents.records.iter().filter(|record| record.is_judged()).collect();
    let keys: BTreeSet<&TrialKey> = judged.iter().map(|record| &record.key).collect();
    assert_eq!((judged.len(), keys.len()), (TRIALS, TRIALS), "{what}: each trial counts once");
    let mut paid: BTreeMap<(String, u32), BTreeMap<u64, Usd>> = BTreeMap::new();
    for entry in &contents.ledger {
        let attempt = paid.entry((entry.trial.clone(), entry.attempt)).or_default();
        let cost = attempt.entry(entry.iteration).or_default();
        *cost = entry.cost_usd.unwrap().max(*cost);
    }
    let paid: BTreeMap<(String, u32), Usd> =
        paid.into_iter().map(|(attempt, costs)| (attempt, costs.into_values().sum())).collect();
    for (attempt, billed) in &*bill.borrow() {
        let paid = paid.get(attempt).copied().unwrap_or_default();
        assert!(paid >= *billed, "{what}: {attempt:?}: billed {billed:?}, paid {paid:?}");
    }
    for record in judged {
        let attempt = (contents.plan.trial_name(&record.key), record.attempt);
        assert_eq!(paid[&attempt], bill.borrow()[&attempt], "{what}: what is known is exact");
    }
}

/// Performs the job in processes of so many steps each, the last one to the end.
fn die_after(steps: &[usize], between: impl Fn(&Path)) -> bool {
    // In memory, if there is such a file system: it is no question here what is synced.
    let memory = tempfile::tempdir_in("/dev/shm");
    let (dir, bill) = (memory.or_else(|_| tempfile::tempdir()).unwrap(), Bill::default());
    for steps in steps {
        if live(dir.path(), &Life::of_steps(*steps), &bill) {
            return true;
        }
        between(dir.path());
    }
    assert!(live(dir.path(), &Life::of_steps(usize::MAX), &bill));
    check_whole(dir.path(), &bill, &format!("died after {steps:?}"));
    false
}

#[test]
fn whichever_step_is_the_last_one_nothing_is_lost_and_nothing_counts_twice() {
    let mut steps = 1;
    // Of each step of the whole job, and then of the first two of who finds what was lost.
    while !die_after(&[steps], |_| ()) {
        for again in 1..=2 {
            die_after(&[steps, again], |_| ());
        }
        steps += 1;
    }
    // What began, what was begun, billed and ended in each iteration, and what ended.
    assert_eq!(steps, TRIALS * (1 + 1 + 3 * usize::try_from(ITERATIONS).unwrap() + 1));
}

#[test]
fn an_end_that_was_half_written_is_no_end() {
    let length = Cell::new(usize::MAX);
    let steps_of_trial = 3 + 3 * usize::try_from(ITERATIONS).unwrap();
    for trial in 1..=TRIALS {
        let mut bytes = 0;
        loop {
            let ended = die_after(&[trial * steps_of_trial], |dir| {
                let lines = fs::read_to_string(dir.join("ledger.jsonl")).unwrap();
                let of_trial = lines.lines().rev().take(usize::try_from(ITERATIONS).unwrap());
                let of_trial: usize = of_trial.map(|line| line.len() + 1).sum();
                length.set(of_trial);
                cut_last_write(dir, lines.len() - of_trial, bytes.min(of_trial));
            });
            assert!(!ended || trial == TRIALS);
            if ended || bytes >= length.get() {
                break;
            }
            // Nothing of its lines, parts of either, and all of them.
            bytes += length.get().div_ceil(5);
        }
    }
}
