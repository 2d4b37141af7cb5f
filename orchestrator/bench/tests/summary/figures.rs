//! Figures of columns, counted by hand.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use ralph_orchestrator_bench::host::Machine;
use ralph_orchestrator_bench::summary::{PlannedJob, SummaryOptions, summarize};
use ralph_orchestrator_bench::trial::{Cause, CheatFinding, CheatKind, Regrading, TrialRecord};
use ralph_orchestrator_contract::{Tokens, Usage};

use super::fixtures::{
    assert_close, cost, fault, plan, point, record, rewards, sum_up, sum_up_one,
};

#[test]
fn a_job_without_records_says_what_is_planned_and_nothing_else() {
    let summary = sum_up(&plan(&["a", "b"], &["x", "y"], 5), &[]);
    assert_eq!((summary.planned, summary.columns.len(), summary.comparisons.len()), (20, 2, 1));
    let column = &summary.columns[0];
    assert_eq!((column.planned, column.ended, column.judged, column.solved), (10, 0, 0, 0));
    assert_eq!(
        (column.score, column.cost_per_solved_usd, column.median_run_ms),
        (None, None, None)
    );
    assert!(column.pass_at.is_empty() && column.pass_hat.is_empty());
    assert_eq!(column.tasks.len(), 2);
    assert_eq!((column.tasks[1].planned, column.tasks[1].mean_reward), (5, None));
    let comparison = &summary.comparisons[0];
    assert_eq!((comparison.tasks, comparison.difference, comparison.p_value), (0, None, None));
    assert!(!comparison.is_regression(0.05));
    assert_eq!(sum_up(&PlannedJob::default(), &[]).planned, 0);
}

#[test]
fn one_trial_gives_a_score_without_interval() {
    let column = sum_up_one(&["x"], 1, &[record("a", "x", 1, Some(1.0))]);
    let score = column.score.unwrap();
    assert_close(score.value, 1.0);
    assert_eq!((score.standard_error, score.low, score.high), (None, None, None));
    assert_eq!(score.observations, 1);
    assert_eq!(column.pass_at.keys().copied().collect::<Vec<_>>(), [1]);
}

#[test]
fn many_trials_of_one_task_say_nothing_about_other_tasks() {
    let records: Vec<_> =
        (1..=10).map(|trial| record("a", "x", trial, Some(f64::from(trial % 2)))).collect();
    let column = sum_up_one(&["x"], 10, &records);
    let score = column.score.unwrap();
    assert_eq!((score.standard_error, score.low), (None, None));
    assert_close(column.pass_at[&2].value, 1.0 - 10.0 / 45.0);
    assert_close(column.pass_hat[&2].value, 10.0 / 45.0);
    assert_close(column.pass_at[&10].value, 1.0);
    assert_eq!(column.pass_at.keys().copied().collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
}

#[test]
fn nothing_judged_is_no_score_of_zero() {
    let mut failed = record("a", "x", 1, None);
    failed.fault = Some(fault(Cause::Sandbox, "SetUpTimeout"));
    failed.run = None;
    let column = sum_up_one(&["x"], 1, &[failed]);
    assert_eq!((column.ended, column.judged, column.score), (1, 0, None));
    assert_eq!(column.faults, BTreeMap::from([(Cause::Sandbox, 1)]));
    assert_eq!(column.fault_kinds, BTreeMap::from([("SetUpTimeout".to_owned(), 1)]));
    assert_eq!(column.cost_unknown, 0, "no run began, so nothing was spent");
    assert_eq!(column.cost_usd, Some(0.0));
    assert_eq!(column.loop_figures.mean_iterations, None);
}

#[test]
fn all_solved_and_none_solved_are_not_certain() {
    let tasks = ["u", "v", "w", "x", "y"];
    for reward in [0.0, 1.0] {
        let records: Vec<_> = tasks
            .iter()
            .flat_map(|task| (1..=3).map(|trial| record("a", task, trial, Some(reward))))
            .collect();
        let column = sum_up_one(&tasks, 3, &records);
        for estimate in [column.score.unwrap(), column.pass_at[&3], column.pass_hat[&3]] {
            assert_close(estimate.value, reward);
            let width = estimate.high.unwrap() - estimate.low.unwrap();
            assert!(width > 0.4, "five tasks leave more open than ±{}", width / 2.0);
            assert!(estimate.low.unwrap() <= reward && reward <= estimate.high.unwrap());
        }
        assert_eq!(column.cost_per_solved_usd, None, "no cost is known");
    }
}

#[test]
fn a_task_weighs_the_same_however_many_trials_were_judged() {
    let mut records: Vec<_> = (1..=4).map(|trial| record("a", "often", trial, Some(1.0))).collect();
    records.push(record("a", "once", 1, Some(0.0)));
    let column = sum_up_one(&["often", "once", "never"], 4, &records);
    let score = column.score.unwrap();
    assert_close(score.value, 0.5);
    assert_eq!(score.observations, 5);
    // One task has a single trial: no more can be said of all tasks at once.
    assert_eq!(column.pass_at.keys().copied().collect::<Vec<_>>(), [1]);
    let options =
        SummaryOptions { pass_ks: Some(BTreeSet::from([0, 1, 3, 9])), ..SummaryOptions::default() };
    let asked = summarize("job", &plan(&["a"], &["often", "once"], 4), &records, &options);
    let asked = &asked.columns[0].pass_at;
    assert_eq!(asked.keys().copied().collect::<Vec<_>>(), [1, 3]);
    assert_eq!((asked[&3].observations, asked[&3].low), (4, None), "of one task only");
}

#[test]
fn all_attempts_count_for_money_and_the_last_one_for_the_score() {
    let mut first = record("a", "x", 1, Some(0.0));
    first.usage = cost(0.25);
    first.usage.tokens = Some(Tokens { input: 5, output: 1, cache_read: 2, cache_write: 3 });
    first.fault = Some(fault(Cause::Provider, "Overloaded"));
    let mut second = record("a", "x", 1, Some(1.0));
    second.attempt = 2;
    second.usage = cost(0.5);
    second.usage.tokens = first.usage.tokens;
    second.usage.estimated = true;
    let mut third = record("a", "y", 1, Some(1.0));
    third.usage = Usage::default();
    // In the wrong order, and one of them twice.
    let column = sum_up_one(&["x", "y"], 1, &[second.clone(), third, first, second]);
    assert_eq!((column.ended, column.judged, column.solved, column.retries), (2, 2, 2, 1));
    assert_close(column.score.unwrap().value, 1.0);
    assert_close(column.cost_usd.unwrap(), 0.75);
    assert_close(column.cost_per_solved_usd.unwrap(), 0.375);
    assert_close(column.tasks[0].cost_usd.unwrap(), 0.75);
    assert_eq!(column.tasks[1].cost_usd, None, "not known is not nothing");
    assert_eq!((column.cost_unknown, column.cost_estimated), (1, true));
    assert_eq!(column.tokens, Tokens { input: 10, output: 2, cache_read: 4, cache_write: 6 });
    assert!(column.faults.is_empty(), "the last attempt had none");
}

#[test]
fn an_interruption_is_neither_an_end_nor_a_repetition() {
    let mut lost = record("a", "x", 1, None);
    lost.fault = Some(fault(Cause::Cancelled, "CancelledError"));
    let column = sum_up_one(&["x"], 1, &[lost.clone()]);
    assert_eq!((column.ended, column.judged, column.retries), (0, 0, 0));
    let mut again = record("a", "x", 1, Some(1.0));
    again.attempt = 2;
    let column = sum_up_one(&["x"], 1, &[lost, again]);
    assert_eq!((column.ended, column.judged, column.retries), (1, 1, 0));
    assert!(column.faults.is_empty(), "{:?}", column.faults);
}

#[test]
fn the_score_and_pass_at_1_are_one_figure_with_one_interval() {
    let tasks = ["x", "y", "z"];
    // So many of four trials are solved.
    let records: Vec<_> = tasks
        .iter()
        .zip([4, 3, 2])
        .flat_map(|(task, solved)| {
            (1..=4).map(move |trial| {
                record("a", task, trial, Some(if trial <= solved { 1.0 } else { 0.0 }))
            })
        })
        .collect();
    let column = sum_up_one(&tasks, 4, &records);
    let score = column.score.unwrap();
    assert_close(score.value, 0.75);
    assert!(score.low.is_some() && score.high.is_some(), "{score:?}");
    assert_eq!((column.pass_at[&1], column.pass_hat[&1]), (score, score));
    assert!(column.pass_at[&2].value > score.value && column.pass_hat[&2].value < score.value);
}

#[test]
fn without_the_work_of_each_iteration_nobody_knows_what_was_wasted() {
    let mut solved = record("a", "x", 1, Some(1.0));
    solved.iterations = 9;
    let figures = sum_up_one(&["x"], 1, &[solved.clone()]).loop_figures;
    assert_eq!((figures.wasted_iterations, figures.median_iterations_to_solve), (None, None));
    solved.curve = vec![point(1, Some(0.0)), point(2, Some(1.0))];
    let figures = sum_up_one(&["x"], 1, &[solved]).loop_figures;
    assert_eq!(
        (figures.wasted_iterations, figures.median_iterations_to_solve),
        (Some(7), Some(2.0))
    );
}

#[test]
fn rewards_of_different_tests_in_one_task_are_reported() {
    let trial = |trial: u32, digest: &str, regraded: Option<&str>| {
        let mut record = record("a", "x", trial, Some(1.0));
        record.task_digest = digest.to_owned();
        let Some(task_digest) = regraded.map(str::to_owned) else { return record };
        let time = Timestamp::UNIX_EPOCH;
        record.with_regrading(Regrading { time, task_digest, rewards: rewards(0.0) })
    };
    let warnings = |records: &[TrialRecord]| {
        let count = u32::try_from(records.len()).unwrap();
        sum_up(&plan(&["a"], &["x"], count), records).warnings
    };
    let all = [trial(1, "old", Some("new")), trial(2, "old", Some("new"))];
    assert_eq!(warnings(&all), ["verified again after the trial: 2, of which 2 changed"]);
    let some = [trial(1, "old", None), trial(2, "old", Some("new")), trial(3, "old", None)];
    let reported = warnings(&some);
    assert!(reported[1].starts_with("2 of 3 trials were not verified again"), "{reported:?}");
    assert!(reported[1].ends_with("(x)"), "{reported:?}");
    // The same tests once more are the same tests.
    let same = [trial(1, "old", None), trial(2, "old", Some("old"))];
    assert_eq!(warnings(&same).len(), 1);
    assert!(warnings(&[trial(1, "old", None), trial(2, "older", None)]).is_empty());
}

#[test]
fn sums_of_money_do_not_drift() {
    let records: Vec<_> = (1..=1_000)
        .map(|trial| TrialRecord { usage: cost(0.1), ..record("a", "x", trial, Some(1.0)) })
        .collect();
    let column = sum_up_one(&["x"], 1_000, &records);
    assert_eq!(column.cost_usd.map(f64::to_bits), Some(100.0_f64.to_bits()));
}

#[test]
fn the_cost_of_a_solved_trial_has_an_interval_where_tasks_bound_it() {
    let all_solved: Vec<_> = ["u", "v", "w", "x"]
        .iter()
        .zip([0.1, 0.2, 0.3, 0.4])
        .map(|(task, dollars)| TrialRecord {
            usage: cost(dollars),
            ..record("a", task, 1, Some(1.0))
        })
        .collect();
    let column = sum_up_one(&["u", "v", "w", "x"], 1, &all_solved);
    let (low, high) = column.cost_per_solved_interval.unwrap();
    assert!((0.1..0.25).contains(&low) && (0.25..=0.4).contains(&high), "{low} to {high}");
    let mut one_solved = all_solved;
    for record in one_solved.iter_mut().skip(1) {
        record.rewards = rewards(0.0);
    }
    let column = sum_up_one(&["u", "v", "w", "x"], 1, &one_solved);
    assert_close(column.cost_per_solved_usd.unwrap(), 1.0);
    assert_eq!(column.cost_per_solved_interval, None, "a third of the samples solves nothing");
}

#[test]
fn records_beyond_the_plan_are_not_forgotten() {
    let records = [
        record("a", "x", 1, Some(1.0)),
        TrialRecord { usage: cost(2.0), ..record("a", "removed", 1, Some(0.0)) },
        TrialRecord { usage: cost(3.0), ..record("removed", "x", 1, Some(0.0)) },
    ];
    let summary = sum_up(&plan(&["a"], &["x"], 1), &records);
    assert_eq!(summary.planned, 1);
    let names: Vec<String> =
        summary.columns.iter().map(|summary| summary.column.to_string()).collect();
    assert_eq!(names, ["a", "removed"]);
    assert_eq!(summary.columns[0].tasks[1].task, "removed");
    assert_close(summary.columns[0].cost_usd.unwrap(), 2.0);
    assert_close(summary.columns[1].cost_usd.unwrap(), 3.0);
}

#[test]
fn tasks_on_which_any_column_cheated_are_left_out_of_the_second_score_of_all() {
    let mut cheat = record("b", "x", 1, None);
    cheat.cheating = vec![
        CheatFinding { kind: CheatKind::WroteReward, path: "/logs/verifier/reward.txt".to_owned() },
        CheatFinding {
            kind: CheatKind::WroteReward,
            path: "/logs/verifier/reward.json".to_owned(),
        },
    ];
    let mut again = record("b", "x", 1, Some(1.0));
    again.attempt = 2;
    let records = [record("a", "x", 1, Some(1.0)), record("a", "y", 1, Some(0.0)), cheat, again];
    let summary = sum_up(&plan(&["a", "b"], &["x", "y"], 1), &records);
    let first = &summary.columns[0];
    assert_close(first.score.unwrap().value, 0.5);
    assert_close(first.score_without_cheatable.unwrap().value, 0.0);
    assert!(
        first.tasks[0].is_cheatable && !first.tasks[1].is_cheatable && first.cheating.is_empty()
    );
    let second = &summary.columns[1];
    assert_eq!(second.cheating, BTreeMap::from([(CheatKind::WroteReward, 1)]), "trials, not files");
    assert_eq!(second.score_without_cheatable, None);
    let options =
        SummaryOptions { cheatable: BTreeSet::from(["y".to_owned()]), ..SummaryOptions::default() };
    let shown = summarize("job", &plan(&["a"], &["x", "y"], 1), &records[..2], &options);
    assert_close(shown.columns[0].score_without_cheatable.unwrap().value, 1.0);
}

#[test]
fn figures_of_the_loop_are_those_counted_by_hand() {
    let mut solves_on_second = record("a", "x", 1, Some(1.0));
    solves_on_second.iterations = 4;
    solves_on_second.claims = 2;
    solves_on_second.completed = true;
    solves_on_second.curve =
        vec![point(3, None), point(1, Some(0.0)), point(2, Some(1.0)), point(4, Some(1.0))];
    let mut claims_falsely = record("a", "y", 1, Some(0.5));
    claims_falsely.iterations = 1;
    claims_falsely.claims = 1;
    claims_falsely.completed = true;
    claims_falsely.curve = vec![point(1, Some(0.5))];
    let mut never_verified_at_first = record("a", "z", 1, Some(1.0));
    never_verified_at_first.iterations = 10;
    never_verified_at_first.curve = vec![point(5, Some(1.0)), point(u64::MAX, Some(1.0))];
    let mut not_judged = record("a", "z", 2, None);
    not_judged.completed = true;
    not_judged.iterations = 100;
    let column = sum_up_one(
        &["x", "y", "z"],
        2,
        &[solves_on_second, claims_falsely, never_verified_at_first, not_judged],
    );
    let figures = column.loop_figures;
    assert_close(figures.mean_iterations.unwrap(), 5.0);
    assert_close(figures.median_iterations_to_solve.unwrap(), 3.5);
    assert_eq!(figures.reward_by_iteration, [0.25, 0.75, 0.75, 0.75]);
    assert_eq!(figures.wasted_iterations, Some(2 + 5));
    assert_eq!((figures.false_completions, figures.claims), (1, 3));
}

#[test]
fn the_median_of_runs_is_that_of_judged_trials() {
    let with_time = |trial, reward, run_ms| {
        let mut record = record("a", "x", trial, reward);
        record.durations.run_ms = run_ms;
        record
    };
    let mut records =
        vec![with_time(1, Some(0.0), 7), with_time(2, Some(1.0), 4), with_time(3, None, 1)];
    assert_eq!(sum_up_one(&["x"], 3, &records).median_run_ms, Some(5));
    records.push(with_time(4, Some(1.0), u64::MAX));
    assert_eq!(sum_up_one(&["x"], 4, &records).median_run_ms, Some(7));
}

#[test]
fn a_score_of_some_trials_says_what_it_could_be_of_all() {
    let mut records = vec![record("a", "x", 1, Some(1.0)), record("a", "x", 2, None)];
    records.extend([record("a", "y", 1, Some(0.5)), record("a", "y", 2, Some(0.5))]);
    let of = |tasks: &[&str]| sum_up(&plan(&["a"], tasks, 2), &records);
    let summary = of(&["x", "y"]);
    assert_close(summary.columns[0].score.unwrap().value, 0.75);
    let (low, high) = summary.columns[0].bound_score().unwrap();
    assert_close(low, 0.5);
    assert_close(high, 0.75);
    assert_eq!(
        summary.warnings,
        [
            "a: 3 of 4 trials were judged; the score would be 50.0 % if all others had the reward 0, and 75.0 % if they \
          had 1"
        ]
    );
    // A task that was not tried counts as well.
    let (low, high) = of(&["x", "y", "z"]).columns[0].bound_score().unwrap();
    assert_close(low, 1.0 / 3.0);
    assert_close(high, 2.5 / 3.0);
    assert_eq!(sum_up(&plan(&["a"], &["y"], 2), &records[2..]).columns[0].bound_score(), None);
}

#[test]
fn warnings_and_models_are_named_once() {
    let mut late = record("a", "x", 2, Some(1.0));
    late.started = Timestamp::from_second(9).unwrap();
    late.warnings = vec!["busy".to_owned(), "no limit".to_owned()];
    late.model = Some("m2".to_owned());
    let mut early = record("a", "x", 1, Some(1.0));
    early.warnings = vec!["slow disk".to_owned(), "busy".to_owned()];
    early.model = Some("m1".to_owned());
    let others = ["y", "z", "v", "w"].map(|task| {
        let mut other = record("a", task, 1, Some(1.0));
        other.started = Timestamp::from_second(8).unwrap();
        other.warnings = vec!["slow disk".to_owned()];
        other
    });
    let records = [&[late, early.clone(), early][..], &others].concat();
    let summary = sum_up(&plan(&["a"], &["x"], 2), &records);
    assert_eq!(summary.columns[0].bound_score(), None);
    let expected = ["slow disk (x, v, w and 2 more)", "busy (x)", "no limit (x)"];
    assert_eq!(summary.warnings, expected);
    assert_eq!(summary.columns[0].models, ["m1", "m2"]);
}

#[test]
fn columns_of_different_kinds_of_machines_are_named() {
    let machine = |name: &str, model: &str| Machine {
        name: name.to_owned(),
        model: model.to_owned(),
        processors: 8,
        memory_bytes: 1 << 34,
    };
    let on = |agent: &str, trial: u32, name: &str, model: &str, contention: Option<f64>| {
        let mut record = record(agent, "x", trial, Some(1.0));
        record.machine = Some(machine(name, model));
        record.contention = contention;
        record
    };
    let planned = plan(&["a", "b", "c"], &["x"], 2);
    // Other machines of the same kind are no difference, and an unknown one says nothing.
    let records = [
        on("a", 1, "n1", "fast", Some(0.1)),
        on("a", 2, "n2", "fast", Some(0.3)),
        on("b", 1, "n1", "fast", Some(0.2)),
        record("c", "x", 1, Some(1.0)),
    ];
    let summary = sum_up(&planned, &records);
    assert_eq!(summary.warnings.len(), 2, "only on coverage: {:?}", summary.warnings);
    let used: Vec<_> = summary.machines.iter().map(|used| &used.machine.name).collect();
    assert_eq!(used, ["n1", "n2"]);
    assert_eq!(summary.machines[0].trials, BTreeMap::from([("a".into(), 1), ("b".into(), 1)]));
    assert_close(summary.machines[0].contention.unwrap(), 0.15);
    for others in [&[on("c", 2, "n9", "slow", None)][..], &[on("b", 2, "n9", "slow", None)]] {
        let summary = sum_up(&planned, &[&records[..], others].concat());
        let column = others[0].key.column.to_string();
        let found = format!("a and {column} were performed on different kinds of machines");
        assert!(summary.warnings.iter().any(|warning| warning.starts_with(&found)), "{summary:?}");
    }
}
