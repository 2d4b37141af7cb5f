use std::collections::BTreeMap;
use std::time::Instant;

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::{Value, json};

use super::attempts::MOST_ATTEMPTS;
use super::task_map::MOST_TASKS;
use super::*;
use crate::report::samples::{
    build_job, column, empty_column, empty_summary, hostile_name, sample_job,
};
use crate::trial::TrialKey;

fn link(record: &TrialRecord) -> TrialLinks {
    let TrialKey { column, task, trial } = &record.key;
    let folder = PathBuf::from(format!("trials/{column}/{task}/{trial}"));
    TrialLinks { trajectories: vec![folder.join("trajectory-1.json")], folder: Some(folder) }
}

fn render(summary: &JobSummary, records: &[TrialRecord]) -> String {
    render_page(summary, records, &link).unwrap()
}

/// Parses the page as XML, which fails on any text that is not escaped.
fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page.trim_start(), options).unwrap()
}

/// Returns the figure in a text such as `67.1 %`, `at least $10.54` or `12 502`, and half of its last digit.
fn read_figure(text: &str) -> Option<(f64, f64)> {
    let number: String = text
        .trim_start_matches("at least ")
        .trim_start_matches("about ")
        .trim_start_matches('$')
        .trim_end_matches(" %")
        .replace('−', "-")
        .replace(' ', "");
    let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
    let scale = if text.ends_with('%') { 100.0 } else { 1.0 };
    let precision = 0.5000001 / 10_f64.powi(i32::try_from(digits).unwrap());
    Some((number.parse::<f64>().ok()? / scale, precision / scale))
}

/// Compares each figure of a page with the JSON that it says to be from. Returns the pointers.
fn assert_figures(page: &str, summary: &JobSummary, records: &[TrialRecord]) -> Vec<String> {
    let json = json!({"summary": summary, "trials": records});
    let find = |path: &str| json.pointer(path).unwrap_or_else(|| panic!("{path} is missing"));
    let document = parse(page);
    let mut paths = Vec::new();
    for node in document.descendants() {
        for (path, value) in [("data-path", "data-value"), ("data-x-path", "data-x-value")] {
            let Some(path) = node.attribute(path) else { continue };
            let shown: Value = serde_json::from_str(node.attribute(value).unwrap()).unwrap();
            let mut expected = find(path).clone();
            if let Some(divisor) = node.attribute("data-of") {
                expected = json!(expected.as_f64().unwrap() / find(divisor).as_f64().unwrap());
            }
            if expected.is_number() {
                assert_eq!(shown.as_f64(), expected.as_f64(), "{path}");
            } else {
                assert_eq!(shown, expected, "{path}");
            }
            paths.push(path.to_owned());
            assert_text(&node, path, &shown);
        }
    }
    paths
}

/// Fails if an element shows another figure than its attribute has.
fn assert_text(node: &Node<'_, '_>, path: &str, value: &Value) {
    if node.tag_name().name() != "span" {
        return;
    }
    let text = node.text().unwrap();
    let Some(value) = value.as_f64() else { return assert_eq!(text, value.as_str().unwrap()) };
    let scale = if path.contains("/difference/") { 100.0 } else { 1.0 };
    match read_figure(text) {
        Some((shown, precision)) => {
            assert!((shown - value * scale).abs() <= precision, "{path}: {text} for {value}");
        }
        None => assert!(path.ends_with("run_ms") || text.starts_with('<'), "{path}: {text}"),
    }
}

#[test]
fn every_figure_equals_the_json() {
    let (summary, records) = sample_job();
    let page = render(&summary, &records);
    let paths = assert_figures(&page, &summary, &records);
    let contains = |path: &str| assert!(paths.iter().any(|found| found == path), "{path}");
    for at in 0..summary.columns.len() {
        for figure in [
            "score/value",
            "score/low",
            "score/high",
            "solved",
            "judged",
            "planned",
            "retries",
            "cost_usd",
            "cost_per_solved_usd",
            "tokens/input",
            "tokens/output",
            "tokens/cache_read",
            "tokens/cache_write",
            "median_run_ms",
            "pass_at/2/value",
            "pass_hat/3/high",
            "faults/agent",
            "score_without_cheatable/value",
            "loop_figures/mean_iterations",
            "loop_figures/median_iterations_to_solve",
            "loop_figures/wasted_iterations",
            "loop_figures/claims",
            "loop_figures/false_completions",
            "loop_figures/reward_by_iteration/3",
            "tasks/11/solved",
            "tasks/0/mean_reward",
        ] {
            contains(&format!("/summary/columns/{at}/{figure}"));
        }
    }
    for figure in ["difference/value", "difference/low", "p_value", "tasks", "better", "worse"] {
        contains(&format!("/summary/comparisons/1/{figure}"));
    }
    contains("/summary/columns/2/cheating/wrote_reward");
    for at in 0..records.len() {
        contains(&format!("/trials/{at}/iterations"));
    }
}

/// Returns where the marks of an axis say that a value is drawn.
fn interpolate(ticks: &[(f64, f64)], value: f64) -> f64 {
    let ((v0, c0), (v1, c1)) = (ticks[0], ticks[ticks.len() - 1]);
    c0 + (value - v0) / (v1 - v0) * (c1 - c0)
}

#[test]
fn markers_are_where_the_axes_say() {
    let (summary, records) = sample_job();
    let page = render(&summary, &records);
    let document = parse(&page);
    let number = |node: &Node<'_, '_>, name: &str| node.attribute(name).unwrap().parse().unwrap();
    let mut markers = 0;
    for svg in document.descendants().filter(|node| node.has_tag_name("svg")).take(2) {
        let mut axes: BTreeMap<bool, Vec<(f64, f64)>> = BTreeMap::new();
        for tick in svg.descendants().filter(|node| node.has_attribute("data-tick")) {
            let is_vertical = tick.attribute("class").unwrap().contains("end");
            let at: f64 = number(&tick, if is_vertical { "y" } else { "x" });
            let coordinate = if is_vertical { at - 4.0 } else { at };
            axes.entry(is_vertical).or_default().push((number(&tick, "data-tick"), coordinate));
        }
        for marker in svg.descendants().filter(|node| node.has_tag_name("circle")) {
            markers += 1;
            let y = interpolate(&axes[&true], number(&marker, "data-value"));
            assert!((y - number(&marker, "cy")).abs() < 0.02, "{marker:?}");
            if marker.has_attribute("data-x-value") {
                let x = interpolate(&axes[&false], number(&marker, "data-x-value"));
                assert!((x - number(&marker, "cx")).abs() < 0.02, "{marker:?}");
            }
        }
    }
    assert_eq!(markers, 3 + 3 * 4);
}

#[test]
fn bars_are_as_long_as_their_counts() {
    let (summary, records) = sample_job();
    let page = render(&summary, &records);
    let document = parse(&page);
    let mut scales = Vec::new();
    for bar in document.descendants().filter(|node| node.has_tag_name("rect")) {
        let width: f64 = bar.attribute("width").unwrap().parse().unwrap();
        let count: f64 = bar.attribute("data-value").unwrap().parse().unwrap();
        scales.push(width / count);
    }
    let faults: usize = summary.columns.iter().map(|column| column.faults.len()).sum();
    assert_eq!(scales.len(), faults);
    assert!(scales.iter().all(|scale| (scale - scales[0]).abs() < 0.02), "{scales:?}");
}

/// Fails on elements and attributes that could load or run something.
fn assert_inert(document: &Document<'_>) {
    let allowed = [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "a",
        "header",
        "h1",
        "h2",
        "p",
        "nav",
        "main",
        "section",
        "ul",
        "li",
        "div",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "span",
        "figure",
        "figcaption",
        "svg",
        "line",
        "text",
        "g",
        "circle",
        "polyline",
        "rect",
        "details",
        "summary",
    ];
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(allowed.contains(&name), "<{name}>");
        for attribute in node.attributes() {
            let name = attribute.name();
            assert!(!name.starts_with("on") && name != "style" && name != "src", "{name}");
            if name == "href" {
                let target = attribute.value();
                assert!(target.starts_with('#') || target.starts_with("./"), "{target}");
                assert!(!target.contains(':'), "{target}");
            }
        }
    }
}

#[test]
fn loads_nothing_and_runs_nothing() {
    let (mut summary, mut records) = sample_job();
    summary.job = hostile_name();
    summary.columns[0].column.agent = hostile_name();
    summary.columns[0].tasks[0].task = "\" onmouseover=\"alert(1)".into();
    summary.comparisons[0].candidate.agent = "</style><script>alert(2)</script>".into();
    summary.warnings.push("{{ page }} {% for %} <img src=x onerror=alert(3)>".into());
    records[0].key.task = hostile_name();
    records[0].fault = Some(crate::trial::Fault {
        cause: crate::trial::Cause::Agent,
        kind: "<b>".into(),
        message: hostile_name(),
    });
    records[1].rewards = BTreeMap::from([("a/b~c\"<".to_owned(), 0.25)]);
    let page = render(&summary, &records);
    assert_figures(&page, &summary, &records);
    assert_inert(&parse(&page));
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    assert!(page.contains("default-src 'none'"));
    assert!(!page.chars().any(|c| c != '\n' && c.is_control()));
    assert!(!page.contains('\u{202e}'));
}

#[test]
fn links_only_to_relative_paths() {
    let (summary, records) = build_job(&[column("a")], &["t".into()], 1);
    let find = |_: &TrialRecord| TrialLinks {
        folder: Some("/etc/passwd".into()),
        trajectories: vec!["javascript:alert(1)".into(), "../x y/#?.json".into(), "".into()],
    };
    let page = render_page(&summary, &records, &find).unwrap();
    let document = parse(&page);
    let links: Vec<_> = document
        .descendants()
        .filter_map(|node| node.attribute("href"))
        .filter(|href| !href.starts_with('#'))
        .collect();
    assert_eq!(links, ["./javascript%3Aalert%281%29", "./../x%20y/%23%3F.json", "."]);
}

#[test]
fn each_section_has_a_heading_and_each_chart_a_name() {
    let (summary, records) = sample_job();
    let page = render(&summary, &records);
    let document = parse(&page);
    let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    for node in document.descendants() {
        let label = node.attribute("aria-labelledby");
        let anchor = node.attribute("href").and_then(|href| href.strip_prefix('#'));
        for id in label.into_iter().chain(anchor) {
            assert_eq!(ids.iter().filter(|found| **found == id).count(), 1, "{id}");
        }
        if node.has_tag_name("svg") {
            assert!(!node.attribute("aria-label").unwrap().is_empty());
        }
        if node.attribute("class") == Some("scroll") {
            assert_eq!(node.attribute("tabindex"), Some("0"), "reachable without a pointer");
        }
    }
}

#[test]
fn shows_jobs_without_columns_results_or_trials() {
    let summary = empty_summary();
    let page = render(&summary, &[]);
    assert_figures(&page, &summary, &[]);
    assert!(page.contains("The job has no columns.") && page.contains("No trial has ended."));
    assert!(!page.contains("<svg"));
    let mut summary = empty_summary();
    summary.columns.push(empty_column("alone"));
    let page = render(&summary, &[]);
    assert_figures(&page, &summary, &[]);
    assert!(!page.contains("<svg"));
}

#[test]
fn shows_one_and_eight_columns() {
    for count in [1, 8, 20] {
        let columns: Vec<_> = (0..count).map(|at| column(&format!("agent-{at}"))).collect();
        let (mut summary, records) = build_job(&columns, &["t".into(), "u".into()], 2);
        for column in &mut summary.columns {
            column.loop_figures.reward_by_iteration = vec![0.25; 150];
        }
        let page = render(&summary, &records);
        assert_figures(&page, &summary, &records);
        assert!(page.contains("Not all iterations are drawn."));
    }
}

#[test]
fn shows_rewards_beyond_one_and_figures_that_are_not_finite() {
    let (mut summary, records) = build_job(&[column("a"), column("b")], &["t".into()], 2);
    summary.columns[0].score.as_mut().unwrap().value = -3.5;
    summary.columns[1].loop_figures.reward_by_iteration = vec![0.0, 12.0];
    let page = render(&summary, &records);
    assert_figures(&page, &summary, &records);
    summary.columns[0].score.as_mut().unwrap().value = f64::NAN;
    summary.columns[1].cost_usd = Some(f64::INFINITY);
    parse(&render(&summary, &records));
}

#[test]
fn a_column_of_unknown_cost_has_no_place_in_the_chart_of_costs() {
    let (mut summary, records) = sample_job();
    let is_drawn = |summary: &JobSummary, at: usize| {
        let page = render(summary, &records).replace("&#x2f;", "/");
        page.contains(&format!("data-x-path=\"/summary/columns/{at}/cost_usd\""))
    };
    assert!(is_drawn(&summary, 0) && is_drawn(&summary, 1));
    (summary.columns[0].cost_usd, summary.columns[0].cost_unknown) = (None, 3);
    assert!(!is_drawn(&summary, 0) && is_drawn(&summary, 1));
    let page = render(&summary, &records);
    assert!(page.contains("not known"));
    assert_figures(&page, &summary, &records);
}

#[test]
fn bounds_the_rows_of_10_000_trials() {
    let columns = [column("a"), column("b")];
    let tasks: Vec<_> = (0..1_000).map(|at| format!("task-{at}")).collect();
    let (summary, mut records) = build_job(&columns, &tasks, 5);
    records.last_mut().unwrap().fault = Some(crate::trial::Fault {
        cause: crate::trial::Cause::Sandbox,
        kind: "the-last-fault".into(),
        message: String::new(),
    });
    let begun = Instant::now();
    let page = render(&summary, &records);
    let took = begun.elapsed();
    let document = parse(&page);
    let rows = document.descendants().filter(|node| node.has_tag_name("tr")).count();
    assert!(rows <= MOST_ATTEMPTS + MOST_TASKS + 50, "{rows} rows");
    let all = crate::report::figures::format_count(records.len() as u64);
    assert!(page.contains(&format!("2 000 of {all} attempts are shown")), "{all}");
    assert!(page.contains("500 of 1 000 tasks are shown"));
    assert!(page.contains("the-last-fault"), "faults come before others");
    // Two seconds are promised of an optimized build, which this need not be.
    assert!(took.as_secs() < 20, "{took:?}");
}
