//! How many runs an explanation takes.

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_explain::{PartVerdict, VariantOutcome};

use crate::fixture::{explain_work, files, red};

/// Independent parts; 70 of 100 of those that are not needed are predicted, and wrongly 5 of 100 of those needed.
fn average_runs(parts: usize, needed: usize) -> f64 {
    const ROUNDS: u32 = 60;
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut runs = 0;
    for _ in 0..ROUNDS {
        let mut rows = Vec::new();
        let mut must_stay = BTreeSet::new();
        for number in 0..parts {
            let is_needed = number < needed;
            let predicted = if is_needed { 5 } else { 70 };
            let ending = if random(100) < predicted { "md" } else { "py" };
            let path = format!("{:03}-{number}.{ending}", random(1000));
            if is_needed {
                must_stay.insert(path.clone());
            }
            rows.push(path);
        }
        let rows: Vec<_> = rows.iter().map(|path| (path.as_str(), "a\n", "b\n")).collect();
        let found = explain_work(&files(&rows), |tree, _| {
            match must_stay.iter().all(|path| tree[path] == "b\n") {
                true => VariantOutcome::Green,
                false => red(&["t"]),
            }
        });
        runs += found.runs;
        let found: BTreeMap<_, _> = found.parts.iter().map(|p| (&p.path, &p.verdict)).collect();
        for (path, verdict) in found {
            let is_needed = matches!(verdict, PartVerdict::Needed { .. });
            assert_eq!(is_needed, must_stay.contains(path));
        }
    }
    f64::from(u32::try_from(runs).unwrap()) / f64::from(ROUNDS)
}

#[test]
fn most_parts_of_a_patch_are_needed_and_take_one_run_each() {
    for (parts, needed, most) in
        [(5, 3, 5.0), (12, 8, 11.0), (30, 20, 28.0), (30, 6, 16.0), (80, 50, 74.0), (80, 10, 37.0)]
    {
        let average = average_runs(parts, needed);
        assert!(average <= most + 1.0, "{parts} parts, {needed} needed: {average}");
    }
}
