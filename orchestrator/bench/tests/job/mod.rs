//! A job from its plan to its end, with trials that are only said to be performed.

mod crash;
mod scripted;
mod workers;

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use ralph_orchestrator_bench::job::{
    Budgets, JobContents, JobEnd, JobError, JobPlan, JobStore, Schedule, run_job,
};
use ralph_orchestrator_bench::trial::{Cause, Column, TrialKey};
use ralph_orchestrator_contract::Usd;

use scripted::{ScriptedRunner, Silent, block_on, costs, create, dollars, fault, perform, plan};

#[test]
fn every_trial_is_performed_once_first_trials_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path(), plan(&["a", "b"], 3, 2));
    let runner = ScriptedRunner::good(0.5);
    assert_eq!(perform(&mut store, &runner, &Silent::default()), JobEnd::Finished);
    let begun = runner.begun();
    assert_eq!(begun.len(), 12);
    assert_eq!(begun.iter().collect::<BTreeSet<_>>().len(), 12);
    assert!(begun[..6].iter().all(|(key, _)| key.trial == 1));
    drop(store);
    let contents = JobContents::read(dir.path()).unwrap();
    assert_eq!((contents.records.len(), contents.started.len()), (12, 0));
    assert_eq!(contents.ledger.len(), 12);
    assert!(!contents.is_running);
    // There is nothing left to do.
    let mut store = JobStore::open(dir.path()).unwrap();
    let again = ScriptedRunner::good(0.5);
    assert_eq!(perform(&mut store, &again, &Silent::default()), JobEnd::Finished);
    assert!(again.begun().is_empty());
}

#[test]
fn the_order_depends_on_the_seed_and_on_nothing_else() {
    let one = plan(&["a", "b"], 20, 1);
    let other = JobPlan { seed: 8, ..one.clone() };
    let renamed = JobPlan { id: "another".to_owned(), ..one.clone() };
    assert_eq!(one.trials(), renamed.trials());
    assert_ne!(one.trials(), other.trials());
    let sorted = |plan: &JobPlan| plan.trials().into_iter().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&one), sorted(&other));
}

#[test]
fn names_of_trials_are_short_plain_and_different() {
    let mut job = plan(&["a", "a+b"], 2, 3);
    job.tasks[0].name = "org/../.. x\n\u{202e}yz".to_owned();
    job.tasks[1].name = "-".repeat(300);
    job.columns.push(Column { agent: "a".to_owned(), variant: Some("b".to_owned()) });
    let names: BTreeSet<String> = job.trials().iter().map(|key| job.trial_name(key)).collect();
    assert_eq!(names.len(), 18);
    for name in names {
        assert!(name.len() <= 41, "{name}");
        assert!(!name.starts_with(['.', '-']), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)), "{name}");
    }
}

#[test]
fn several_trials_run_at_once_but_no_more_of_an_agent_than_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = plan(&["a", "b"], 6, 1);
    job.options.concurrency = 4;
    job.options.agent_concurrency.insert("a".to_owned(), 1);
    let mut store = create(dir.path(), job);
    let runner = ScriptedRunner::good(0.0);
    perform(&mut store, &runner, &Silent::default());
    assert_eq!(runner.begun().len(), 12);
    assert_eq!(runner.most_running.get(), 4);
    // All of b have begun when the last ones of a do.
    let last: Vec<_> = runner.begun().split_off(9);
    assert!(last.iter().all(|(key, _)| key.column.agent == "a"), "{last:?}");
}

#[test]
fn faults_of_the_machine_are_retried_and_those_of_the_agent_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path(), plan(&["a"], 5, 1));
    let runner = ScriptedRunner::new(|order| {
        let (cause, kind) = match (order.key.task.as_str(), order.attempt) {
            ("task-0", 1) => (Cause::Provider, "OverloadedError"),
            ("task-1", _) => (Cause::Infrastructure, "NoSpaceError"),
            ("task-2", _) => (Cause::Agent, "AgentTimeoutError"),
            ("task-3", _) => (Cause::Provider, "AuthenticationError"),
            _ => return (None, dollars(1.0)),
        };
        (Some(fault(cause, kind)), dollars(1.0))
    });
    assert_eq!(perform(&mut store, &runner, &Silent::default()), JobEnd::Finished);
    let attempts = |task: &str| {
        runner
            .begun()
            .iter()
            .filter(|(key, _)| key.task == task)
            .map(|(_, n)| *n)
            .collect::<Vec<_>>()
    };
    assert_eq!(attempts("task-0"), [1, 2]);
    assert_eq!(attempts("task-1"), [1, 2, 3]);
    assert_eq!(attempts("task-2"), [1]);
    assert_eq!(attempts("task-3"), [1], "the next attempt would meet the same refusal");
    // Every attempt is kept and paid.
    let contents = JobContents::read(dir.path()).unwrap();
    assert_eq!((contents.records.len(), contents.ledger.len()), (8, 8));
    let last = contents.last_records();
    assert_eq!(last.values().filter(|record| record.is_judged()).count(), 2);
    // A resumed job does not begin to count anew.
    drop(store);
    let mut store = JobStore::open(dir.path()).unwrap();
    let again = ScriptedRunner::good(0.0);
    perform(&mut store, &again, &Silent::default());
    assert!(again.begun().is_empty(), "{:?}", again.begun());
    // Unless a person says that the cause is gone.
    let causes = [Cause::Provider, Cause::Infrastructure];
    let schedule = block_on(Schedule::resume(&mut store, &again, &causes)).unwrap();
    let silent = Silent::default();
    assert_eq!(
        block_on(run_job(&mut store, schedule, &again, &silent, &silent)).unwrap(),
        JobEnd::Finished
    );
    let mut begun: Vec<_> = again.begun().into_iter().map(|(key, n)| (key.task, n)).collect();
    begun.sort();
    assert_eq!(begun, [("task-1".to_owned(), 4), ("task-3".to_owned(), 2)]);
}

#[test]
fn a_provider_that_refuses_a_trial_is_given_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path(), plan(&["a"], 3, 1));
    let runner = ScriptedRunner::new(|order| {
        let is_refused = order.key.task == "task-1" && order.attempt < 3;
        (is_refused.then(|| fault(Cause::Provider, "OverloadedError")), dollars(1.0))
    });
    assert_eq!(perform(&mut store, &runner, &Silent::default()), JobEnd::Finished);
    let pauses = runner.pauses("task-1");
    let [first, second, third] = pauses.as_slice() else { panic!("{pauses:?}") };
    assert!(
        *first == 0.0 && (25.0..=30.0).contains(second) && (55.0..=60.0).contains(third),
        "{pauses:?}"
    );
    // Others need not wait, and come first.
    assert_eq!((runner.pauses("task-0"), runner.pauses("task-2")), (vec![0.0], vec![0.0]));
    let begun = runner.begun();
    let last: Vec<&str> = begun.iter().skip(3).map(|(key, _)| key.task.as_str()).collect();
    assert_eq!(last, ["task-1", "task-1"]);
}

#[test]
fn an_attempt_that_was_lost_is_paid_and_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let job = plan(&["a"], 2, 1);
    let store = create(dir.path(), job.clone());
    let key = job.trials()[0].clone();
    store.begin_attempt(&key, 1).unwrap().unwrap();
    drop(store);
    // Its lines may have been written before its record was to be.
    let name = job.trial_name(&key);
    let line = serde_json::to_string(&costs(&name, "a", 1, dollars(0.25))[0]).unwrap();
    std::fs::write(dir.path().join("ledger.jsonl"), format!("{line}\n{{\"trial\":\"cut")).unwrap();
    let contents = JobContents::read(dir.path()).unwrap();
    assert_eq!((contents.started.len(), contents.ledger.len()), (1, 1));

    let mut store = JobStore::open(dir.path()).unwrap();
    let runner = ScriptedRunner::good(0.5);
    let schedule = block_on(Schedule::resume(&mut store, &runner, &[])).unwrap();
    assert_eq!(schedule.progress().cost, dollars(0.25), "the same line twice is one");
    assert_eq!(schedule.progress().ended, 0);
    let silent = Silent::default();
    block_on(run_job(&mut store, schedule, &runner, &silent, &silent)).unwrap();
    assert!(runner.begun().contains(&(key.clone(), 2)));
    let contents = JobContents::read(dir.path()).unwrap();
    assert_eq!(contents.records.len(), 3);
    assert!(contents.last_records()[&key].is_judged());
}

#[test]
fn a_stop_begins_no_further_trial_and_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path(), plan(&["a"], 5, 1));
    let silent = Silent { stop_after: Cell::new(Some(2)), ..Silent::default() };
    let runner = ScriptedRunner::good(0.0);
    assert_eq!(perform(&mut store, &runner, &silent), JobEnd::Stopped);
    assert_eq!(runner.begun().len(), 2);
    drop(store);
    let mut store = JobStore::open(dir.path()).unwrap();
    let rest = ScriptedRunner::good(0.0);
    assert_eq!(perform(&mut store, &rest, &Silent::default()), JobEnd::Finished);
    assert_eq!(rest.begun().len(), 3);
    let all: BTreeSet<_> = [runner.begun(), rest.begun()].concat().into_iter().collect();
    assert_eq!(all.len(), 5);
}

#[test]
fn a_job_that_is_decided_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = create(dir.path(), plan(&["a"], 5, 1));
    let silent = Silent { decided_after: Some(3), ..Silent::default() };
    let runner = ScriptedRunner::good(0.0);
    assert_eq!(perform(&mut store, &runner, &silent), JobEnd::Decided);
    assert_eq!(runner.begun().len(), 3);
}

#[test]
fn what_cannot_be_recorded_ends_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let job = plan(&["a"], 2, 1);
    let mut store = create(dir.path(), job.clone());
    // A file in the place of the folder of the first trial.
    std::fs::write(dir.path().join(job.trial_name(&job.trials()[0])), "").unwrap();
    let runner = ScriptedRunner::good(0.0);
    let silent = Silent::default();
    let ended = block_on(async {
        let schedule = Schedule::resume(&mut store, &runner, &[]).await?;
        run_job(&mut store, schedule, &runner, &silent, &silent).await
    });
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("attempts"), "{error}");
}

#[test]
fn one_process_at_a_time_and_a_plan_of_this_format() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path(), plan(&["a"], 1, 1));
    assert!(matches!(JobStore::open(dir.path()), Err(JobError::Busy { .. })));
    assert!(JobContents::read(dir.path()).unwrap().is_running);
    drop(store);
    let again = JobStore::create(dir.path(), plan(&["a"], 1, 1));
    assert!(matches!(again, Err(JobError::Exists { .. })));
    let file = dir.path().join("bench.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"format\": 1", "\"format\": 9")).unwrap();
    assert!(matches!(JobStore::open(dir.path()), Err(JobError::Format { found: 9, .. })));
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert!(matches!(JobStore::open(dir.path()), Err(JobError::Damaged { .. })));
    let nothing = tempfile::tempdir().unwrap();
    assert!(matches!(JobContents::read(nothing.path()), Err(JobError::NoJob { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever trials cost and however many run at once, no budget is exceeded, and no money is left unused while a
    /// trial that needs none of it waits.
    #[test]
    fn no_budget_is_ever_exceeded(
        costs in prop::collection::vec(0_u64..400, 1..12),
        job_budget in prop::option::of(1_u64..2_000),
        agent_budget in prop::option::of(1_u64..1_000),
        trial_budget in prop::option::of(1_u64..500),
        concurrency in 1_u32..5,
    ) {
        let cents = |amount: u64| Usd::from_nanos(amount * 10_000_000);
        let dir = tempfile::tempdir().unwrap();
        let mut job = plan(&["a", "b"], 4, 2);
        job.options.concurrency = concurrency;
        job.budgets = Budgets {
            trial: trial_budget.map(cents),
            agent: agent_budget.map(cents),
            job: job_budget.map(cents),
        };
        let budgets = job.budgets;
        let mut store = create(dir.path(), job);
        let count = Cell::new(0_usize);
        let runner = ScriptedRunner::new(move |_| {
            let at = count.get();
            count.set(at + 1);
            (None, cents(costs[at % costs.len()]))
        });
        let end = perform(&mut store, &runner, &Silent::default());
        let ledger = JobContents::read(dir.path()).unwrap().ledger;
        let spent = |agent: Option<&str>| -> u64 {
            let of = ledger.iter().filter(|entry| agent.is_none_or(|agent| entry.agent == agent));
            of.filter_map(|entry| entry.cost_usd).map(Usd::nanos).sum()
        };
        if let Some(limit) = budgets.job {
            prop_assert!(spent(None) <= limit.nanos());
            prop_assert!(runner.most_promised.get() <= limit.nanos());
        }
        if let Some(limit) = budgets.agent {
            prop_assert!(spent(Some("a")) <= limit.nanos());
            prop_assert!(spent(Some("b")) <= limit.nanos());
        }
        prop_assert!(end == JobEnd::Finished || end == JobEnd::OutOfBudget);
        prop_assert_eq!(end == JobEnd::Finished, runner.begun().len() == 16);
    }
}

#[test]
fn a_job_that_ends_early_has_pairs() {
    let mut job = plan(&["a", "b", "c", "d"], 20, 2);
    let order = job.trials();
    let mut first_columns = BTreeSet::new();
    for trials in order.chunks(4) {
        let columns: BTreeSet<&str> = trials.iter().map(|key| key.column.agent.as_str()).collect();
        assert_eq!(columns.len(), 4, "{trials:?}");
        assert!(
            trials.iter().all(|key| (&key.task, key.trial) == (&trials[0].task, trials[0].trial))
        );
        first_columns.insert(trials[0].column.agent.clone());
    }
    assert_eq!(first_columns.len(), 4, "none of them always has the machine first");
    assert!(order.iter().take(80).all(|key| key.trial == 1));
    // Tasks stay where they are when a column is added.
    job.columns.pop();
    let tasks = |order: &[TrialKey], columns| {
        order.iter().step_by(columns).map(|key| key.task.clone()).collect::<Vec<_>>()
    };
    assert_eq!(tasks(&order, 4), tasks(&job.trials(), 3));
}
