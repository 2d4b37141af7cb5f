//! Jobs with a known truth, drawn many times: what holds 95 times in 100 has to.

use ralph_orchestrator_bench::statistics::Estimate;
use ralph_orchestrator_bench::statistics::bootstrap::{BootstrapOptions, bootstrap_clusters};
use ralph_orchestrator_bench::statistics::interval::estimate_mean;
use ralph_orchestrator_bench::statistics::paired::{PairedTest, TaskPair, compare_pairs};
use ralph_orchestrator_bench::statistics::passes::{Passes, estimate_pass_at, estimate_pass_hat};
use ralph_orchestrator_bench::statistics::plan::{PlanRequest, plan};
use ralph_orchestrator_bench::statistics::random::SeededRandom;
use ralph_orchestrator_bench::statistics::sequential::StopRule;
use ralph_orchestrator_bench::statistics::variance::{ColumnVariance, DifferenceVariance};

const LEVEL: f64 = 0.95;

/// Tosses for one task that is solved with probability `rate`.
fn toss(random: &mut SeededRandom, rate: f64, trials: usize) -> Vec<f64> {
    (0..trials).map(|_| if random.draw_unit() < rate { 1.0 } else { 0.0 }).collect()
}

/// Draws how often a task is solved: evenly from 0 to 1, so that a third of all variance is between tasks.
fn toss_tasks(random: &mut SeededRandom, tasks: usize, trials: usize) -> Vec<Vec<f64>> {
    (0..tasks)
        .map(|_| {
            let rate = random.draw_unit();
            toss(random, rate, trials)
        })
        .collect()
}

fn contains(estimate: &Estimate, truth: f64) -> bool {
    estimate.low.unwrap() <= truth && truth <= estimate.high.unwrap()
}

fn count_passes(task: &[f64]) -> Passes {
    let solved = task.iter().filter(|reward| **reward >= 1.0).count();
    Passes { trials: task.len() as u64, solved: solved as u64 }
}

/// Four standard deviations of a share that is expected in `count` simulations.
fn tolerance(expected: f64, count: u32) -> f64 {
    4.0 * (expected * (1.0 - expected) / f64::from(count)).sqrt()
}

fn assert_share(name: &str, observed: u32, count: u32, expected: f64) {
    let share = f64::from(observed) / f64::from(count);
    let tolerance = tolerance(expected, count);
    assert!(
        (share - expected).abs() <= tolerance,
        "{name}: {share} of {count} simulations; expected {expected} ± {tolerance}"
    );
}

fn assert_share_at_least(name: &str, observed: u32, count: u32, expected: f64) {
    let share = f64::from(observed) / f64::from(count);
    assert!(
        share >= expected - tolerance(expected, count),
        "{name}: {share} of {count} simulations; expected at least {expected}"
    );
}

#[test]
fn intervals_of_a_coin_cover_the_truth_at_their_level() {
    const SIMULATIONS: u32 = 1_000;
    let mut random = SeededRandom::from_seed(1);
    let mut score = 0;
    let (mut at, mut hat) = ([0; 10], [0; 10]);
    for _ in 0..SIMULATIONS {
        let tasks: Vec<Vec<f64>> = (0..40).map(|_| toss(&mut random, 0.3, 10)).collect();
        score += u32::from(contains(&estimate_mean(&tasks, LEVEL).unwrap(), 0.3));
        let passes: Vec<Passes> = tasks.iter().map(|task| count_passes(task)).collect();
        for k in 1..=10 {
            let truth = 1.0 - 0.7_f64.powi(k);
            let estimate = estimate_pass_at(&passes, k as u64, LEVEL).unwrap();
            at[k as usize - 1] += u32::from(contains(&estimate, truth));
            let estimate = estimate_pass_hat(&passes, k as u64, LEVEL).unwrap();
            hat[k as usize - 1] += u32::from(contains(&estimate, 0.3_f64.powi(k)));
        }
    }
    assert_share("score", score, SIMULATIONS, LEVEL);
    assert_share("pass^1", hat[0], SIMULATIONS, LEVEL);
    for k in 1..=4 {
        assert_share(&format!("pass@{k}"), at[k - 1], SIMULATIONS, LEVEL);
    }
    // Most tasks are at one end: the interval is wider than need be.
    for k in 5..=10 {
        assert_share_at_least(&format!("pass@{k}"), at[k - 1], SIMULATIONS, LEVEL);
    }
    for k in 2..=10 {
        assert_share_at_least(&format!("pass^{k}"), hat[k - 1], SIMULATIONS, LEVEL);
    }
}

/// How often tasks are solved.
type DrawRate = fn(&mut SeededRandom) -> f64;

/// What tasks are like, in words, how often one is solved, and how often they are in the mean.
const TASK_KINDS: [(&str, DrawRate, f64); 6] = [
    ("all alike, solved 3 times in 10", |_| 0.3, 0.3),
    ("all alike, solved once in 20", |_| 0.05, 0.05),
    ("rates from 0 to 1", SeededRandom::draw_unit, 0.5),
    (
        "always solved, or one in 20 never",
        |random| f64::from(u8::from(random.draw_unit() < 0.95)),
        0.95,
    ),
    (
        "one in 5 always solved, the others never",
        |random| f64::from(u8::from(random.draw_unit() < 0.2)),
        0.2,
    ),
    (
        "8 in 10 always solved, one nearly always, one never",
        |random| match random.draw_unit() {
            rate if rate < 0.8 => 1.0,
            rate if rate < 0.9 => 0.9,
            _ => 0.0,
        },
        0.89,
    ),
];

/// Returns in how many of 1,000 jobs the interval of the score has the truth in it.
fn count_covered(draw_rate: DrawRate, truth: f64, tasks: usize, trials: usize) -> u32 {
    let mut random = SeededRandom::from_seed(12);
    let is_covered = |_: &u32| {
        let rewards: Vec<Vec<f64>> = (0..tasks)
            .map(|_| {
                let rate = draw_rate(&mut random);
                toss(&mut random, rate, trials)
            })
            .collect();
        contains(&estimate_mean(&rewards, LEVEL).unwrap(), truth)
    };
    (0..1_000_u32).filter(is_covered).count().try_into().unwrap()
}

#[test]
fn the_interval_of_a_score_covers_as_often_as_the_documentation_says() {
    let mut table =
        "| tasks are | 10 × 1 | 10 × 5 | 40 × 1 | 40 × 5 |\n|---|---|---|---|---|\n".to_owned();
    for (name, draw_rate, truth) in TASK_KINDS {
        table.push_str(&format!("| {name} |"));
        for (tasks, trials) in [(10, 1), (10, 5), (40, 1), (40, 5)] {
            let covered = count_covered(draw_rate, truth, tasks, trials);
            assert!(covered >= 930, "{name}, {tasks} × {trials}: {covered} of 1,000");
            table.push_str(&format!(" {:.1} |", f64::from(covered) / 10.0));
        }
        table.push('\n');
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dev/theory/statistics.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(&table),
        "docs/dev/theory/statistics.md does not have this table:\n{table}"
    );
}

#[test]
fn passes_have_no_bias() {
    const SIMULATIONS: u32 = 4_000;
    let mut random = SeededRandom::from_seed(2);
    for k in [1_u64, 2, 5] {
        let (mut at, mut hat, mut squares) = (0.0, 0.0, 0.0);
        for _ in 0..SIMULATIONS {
            let passes = count_passes(&toss(&mut random, 0.3, 6));
            let value = passes.pass_at(k).unwrap();
            at += value / f64::from(SIMULATIONS);
            squares += value * value / f64::from(SIMULATIONS);
            hat += passes.pass_hat(k).unwrap() / f64::from(SIMULATIONS);
        }
        let error = ((squares - at * at) / f64::from(SIMULATIONS)).sqrt();
        assert!((at - (1.0 - 0.7_f64.powi(k as i32))).abs() < 4.0 * error, "pass@{k}: {at}");
        assert!((hat - 0.3_f64.powi(k as i32)).abs() < 4.0 * error, "pass^{k}: {hat}");
    }
}

#[test]
fn only_clusters_cover_where_tasks_differ() {
    const SIMULATIONS: u32 = 1_000;
    let mut random = SeededRandom::from_seed(3);
    let (mut clustered, mut ignored) = (0, 0);
    for _ in 0..SIMULATIONS {
        let tasks = toss_tasks(&mut random, 40, 10);
        clustered += u32::from(contains(&estimate_mean(&tasks, LEVEL).unwrap(), 0.5));
        let trials: Vec<[f64; 1]> = tasks.iter().flatten().map(|reward| [*reward]).collect();
        ignored += u32::from(contains(&estimate_mean(&trials, LEVEL).unwrap(), 0.5));
    }
    assert_share("clustered by task", clustered, SIMULATIONS, LEVEL);
    let share = f64::from(ignored) / f64::from(SIMULATIONS);
    assert!(share < 0.8, "trials taken for independent cover only by chance, but did in {share}");
}

#[test]
fn equal_columns_differ_significantly_as_often_as_stated() {
    const SIMULATIONS: u32 = 1_000;
    let mut random = SeededRandom::from_seed(4);
    let (mut paired, mut single) = (0, 0);
    for _ in 0..SIMULATIONS {
        let mut pairs = Vec::new();
        for _ in 0..40 {
            let rate = random.draw_unit();
            let baseline = toss(&mut random, rate, 5);
            pairs.push(TaskPair { baseline, candidate: toss(&mut random, rate, 5) });
        }
        paired += u32::from(compare_pairs(&pairs, LEVEL).p_value.unwrap() < 0.05);
        for pair in &mut pairs {
            pair.baseline.truncate(1);
            pair.candidate.truncate(1);
        }
        single += u32::from(compare_pairs(&pairs, LEVEL).p_value.unwrap() < 0.05);
    }
    assert_share("paired t", paired, SIMULATIONS, 0.05);
    let share = f64::from(single) / f64::from(SIMULATIONS);
    assert!(share <= 0.05 + tolerance(0.05, SIMULATIONS), "McNemar, exact: {share}");
}

#[test]
fn a_planned_job_finds_the_difference_as_often_as_planned() {
    const SIMULATIONS: u32 = 600;
    let mut random = SeededRandom::from_seed(5);
    // Rates from 0.1 to 0.8 on both sides of a difference of 0.1 that is the same on all tasks.
    let draw = |random: &mut SeededRandom, tasks: usize, trials: usize| -> Vec<TaskPair> {
        let mut pairs = Vec::new();
        for _ in 0..tasks {
            let rate = 0.1 + 0.7 * random.draw_unit();
            let baseline = toss(random, rate, trials);
            pairs.push(TaskPair { baseline, candidate: toss(random, rate + 0.1, trials) });
        }
        pairs
    };
    let pilot = draw(&mut random, 3_000, 4);
    let variance = DifferenceVariance::from_pairs(&pilot).unwrap();
    let request = PlanRequest {
        detect: 0.1,
        significance: 0.05,
        power: 0.8,
        tasks: 40,
        max_trials: 100,
        variance,
        single_trials: PairedTest::McNemar,
        cost_per_trial_usd: Some(0.5),
    };
    let size = plan(&request).unwrap().with_these_tasks.unwrap();
    assert_eq!(size.trials, 2 * 40 * u64::from(size.trials_per_task));
    let mut found = 0;
    for _ in 0..SIMULATIONS {
        let pairs = draw(&mut random, 40, size.trials_per_task as usize);
        found += u32::from(compare_pairs(&pairs, LEVEL).p_value.unwrap() < 0.05);
    }
    assert_share("power", found, SIMULATIONS, size.power);
}

#[test]
fn variance_is_split_between_trials_and_tasks() {
    let mut random = SeededRandom::from_seed(6);
    let tasks: Vec<Vec<f64>> = toss_tasks(&mut random, 20_000, 3);
    let variance = ColumnVariance::from_rewards(&tasks).unwrap();
    // Of an even rate: 1/12 between tasks, and 1/4 in all.
    assert!((variance.between - 1.0 / 12.0).abs() < 0.004, "{variance:?}");
    assert!((variance.within - 1.0 / 6.0).abs() < 0.004, "{variance:?}");
    let prior = ColumnVariance::from_prior(0.5, 1.0 / 3.0);
    assert!((prior.between - 1.0 / 12.0).abs() < 1e-15 && (prior.within - 1.0 / 6.0).abs() < 1e-15);
}

/// Looks after each round of one more trial for each task, and says whether any interval missed the truth: that of
/// the rule, and that of somebody who looks once but does so again and again.
fn look_at_each_round(
    random: &mut SeededRandom,
    rule: &StopRule,
    tasks: usize,
    evenly: bool,
) -> (bool, bool) {
    let rates: Vec<f64> =
        (0..tasks).map(|_| if evenly { 0.3 } else { random.draw_unit() }).collect();
    let truth = if evenly { 0.3 } else { 0.5 };
    let mut rewards = vec![Vec::new(); tasks];
    let (mut rule_missed, mut fixed_missed) = (false, false);
    for _ in 0..30 {
        for (task, rate) in rewards.iter_mut().zip(&rates) {
            task.extend(toss(random, *rate, 1));
        }
        rule_missed |= !contains(&rule.estimate(&rewards).unwrap(), truth);
        fixed_missed |= !contains(&estimate_mean(&rewards, rule.level).unwrap(), truth);
    }
    (rule_missed, fixed_missed)
}

#[test]
fn the_stop_rule_keeps_its_error_rate_under_continuous_looking() {
    const SIMULATIONS: u32 = 200;
    let mut random = SeededRandom::from_seed(9);
    for (evenly, tasks, points) in [(true, 12, "3"), (true, 40, "10"), (false, 40, "10")] {
        let rule: StopRule = format!("ci<{points}pp").parse().unwrap();
        let (mut missed, mut fixed_missed) = (0, 0);
        for _ in 0..SIMULATIONS {
            let (rule, fixed) = look_at_each_round(&mut random, &rule, tasks, evenly);
            missed += u32::from(rule);
            fixed_missed += u32::from(fixed);
        }
        let name = format!("{tasks} tasks, {points} pp, {evenly}");
        assert_share_at_least(&name, SIMULATIONS - missed, SIMULATIONS, LEVEL);
        if evenly {
            let share = f64::from(fixed_missed) / f64::from(SIMULATIONS);
            assert!(share > 0.1, "{name}: who looks without correction errs in {share}");
        }
    }
}

#[test]
fn the_stop_rule_keeps_its_error_rate_while_tasks_are_added() {
    const SIMULATIONS: u32 = 200;
    let rule: StopRule = "ci<5pp".parse().unwrap();
    let mut random = SeededRandom::from_seed(10);
    let (mut missed, mut stopped) = (0, 0);
    for _ in 0..SIMULATIONS {
        let mut tasks = Vec::new();
        let mut has_missed = false;
        for _ in 0..60 {
            tasks.extend(toss_tasks(&mut random, 5, 2));
            has_missed |= !contains(&rule.estimate(&tasks).unwrap(), 0.5);
        }
        missed += u32::from(has_missed);
        tasks.extend(toss_tasks(&mut random, 700, 2));
        stopped += u32::from(rule.is_met(&tasks));
    }
    assert_share_at_least("tasks are added", SIMULATIONS - missed, SIMULATIONS, LEVEL);
    assert_eq!(stopped, SIMULATIONS, "1,000 tasks are enough for 5 points");
}

#[test]
fn a_bootstrapped_ratio_covers_the_truth_nearly_at_its_level() {
    const SIMULATIONS: u32 = 300;
    let mut random = SeededRandom::from_seed(11);
    let mut covered = 0;
    for seed in 0..SIMULATIONS {
        // What is solved costs 1, what is not costs 2: 3 for each solved trial at an even chance.
        let tasks: Vec<(f64, f64)> = toss_tasks(&mut random, 40, 5)
            .iter()
            .map(|task| {
                let solved: f64 = task.iter().sum();
                (2.0 * task.len() as f64 - solved, solved)
            })
            .collect();
        let options =
            BootstrapOptions { samples: 400, seed: u64::from(seed), ..BootstrapOptions::default() };
        let found = bootstrap_clusters(&tasks, options, |sample| {
            sample.iter().map(|task| task.0).sum::<f64>()
                / sample.iter().map(|task| task.1).sum::<f64>()
        })
        .unwrap();
        covered += u32::from(found.low <= 3.0 && 3.0 <= found.high);
    }
    // Percentile intervals are known to be a little short.
    assert_share_at_least("cost of a solved trial", covered, SIMULATIONS, 0.93);
}

/// Draws single trials of two columns, whose chances on a task `draw` returns, and returns how often the difference is
/// found.
fn find_with_single_trials(
    random: &mut SeededRandom,
    tasks: u64,
    simulations: u32,
    draw: impl Fn(&mut SeededRandom) -> (f64, f64),
) -> f64 {
    let mut found = 0;
    for _ in 0..simulations {
        let pairs: Vec<TaskPair> = (0..tasks)
            .map(|_| {
                let (baseline, candidate) = draw(random);
                let baseline = toss(random, baseline, 1);
                TaskPair { baseline, candidate: toss(random, candidate, 1) }
            })
            .collect();
        found += u32::from(compare_pairs(&pairs, LEVEL).p_value.unwrap() < 0.05);
    }
    f64::from(found) / f64::from(simulations)
}

#[test]
fn single_trials_find_a_difference_at_least_as_often_as_a_prior_promises() {
    const SIMULATIONS: u32 = 1_500;
    let mut random = SeededRandom::from_seed(12);
    for (prior, detect) in [(0.5, 0.1), (0.5, 0.2), (0.5, 0.4), (0.3, 0.1), (0.8, 0.15), (0.2, 0.3)]
    {
        // The other column is the one that is harder to see, as the command takes it.
        let other = if prior < 0.5 { prior + detect } else { prior - detect };
        let column = |share| ColumnVariance::from_prior(share, 0.5);
        let variance = DifferenceVariance::from_independent(column(prior), column(other));
        let request = PlanRequest {
            detect,
            significance: 0.05,
            power: 0.8,
            tasks: 40,
            max_trials: 1,
            variance,
            single_trials: PairedTest::McNemar,
            cost_per_trial_usd: None,
        };
        let found = plan(&request).unwrap();
        let size = found.with_more_tasks[0];
        assert_eq!((size.trials_per_task, size.test), (1, PairedTest::McNemar));
        let discordant = prior * (1.0 - other) + other * (1.0 - prior);
        assert!((found.discordant_share.unwrap() - discordant).abs() < 1e-12);
        let tolerance = tolerance(size.power, SIMULATIONS);
        let name = format!("{prior}, {detect}: {size:?}");
        // Columns that are independent of each other are what was assumed.
        let share =
            find_with_single_trials(&mut random, size.tasks, SIMULATIONS, |_| (prior, other));
        assert!((share - size.power).abs() <= tolerance, "{name}: {share}");
        // Tasks that are hard or easy for both leave fewer that differ, and more is found.
        let (low, high) = (prior.min(other), prior.max(other));
        let spread = low.min(1.0 - high) * 0.8;
        let share = find_with_single_trials(&mut random, size.tasks, SIMULATIONS, |random| {
            let shift = spread * (2.0 * random.draw_unit() - 1.0);
            (prior + shift, other + shift)
        });
        assert!(share >= size.power - tolerance, "{name}: {share}");
    }
}
