//! One iteration of an adapter for a real agent: a model, a home and a workspace of its own, and
//! somebody who listens.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ralph_orchestrator_contract::{
    Agent, AgentError, Budget, BuildContext, BuildError, CancelReason, CancelSignal, ErrorClass,
    Event, EventSink, Iteration, Judgement, Report, Tokens, Usage, async_trait,
};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::BusyTool;
use crate::loopback::{claude_env, no_network};
use crate::model_server::{ModelServer, Reply, Script, Turn};
use crate::processes::marked;
use crate::{claude_binary, shim};

/// No iteration here takes longer by far, even when all run at once.
const PATIENCE: Duration = Duration::from_secs(60);
/// By which processes of a test are told from others.
const MARK: &str = "RALPH_TEST_MARK";

/// An adapter to be tested.
pub trait Adapter {
    /// Builds it.
    ///
    /// # Errors
    /// As the adapter's own.
    fn build(
        config: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn Agent>, BuildError>;

    /// The real agent's program; `claude` unless said otherwise.
    #[must_use]
    fn program() -> PathBuf {
        claude_binary()
    }

    /// Tells the real agent where its model is, by files in its home or by the variables that are
    /// given back; `tmp` is for its own files. Unless said otherwise, it is Claude Code.
    #[must_use]
    fn settle(_home: &Path, tmp: &Path, model: &str) -> Vec<(&'static str, String)> {
        claude_env(model, tmp).into()
    }
}

/// What an iteration needs.
pub struct Rig<A> {
    /// The model.
    pub server: Arc<ModelServer>,
    /// The agent's environment.
    pub env: BTreeMap<String, String>,
    /// What it may spend.
    pub budget: Budget,
    folder: TempDir,
    adapter: PhantomData<fn() -> A>,
}

impl<A: Adapter> Rig<A> {
    /// With the real agent's environment: nothing of the machine's, and the model of the script.
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
        Self { server, env, budget: Budget::default(), folder, adapter: PhantomData }.settled()
    }

    /// With another script, for which the workspace had to be known.
    #[must_use]
    pub fn scripted(mut self, script: Script) -> Self {
        self.server = Arc::new(ModelServer::scripted(script));
        self.settled()
    }

    fn settled(mut self) -> Self {
        let tmp = self.folder.path().join("tmp");
        let env = A::settle(&self.home(), &tmp, &self.server.base_url());
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

    /// What all of the rig's folders are in.
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
    pub async fn run(&self, config: Value, sink: &Sink) -> Result<Report, AgentError> {
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
        sink: &Sink,
    ) -> Result<Report, AgentError> {
        let agent = self.agent(config);
        let result = tokio::time::timeout(PATIENCE, agent.run(task, sink)).await;
        assert_eq!(self.left(), Vec::<String>::new(), "processes were left");
        result.expect("the iteration takes for ever")
    }

    /// An iteration that is ended while its tool runs, of which nothing is left. The request that led
    /// to the tool has this usage.
    ///
    /// # Panics
    /// If the tool is never up, the iteration succeeds, or something is left.
    pub async fn cancelled_in_tool(self, config: Value, usage: Tokens, sink: &Sink) -> AgentError {
        let mut tool = BusyTool::new();
        let rig = self.scripted(Script::new().forever(Turn::shell(&tool.command()).usage(usage)));
        let cancel = async {
            tokio::time::timeout(PATIENCE, tool.up()).await.expect("the tool never ran");
            sink.cancel(CancelReason::Signal);
        };
        let (result, ()) = tokio::join!(rig.run(config, sink), cancel);
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
        sink: &Sink,
    ) -> AgentError {
        let rig = self.scripted(Script::new().forever(reply));
        let cancel = async {
            rig.stalled().await;
            sink.cancel(CancelReason::Idle);
        };
        let (result, ()) = tokio::join!(rig.run(config, sink), cancel);
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
        self.run(config, &Sink::new()).await.expect_err("the iteration succeeded")
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
    pub async fn stalled(&self) {
        let server = Arc::clone(&self.server);
        let stalled = move || server.wait_for_stalled(1, PATIENCE);
        assert!(tokio::task::spawn_blocking(stalled).await.unwrap(), "nothing was asked for");
    }

    /// The command lines of all processes that carry the rig's mark.
    fn left(&self) -> Vec<String> {
        marked(MARK, &self.env[MARK])
    }
}

/// Keeps the events, gives judgements, and may ask for the end.
pub struct Sink {
    events: Mutex<Vec<Event>>,
    cancel: watch::Sender<Option<CancelReason>>,
    /// Asks for the end as soon as an event like this comes.
    cancel_at: Option<fn(&Event) -> bool>,
    /// What is answered, in order; nothing takes for ever.
    judgements: Mutex<VecDeque<Option<Judgement>>>,
    /// What was to be judged.
    judged: watch::Sender<Vec<Option<String>>>,
}

impl Default for Sink {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink {
    /// For whom no claim is ever pending.
    #[must_use]
    pub fn new() -> Self {
        Self {
            events: Mutex::default(),
            cancel: watch::channel(None).0,
            cancel_at: None,
            judgements: Mutex::default(),
            judged: watch::channel(Vec::new()).0,
        }
    }

    /// Wants the end as soon as an event like this comes.
    #[must_use]
    pub fn cancelling_at(event: fn(&Event) -> bool) -> Self {
        Self { cancel_at: Some(event), ..Self::new() }
    }

    /// Judges so, in order; `None` never comes to an end.
    #[must_use]
    pub fn judging(judgements: impl IntoIterator<Item = Option<Judgement>>) -> Self {
        let judgements = Mutex::new(judgements.into_iter().collect());
        Self { judgements, ..Self::new() }
    }

    /// Wants the end.
    pub fn cancel(&self, reason: CancelReason) {
        self.cancel.send_replace(Some(reason));
    }

    /// The events so far.
    ///
    /// # Panics
    /// If a test has panicked with them.
    pub fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap()
    }

    /// The figures so far, each as it was told.
    #[must_use]
    pub fn usages(&self) -> Vec<Usage> {
        let usage = |event: &Event| match event {
            Event::Usage { usage } => Some(*usage),
            _ => None,
        };
        self.events().iter().filter_map(usage).collect()
    }

    /// Whether somebody was warned of this.
    #[must_use]
    pub fn warned(&self, of: &str) -> bool {
        let told =
            |event: &Event| matches!(event, Event::Warning { message } if message.contains(of));
        self.events().iter().any(told)
    }

    /// The final texts that were to be judged.
    #[must_use]
    pub fn judged(&self) -> Vec<Option<String>> {
        self.judged.borrow().clone()
    }

    /// Waits until something is to be judged.
    ///
    /// # Panics
    /// If nothing ever is.
    pub async fn wait_until_judging(&self) {
        let mut judged = self.judged.subscribe();
        let wait = judged.wait_for(|judged| !judged.is_empty());
        let result = tokio::time::timeout(PATIENCE, wait).await;
        assert!(result.is_ok(), "nothing was to be judged");
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
        if self.cancel_at.is_some_and(|wanted| wanted(&event)) {
            self.cancel(CancelReason::Signal);
        }
        self.events().push(event);
    }

    async fn judge(&self, final_text: Option<&str>) -> Judgement {
        self.judged.send_modify(|judged| judged.push(final_text.map(str::to_owned)));
        let judgement = self.judgements.lock().unwrap().pop_front();
        match judgement {
            Some(Some(judgement)) => judgement,
            Some(None) => std::future::pending().await,
            None => Judgement::NoClaim,
        }
    }
}
