//! The agent.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use ralph_adapter_common::{Guarded, Program, not_started};
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, CancelReason, CancelSignal, Capabilities, Description,
    ErrorClass, Event, EventSink, Iteration, Launch, Report,
};
use ralph_orchestrator_supervisor::{Grace, Spec, Supervisor};

use crate::config::Config;
use crate::permission::Judge;
use crate::session::Session;
use crate::talk::Wanted;

/// How long the agent may take to say who it is.
const CHECK: Duration = Duration::from_secs(60);

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

/// What another agent tells the programs that it starts.
const STRIPS: [&str; 3] = ["CLAUDE", "ANTHROPIC_", "CODEX_"];

pub(crate) struct Acp {
    config: Config,
    context: BuildContext,
    program: Program,
    guarded: Guarded,
}

impl Acp {
    pub(crate) fn new(
        config: Config,
        context: &BuildContext,
        supervisor: &Supervisor,
        guarded: Guarded,
    ) -> Self {
        let name = config.program.first().map_or("", String::as_str);
        let install = matches!(name, "claude-agent-acp" | "codex-acp")
            .then(|| format!("To install it: `npm install -g @agentclientprotocol/{name}`"));
        let program = Program::new(name, install, context, supervisor);
        Self { config, context: context.clone(), program, guarded }
    }

    fn args(&self) -> impl Iterator<Item = &String> {
        self.config.program.iter().skip(1)
    }

    async fn session<'a>(
        &self,
        wanted: Wanted,
        env: BTreeMap<String, String>,
        events: &'a dyn EventSink,
    ) -> Result<Session<'a>, AgentError> {
        let spec = Spec {
            program: self.program.path()?,
            args: self.args().map(Into::into).collect(),
            cwd: wanted.cwd.clone(),
            env,
            stdin: Vec::new(),
            grace: Grace::default(),
        };
        tracing::debug!(program = %spec.program.display(), args = spec.args.len(), "agent is started");
        let started = self.program.supervisor().spawn_with_input(spec).await;
        let (process, input) = started.map_err(|error| not_started(&error))?;
        let permissions = self.config.permissions.clone();
        let judge = Judge::new(permissions, self.guarded.clone(), wanted.cwd.clone());
        Ok(Session::new(process, input, wanted, judge, events))
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
                tool_calls: true,
                interrupt: true,
                ..Capabilities::default()
            },
            wants_env: WANTS.map(str::to_owned).into(),
            strips_env: STRIPS.map(str::to_owned).into(),
        }
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let cwd = self.context.config_dir.clone();
        let wanted = Wanted { cwd, mode: None, model: None, prompt: None };
        let nobody = Nobody(CHECK);
        let session = self.session(wanted, env.clone(), &nobody).await?;
        let (about, result) = Box::pin(session.run()).await;
        match result {
            Ok(_) => Ok(format!("{about} at {}", self.program.path()?.display())),
            Err(error) if error.class == ErrorClass::Cancelled => {
                let seconds = CHECK.as_secs();
                Err(self.program.unavailable(&format!("it said nothing for {seconds} s")))
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
        let prompt = String::from_utf8(task.prompt).ok().filter(|prompt| !prompt.trim().is_empty());
        let Some(prompt) = prompt else {
            let message = "the prompt is empty or no UTF-8, which the protocol does not take";
            return Err(AgentError::new(ErrorClass::InvalidRequest, message));
        };
        let mut signal = events.cancelled();
        let asked_before = tokio::select! {
            biased;
            _ = &mut signal => true,
            () = std::future::ready(()) => false,
        };
        if asked_before {
            let message = "the agent was not started because the orchestrator asked for the end";
            return Err(AgentError::new(ErrorClass::Cancelled, message));
        }
        let wanted = Wanted {
            cwd: task.workspace,
            mode: self.config.mode.clone(),
            model: self.config.model.clone(),
            prompt: Some(prompt),
        };
        let session = self.session(wanted, task.env, events).await?;
        Box::pin(session.run()).await.1
    }
}

/// Nobody listens, and has so much patience.
struct Nobody(Duration);

#[async_trait]
impl CancelSignal for Nobody {
    async fn cancelled(&self) -> CancelReason {
        tokio::time::sleep(self.0).await;
        CancelReason::Timeout
    }
}

#[async_trait]
impl EventSink for Nobody {
    async fn emit(&self, _event: Event) {}
}
