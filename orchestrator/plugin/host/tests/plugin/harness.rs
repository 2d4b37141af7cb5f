//! Agents of real plugins, as the engine has them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ralph_orchestrator_contract::{
    Agent, AgentError, Budget, CancelSignal, Claim, ClaimKind, ClaimSource, CompletionDetector,
    EventSink, EvidenceValidator, FactoryError, Iteration, Report, ValidationContext, Verdict,
};
use ralph_orchestrator_plugin_host::{Plugin, PrivateCopy};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_testkit::RecordingSink;
use ralph_orchestrator_testkit::processes::marked;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::session::{LONG, context};

/// By which processes of a test are told from others.
const MARK: &str = "RALPH_TEST_MARK";

/// A plugin and what starts its processes.
pub(crate) struct PluginHarness {
    pub(crate) plugin: Arc<Plugin>,
    supervisor: Supervisor,
    env: BTreeMap<String, String>,
}

impl PluginHarness {
    pub(crate) fn new(copy: &PrivateCopy) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("plugin-{}-{number}", std::process::id());
        let path = std::env::var("PATH").unwrap();
        let env = BTreeMap::from([("PATH".to_owned(), path), (MARK.to_owned(), mark)]);
        let host = env!("CARGO_BIN_EXE_ralph-plugin-host");
        let supervisor = Supervisor::new(host.into(), Vec::new());
        let plugin = Plugin::library("mine", copy.clone(), env.clone());
        Self { plugin: Arc::new(plugin), supervisor, env }
    }

    pub(crate) async fn agent(&self) -> Box<dyn Agent> {
        self.try_agent(json!({})).await.unwrap()
    }

    /// An agent, or why there is none.
    pub(crate) async fn try_agent(&self, table: Value) -> Result<Box<dyn Agent>, String> {
        let context = context();
        let agent = self.plugin.agent(None, table, &context, &self.supervisor);
        timeout(LONG, agent).await.expect("in time").map_err(|error| error.to_string())
    }

    pub(crate) async fn detector(
        &self,
        table: Value,
    ) -> Result<Box<dyn CompletionDetector>, FactoryError> {
        let context = context();
        let detector = self.plugin.detector(None, table, &context, &self.supervisor);
        timeout(LONG, detector).await.expect("in time")
    }

    pub(crate) async fn validator(&self) -> Box<dyn EvidenceValidator> {
        let context = context();
        let validator = self.plugin.validator(None, json!({}), &context, &self.supervisor);
        timeout(LONG, validator).await.expect("in time").unwrap()
    }

    /// What a validator says about a claim with this text.
    pub(crate) async fn verdict(
        &self,
        validator: &dyn EvidenceValidator,
        text: &str,
        cancel: &dyn CancelSignal,
    ) -> Verdict {
        let claim = Claim {
            kind: ClaimKind::Complete,
            detector: "d".into(),
            source: ClaimSource::State,
            text: text.into(),
        };
        let context = ValidationContext {
            checkout: &[],
            output: None,
            run: "r-1",
            iteration: 7,
            claim: &claim,
            workspace: Path::new("/"),
            tree_since: 0,
            written_in: &BTreeMap::new(),
            evidence_listed: true,
            protected_changes: &[],
            env: &self.env,
        };
        timeout(LONG, validator.validate(context, cancel)).await.expect("in time")
    }

    pub(crate) fn task(&self, prompt: &str) -> Iteration {
        Iteration {
            run: "r-1".into(),
            number: 7,
            prompt: prompt.into(),
            workspace: "/".into(),
            env: self.env.clone(),
            budget: Budget::default(),
            scratch: Path::new("/tmp").into(),
        }
    }

    pub(crate) async fn run_with(
        &self,
        agent: &dyn Agent,
        prompt: &str,
        sink: &dyn EventSink,
    ) -> Result<Report, AgentError> {
        timeout(3 * LONG, agent.run(self.task(prompt), sink)).await.expect("in time")
    }

    pub(crate) async fn run(&self, agent: &dyn Agent, prompt: &str) -> Result<Report, AgentError> {
        self.run_with(agent, prompt, &RecordingSink::new()).await
    }

    /// What it said, of a run that has to go well.
    pub(crate) async fn said(&self, agent: &dyn Agent, prompt: &str) -> String {
        self.run(agent, prompt).await.unwrap().final_text.unwrap()
    }

    /// Class and message of a run that has to fail.
    pub(crate) async fn failure(&self, agent: &dyn Agent, prompt: &str) -> String {
        let error = self.run(agent, prompt).await.expect_err(prompt);
        format!("{}: {error}", error.class.word())
    }

    /// Waits until no process of the harness is there.
    pub(crate) async fn nothing_is_left(&self) {
        let left = || marked(MARK, &self.env[MARK]);
        let gone = async {
            while !left().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = timeout(LONG, gone).await;
        assert!(result.is_ok(), "processes were left: {:?}", left());
    }
}
