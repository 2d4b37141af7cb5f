//! A harness that runs an iteration of an adapter for a real agent, with its own model, home and workspace.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_conformance::agent_env::{claude_env, no_network};
use ralph_orchestrator_conformance::model_server::{ModelServer, Reply, Script, Turn};
use ralph_orchestrator_conformance::processes::marked;
use ralph_orchestrator_conformance::{BusyTool, RecordingSink};
use ralph_orchestrator_contract::{
    Agent, AgentError, Budget, BuildContext, BuildError, CancelReason, ErrorClass, Iteration,
    Report, Tokens,
};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{claude_binary, shim};

/// Far longer than any iteration takes, even when all run at once.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The environment variable that identifies the processes of a test.
const MARK: &str = "RALPH_TEST_MARK";

/// An adapter under test.
pub trait Adapter {
    /// Builds the agent.
    ///
    /// # Errors
    /// As the adapter's own.
    fn build(
        config: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn Agent>, BuildError>;

    /// Returns the real agent's program; `claude` by default.
    #[must_use]
    fn program() -> PathBuf {
        claude_binary()
    }

    /// Configures the real agent's model by files in its home and the returned variables; `tmp` is for its
    /// own files. By default it is Claude Code.
    #[must_use]
    fn configure_model(_home: &Path, tmp: &Path, model: &str) -> Vec<(&'static str, String)> {
        claude_env(model, tmp).into()
    }
}

/// The harness.
pub struct AgentHarness<A> {
    /// The model.
    pub server: Arc<ModelServer>,
    /// The agent's environment.
    pub env: BTreeMap<String, String>,
    /// What it may spend.
    pub budget: Budget,
    folder: TempDir,
    adapter: PhantomData<fn() -> A>,
}

impl<A: Adapter> AgentHarness<A> {
    /// Creates a harness with an isolated environment and a model that follows the script.
    ///
    /// # Panics
    /// If there is no room for its folders.
    #[must_use]
    pub fn new(script: Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "tmp", "workspace", "scratch"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let server = Arc::new(ModelServer::scripted(script));
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let own = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", path("home")),
            ("TMPDIR", path("tmp")),
            (MARK, path("home")),
        ];
        let env = own.into_iter().chain(no_network());
        let env = env.map(|(name, value)| (name.to_owned(), value)).collect();
        Self { server, env, budget: Budget::default(), folder, adapter: PhantomData }
            .with_model_env()
    }

    /// Replaces the script.
    #[must_use]
    pub fn with_script(mut self, script: Script) -> Self {
        self.server = Arc::new(ModelServer::scripted(script));
        self.with_model_env()
    }

    fn with_model_env(mut self) -> Self {
        let tmp = self.folder.path().join("tmp");
        let env = A::configure_model(&self.home(), &tmp, &self.server.base_url());
        self.env.extend(env.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self
    }

    /// The agent's home folder.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// With this variable in the agent's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Without this one.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    /// Where the agent works.
    ///
    /// # Panics
    /// If it is gone.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace").canonicalize().unwrap()
    }

    /// Returns the folder of all the harness's folders.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The adapter; the real program unless the table names another.
    ///
    /// # Panics
    /// If it cannot be built.
    #[must_use]
    pub fn agent(&self, mut config: Value) -> Box<dyn Agent> {
        let table = config.as_object_mut().unwrap();
        table.entry("program").or_insert_with(|| json!(A::program()));
        let context = BuildContext {
            config_dir: self.folder.path().to_owned(),
            workspace: self.workspace(),
            prompt_dir: self.folder.path().to_owned(),
            path: self.env.get("PATH").cloned().unwrap_or_default(),
        };
        A::build(config, &context, &shim::supervisor()).unwrap()
    }

    /// An iteration with this prompt.
    #[must_use]
    pub fn task(&self, prompt: impl Into<Vec<u8>>) -> Iteration {
        Iteration {
            run: "run".to_owned(),
            number: 1,
            prompt: prompt.into(),
            workspace: self.workspace(),
            env: self.env.clone(),
            budget: self.budget,
            scratch: self.folder.path().join("scratch"),
        }
    }

    /// One iteration with a short prompt, heard by `sink`; afterwards nothing of it is left.
    ///
    /// # Errors
    /// As the agent's own.
    pub async fn run(&self, config: Value, sink: &RecordingSink) -> Result<Report, AgentError> {
        self.run_task(config, self.task("Do it."), sink).await
    }

    /// The same with a task of the test's own.
    ///
    /// # Errors
    /// As the agent's own.
    ///
    /// # Panics
    /// If it takes for ever, or leaves a process.
    pub async fn run_task(
        &self,
        config: Value,
        task: Iteration,
        sink: &RecordingSink,
    ) -> Result<Report, AgentError> {
        let agent = self.agent(config);
        let result = tokio::time::timeout(TIMEOUT, agent.run(task, sink)).await;
        assert_eq!(self.left(), Vec::<String>::new(), "processes were left");
        result.expect("the iteration takes for ever")
    }

    /// An iteration that is ended while its tool runs, of which nothing is left. The request that led
    /// to the tool has this usage.
    ///
    /// # Panics
    /// If the tool is never up, the iteration succeeds, or something is left.
    pub async fn cancelled_in_tool(
        self,
        config: Value,
        usage: Tokens,
        sink: &RecordingSink,
    ) -> AgentError {
        let mut tool = BusyTool::new();
        let harness =
            self.with_script(Script::new().forever(Turn::shell(&tool.command()).usage(usage)));
        let cancel = async {
            tokio::time::timeout(TIMEOUT, tool.up()).await.expect("the tool never ran");
            sink.cancel(CancelReason::Signal);
        };
        let (result, ()) = tokio::join!(harness.run(config, sink), cancel);
        assert!(tool.is_gone(), "something that the tool has started is left");
        let error = result.expect_err("the iteration succeeded");
        assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
        error
    }

    /// An iteration that is ended when the model keeps it waiting by such a reply.
    ///
    /// # Panics
    /// If the model is not asked, or the iteration succeeds.
    pub async fn cancelled_in(
        self,
        reply: impl Into<Reply>,
        config: Value,
        sink: &RecordingSink,
    ) -> AgentError {
        let harness = self.with_script(Script::new().forever(reply));
        let cancel = async {
            harness.wait_until_stalled().await;
            sink.cancel(CancelReason::Idle);
        };
        let (result, ()) = tokio::join!(harness.run(config, sink), cancel);
        let error = result.expect_err("the iteration succeeded");
        assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
        assert!(error.message.contains("limits.idle_timeout"), "{error}");
        assert!(error.report.exit.is_some() && error.report.session.is_some(), "{error:?}");
        assert_eq!(error.report.final_text, None);
        error
    }

    /// An iteration that nobody listens to and that fails.
    ///
    /// # Panics
    /// If it succeeds.
    pub async fn fail(&self, config: Value) -> AgentError {
        self.run(config, &RecordingSink::new()).await.expect_err("the iteration succeeded")
    }

    /// For what is ended without anybody waiting for it.
    ///
    /// # Panics
    /// If it takes too long.
    pub async fn wait_until_nothing_is_left(&self, patience: Duration) {
        let gone = async {
            while !self.left().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = tokio::time::timeout(patience, gone).await;
        assert!(result.is_ok(), "processes were left: {:?}", self.left());
    }

    /// Waits until the model keeps the agent waiting.
    ///
    /// # Panics
    /// If it never does.
    pub async fn wait_until_stalled(&self) {
        let server = Arc::clone(&self.server);
        let stalled = move || server.wait_for_stalled(1, TIMEOUT);
        assert!(tokio::task::spawn_blocking(stalled).await.unwrap(), "nothing was asked for");
    }

    /// Returns the command lines of all processes of the harness.
    fn left(&self) -> Vec<String> {
        marked(MARK, &self.env[MARK])
    }
}
