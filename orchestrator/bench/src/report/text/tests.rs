use proptest::prelude::*;
use ralph_orchestrator_text::columns;

use super::*;
use crate::report::samples::{
    build_job, column, empty_column, empty_summary, hostile_name, sample_summary,
};

fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(columns(line) <= width, "{} columns: {line:?}", columns(line));
        assert!(!line.ends_with(' '), "{line:?}");
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn shows_the_figures_of_each_column_in_80_columns() {
    let summary = sample_summary();
    let text = render_summary(&summary, 80);
    assert_fits(&text, 80);
    let row = text.lines().find(|line| line.trim_start().starts_with("codex")).unwrap();
    let codex = &summary.columns[2];
    for figure in [codex.solved, codex.judged, codex.planned] {
        assert!(row.split_whitespace().any(|cell| cell == figure.to_string()), "{row}");
    }
    for expected in ["pass@k", "pass^k", "per solved", "wrote a reward file 3", "4.2 points worse"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn shows_tasks_by_columns() {
    let text = render_tasks(&sample_summary(), 80);
    assert_fits(&text, 80);
    assert!(text.contains("zip-slip *"), "{text}");
    assert!(text.contains("0/3 0.50"), "{text}");
    assert_eq!(render_tasks(&empty_summary(), 80), "");
}

#[test]
fn fits_eight_columns() {
    let columns: Vec<_> = (1..=8).map(|at| column(&format!("agent-number-{at}"))).collect();
    let (summary, _) = build_job(&columns, &["a-task".into(), "another".into()], 2);
    for width in [24, 40, 80, 132, 200] {
        assert_fits(&render_summary(&summary, width), width);
        assert_fits(&render_tasks(&summary, width), width);
    }
}

#[test]
fn shows_an_empty_job_and_one_without_results() {
    assert_eq!(
        render_summary(&empty_summary(), 80),
        "Job empty: 0 columns, 0 trials planned, 0 ended, 0 judged; intervals at 95 %\n"
    );
    let mut summary = empty_summary();
    summary.columns.push(empty_column("alone"));
    let text = render_summary(&summary, 80);
    assert_fits(&text, 80);
    let row = text.lines().find(|line| line.trim_start().starts_with("alone")).unwrap();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>(),
        ["alone", "–", "–", "0", "0", "0", "–", "none"]
    );
}

#[test]
fn keeps_hostile_names_harmless() {
    let mut summary = sample_summary();
    summary.job = hostile_name();
    summary.columns[0].column.agent = hostile_name();
    summary.columns[0].tasks[0].task = hostile_name();
    summary.comparisons[0].baseline.agent = hostile_name();
    summary.warnings.push(hostile_name());
    for width in [0, 24, 80] {
        assert_fits(&render_summary(&summary, width), width.max(LEAST_WIDTH));
        assert_fits(&render_tasks(&summary, width), width.max(LEAST_WIDTH));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn never_exceeds_the_width(name in "\\PC{1,60}", task in ".{1,60}", width in 24_usize..160) {
        let (summary, _) = build_job(&[column(&name), column("b")], &[task, "t".into()], 2);
        assert_fits(&render_summary(&summary, width), width);
        assert_fits(&render_tasks(&summary, width), width);
    }
}
