//! What every test needs: a model, a home and a workspace of its own, and somebody who listens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use orchestrator::contract::{
    Agent, AgentError, Budget, BuildContext, CancelReason, CancelSignal, Event, EventSink,
    Iteration, Report, async_trait,
};
use ralph_adapter_codex::build;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script};
use ralph_orchestrator_testkit::{codex_binary, shim};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

/// No iteration here takes longer by far, even when all run at once.
const PATIENCE: Duration = Duration::from_secs(60);
/// The discard port: nobody listens.
const NOWHERE: &str = "http://127.0.0.1:9";
/// By which processes of a test are told from others.
const MARK: &str = "RALPH_TEST_MARK";

pub(crate) struct Rig {
    pub(crate) server: Arc<ModelServer>,
    pub(crate) env: BTreeMap<String, String>,
    folder: TempDir,
}

impl Rig {
    /// With the real agent's environment: nothing of the machine's, and the model of the script.
    pub(crate) fn new(script: Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "tmp", "workspace", "scratch"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let server = Arc::new(ModelServer::scripted(script));
        let home = folder.path().join("home").to_str().unwrap().to_owned();
        let tmp = folder.path().join("tmp").to_str().unwrap().to_owned();
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", &home),
            ("TMPDIR", &tmp),
            ("LOOP_KEY", "dummy"),
            // No other host than this one can be reached, whatever the agent tries.
            ("HTTPS_PROXY", NOWHERE),
            ("HTTP_PROXY", NOWHERE),
            ("NO_PROXY", "127.0.0.1"),
            (MARK, &home),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let rig = Self { server, env: env.into(), folder };
        rig.configure(&rig.server.base_url(), "stream_idle_timeout_ms = 600000");
        rig
    }

    /// Tells Codex where its model is, and more about it.
    pub(crate) fn configure(&self, base_url: &str, more: &str) {
        let config = format!(
            "model = \"gpt-5.1-codex\"\nmodel_provider = \"loop\"\n[analytics]\nenabled = false\n\
             [model_providers.loop]\nname = \"loop\"\nbase_url = \"{base_url}/v1\"\n\
             env_key = \"LOOP_KEY\"\nwire_api = \"responses\"\nrequest_max_retries = 0\n\
             stream_max_retries = 1\n{more}\n"
        );
        let home = self.codex_home();
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("config.toml"), config).unwrap();
    }

    pub(crate) fn codex_home(&self) -> PathBuf {
        self.folder.path().join("home/.codex")
    }

    /// With another script, for which the folder had to be known.
    pub(crate) fn scripted(mut self, script: Script) -> Self {
        self.server = Arc::new(ModelServer::scripted(script));
        self.configure(&self.server.base_url(), "stream_idle_timeout_ms = 600000");
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace").canonicalize().unwrap()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The adapter; the real program unless the table names another.
    pub(crate) fn agent(&self, mut config: Value) -> Box<dyn Agent> {
        let table = config.as_object_mut().unwrap();
        table.entry("program").or_insert_with(|| json!(codex_binary()));
        let context = BuildContext {
            config_dir: self.folder.path().to_owned(),
            workspace: self.workspace(),
            prompt_dir: self.folder.path().to_owned(),
            path: self.env.get("PATH").cloned().unwrap_or_default(),
        };
        build(config, &context, &shim::supervisor()).unwrap()
    }

    pub(crate) fn task(&self, prompt: impl Into<Vec<u8>>) -> Iteration {
        Iteration {
            run: "run".to_owned(),
            number: 1,
            prompt: prompt.into(),
            workspace: self.workspace(),
            env: self.env.clone(),
            budget: Budget::default(),
            scratch: self.folder.path().join("scratch"),
        }
    }

    /// One iteration with a short prompt, heard by `sink`; afterwards nothing of it is left.
    pub(crate) async fn run(&self, config: Value, sink: &Sink) -> Result<Report, AgentError> {
        self.run_task(config, self.task("Do it."), sink).await
    }

    pub(crate) async fn run_task(
        &self,
        config: Value,
        task: Iteration,
        sink: &Sink,
    ) -> Result<Report, AgentError> {
        let agent = self.agent(config);
        let result = tokio::time::timeout(PATIENCE, agent.run(task, sink)).await;
        assert_eq!(self.left(), Vec::<String>::new(), "processes were left");
        result.expect("the iteration takes for ever")
    }

    /// An iteration that nobody listens to and that fails.
    pub(crate) async fn fail(&self, config: Value) -> AgentError {
        self.run(config, &Sink::new()).await.expect_err("the iteration succeeded")
    }

    /// For what is ended without anybody waiting for it.
    pub(crate) async fn wait_until_nothing_is_left(&self, patience: Duration) {
        let gone = async {
            while !self.left().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = tokio::time::timeout(patience, gone).await;
        assert!(result.is_ok(), "processes were left: {:?}", self.left());
    }

    /// Waits until the model keeps the agent waiting.
    pub(crate) async fn stalled(&self) {
        let server = Arc::clone(&self.server);
        let stalled = move || server.wait_for_stalled(1, PATIENCE);
        assert!(tokio::task::spawn_blocking(stalled).await.unwrap(), "nothing was asked for");
    }

    /// The command lines of all processes that carry the rig's mark.
    fn left(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.env[MARK]).into_bytes();
        let mut left = Vec::new();
        for process in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
            if environ.split(|byte| *byte == 0).any(|variable| variable == mark) {
                let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
                left.push(String::from_utf8_lossy(&line).replace('\0', " "));
            }
        }
        left
    }
}

/// Keeps the events, and may ask for the end.
pub(crate) struct Sink {
    events: Mutex<Vec<Event>>,
    cancel: watch::Sender<Option<CancelReason>>,
}

impl Sink {
    pub(crate) fn new() -> Self {
        let (cancel, _) = watch::channel(None);
        Self { events: Mutex::default(), cancel }
    }

    pub(crate) fn cancel(&self, reason: CancelReason) {
        self.cancel.send_replace(Some(reason));
    }

    pub(crate) fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap()
    }
}

#[async_trait]
impl CancelSignal for Sink {
    async fn cancelled(&self) -> CancelReason {
        let mut receiver = self.cancel.subscribe();
        let reason = receiver.wait_for(Option::is_some).await.unwrap();
        reason.unwrap()
    }
}

#[async_trait]
impl EventSink for Sink {
    async fn emit(&self, event: Event) {
        self.events().push(event);
    }
}
