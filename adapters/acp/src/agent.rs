//! The agent.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use ralph_adapter_common::agent_tools::{ToolServer, tools_file};
use ralph_adapter_common::{ProcessRun, Program, WriteGuard, spawn_with_input};
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, CancelReason, CancelSignal, Capabilities, Description,
    ErrorClass, Event, EventSink, Iteration, Launch, Report,
};
use ralph_orchestrator_supervisor::{Grace, Spec, Supervisor};

use crate::client::SessionSpec;
use crate::config::Config;
use crate::permission::PermissionPolicy;
use crate::session::AcpSession;

/// How long the agent may take to introduce itself.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// What the agents that speak the protocol need to reach a model. Keys of cloud accounts are not among
/// them, as they open more than a model.
const WANTS: [&str; 28] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_EXECUTABLE",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CONFIG_DIR",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "CODEX_CONFIG",
    "CODEX_HOME",
    "CODEX_PATH",
    "GEMINI_API_KEY",
    "GITHUB_TOKEN",
    "GOOGLE_API_KEY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "IS_SANDBOX",
    "MODEL_PROVIDER",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENROUTER_API_KEY",
    "SSL_CERT_FILE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Prefixes of what other agents set for the programs that they start.
const STRIPS: [&str; 3] = ["CLAUDE", "ANTHROPIC_", "CODEX_"];

pub(crate) struct Acp {
    config: Config,
    program: Program,
    guard: WriteGuard,
}

impl Acp {
    pub(crate) fn new(
        config: Config,
        context: &BuildContext,
        supervisor: &Supervisor,
        guard: WriteGuard,
    ) -> Self {
        let name = config.program.first().map_or("", String::as_str);
        let install = matches!(name, "claude-agent-acp" | "codex-acp")
            .then(|| format!("To install it: `npm install -g @agentclientprotocol/{name}`"));
        let program = Program::new(name, install, context, supervisor);
        Self { config, program, guard }
    }

    fn args(&self) -> impl Iterator<Item = &String> {
        self.config.program.iter().skip(1)
    }

    /// Runs a session to its end; `agent_name` is filled in on the way.
    async fn run_session(
        &self,
        session: SessionSpec,
        env: BTreeMap<String, String>,
        events: &dyn EventSink,
        agent_name: &OnceLock<String>,
    ) -> Result<Report, AgentError> {
        let spec = Spec {
            program: self.program.path()?,
            args: self.args().map(Into::into).collect(),
            cwd: session.cwd.clone(),
            env,
            stdin: Vec::new(),
            grace: Grace::default(),
        };
        let (process, input) = spawn_with_input(self.program.supervisor(), spec, events).await?;
        let permissions = self.config.permissions.clone();
        let policy = PermissionPolicy::new(permissions, self.guard.clone(), session.cwd.clone());
        let session = AcpSession::new(input, session, policy, agent_name);
        Box::pin(ProcessRun::new(process, events, session).run()).await
    }
}

#[async_trait]
impl Agent for Acp {
    fn describe(&self) -> Description {
        let model = self.config.model.clone();
        let command = self.config.program.join(" ");
        Description {
            name: "acp".to_owned(),
            summary: match &model {
                Some(model) => format!("Agent Client Protocol ({command}), model {model}"),
                None => format!("Agent Client Protocol ({command})"),
            },
            program: self.program.found().cloned(),
            model,
            capabilities: Capabilities {
                cost: true,
                tokens: true,
                context: true,
                rate_windows: true,
                tool_calls: true,
                interrupt: true,
                ..Capabilities::default()
            },
            wants_env: WANTS.map(str::to_owned).into(),
            strips_env: STRIPS.map(str::to_owned).into(),
        }
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let cwd = self.program.probe_folder();
        let session = SessionSpec { cwd, mode: None, model: None, prompt: None, tools: None };
        let (sink, agent_name) = (NullSink { timeout: CHECK_TIMEOUT }, OnceLock::new());
        match self.run_session(session, env.clone(), &sink, &agent_name).await {
            Ok(_) => {
                let name = agent_name.into_inner().unwrap_or_default();
                Ok(format!("{name} at {}", self.program.path()?.display()))
            }
            Err(error) if error.class == ErrorClass::Cancelled => {
                let seconds = CHECK_TIMEOUT.as_secs();
                Err(self.program.unavailable(&format!("it did not answer within {seconds} s")))
            }
            Err(error) => Err(self.program.unavailable(&error.message)),
        }
    }

    fn launch(&self, _task: &Iteration) -> Option<Launch> {
        let (program, argv) = (self.program.found().cloned(), self.args().cloned().collect());
        Some(Launch { program, argv, ..Launch::default() })
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        self.program.path()?;
        let prompt =
            String::from_utf8(task.prompt.clone()).ok().filter(|prompt| !prompt.trim().is_empty());
        let Some(prompt) = prompt else {
            let message = "the prompt is empty or no UTF-8, which the protocol does not take";
            return Err(AgentError::new(ErrorClass::InvalidRequest, message));
        };
        let session = SessionSpec {
            cwd: task.workspace.clone(),
            mode: self.config.mode.clone(),
            model: self.config.model.clone(),
            prompt: Some(prompt),
            tools: self.config.tools.then(|| tools_file(&task)),
        };
        let name = OnceLock::new();
        let run = self.run_session(session, task.env.clone(), events, &name);
        if self.config.tools { ToolServer::beside(&task, events, run).await } else { run.await }
    }
}

/// Drops events, and cancels after a timeout.
struct NullSink {
    timeout: Duration,
}

#[async_trait]
impl CancelSignal for NullSink {
    async fn cancelled(&self) -> CancelReason {
        tokio::time::sleep(self.timeout).await;
        CancelReason::Timeout
    }
}

#[async_trait]
impl EventSink for NullSink {
    async fn emit(&self, _event: Event) {}
}
