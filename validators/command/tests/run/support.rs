//! A place to validate in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_contract::{
    BuildContext, CancelReason, CancelSignal, Change, Claim, ClaimKind, ClaimSource,
    EvidenceValidator, NeverCancelled, ValidationContext, Verdict, async_trait,
};
use ralph_orchestrator_testkit::shim::supervisor;
use serde_json::{Value, json};
use tokio::sync::watch;

/// More than any of these validations takes.
const PATIENCE: Duration = Duration::from_secs(180);

/// A workspace, a folder for the configuration, and a run id of its own.
pub(crate) struct Place {
    pub(crate) root: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    run: String,
    path: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        let workspace = real.join("workspace");
        fs::create_dir(&workspace).unwrap();
        let (run, path) = (format!("test{}", real.display()), std::env::var("PATH").unwrap());
        Self { root, workspace, run, path }
    }

    pub(crate) fn build(&self, config: Value) -> Box<dyn EvidenceValidator> {
        let context = BuildContext {
            config_dir: self.root.path().to_owned(),
            workspace: self.workspace.clone(),
            prompt_dir: self.workspace.clone(),
            path: self.path.clone(),
        };
        ralph_validator_command::build(config, &context, &supervisor()).unwrap()
    }

    /// One validation, after which none of its processes may be left.
    pub(crate) async fn validate_with(
        &self,
        config: Value,
        changes: &[Change],
        cancel: &dyn CancelSignal,
    ) -> Verdict {
        let validator = self.build(config);
        let (kind, source) = (ClaimKind::Complete, ClaimSource::Message);
        let claim = Claim { kind, detector: "promise".into(), source, text: "x".into() };
        let env = BTreeMap::from([("PATH".to_owned(), self.path.clone())]);
        let context = ValidationContext {
            run: &self.run,
            iteration: 3,
            claim: &claim,
            workspace: &self.workspace,
            tree_since: 3,
            written_in: &BTreeMap::new(),
            evidence_listed: true,
            protected_changes: changes,
            env: &env,
        };
        let verdict = tokio::time::timeout(PATIENCE, validator.validate(context, cancel)).await;
        assert!(!self.has_processes(), "all processes are gone");
        verdict.expect("the validation has an end")
    }

    pub(crate) async fn validate(&self, config: Value) -> Verdict {
        self.validate_with(config, &[], &NeverCancelled).await
    }

    /// `sh -c SCRIPT` with further keys.
    pub(crate) async fn shell(&self, script: &str, keys: Value) -> Verdict {
        let mut config = json!({"program": ["sh", "-c", script]});
        config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        self.validate(config).await
    }

    fn has_processes(&self) -> bool {
        let wanted = format!("RALPH_RUN_ID={}", self.run);
        let has_it = |path: &Path| {
            fs::read(path.join("environ"))
                .is_ok_and(|env| env.split(|byte| *byte == 0).any(|var| var == wanted.as_bytes()))
        };
        fs::read_dir("/proc").unwrap().filter_map(Result::ok).any(|entry| has_it(&entry.path()))
    }
}

/// The summary of an acceptance.
pub(crate) fn summary(verdict: Verdict) -> String {
    match verdict {
        Verdict::Accepted { summary, evidence } if evidence.is_empty() => summary,
        other => panic!("{other:?}"),
    }
}

/// The only reason of a rejection.
pub(crate) fn reason(verdict: Verdict) -> String {
    match verdict {
        Verdict::Rejected { reasons } if reasons.len() == 1 => reasons[0].clone(),
        other => panic!("{other:?}"),
    }
}

/// Why it could not be checked.
pub(crate) fn error(verdict: Verdict) -> String {
    match verdict {
        Verdict::Error { message } => message,
        other => panic!("{other:?}"),
    }
}

/// Says that the time is up when it is told so.
pub(crate) struct Alarm(pub(crate) watch::Sender<bool>);

#[async_trait]
impl CancelSignal for Alarm {
    async fn cancelled(&self) -> CancelReason {
        self.0.subscribe().wait_for(|up| *up).await.unwrap();
        CancelReason::Timeout
    }
}
