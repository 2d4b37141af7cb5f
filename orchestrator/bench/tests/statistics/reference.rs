//! The same figures by scipy and statsmodels, in one Python process for each test.

#![allow(clippy::disallowed_methods)] // A short-lived process of a test, waited for here.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use ralph_orchestrator_bench::statistics::distribution::{
    fair_coin_at_most, normal_quantile, normal_tail, student_quantile, student_tail, t_test_power,
};
use ralph_orchestrator_bench::statistics::interval::{estimate_mean, wilson_interval};
use ralph_orchestrator_bench::statistics::paired::{
    PairedTest, TaskPair, compare_pairs, compute_sign_p,
};
use ralph_orchestrator_bench::statistics::passes::Passes;
use ralph_orchestrator_bench::statistics::plan::{PlanRequest, plan};
use ralph_orchestrator_bench::statistics::random::SeededRandom;
use ralph_orchestrator_bench::statistics::variance::DifferenceVariance;

/// Far above what the slowest case takes on a busy machine: importing the packages takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Cases, each with what the crate computes.
#[derive(Default)]
struct Cases {
    calls: Vec<Value>,
    ours: Vec<Vec<f64>>,
}

impl Cases {
    fn add(&mut self, call: Value, ours: &[f64]) {
        self.calls.push(call);
        self.ours.push(ours.to_vec());
    }

    /// Compares all, relative to the larger of both, or to `floor` where both are below it.
    fn check(&self, tolerance: f64, floor: f64) {
        let theirs = compute(&self.calls);
        assert_eq!(theirs.len(), self.calls.len());
        let mut wrong = Vec::new();
        for ((call, ours), theirs) in self.calls.iter().zip(&self.ours).zip(&theirs) {
            assert_eq!(ours.len(), theirs.len(), "{call}");
            for (a, b) in ours.iter().zip(theirs) {
                let error = (a - b).abs() / a.abs().max(b.abs()).max(floor);
                if a != b && (error.is_nan() || error > tolerance) {
                    wrong.push(format!(
                        "{call}: ours {a:e}, theirs {b:e}, relative error {error:e}"
                    ));
                }
            }
        }
        let first = wrong.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        assert!(wrong.is_empty(), "{} of {} differ:\n{first}", wrong.len(), self.calls.len());
    }
}

fn compute(calls: &[Value]) -> Vec<Vec<f64>> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let python = repository.join("target/python/bin/python");
    assert!(
        repository.join("target/python/installed-requirements.txt").exists() && python.exists(),
        "{} is missing or incomplete: run `scripts/install-python-tools` in {} once",
        python.display(),
        repository.display()
    );
    let mut child = Command::new(python)
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/statistics/reference.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&serde_json::to_vec(calls).unwrap()).unwrap();
    drop(input);
    let output = child.stdout.take().unwrap();
    let (send, receive) = mpsc::channel();
    let reader = thread::spawn(move || send.send(serde_json::from_reader(output)));
    let results = receive.recv_timeout(PATIENCE);
    if results.is_err() {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    reader.join().unwrap().unwrap();
    assert!(status.success(), "the reference ended with {status}; what it says is above");
    results.unwrap().unwrap()
}

const LEVELS: [f64; 4] = [0.8, 0.9, 0.95, 0.999];

#[test]
fn distributions_are_those_of_scipy() {
    let mut cases = Cases::default();
    let tails = [1e-200, 1e-12, 1e-6, 0.000_5, 0.005, 0.025, 0.1, 0.25, 0.4, 0.499];
    for tail in tails {
        cases.add(json!(["normal_quantile", tail]), &[normal_quantile(tail)]);
    }
    let places = [0.0, 1e-9, 1e-4, 0.01, 0.3, 1.0, 1.7, 2.5, 6.0, 12.0, 30.0, 400.0];
    for x in places.into_iter().filter(|x| *x < 38.0) {
        cases.add(json!(["normal_tail", x]), &[normal_tail(x)]);
        cases.add(json!(["normal_tail", -x]), &[normal_tail(-x)]);
    }
    for freedom in
        [0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 39.0, 88.0, 99.0, 101.0, 500.0, 9_999.0, 1e5, 1e6, 1e7]
    {
        for x in places {
            cases.add(json!(["student_tail", x, freedom]), &[student_tail(x, freedom)]);
            cases.add(json!(["student_tail", -x, freedom]), &[student_tail(-x, freedom)]);
        }
        for tail in tails.into_iter().filter(|tail| *tail > 1e-100) {
            cases.add(
                json!(["student_quantile", tail, freedom]),
                &[student_quantile(tail, freedom)],
            );
        }
    }
    cases.check(1e-9, 1e-280);
}

#[test]
fn exact_tests_of_two_columns_are_those_of_scipy_and_statsmodels() {
    let mut cases = Cases::default();
    for trials in [1, 2, 3, 10, 33, 89, 500, 1_000, 3_000, 10_000_u64] {
        for part in 0..=12 {
            let successes = trials * part / 12;
            cases.add(
                json!(["fair_coin_at_most", successes, trials]),
                &[fair_coin_at_most(successes, trials)],
            );
        }
    }
    for better in 0..=12 {
        for worse in 0..=12 {
            if better + worse > 0 {
                cases.add(json!(["mcnemar", better, worse]), &[compute_sign_p(better, worse)]);
            }
        }
    }
    cases.check(1e-9, 1e-280);
}

#[test]
fn wilson_intervals_are_those_of_statsmodels() {
    let mut cases = Cases::default();
    for count in [1_u32, 2, 5, 40, 89, 400, 10_000] {
        for part in 0..=10 {
            let solved = f64::from(count * part / 10);
            for level in LEVELS {
                let (low, high) = wilson_interval(solved, f64::from(count), level).unwrap();
                cases.add(json!(["wilson", solved, count, level]), &[low, high]);
            }
        }
    }
    cases.check(1e-9, 1e-6);
}

/// Rewards of tasks that differ, with different numbers of trials, all above 1 so that no interval is clipped.
fn draw_tasks(random: &mut SeededRandom, tasks: usize, most_trials: u64) -> Vec<Vec<f64>> {
    (0..tasks)
        .map(|_| {
            let level = random.draw_unit();
            (0..=random.draw_bits() % most_trials)
                .map(|_| level + 2.0 * random.draw_unit() + 1.5)
                .collect()
        })
        .collect()
}

#[test]
fn means_over_tasks_are_those_of_a_regression_with_clusters() {
    let mut cases = Cases::default();
    let mut random = SeededRandom::from_seed(7);
    for tasks in [2, 3, 5, 12, 40, 89, 300] {
        for most_trials in [1, 2, 5, 10] {
            for level in LEVELS {
                let rewards = draw_tasks(&mut random, tasks, most_trials);
                let ours = estimate_mean(&rewards, level).unwrap();
                cases.add(
                    json!(["cluster_mean", rewards, level]),
                    &[
                        ours.value,
                        ours.standard_error.unwrap(),
                        ours.low.unwrap(),
                        ours.high.unwrap(),
                    ],
                );
            }
        }
    }
    cases.check(1e-9, 1e-280);
}

#[test]
fn paired_differences_are_those_of_scipy() {
    let mut cases = Cases::default();
    let mut random = SeededRandom::from_seed(8);
    for tasks in [2, 3, 5, 12, 40, 89, 300] {
        for most_trials in [1, 2, 5, 10] {
            for level in LEVELS {
                let baseline = draw_tasks(&mut random, tasks, most_trials);
                let candidate = draw_tasks(&mut random, tasks, most_trials);
                let pairs: Vec<TaskPair> = baseline
                    .iter()
                    .zip(&candidate)
                    .map(|(a, b)| TaskPair { baseline: a.clone(), candidate: b.clone() })
                    .collect();
                let ours = compare_pairs(&pairs, level);
                assert_eq!(ours.test, PairedTest::PairedT);
                let difference = ours.difference.unwrap();
                cases.add(
                    json!(["paired", baseline, candidate, level]),
                    &[
                        difference.value,
                        difference.standard_error.unwrap(),
                        difference.low.unwrap(),
                        difference.high.unwrap(),
                        ours.p_value.unwrap(),
                    ],
                );
            }
        }
    }
    cases.check(1e-9, 1e-280);
}

#[test]
fn passes_are_the_fractions_of_binomial_coefficients() {
    let mut cases = Cases::default();
    for trials in [1_u64, 2, 5, 10, 100, 1_000, 10_000] {
        for solved in [0, 1, 2, trials / 3, trials / 2, trials - 1, trials] {
            for k in [1, 2, 3, trials / 10, trials / 2, trials - 1, trials] {
                if k >= 1 && k <= trials && solved <= trials {
                    let passes = Passes { trials, solved };
                    cases.add(
                        json!(["passes", trials, solved, k]),
                        &[passes.pass_at(k).unwrap(), passes.pass_hat(k).unwrap()],
                    );
                }
            }
        }
    }
    cases.check(1e-9, 1e-280);
}

// Scipy gives no lower tail for a shift of 8.
#[test]
fn power_is_that_of_statsmodels() {
    let mut cases = Cases::default();
    for freedom in [1.0, 2.0, 3.0, 9.0, 39.0, 88.0, 999.0, 100_000.0] {
        for shift in [0.0, 0.1, 0.5, 1.0, 1.96, 2.8, 4.0, 5.0] {
            for significance in [0.001, 0.05, 0.2] {
                cases.add(
                    json!(["t_test_power", shift, freedom, significance]),
                    &[t_test_power(shift, freedom, significance)],
                );
            }
        }
    }
    cases.check(1e-8, 1e-280);
}

#[test]
fn planned_tasks_are_those_of_statsmodels() {
    let (mut calls, mut ours) = (Vec::new(), Vec::new());
    for detect in [0.05, 0.1, 0.3] {
        for power in [0.5, 0.8, 0.95] {
            let variance = DifferenceVariance { within: 0.3, between: 0.05 };
            let request = PlanRequest {
                detect,
                significance: 0.05,
                power,
                tasks: 40,
                max_trials: 100,
                variance,
                single_trials: PairedTest::PairedT,
                cost_per_trial_usd: None,
            };
            for size in plan(&request).unwrap().with_more_tasks {
                let deviation = (0.05 + 0.3 / f64::from(size.trials_per_task)).sqrt();
                calls.push(json!(["t_test_size", detect / deviation, 0.05, power]));
                ours.push(size.tasks);
            }
        }
    }
    assert_eq!(ours.len(), 45, "all of these can be shown");
    for ((theirs, ours), call) in compute(&calls).iter().zip(&ours).zip(&calls) {
        assert_eq!(*ours as f64, theirs[0].ceil(), "{call}");
    }
}
