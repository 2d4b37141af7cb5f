//! Reports good, bad and old.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_plugin_sdk::{
    BuildContext, CancelReason, CancelSignal, Claim, ClaimKind, ClaimSource,
    EvidenceValidator as _, NeverCancelled, ValidationContext, Verdict, async_trait, parse_config,
};
use serde_json::{Value, json};

use super::report::Report;
use super::{Config, JUnit};

const GOOD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="0" errors="0">
  <testsuite name="unit" tests="3">
    <testcase classname="a" name="one" time="0.1"/>
    <testcase classname="a" name="two"><system-out>fine</system-out></testcase>
    <testcase name="three"><skipped/></testcase>
  </testsuite>
</testsuites>"#;

fn build(table: Value, workspace: &Path) -> Result<JUnit, (Vec<String>, Option<String>)> {
    let context = BuildContext {
        config_dir: workspace.to_owned(),
        workspace: workspace.to_owned(),
        prompt_dir: workspace.to_owned(),
        path: String::new(),
    };
    parse_config::<Config>(table)
        .and_then(|config| JUnit::build(config, &context))
        .map_err(|error| (error.key, error.unknown_key))
}

/// A workspace with this report in it.
struct Place {
    folder: tempfile::TempDir,
    written_in: BTreeMap<String, u64>,
}

impl Place {
    fn with(report: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("reports")).unwrap();
        fs::write(folder.path().join("reports/junit.xml"), report).unwrap();
        Self { folder, written_in: BTreeMap::new() }
    }

    async fn validate(&self, tree_since: u64, cancel: &dyn CancelSignal) -> Verdict {
        let table = json!({"file": "reports/junit.xml"});
        let validator = build(table, self.folder.path()).unwrap();
        let claim = Claim {
            kind: ClaimKind::Complete,
            detector: "promise".to_owned(),
            source: ClaimSource::Message,
            text: "done".to_owned(),
        };
        let (env, changes): (BTreeMap<_, _>, Vec<_>) = Default::default();
        let context = ValidationContext {
            checkout: &[],
            output: None,
            run: "run",
            iteration: 3,
            claim: &claim,
            workspace: self.folder.path(),
            tree_since,
            written_in: &self.written_in,
            evidence_listed: true,
            protected_changes: &changes,
            env: &env,
        };
        validator.validate(context, cancel).await
    }

    async fn reasons(&self, tree_since: u64) -> String {
        match self.validate(tree_since, &NeverCancelled).await {
            Verdict::Rejected { reasons } => reasons.join("\n"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_good_report_is_evidence() {
    let place = Place::with(GOOD);
    let Verdict::Accepted { summary, evidence } = place.validate(2, &NeverCancelled).await else {
        panic!("not accepted")
    };
    assert_eq!(summary, "2 tests passed, 1 skipped");
    assert_eq!(evidence.len(), 1);
    assert_eq!(evidence[0].digest, blake3::hash(GOOD.as_bytes()).to_hex().to_string());
    assert_eq!(evidence[0].path, place.folder.path().join("reports/junit.xml"));
}

#[tokio::test]
async fn a_report_is_no_older_than_the_work() {
    let mut place = Place::with(GOOD);
    place.written_in.insert(blake3::hash(GOOD.as_bytes()).to_hex().to_string(), 2);
    assert!(place.validate(2, &NeverCancelled).await.is_accepted());
    assert!(place.reasons(3).await.contains("run the tests again"));
}

#[tokio::test]
async fn what_is_no_good_report_is_said_to_the_agent() {
    let case =
        |inner: &str| format!("<testsuite><testcase name='x'>{inner}</testcase></testsuite>");
    for (report, reason) in [
        (String::new(), "no JUnit XML"),
        ("<html/>".to_owned(), "begins with <html>"),
        (GOOD.replace("</testsuites>", ""), "no JUnit XML"),
        ("<testsuites/>".to_owned(), "0 tests ran"),
        (case("<skipped/>"), "0 tests ran"),
        (case("<failure>no</failure>"), "1 of 1 tests in reports/junit.xml failed: x"),
        (case("<error/>"), "failed: x"),
        (GOOD.replace("failures=\"0\"", "failures=\"2\""), "those that"),
        (case("").replace("<testcase", "<error/><testcase"), "failed: suite"),
        (format!("<!DOCTYPE x [<!ENTITY a 'b'>]>{}", case("")), "no JUnit XML"),
    ] {
        let said = Place::with(&report).reasons(1).await;
        assert!(said.contains(reason), "{report}: {said}");
    }
}

#[tokio::test]
async fn without_a_report_there_is_something_to_do() {
    let place = Place::with(GOOD);
    let path = place.folder.path().join("reports/junit.xml");
    fs::remove_file(&path).unwrap();
    assert!(place.reasons(1).await.contains("run the tests"));
    fs::create_dir(&path).unwrap();
    assert!(place.reasons(1).await.contains("is not a file"));
    fs::remove_dir(&path).unwrap();
    fs::write(&path, b"\xff\xfe").unwrap();
    assert!(place.reasons(1).await.contains("no UTF-8"));
}

struct Cancelled;

#[async_trait]
impl CancelSignal for Cancelled {
    async fn cancelled(&self) -> CancelReason {
        CancelReason::Signal
    }
}

#[tokio::test]
async fn who_is_not_waited_for_accepts_nothing() {
    let verdict = Place::with(GOOD).validate(1, &Cancelled).await;
    assert!(matches!(verdict, Verdict::Error { .. }), "{verdict:?}");
}

#[test]
fn many_failures_are_not_all_named() {
    let case = "<testcase name='t'><failure/></testcase>".repeat(30);
    let report = Report::read(&format!("<testsuite>{case}</testsuite>")).unwrap();
    assert_eq!((report.tests, report.failed.len()), (30, 30));
}

#[test]
fn tables_that_cannot_be() {
    let key = |key: &str| Err((vec![key.to_owned()], None));
    let built = |table| build(table, Path::new("/w")).map(|built| built.file);
    for file in ["junit.xml", "/reports/junit.xml", "../reports/junit.xml", "reports/../x/y", ""] {
        assert_eq!(built(json!({"file": file})), key("file"), "{file}");
    }
    assert_eq!(built(json!({"file": "r/j.xml", "min_tests": 0})), key("min_tests"));
    assert_eq!(
        built(json!({"file": "r/j.xml", "fiel": 1})),
        Err((vec![], Some("fiel".to_owned())))
    );
    assert_eq!(built(json!({"file": "r/j.xml"})), Ok(PathBuf::from("r/j.xml")));
    let validator = build(json!({"file": "r/j.xml"}), Path::new("/w")).unwrap();
    assert_eq!(validator.evidence_dirs(), [PathBuf::from("/w/r")]);
}
