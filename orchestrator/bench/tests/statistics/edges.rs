//! Where formulas divide by nothing, and what nobody should ask for.

use ralph_orchestrator_bench::statistics::bootstrap::{BootstrapOptions, bootstrap_clusters};
use ralph_orchestrator_bench::statistics::distribution::{
    fair_coin_at_most, normal_quantile, student_quantile, student_tail,
};
use ralph_orchestrator_bench::statistics::interval::{estimate_mean, wilson_interval};
use ralph_orchestrator_bench::statistics::paired::{PairedTest, TaskPair, compare_pairs};
use ralph_orchestrator_bench::statistics::passes::{Passes, estimate_pass_at};
use ralph_orchestrator_bench::statistics::plan::{PlanError, PlanRequest, plan};
use ralph_orchestrator_bench::statistics::random::SeededRandom;
use ralph_orchestrator_bench::statistics::sequential::StopRule;
use ralph_orchestrator_bench::statistics::variance::{ColumnVariance, DifferenceVariance};

#[test]
fn quantiles_end_where_the_distribution_does() {
    assert_eq!((normal_quantile(0.5), normal_quantile(0.9)), (0.0, 0.0));
    for tail in [0.0, -1.0, f64::NAN] {
        assert!(normal_quantile(tail).is_infinite() && student_quantile(tail, 3.0).is_infinite());
    }
    assert_eq!((student_tail(f64::INFINITY, 2.0), student_tail(f64::MAX, 2.0)), (0.0, 0.0));
    assert_eq!((student_tail(f64::NEG_INFINITY, 2.0), student_tail(0.0, 2.0)), (1.0, 0.5));
    assert!(student_quantile(1e-300, 1.0) > 1e299);
    assert_eq!((fair_coin_at_most(0, 0), fair_coin_at_most(9, 3)), (1.0, 1.0));
    assert!(fair_coin_at_most(0, 100_000) >= 0.0, "it underflows to zero");
}

#[test]
fn the_drawn_numbers_are_those_of_splitmix64() {
    // The first numbers of the reference implementation for the seed 1234567.
    let mut random = SeededRandom::from_seed(1_234_567);
    let drawn = [random.draw_bits(), random.draw_bits(), random.draw_bits()];
    assert_eq!(
        drawn,
        [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
    );
}

#[test]
fn rewards_that_are_no_numbers_give_no_estimate() {
    assert_eq!(estimate_mean(&[vec![f64::NAN], vec![1.0]], 0.95), None);
    assert_eq!(estimate_mean(&[vec![f64::INFINITY], vec![1.0]], 0.95), None);
    assert_eq!(estimate_mean::<Vec<f64>>(&[], 0.95), None);
    assert_eq!(wilson_interval(0.0, 0.0, 0.95), None);
    assert_eq!(estimate_pass_at(&[], 1, 0.95), None);
    assert_eq!(Passes { trials: 1, solved: 2 }.pass_at(1), None);
    assert_eq!(Passes { trials: 1, solved: 2 }.pass_hat(1), None);
}

#[test]
fn the_same_evidence_has_one_interval_however_often_it_is_repeated() {
    let rewards = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let once = estimate_mean(&rewards.map(|reward| [reward]), 0.95).unwrap();
    assert!(once.low.unwrap() > 0.0);
    let often = estimate_mean(&rewards.map(|reward| [reward; 5]), 0.95).unwrap();
    assert_eq!((often.low, often.high), (once.low, once.high));
    let passes =
        rewards.map(|reward| Passes { trials: 5, solved: if reward > 0.0 { 5 } else { 0 } });
    assert_eq!(estimate_pass_at(&passes, 1, 0.95), Some(often));
    // Trials that differ tell more, and never more than there are.
    let mixed = estimate_mean(&[[1.0, 0.0]; 10].map(Vec::from), 0.95).unwrap();
    let (low, high) = (mixed.low.unwrap(), mixed.high.unwrap());
    assert!(low > 0.0 && high < 1.0 && high - low < 0.7, "{low} to {high}");
}

#[test]
fn rewards_beyond_one_are_not_clipped_and_give_no_interval_without_variance() {
    let wide = estimate_mean(&[[3.0], [0.0]], 0.95).unwrap();
    assert!(wide.low.unwrap() < 0.0 && wide.high.unwrap() > 3.0);
    let equal = estimate_mean(&[[2.0, 2.0], [2.0, 2.0]], 0.95).unwrap();
    assert_eq!((equal.standard_error, equal.low, equal.high), (Some(0.0), None, None));
}

#[test]
fn means_that_differ_by_rounding_alone_are_equal() {
    // 0.1 + 0.2 in another order: the means differ in their last bit.
    let pairs: Vec<TaskPair> = (0..4)
        .map(|_| TaskPair { baseline: vec![0.1, 0.2, 0.3], candidate: vec![0.3, 0.2, 0.1] })
        .collect();
    let found = compare_pairs(&pairs, 0.95);
    assert_eq!((found.better, found.worse, found.test), (0, 0, PairedTest::Sign));
    assert_eq!(found.p_value, Some(1.0));
}

#[test]
fn a_bootstrap_needs_two_clusters_and_numbers() {
    let options = BootstrapOptions::default();
    assert_eq!(bootstrap_clusters(&[1.0], options, |_| 1.0), None);
    assert_eq!(
        bootstrap_clusters(&[1.0, 2.0], BootstrapOptions { samples: 0, ..options }, |_| 1.0),
        None
    );
    assert_eq!(bootstrap_clusters(&[1.0, 2.0], options, |_| f64::NAN), None);
    let endless = bootstrap_clusters(&[1.0, 2.0], options, |_| f64::INFINITY).unwrap();
    assert!(endless.high.is_infinite() && endless.standard_error.is_none());
}

#[test]
fn variances_need_two_tasks_and_a_repeated_trial() {
    assert_eq!(ColumnVariance::from_rewards(&[[0.0, 1.0]]), None);
    assert_eq!(ColumnVariance::from_rewards(&[[0.0], [1.0]]), None);
    assert!(ColumnVariance::from_rewards(&[vec![0.0, 1.0], vec![1.0]]).is_some());
    let single = TaskPair { baseline: vec![0.0], candidate: vec![1.0, 0.0] };
    assert_eq!(DifferenceVariance::from_pairs(&[single.clone(), single]), None);
    // Where trials explain all that tasks differ by, tasks are taken to be alike.
    let variance = ColumnVariance::from_rewards(&[[0.0, 1.0], [0.0, 1.0]]).unwrap();
    assert_eq!((variance.within, variance.between), (0.5, 0.0));
}

fn request() -> PlanRequest {
    let column = ColumnVariance::from_prior(0.5, 1.0 / 3.0);
    PlanRequest {
        detect: 0.05,
        significance: 0.05,
        power: 0.8,
        tasks: 40,
        max_trials: 100,
        variance: DifferenceVariance { within: 2.0 * column.within, between: column.between },
        single_trials: PairedTest::PairedT,
        cost_per_trial_usd: None,
    }
}

#[test]
fn where_trials_alone_cannot_do_it_the_plan_says_how_many_tasks() {
    let found = plan(&request()).unwrap();
    assert_eq!(
        found.with_these_tasks, None,
        "tasks differ by more than 5 points in the mean of 40"
    );
    assert!(found.smallest_detectable.unwrap() > 0.05);
    assert_eq!(found.with_more_tasks.len(), 5);
    assert!(found.with_more_tasks.iter().all(|size| size.tasks > 40 && size.cost_usd.is_none()));
    let enough = PlanRequest { tasks: found.with_more_tasks[1].tasks, ..request() };
    assert_eq!(plan(&enough).unwrap().with_these_tasks.unwrap().trials_per_task, 2);
}

#[test]
fn a_plan_refuses_what_it_cannot_compute_with() {
    let refused = |request: PlanRequest| plan(&request).unwrap_err();
    for detect in [0.0, -0.1, f64::INFINITY] {
        assert_eq!(refused(PlanRequest { detect, ..request() }), PlanError::Detect(detect));
    }
    assert!(matches!(refused(PlanRequest { detect: f64::NAN, ..request() }), PlanError::Detect(_)));
    for value in [0.0, 1.0, f64::NAN] {
        let significance = refused(PlanRequest { significance: value, ..request() });
        assert!(matches!(significance, PlanError::Probability { name: "the significance", .. }));
        let power = refused(PlanRequest { power: value, ..request() });
        assert!(matches!(power, PlanError::Probability { name: "the power", .. }));
    }
    assert_eq!(refused(PlanRequest { tasks: 1, ..request() }), PlanError::Tasks(1));
    assert_eq!(refused(PlanRequest { max_trials: 0, ..request() }), PlanError::Trials);
    for (within, between) in [(0.0, 0.0), (-1.0, 2.0), (f64::NAN, 1.0), (f64::INFINITY, 0.0)] {
        let variance = DifferenceVariance { within, between };
        assert_eq!(refused(PlanRequest { variance, ..request() }), PlanError::Variance);
    }
    let message = refused(PlanRequest { power: 1.5, ..request() }).to_string();
    assert_eq!(message, "the power is 1.5; expected a probability between 0 and 1, such as 0.8");
}

#[test]
fn rules_to_stop_are_read_strictly() {
    for (text, half_width) in [("ci<3pp", 0.03), (" ci < 2.5 pp", 0.025), ("ci<50pp", 0.5)] {
        let rule: StopRule = text.parse().unwrap();
        assert!((rule.half_width - half_width).abs() < 1e-15 && (rule.level - 0.95).abs() < 1e-15);
    }
    for text in [
        "", "ci", "ci<", "ci<pp", "ci<3", "ci<0pp", "ci<-1pp", "ci<51pp", "ci<nanpp", "ci<infpp",
        "ci>3pp", "p<3pp", "ci<3%",
    ] {
        let error = text.parse::<StopRule>().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{text:?} is not a rule")) && error.contains("ci<3pp"),
            "{error}"
        );
    }
}

#[test]
fn tasks_that_are_all_solved_do_not_stop_a_job_early() {
    let rule: StopRule = "ci<3pp".parse().unwrap();
    let solved = |tasks: usize| vec![[1.0]; tasks];
    assert!(!rule.is_met(&solved(0)) && !rule.is_met(&solved(1)) && !rule.is_met(&solved(20)));
    assert!(rule.is_met(&solved(1_000)), "1,000 tasks are enough");
    let estimate = rule.estimate(&solved(20)).unwrap();
    assert!(estimate.low.unwrap() < 0.9 && estimate.high == Some(1.0));
    assert_eq!(rule.estimate(&solved(1)).unwrap().low, None);
    assert_eq!(rule.estimate(&solved(0)), None);
}

#[test]
fn the_width_that_trials_alone_can_reach_is_predicted() {
    let rule: StopRule = "ci<3pp".parse().unwrap();
    let differing: Vec<Vec<f64>> = (0..40).map(|task| vec![f64::from(task % 2); 5]).collect();
    let reached = rule.predict_half_width(&differing, 1_000_000).unwrap();
    assert!(reached > 0.2, "trials do not make 40 tasks more: {reached}");
    let alike: Vec<Vec<f64>> = (0..40).map(|_| vec![0.0, 1.0, 0.0, 1.0]).collect();
    assert!(rule.predict_half_width(&alike, 4).unwrap() > 0.03);
    assert!(rule.predict_half_width(&alike, 400).unwrap() < 0.03);
    assert_eq!(rule.predict_half_width(&[[1.0], [0.0]], 5), None);
}
