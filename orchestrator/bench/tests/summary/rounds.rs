//! Rewards of tasks, all of them and those of complete rounds.

use std::collections::BTreeMap;

use ralph_orchestrator_bench::summary::{collect_complete_rounds, collect_rewards};
use ralph_orchestrator_bench::trial::{TrialKey, TrialRecord};

use super::fixtures::{column, plan, record};

#[test]
fn rewards_of_tasks_are_those_of_last_attempts() {
    let mut again = record("a", "x", 1, Some(0.5));
    again.attempt = 2;
    let records = [
        again,
        record("a", "x", 1, Some(0.0)),
        record("a", "x", 2, Some(1.0)),
        record("a", "y", 1, None),
        record("b", "x", 1, Some(0.0)),
    ];
    let rewards = collect_rewards(&column("a"), &records);
    assert_eq!(rewards, BTreeMap::from([("x".to_owned(), vec![0.5, 1.0])]));
}

/// The rewards of trials that ended.
fn ended(records: &[TrialRecord]) -> BTreeMap<TrialKey, Option<f64>> {
    records.iter().map(|record| (record.key.clone(), record.reward())).collect()
}

#[test]
fn a_round_is_complete_when_every_task_has_its_trial() {
    let planned = &plan(&["a"], &["x", "y"], 3).columns[0];
    let rewards = |records: &[TrialRecord]| collect_complete_rounds(planned, &ended(records));
    let expect = |x: &[f64], y: &[f64]| {
        let tasks = [("x".to_owned(), x.to_vec()), ("y".to_owned(), y.to_vec())];
        tasks.into_iter().filter(|(_, rewards)| !rewards.is_empty()).collect::<BTreeMap<_, _>>()
    };
    let mut records = vec![
        record("a", "x", 1, Some(0.0)),
        record("a", "x", 2, Some(0.25)),
        record("a", "x", 3, Some(0.5)),
        record("b", "y", 1, Some(1.0)),
    ];
    assert_eq!(rewards(&records), BTreeMap::new(), "another column's trial completes nothing");
    records.push(record("a", "y", 2, Some(1.0)));
    assert_eq!(rewards(&records), BTreeMap::new(), "the first one is missing");
    // It has ended, and so holds nobody up, but was not judged.
    records.push(record("a", "y", 1, None));
    assert_eq!(rewards(&records), expect(&[0.0, 0.25], &[1.0]));
    records.push(record("a", "y", 3, Some(0.0)));
    assert_eq!(rewards(&records), expect(&[0.0, 0.25, 0.5], &[1.0, 0.0]));
}

#[test]
fn a_task_with_fewer_planned_trials_holds_no_round_up() {
    let mut planned = plan(&["a"], &["x", "y"], 2);
    planned.columns[0].tasks[1].trials = 1;
    let records = [
        record("a", "x", 1, Some(0.0)),
        record("a", "x", 2, Some(1.0)),
        record("a", "y", 1, Some(1.0)),
    ];
    assert_eq!(collect_complete_rounds(&planned.columns[0], &ended(&records))["x"], [0.0, 1.0]);
}
