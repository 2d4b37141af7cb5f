//! Figures of any records agree with each other.

use std::collections::BTreeMap;

use proptest::prelude::*;

use ralph_orchestrator_bench::summary::{JobSummary, SummaryOptions, summarize};
use ralph_orchestrator_bench::trial::TrialRecord;
use ralph_orchestrator_contract::Usd;

use super::fixtures::{plan, point, record};

prop_compose! {
    fn any_record()(
        agent in 0..3_usize,
        task in 0..5_usize,
        trial in 1..4_u32,
        attempt in 1..4_u32,
        reward in prop_oneof![Just(None), Just(Some(0.0)), Just(Some(1.0)), (-1.0..3.0).prop_map(Some)],
        dollars in prop::option::of(0.0..2.0),
        curve in prop::collection::vec((0..20_u64, prop::option::of(0.0..1.5)), 0..4),
        iterations in any::<u64>(),
    ) -> TrialRecord {
        let mut record = record(["a", "b", "c"][agent], &format!("t{task}"), trial, reward);
        record.attempt = attempt;
        record.usage.cost = dollars.and_then(Usd::from_dollars);
        record.curve = curve.into_iter().map(|(iteration, reward)| point(iteration, reward)).collect();
        record.iterations = iterations;
        record
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_give_figures_that_agree_with_each_other(
        records in prop::collection::vec(any_record(), 0..40),
        seed in any::<u64>(),
    ) {
        let planned = plan(&["a", "b"], &["t0", "t1", "t2"], 3);
        let options = SummaryOptions { seed, ..SummaryOptions::default() };
        let summary = summarize("job", &planned, &records, &options);
        prop_assert_eq!(&summary, &summarize("job", &planned, &records, &options));
        let text = serde_json::to_string(&summary).unwrap();
        prop_assert!(serde_json::from_str::<JobSummary>(&text).is_ok(), "an infinite figure: {}", text);
        let mut attempts = BTreeMap::new();
        for record in &records {
            attempts.insert((&record.key, record.attempt), record.usage.cost);
        }
        let spent: Usd = attempts.values().map(|cost| cost.unwrap_or_default()).sum();
        let summed: f64 = summary.columns.iter().filter_map(|column| column.cost_usd).sum();
        prop_assert!((spent.dollars() - summed).abs() < 1e-9);
        let ended: u64 = summary.columns.iter().map(|column| column.ended + column.retries).sum();
        prop_assert_eq!(ended, attempts.len() as u64);
        for column in &summary.columns {
            prop_assert!(column.solved <= column.judged && column.judged <= column.ended);
            prop_assert_eq!(column.judged, column.tasks.iter().map(|task| task.judged).sum::<u64>());
            let tasks: f64 = column.tasks.iter().filter_map(|task| task.cost_usd).sum();
            prop_assert!((tasks - column.cost_usd.unwrap_or_default()).abs() < 1e-9);
            for estimate in column.score.iter().chain(column.pass_at.values()).chain(column.pass_hat.values()) {
                prop_assert!(estimate.low.is_none_or(|low| low <= estimate.value));
                prop_assert!(estimate.high.is_none_or(|high| high >= estimate.value));
            }
            let at: Vec<f64> = column.pass_at.values().map(|estimate| estimate.value).collect();
            prop_assert!(at.is_sorted_by(|a, b| a <= &(b + 1e-12)), "{:?}", at);
            let hat: Vec<f64> = column.pass_hat.values().map(|estimate| estimate.value).collect();
            prop_assert!(hat.is_sorted_by(|a, b| &(a + 1e-12) >= b), "{:?}", hat);
        }
    }
}
