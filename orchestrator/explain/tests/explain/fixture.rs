//! Checks that are predicates over the files of a variant, with a clock of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_explain::{
    CheckedVariant, ExplainConditions, Explanation, FileContent, FileRole, PartVerdict,
    PatchVariant, VariantChecker, VariantOutcome, WorkFile, explain,
};

/// The texts of a variant by path.
pub(crate) type Tree = BTreeMap<String, String>;

/// Text files of the work: path, base, work; an empty text is no file.
pub(crate) fn files(rows: &[(&str, &str, &str)]) -> BTreeMap<String, WorkFile> {
    let content =
        |text: &str| (!text.is_empty()).then(|| FileContent::from_bytes(text.as_bytes().to_vec()));
    let row = |(path, base, work): &(&str, &str, &str)| {
        let role = match *path {
            path if path.starts_with("own_test") => FileRole::OwnTest,
            "pyproject.toml" => FileRole::SteersChecks,
            _ => FileRole::Work,
        };
        ((*path).to_owned(), WorkFile { base: content(base), work: content(work), role })
    };
    rows.iter().map(row).collect()
}

pub(crate) fn red(tests: &[&str]) -> VariantOutcome {
    let failed = tests.iter().map(|test| (*test).to_owned()).collect();
    VariantOutcome::Red { failed, is_built: true }
}

pub(crate) fn not_built() -> VariantOutcome {
    VariantOutcome::Red { failed: BTreeSet::new(), is_built: false }
}

/// Says what the checks say about a tree; the number counts the runs.
pub(crate) struct Predicate<F> {
    pub(crate) check: F,
    pub(crate) rewrites: Option<(String, String)>,
    pub(crate) runs: u64,
}

#[async_trait]
impl<F: FnMut(&Tree, u64) -> VariantOutcome + Send> VariantChecker for Predicate<F> {
    async fn check_variant(&mut self, variant: &PatchVariant, limit: Duration) -> CheckedVariant {
        assert!(limit <= Duration::from_secs(5));
        self.runs += 1;
        let mut tree = Tree::new();
        for (path, content) in &variant.files {
            if let Some(FileContent::Regular { bytes, .. }) = content {
                tree.insert(path.clone(), String::from_utf8_lossy(bytes).into_owned());
            }
        }
        let rewrites = self.rewrites.iter();
        let rewritten = rewrites.filter(|(path, text)| tree.get(path) != Some(text));
        let rewritten = rewritten.map(|(path, _)| path.clone()).collect();
        CheckedVariant { outcome: (self.check)(&tree, self.runs), rewritten }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.runs)
    }
}

/// Waits for what never has to wait.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the fixture never waits"),
    }
}

pub(crate) fn conditions(base: VariantOutcome, budget: u64) -> ExplainConditions {
    ExplainConditions {
        base: Some(base),
        green_run: Duration::from_secs(1),
        budget: Duration::from_secs(budget),
    }
}

/// Explains work whose test `t` failed at the base.
pub(crate) fn explain_work(
    files: &BTreeMap<String, WorkFile>,
    check: impl FnMut(&Tree, u64) -> VariantOutcome + Send,
) -> Explanation {
    let mut checker = Predicate { check, rewrites: None, runs: 0 };
    block_on(explain(files, &conditions(red(&["t"]), 10_000), &mut checker))
}

/// The verdicts of a file's parts in words.
pub(crate) fn verdicts(explanation: &Explanation, path: &str) -> Vec<String> {
    let parts = explanation.parts.iter().filter(|part| part.path == path);
    parts.map(|part| word(&part.verdict)).collect()
}

pub(crate) fn word(verdict: &PartVerdict) -> String {
    match verdict {
        PartVerdict::Needed { tests } => format!("needed {}", tests.join(" ")),
        PartVerdict::HoldsBuild => "build".to_owned(),
        PartVerdict::DoesNotEnd => "endless".to_owned(),
        PartVerdict::OneIsEnough { groups } => format!("one of {groups:?}"),
        PartVerdict::OnlyOwnTests => "own".to_owned(),
        PartVerdict::RewrittenByChecks => "rewritten".to_owned(),
        PartVerdict::Unstable => "unstable".to_owned(),
        PartVerdict::NoCheckNotices => "unnoticed".to_owned(),
        PartVerdict::NotTried => "not tried".to_owned(),
    }
}
