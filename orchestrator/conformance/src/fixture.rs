//! The fixture of a scenario, and the behaviour of its agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ralph_orchestrator_contract::{Agent, Budget, BuildContext, Iteration, Tokens};
use serde_json::json;
use tempfile::TempDir;

use crate::agent_env::{IDLE, claude_env, codex_config, codex_env, no_network};
use crate::model_server::{Fault, ModelServer, Reply, Script, Turn};
use crate::processes::marked;
use crate::transcribed::{TranscribedAgent, TranscriptLog};

/// The environment variable that identifies the processes of a scenario.
const MARK: &str = "RALPH_RUN_ID";

/// The usage of the first and the last request.
pub(super) const FIRST: Tokens =
    Tokens { input: 2000, output: 120, cache_read: 0, cache_write: 15_000 };
pub(super) const LAST: Tokens =
    Tokens { input: 20, output: 40, cache_read: 17_000, cache_write: 300 };

/// The behaviour that a scenario needs. An agent that uses the fixture's model behaves so by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// It sends one message.
    Message {
        /// The message.
        text: String,
    },
    /// It runs a shell command with its own tool, and then sends a message.
    Command {
        /// For `sh`.
        command: String,
        /// The message.
        text: String,
    },
    /// It claims completion by the tool for that, and then sends a message.
    Claim {
        /// The claim's text.
        claim: String,
        /// The message.
        text: String,
    },
    /// It leaves a note by the tool for that, and then sends a message.
    Note {
        /// The note.
        note: String,
        /// The message.
        text: String,
    },
    /// It sends nothing, for ever.
    Hang,
    /// It stalls in the middle of a message.
    StallInMessage,
    /// Its model's provider responds with an HTTP error.
    HttpError {
        /// The status.
        status: u16,
    },
}

/// The fixture of a scenario: workspace, home and model.
pub struct Fixture {
    /// The behaviour that the scenario needs.
    pub behaviour: Behaviour,
    /// For building the adapter.
    pub context: BuildContext,
    /// The agent's home folder; empty.
    pub home: PathBuf,
    pub(super) server: Arc<ModelServer>,
    pub(super) run: String,
    folder: TempDir,
}

/// The adapter under test, built for a scenario.
pub struct Subject {
    agent: Box<dyn Agent>,
    env: Vec<(String, String)>,
}

impl Subject {
    /// Wraps an adapter.
    #[must_use]
    pub fn new(agent: impl Agent + 'static) -> Self {
        Self::boxed(Box::new(agent))
    }

    /// Wraps a boxed adapter.
    #[must_use]
    pub fn boxed(agent: Box<dyn Agent>) -> Self {
        Self { agent, env: Vec::new() }
    }

    /// Adds a variable to the agent's environment, beside `PATH`, `HOME`, `TMPDIR`, and proxies that block the
    /// network.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps in `log` what the agent reports.
    pub(super) fn transcribed(self, log: TranscriptLog) -> Self {
        let Self { agent, env } = self;
        Self { agent: Box::new(TranscribedAgent { agent, log }), env }
    }

    pub(super) fn agent(&self) -> &dyn Agent {
        self.agent.as_ref()
    }
}

impl Fixture {
    /// Creates one in which an adapter can be built before any scenario, to see whether it accepts its
    /// configuration.
    ///
    /// # Panics
    /// If there is no room for folders.
    #[must_use]
    pub fn for_building() -> Self {
        Self::new(Behaviour::Message { text: "ok".to_owned() })
    }

    pub(super) fn new(behaviour: Behaviour) -> Self {
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
        let server = Arc::new(ModelServer::scripted(script(&behaviour)));
        Self { behaviour, context, home: root.join("home"), server, run, folder }
    }

    /// Returns the base URL of the fixture's model; OpenAI clients append `/v1`.
    #[must_use]
    pub fn model_url(&self) -> String {
        self.server.base_url()
    }

    /// Returns the folder of all the fixture's folders.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn env(&self, subject: &Subject) -> BTreeMap<String, String> {
        let home = self.home.display().to_string();
        let tmp = self.context.config_dir.join("tmp").display().to_string();
        let own = [("PATH", self.context.path.as_str()), ("HOME", &home), ("TMPDIR", &tmp)]
            .map(|(name, value)| (name, value.to_owned()));
        let mark = (MARK, self.run.clone());
        let all = own.into_iter().chain(no_network()).chain([mark]);
        let all = all.map(|(name, value)| (name.to_owned(), value));
        all.chain(subject.env.iter().cloned()).collect()
    }

    pub(super) fn task(&self, subject: &Subject, prompt: Vec<u8>) -> Iteration {
        Iteration {
            run: self.run.clone(),
            number: 1,
            prompt,
            workspace: self.context.workspace.clone(),
            env: self.env(subject),
            budget: Budget::default(),
            scratch: self.context.config_dir.join("scratch"),
        }
    }

    /// Fails if processes of the agent are left.
    pub(super) fn check_no_processes(&self) -> Result<(), String> {
        let left = marked(MARK, &self.run);
        if left.is_empty() { Ok(()) } else { Err(format!("processes were left: {left:?}")) }
    }

    /// Waits until no processes of the agent are left; fails on timeout.
    pub(super) async fn wait_for_no_processes(&self) -> Result<(), String> {
        for _ in 0..1000 {
            if self.check_no_processes().is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.check_no_processes()
    }

    /// Returns the names of the files in the workspace.
    pub(super) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.context.workspace).into_iter().flatten();
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Adds the environment with which Claude Code uses only the fixture's model.
#[must_use]
pub fn with_claude(subject: Subject, fixture: &Fixture) -> Subject {
    let tmp = fixture.context.config_dir.join("tmp");
    let env = claude_env(&fixture.model_url(), &tmp);
    env.iter().fold(subject, |subject, (name, value)| subject.env(name, value))
}

/// Adds the environment and the files with which Codex uses only the fixture's model.
#[must_use]
pub fn with_codex(subject: Subject, fixture: &Fixture) -> Subject {
    codex_config(&fixture.home, &fixture.model_url(), IDLE);
    codex_env().iter().fold(subject, |subject, (name, value)| subject.env(name, value))
}

fn script(behaviour: &Behaviour) -> Script {
    let said = |text: &str| Turn::text(text).usage(LAST);
    // An agent may send side requests, such as for a title.
    let more = |text: &str| Turn::text(text).usage(Tokens::default());
    match behaviour {
        Behaviour::Message { text } => Script::new().then(said(text)).forever(more(text)),
        Behaviour::Command { command, text } => Script::new()
            .then(Turn::shell(command).usage(FIRST))
            .then(said(text))
            .forever(more(text)),
        Behaviour::Claim { claim, text } => Script::new()
            .then(Turn::own_tool("claim_complete", &json!({"message": claim})))
            .then(said(text))
            .forever(more(text)),
        Behaviour::Note { note, text } => Script::new()
            .then(Turn::own_tool("note", &json!({"text": note})))
            .then(said(text))
            .forever(more(text)),
        Behaviour::Hang => Script::new().forever(Reply::Hang),
        Behaviour::StallInMessage => {
            Script::new().forever(Turn::text("half a message").fault(Fault::Stall))
        }
        Behaviour::HttpError { status } => Script::new().forever(Reply::error(*status, "refused")),
    }
}
