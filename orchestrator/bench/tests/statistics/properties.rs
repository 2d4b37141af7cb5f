//! What holds of all figures: bounds, order, and passes by counting every draw.

use proptest::prelude::*;

use ralph_orchestrator_bench::statistics::bootstrap::{BootstrapOptions, bootstrap_clusters};
use ralph_orchestrator_bench::statistics::distribution::{
    fair_coin_at_most, student_quantile, student_tail, t_test_power,
};
use ralph_orchestrator_bench::statistics::interval::{estimate_mean, wilson_interval};
use ralph_orchestrator_bench::statistics::paired::{PairedTest, TaskPair, compare_pairs};
use ralph_orchestrator_bench::statistics::passes::{Passes, estimate_pass_at, estimate_pass_hat};
use ralph_orchestrator_bench::statistics::plan::{PlanRequest, plan};
use ralph_orchestrator_bench::statistics::random::SeededRandom;
use ralph_orchestrator_bench::statistics::sequential::StopRule;
use ralph_orchestrator_bench::statistics::variance::DifferenceVariance;

/// Draws every set of k of n trials, of which the first `solved` are solved: how many have one solved, and all.
fn count_draws(trials: u32, solved: u32, k: u32) -> (u32, u32, u32) {
    let draws = (0..1_u32 << trials).filter(|draw| draw.count_ones() == k);
    let is_solved = (1_u32 << solved) - 1;
    draws.fold((0, 0, 0), |(any, all, count), draw| {
        (any + u32::from(draw & is_solved != 0), all + u32::from(draw & !is_solved == 0), count + 1)
    })
}

#[test]
fn passes_are_the_shares_of_all_draws() {
    for trials in 1..=10 {
        for solved in 0..=trials {
            let passes = Passes { trials: trials.into(), solved: solved.into() };
            for k in 1..=trials {
                let (any, all, count) = count_draws(trials, solved, k);
                let at = passes.pass_at(k.into()).unwrap();
                let hat = passes.pass_hat(k.into()).unwrap();
                assert!((at - f64::from(any) / f64::from(count)).abs() < 1e-14, "{passes:?} {k}");
                assert!((hat - f64::from(all) / f64::from(count)).abs() < 1e-14, "{passes:?} {k}");
            }
            assert_eq!((passes.pass_at(0), passes.pass_hat(u64::from(trials) + 1)), (None, None));
        }
    }
}

fn any_tasks() -> impl Strategy<Value = Vec<Vec<f64>>> {
    let reward = prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0];
    prop::collection::vec(prop::collection::vec(reward, 0..6), 0..12)
}

fn any_passes() -> impl Strategy<Value = Vec<Passes>> {
    let task = (1..10_001_u64)
        .prop_flat_map(|trials| (0..=trials).prop_map(move |solved| Passes { trials, solved }));
    prop::collection::vec(task, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn passes_are_ordered_and_within_bounds(tasks in any_passes(), share in 0.0..1.0_f64, level in 0.5..0.999) {
        let least = tasks.iter().map(|task| task.trials).min().unwrap();
        let k = 1 + (share * (least - 1) as f64) as u64;
        for task in &tasks {
            let (at, hat) = (task.pass_at(k).unwrap(), task.pass_hat(k).unwrap());
            let rate = task.solved as f64 / task.trials as f64;
            prop_assert!((0.0..=1.0).contains(&hat) && (0.0..=1.0).contains(&at));
            prop_assert!(hat <= rate + 1e-12 && rate <= at + 1e-12);
            if k > 1 {
                prop_assert!(task.pass_at(k - 1).unwrap() <= at + 1e-12);
                prop_assert!(task.pass_hat(k - 1).unwrap() + 1e-12 >= hat);
            }
            // All failed is none solved, the other way round.
            let mirrored = Passes { trials: task.trials, solved: task.trials - task.solved };
            prop_assert!((at + mirrored.pass_hat(k).unwrap() - 1.0).abs() < 1e-12);
        }
        for estimate in [estimate_pass_at(&tasks, k, level), estimate_pass_hat(&tasks, k, level)] {
            let estimate = estimate.unwrap();
            prop_assert!(estimate.low.is_none_or(|low| (0.0..=estimate.value).contains(&low)));
            prop_assert!(estimate.high.is_none_or(|high| (estimate.value..=1.0).contains(&high)));
        }
    }

    #[test]
    fn means_lie_in_their_intervals_which_widen_with_the_level(tasks in any_tasks(), level in 0.5..0.99) {
        let Some(estimate) = estimate_mean(&tasks, level) else {
            prop_assert!(tasks.iter().all(Vec::is_empty));
            return Ok(());
        };
        let wider = estimate_mean(&tasks, level + 0.009).unwrap();
        let judged = tasks.iter().filter(|task| !task.is_empty()).count();
        prop_assert_eq!(estimate.low.is_some(), judged > 1);
        prop_assert_eq!(estimate.standard_error.is_some(), judged > 1);
        if let (Some(low), Some(high)) = (estimate.low, estimate.high) {
            prop_assert!(0.0 <= low && low <= estimate.value && estimate.value <= high && high <= 1.0);
            prop_assert!(low < high, "an interval without width claims to be certain");
            prop_assert!(wider.low.unwrap() <= low && high <= wider.high.unwrap());
        }
        // The order of tasks and trials is nothing that a figure depends on.
        let mut turned = tasks;
        turned.reverse();
        turned.iter_mut().for_each(|task| task.reverse());
        let turned = estimate_mean(&turned, level).unwrap();
        prop_assert!((turned.value - estimate.value).abs() < 1e-12);
        prop_assert!((turned.low.unwrap_or(0.0) - estimate.low.unwrap_or(0.0)).abs() < 1e-9);
    }

    #[test]
    fn a_sequence_of_looks_is_wider_than_one_look(tasks in any_tasks(), points in 1.0..50.0_f64) {
        let rule = StopRule { half_width: points / 100.0, level: 0.95 };
        let (Some(once), Some(always)) = (estimate_mean(&tasks, 0.95), rule.estimate(&tasks)) else {
            return Ok(());
        };
        prop_assert_eq!(once.value.to_bits(), always.value.to_bits());
        let is_wilson = once.standard_error.is_none_or(|error| error <= 0.0) || tasks.iter().all(|task| task.len() < 2);
        if let (Some(low), Some(wide), false) = (once.low, always.low, is_wilson) {
            prop_assert!(wide <= low + 1e-12);
            prop_assert!(always.high.unwrap() + 1e-12 >= once.high.unwrap());
        }
        if rule.is_met(&tasks) {
            prop_assert!(always.high.unwrap() - always.low.unwrap() <= 2.0 * rule.half_width);
        }
    }

    #[test]
    fn wilson_stays_within_bounds_and_mirrors(solved in 0..1_000_u32, failed in 0..1_000_u32, level in 0.01..0.999) {
        prop_assume!(solved + failed > 0);
        let count = f64::from(solved + failed);
        let (low, high) = wilson_interval(f64::from(solved), count, level).unwrap();
        let share = f64::from(solved) / count;
        prop_assert!(0.0 <= low && low <= share && share <= high && high <= 1.0);
        let (mirrored_low, mirrored_high) = wilson_interval(f64::from(failed), count, level).unwrap();
        prop_assert!((low + mirrored_high - 1.0).abs() < 1e-12 && (high + mirrored_low - 1.0).abs() < 1e-12);
    }

    #[test]
    fn turned_columns_turn_the_difference(pairs in prop::collection::vec((any_rewards(), any_rewards()), 0..10)) {
        let pair = |(baseline, candidate): &(Vec<f64>, Vec<f64>)| TaskPair {
            baseline: baseline.clone(),
            candidate: candidate.clone(),
        };
        let there: Vec<TaskPair> = pairs.iter().map(pair).collect();
        let back: Vec<TaskPair> = there
            .iter()
            .map(|pair| TaskPair { baseline: pair.candidate.clone(), candidate: pair.baseline.clone() })
            .collect();
        let (there, back) = (compare_pairs(&there, 0.95), compare_pairs(&back, 0.95));
        prop_assert_eq!((there.better, there.worse, there.test), (back.worse, back.better, back.test));
        prop_assert!((there.p_value.unwrap_or(0.5) - back.p_value.unwrap_or(0.5)).abs() < 1e-9);
        prop_assert!(there.p_value.is_none_or(|p| (0.0..=1.0).contains(&p)));
        if let (Some(there), Some(back)) = (there.difference, back.difference) {
            prop_assert!((there.value + back.value).abs() < 1e-12);
            prop_assert!((there.low.unwrap_or(0.0) + back.high.unwrap_or(0.0)).abs() < 1e-9);
        }
    }

    #[test]
    fn quantiles_undo_tails(freedom in 0.5..1e6_f64, log_tail in -60.0..-0.7_f64) {
        let tail = log_tail.exp();
        let t = student_quantile(tail, freedom);
        prop_assert!((student_tail(t, freedom) / tail - 1.0).abs() < 1e-9);
        prop_assert!(student_quantile(tail / 2.0, freedom) > t);
    }

    #[test]
    fn coins_and_powers_only_grow(trials in 1..5_000_u64, share in 0.0..1.0_f64, shift in 0.0..6.0_f64, freedom in 1.0..500.0_f64) {
        let successes = (share * trials as f64) as u64;
        let here = fair_coin_at_most(successes, trials);
        prop_assert!((0.0..=1.0).contains(&here) && fair_coin_at_most(successes + 1, trials) >= here);
        let power = t_test_power(shift, freedom, 0.05);
        prop_assert!((0.05 - 1e-9..=1.0).contains(&power), "{}", power);
        prop_assert!(t_test_power(shift + 0.1, freedom, 0.05) >= power - 1e-12);
    }

    #[test]
    fn a_bootstrap_depends_on_its_seed_alone(seed in any::<u64>(), values in prop::collection::vec(-5.0..5.0_f64, 2..20)) {
        let draw = |seed| {
            let options = BootstrapOptions { samples: 50, seed, ..BootstrapOptions::default() };
            bootstrap_clusters(&values, options, |sample| {
                sample.iter().copied().sum::<f64>() / sample.len() as f64
            })
            .unwrap()
        };
        let found = draw(seed);
        prop_assert_eq!(found, draw(seed));
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(least - 1e-12 <= found.low && found.low <= found.high && found.high <= most + 1e-12);
    }

    #[test]
    fn draws_stay_in_range(seed in any::<u64>(), count in 1..50_usize) {
        let mut random = SeededRandom::from_seed(seed);
        let values: Vec<usize> = (0..count).collect();
        for _ in 0..100 {
            prop_assert!((0.0..1.0).contains(&random.draw_unit()));
            prop_assert!(*random.draw_from(&values).unwrap() < count);
        }
        prop_assert_eq!(random.draw_from::<u8>(&[]), None);
    }
}

proptest! {
    // Each case integrates some hundred times.
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_the_least_that_suffices(
        detect in 0.03..0.5_f64,
        within in 0.01..0.5_f64,
        between in 0.0..0.1_f64,
        tasks in 2..200_u64,
        power in 0.3..0.95_f64,
    ) {
        let request = PlanRequest {
            detect,
            significance: 0.05,
            power,
            tasks,
            max_trials: 64,
            variance: DifferenceVariance { within, between },
            single_trials: PairedTest::PairedT,
            cost_per_trial_usd: Some(0.25),
        };
        let found = plan(&request).unwrap();
        match found.with_these_tasks {
            Some(size) => {
                prop_assert!(size.power >= power && size.trials_per_task <= 64 && size.tasks == tasks);
                prop_assert_eq!(size.cost_usd.unwrap().to_bits(), (0.25 * size.trials as f64).to_bits());
                prop_assert!(found.smallest_detectable.unwrap() <= detect * (1.0 + 1e-9));
                if size.trials_per_task > 1 {
                    let fewer = PlanRequest { max_trials: size.trials_per_task - 1, ..request };
                    prop_assert_eq!(plan(&fewer).unwrap().with_these_tasks, None);
                }
            }
            None => prop_assert!(found.smallest_detectable.unwrap() > detect),
        }
        let needed: Vec<u64> = found.with_more_tasks.iter().map(|size| size.tasks).collect();
        prop_assert!(needed.is_sorted_by(|a, b| a >= b), "more trials never need more tasks: {:?}", needed);
        prop_assert!(found.with_more_tasks.iter().all(|size| size.power >= power));
    }
}

fn any_rewards() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop_oneof![Just(0.0), Just(1.0), -1.0..2.0_f64], 0..4)
}
