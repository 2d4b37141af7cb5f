//! Where an adapter is examined, and what it is to do there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ralph_orchestrator_contract::{Agent, Budget, BuildContext, Iteration, Tokens};
use tempfile::TempDir;

use crate::loopback::{IDLE, claude_env, codex_config, codex_env, no_network};
use crate::model_server::{Fault, ModelServer, Reply, Script, Turn};
use crate::processes::marked;

/// Tells the processes of a scenario from all others.
const MARK: &str = "RALPH_RUN_ID";

/// The figures of the requests in which something is done.
pub(super) const FIRST: Tokens =
    Tokens { input: 2000, output: 120, cache_read: 0, cache_write: 15_000 };
pub(super) const LAST: Tokens =
    Tokens { input: 20, output: 40, cache_read: 17_000, cache_write: 300 };

/// What the agent is to do. One that asks the model of the stage does it by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Its one message is this.
    Says {
        /// The message.
        text: String,
    },
    /// It runs a shell command by its own tool, and then says something.
    Runs {
        /// For `sh`.
        command: String,
        /// The message.
        text: String,
    },
    /// It says or does nothing, for ever.
    Hangs,
    /// It begins a message, and nothing more comes.
    Stalls,
    /// Its model's provider answers with this HTTP status.
    Refused {
        /// The status.
        status: u16,
    },
}

/// The workspace of a scenario, with a model of its own.
pub struct Stage {
    /// What is to be done.
    pub act: Act,
    /// For building the adapter.
    pub context: BuildContext,
    /// The agent's home folder; empty.
    pub home: PathBuf,
    pub(super) server: Arc<ModelServer>,
    pub(super) run: String,
    folder: TempDir,
}

/// The adapter, built for a scenario.
pub struct Cast {
    agent: Box<dyn Agent>,
    env: Vec<(String, String)>,
}

impl Cast {
    /// This adapter.
    #[must_use]
    pub fn new(agent: impl Agent + 'static) -> Self {
        Self::boxed(Box::new(agent))
    }

    /// The same, as factories give it.
    #[must_use]
    pub fn boxed(agent: Box<dyn Agent>) -> Self {
        Self { agent, env: Vec::new() }
    }

    /// With this variable in the agent's environment, beside `PATH`, `HOME`, `TMPDIR`, and proxies that
    /// let nobody out.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn agent(&self) -> &dyn Agent {
        self.agent.as_ref()
    }
}

impl Stage {
    pub(super) fn new(act: Act) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let root = folder.path().canonicalize().expect("the folder is there");
        for name in ["home", "tmp", "workspace", "scratch"] {
            std::fs::create_dir(root.join(name)).expect("there is room for a folder");
        }
        let context = BuildContext {
            config_dir: root.clone(),
            workspace: root.join("workspace"),
            prompt_dir: root.clone(),
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
        };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let run = format!("conformance-{}-{number}", std::process::id());
        let server = Arc::new(ModelServer::scripted(script(&act)));
        Self { act, context, home: root.join("home"), server, run, folder }
    }

    /// The base URL of a model that has the agent do what the act says; `/v1` comes after it for
    /// clients of OpenAI.
    #[must_use]
    pub fn model(&self) -> String {
        self.server.base_url()
    }

    /// What all folders of the stage are in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn env(&self, cast: &Cast) -> BTreeMap<String, String> {
        let home = self.home.display().to_string();
        let tmp = self.context.config_dir.join("tmp").display().to_string();
        let own = [("PATH", self.context.path.as_str()), ("HOME", &home), ("TMPDIR", &tmp)]
            .map(|(name, value)| (name, value.to_owned()));
        let mark = (MARK, self.run.clone());
        let all = own.into_iter().chain(no_network()).chain([mark]);
        let all = all.map(|(name, value)| (name.to_owned(), value));
        all.chain(cast.env.iter().cloned()).collect()
    }

    pub(super) fn task(&self, cast: &Cast, prompt: Vec<u8>) -> Iteration {
        Iteration {
            run: self.run.clone(),
            number: 1,
            prompt,
            workspace: self.context.workspace.clone(),
            env: self.env(cast),
            budget: Budget::default(),
            scratch: self.context.config_dir.join("scratch"),
        }
    }

    /// An error if processes of the agent are there.
    pub(super) fn nothing_left(&self) -> Result<(), String> {
        let left = marked(MARK, &self.run);
        if left.is_empty() { Ok(()) } else { Err(format!("processes were left: {left:?}")) }
    }

    /// The same, with some time for what nobody waits for.
    pub(super) async fn soon_nothing_left(&self) -> Result<(), String> {
        for _ in 0..1000 {
            if self.nothing_left().is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.nothing_left()
    }

    /// The names of what is in the workspace.
    pub(super) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.context.workspace).into_iter().flatten();
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// With what Claude Code needs in its environment to ask the model of the stage, and nobody else.
#[must_use]
pub fn with_claude(cast: Cast, stage: &Stage) -> Cast {
    let tmp = stage.context.config_dir.join("tmp");
    let env = claude_env(&stage.model(), &tmp);
    env.iter().fold(cast, |cast, (name, value)| cast.env(name, value))
}

/// With what Codex needs in its environment and its home to ask the model of the stage, and nobody
/// else.
#[must_use]
pub fn with_codex(cast: Cast, stage: &Stage) -> Cast {
    codex_config(&stage.home, &stage.model(), IDLE);
    codex_env().iter().fold(cast, |cast, (name, value)| cast.env(name, value))
}

fn script(act: &Act) -> Script {
    let said = |text: &str| Turn::text(text).usage(LAST);
    // An agent may ask for more than the act needs: a title, or what could come next.
    let more = |text: &str| Turn::text(text).usage(Tokens::default());
    match act {
        Act::Says { text } => Script::new().then(said(text)).forever(more(text)),
        Act::Runs { command, text } => Script::new()
            .then(Turn::shell(command).usage(FIRST))
            .then(said(text))
            .forever(more(text)),
        Act::Hangs => Script::new().forever(Reply::Hang),
        Act::Stalls => Script::new().forever(Turn::text("half a message").fault(Fault::Stall)),
        Act::Refused { status } => Script::new().forever(Reply::error(*status, "refused")),
    }
}
