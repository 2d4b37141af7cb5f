//! A place to validate in.

use std::collections::BTreeMap;
use std::ops::Deref;

use ralph_orchestrator_contract::{
    CancelReason, CancelSignal, Change, CheckOutput, Claim, ClaimKind, ClaimSource,
    EvidenceValidator, NeverCancelled, ValidationContext, Verdict, async_trait,
};
use ralph_orchestrator_testkit::TestWorkspace;
use ralph_orchestrator_testkit::shim::supervisor;
use serde_json::{Value, json};
use tokio::sync::watch;

/// A workspace, a folder for the configuration, and a run id of its own.
pub(crate) struct Place(TestWorkspace);

impl Deref for Place {
    type Target = TestWorkspace;

    fn deref(&self) -> &TestWorkspace {
        &self.0
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(TestWorkspace::new("workspace"))
    }

    pub(crate) fn build(&self, config: Value) -> Box<dyn EvidenceValidator> {
        ralph_validator_command::build(config, &self.context(), &supervisor()).unwrap()
    }

    /// One validation, after which none of its processes may be left.
    pub(crate) async fn validate_with(
        &self,
        config: Value,
        changes: &[Change],
        cancel: &dyn CancelSignal,
    ) -> Verdict {
        self.validate_to(config, changes, (cancel, None)).await
    }

    /// One validation whose output is received.
    pub(crate) async fn validate_to(
        &self,
        config: Value,
        changes: &[Change],
        (cancel, output): (&dyn CancelSignal, Option<&dyn CheckOutput>),
    ) -> Verdict {
        let validator = self.build(config);
        let (kind, source) = (ClaimKind::Complete, ClaimSource::Message);
        let claim = Claim { kind, detector: "promise".into(), source, text: "x".into() };
        let env = BTreeMap::from([("PATH".to_owned(), self.context().path)]);
        let context = ValidationContext {
            checkout: &[],
            output,
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
        self.finish(validator.validate(context, cancel)).await
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
