//! Columns compared, of one job and of two.

use jiff::Timestamp;
use ralph_orchestrator_bench::statistics::paired::TaskPair;
use ralph_orchestrator_bench::summary::{compare, find_changed_tasks, pair_rewards};
use ralph_orchestrator_bench::trial::{Regrading, TrialRecord};

use super::fixtures::{assert_close, column, plan, record, rewards, sum_up};

/// One 0/1 trial per task: of `better + worse + same` tasks the candidate alone solves `better`.
fn single_trials(better: usize, worse: usize, same: usize) -> Vec<TrialRecord> {
    let tasks = better + worse + same;
    let solves = |is_solved: bool| Some(if is_solved { 1.0 } else { 0.0 });
    (0..tasks)
        .flat_map(|task| {
            let name = format!("t{task}");
            let (a, b) = (task >= better, task < better || task >= better + worse);
            [record("a", &name, 1, solves(a)), record("b", &name, 1, solves(b))]
        })
        .collect()
}

#[test]
fn one_binary_trial_for_each_task_is_compared_by_mcnemar() {
    let summary = sum_up(&plan(&["a", "b"], &[], 1), &single_trials(1, 9, 20));
    let comparison = &summary.comparisons[0];
    assert_eq!((comparison.test.as_str(), comparison.tasks), ("McNemar, exact", 30));
    assert_eq!((comparison.better, comparison.worse), (1, 9));
    assert_close(comparison.p_value.unwrap(), 22.0 / 1024.0);
    assert_close(comparison.difference.unwrap().value, -8.0 / 30.0);
    assert!(comparison.is_regression(0.05) && !comparison.is_regression(0.01));
    let better = sum_up(&plan(&["a", "b"], &[], 1), &single_trials(9, 1, 20));
    assert!(!better.comparisons[0].is_regression(0.05), "significant, but for the better");
    let equal = sum_up(&plan(&["a", "b"], &[], 1), &single_trials(0, 0, 5));
    assert_close(equal.comparisons[0].p_value.unwrap(), 1.0);
}

#[test]
fn equal_differences_on_few_tasks_are_no_proof() {
    let records: Vec<_> = ["x", "y"]
        .iter()
        .flat_map(|task| {
            (1..=3).flat_map(move |trial| {
                [record("a", task, trial, Some(1.0)), record("b", task, trial, Some(0.0))]
            })
        })
        .collect();
    let summary = sum_up(&plan(&["a", "b"], &["x", "y"], 3), &records);
    let comparison = &summary.comparisons[0];
    assert_eq!(comparison.test, "sign test, exact");
    assert_close(comparison.p_value.unwrap(), 0.5);
    assert!(!comparison.is_regression(0.05));
    assert!(comparison.difference.unwrap().high.unwrap() > -0.5);
}

#[test]
fn columns_are_compared_on_the_tasks_of_both() {
    let records = [
        record("a", "x", 1, Some(1.0)),
        record("a", "x", 2, Some(0.0)),
        record("b", "x", 1, Some(1.0)),
        record("a", "y", 1, Some(1.0)),
        record("b", "z", 1, Some(0.0)),
        record("b", "y", 1, None),
    ];
    let summary = sum_up(&plan(&["a", "b"], &["x", "y", "z"], 2), &records);
    let comparison = &summary.comparisons[0];
    assert_eq!((comparison.tasks, comparison.better, comparison.worse), (1, 1, 0));
    let difference = comparison.difference.unwrap();
    assert_close(difference.value, 0.5);
    assert_eq!((difference.standard_error, comparison.p_value), (None, None));
}

#[test]
fn two_jobs_are_compared_without_tasks_that_changed() {
    let before = [record("a", "x", 1, Some(1.0)), record("a", "y", 1, Some(1.0))];
    let mut after = [record("a", "x", 1, Some(0.0)), record("a", "y", 1, Some(0.0))];
    after[1].task_digest = "another".to_owned();
    let name = column("a");
    let comparison = compare((&name, &before), (&name, &after), 0.95);
    assert_eq!((comparison.tasks, comparison.worse), (1, 1));
    assert_eq!(find_changed_tasks((&name, &before), (&name, &after)), ["y"]);
    assert!(find_changed_tasks((&name, &before), (&name, &before)).is_empty());
    let pair = TaskPair { baseline: vec![1.0], candidate: vec![0.0] };
    assert_eq!(pair_rewards((&name, &before), (&name, &after)), [pair]);
    // Another verification of the same task counts as another task.
    let mut regraded = [record("a", "x", 1, Some(1.0)), record("a", "y", 1, Some(1.0))];
    let regrading = Regrading {
        time: Timestamp::UNIX_EPOCH,
        task_digest: "other tests".to_owned(),
        rewards: rewards(0.0),
    };
    regraded[1] = regraded[1].clone().with_regrading(regrading);
    assert_eq!(find_changed_tasks((&name, &before), (&name, &regraded)), ["y"]);
    assert_eq!(compare((&name, &before), (&name, &regraded), 0.95).tasks, 1);
    let nobody = column("nobody");
    assert_eq!(compare((&name, &before), (&nobody, &after), 0.95).tasks, 0);
}
