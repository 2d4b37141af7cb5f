//! An agent for any endpoint that speaks OpenAI's chat completions: the model is asked what to do, runs
//! commands by its tool `bash`, claims and takes notes by those of the orchestrator, and is done when it calls
//! none.
//!
//! `http` asks, `chat` understands the answers, `shell` runs the commands.

mod chat;
mod http;
mod shell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use ralph_orchestrator_plugin_sdk::{
    Agent, AgentError, BuildError, CancelReason, Capabilities, Description, ErrorClass, Event,
    EventSink, Iteration, Report, Tokens, Usage,
    agent_tools::{self, AgentTools, ToolAnswer, ToolCall},
    async_trait, export_plugin,
};
use serde::Deserialize;
use serde_json::{Value, json};

use chat::Completion;
use http::{Endpoint, HttpError};
use shell::Shell;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(30);

/// Its table in `ralph.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Where the model is, up to and with `/v1`.
    base_url: String,
    /// The model, as the endpoint calls it.
    model: String,
    /// The environment variable with the key; without one, none is sent.
    #[serde(default)]
    api_key_env: Option<String>,
    /// Answers of the model in one iteration, at most.
    #[serde(default = "max_turns")]
    max_turns: u32,
    /// How long one answer may take, in seconds.
    #[serde(default = "answer_seconds")]
    answer_seconds: u64,
    /// How many tokens the model can read, if that is to be shown.
    #[serde(default)]
    context_window: Option<u64>,
}

const fn max_turns() -> u32 {
    50
}

const fn answer_seconds() -> u64 {
    600
}

/// The agent.
#[derive(Debug)]
pub(crate) struct ChatAgent {
    config: Config,
    endpoint: Endpoint,
}

impl ChatAgent {
    /// Looks at the table, and asks nobody.
    pub(crate) fn build(config: Config) -> Result<Self, BuildError> {
        let endpoint = Endpoint::parse(&config.base_url)
            .map_err(|message| BuildError::at("base_url", message))?;
        for (key, wrong) in [
            ("model", config.model.trim().is_empty()),
            ("max_turns", config.max_turns == 0),
            ("answer_seconds", config.answer_seconds == 0),
        ] {
            if wrong {
                return Err(BuildError::at(key, "must not be empty or 0"));
            }
        }
        Ok(Self { config, endpoint })
    }

    /// The key, out of the environment that the orchestrator gives.
    fn key<'a>(&self, env: &'a BTreeMap<String, String>) -> Result<Option<&'a str>, AgentError> {
        let Some(name) = &self.config.api_key_env else { return Ok(None) };
        let key = env.get(name).map(|key| key.trim()).filter(|key| !key.is_empty());
        key.map(Some).ok_or_else(|| {
            let message = format!(
                "the environment variable {name} (`api_key_env`) is not set; set it to a key for {}",
                self.config.base_url
            );
            AgentError::new(ErrorClass::Unauthenticated, message)
        })
    }
}

#[async_trait]
impl Agent for ChatAgent {
    fn describe(&self) -> Description {
        Description {
            name: "chat".to_owned(),
            summary: format!("{} at {}", self.config.model, self.config.base_url),
            model: Some(self.config.model.clone()),
            capabilities: Capabilities {
                tokens: true,
                context: true,
                tool_calls: true,
                in_session_validation: true,
                ..Capabilities::default()
            },
            wants_env: self.config.api_key_env.iter().cloned().collect(),
            ..Description::default()
        }
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        self.key(env)?;
        shell::find(env).map_err(|message| AgentError::new(ErrorClass::Unavailable, message))?;
        // Somebody listens there; to ask would cost.
        within(CONNECT, self.endpoint.connect()).await.map_err(|error| unavailable(&error))?;
        Ok(format!("{} at {}", self.config.model, self.config.base_url))
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let shell = Shell::new(&task);
        let mut work = Work {
            agent: self,
            task: &task,
            events,
            shell: &shell,
            tools: AgentTools::new(&task),
            report: Report::default(),
        };
        let ended = tokio::select! {
            biased;
            reason = events.cancelled() => Err(cancelled(reason)),
            ended = work.whole() => ended,
        };
        let mut report = work.report;
        // Whatever came of it, nothing that was started stays.
        report.left_behind = shell.end().await;
        match ended {
            Ok(text) => Ok(Report { final_text: Some(text), ..report }),
            Err(error) => Err(error.with_report(report)),
        }
    }
}

/// One iteration.
struct Work<'a> {
    agent: &'a ChatAgent,
    task: &'a Iteration,
    events: &'a dyn EventSink,
    shell: &'a Shell,
    /// The orchestrator's own.
    tools: AgentTools,
    report: Report,
}

impl Work<'_> {
    /// Until the model calls no tool; its last message.
    async fn whole(&mut self) -> Result<String, AgentError> {
        let Config { model, max_turns, .. } = &self.agent.config;
        let prompt = str::from_utf8(&self.task.prompt).map_err(|error| {
            let message =
                format!("the prompt is no UTF-8, which the model could not read: {error}");
            AgentError::new(ErrorClass::InvalidRequest, message)
        })?;
        let id = format!("{}-{}", self.task.run, self.task.number);
        self.report.session = Some(id.clone());
        self.events.emit(Event::Session { id, model: Some(model.clone()) }).await;
        let mut messages = chat::opening(prompt);
        for _ in 0..*max_turns {
            let answer = self.ask(&messages).await?;
            self.count(&answer).await;
            let Completion { message, thinking, text, calls, cut, .. } = answer;
            if let Some(text) = thinking {
                self.events.emit(Event::Thinking { text }).await;
            }
            if !text.is_empty() {
                self.events.emit(Event::Text { text: text.clone() }).await;
            }
            if let Some(reason) = cut {
                let message = format!("the model's answer was cut short: {reason}");
                self.events.emit(Event::Warning { message }).await;
            }
            if calls.is_empty() {
                return Ok(text);
            }
            messages.push(message);
            for call in calls {
                messages.push(self.tool(call).await);
            }
        }
        let message = format!("the agent was not done after max_turns = {max_turns} answers");
        Err(AgentError::new(ErrorClass::AgentLimit, message))
    }

    async fn ask(&self, messages: &[Value]) -> Result<Completion, AgentError> {
        let Config { model, answer_seconds, .. } = &self.agent.config;
        let body = json!({"model": model, "messages": messages, "tools": chat::tools()});
        let key = self.agent.key(&self.task.env)?;
        let asked = self.agent.endpoint.post(key, body.to_string().into_bytes());
        let answer = within(Duration::from_secs(*answer_seconds), asked).await;
        let answer = answer.map_err(|error| match error {
            HttpError::TimedOut { .. } => AgentError::new(ErrorClass::TimedOut, error.to_string()),
            error => unavailable(&error),
        })?;
        tracing::debug!(status = answer.status, bytes = answer.body.len(), "the model answered");
        chat::read(&answer)
    }

    async fn count(&mut self, answer: &Completion) {
        let Some(tokens) = answer.tokens else { return };
        let so_far = self.report.usage.tokens.unwrap_or_default();
        let usage = Usage { tokens: Some(so_far + tokens), ..self.report.usage };
        self.report.usage = usage;
        self.events.emit(Event::Usage { usage }).await;
        let used = Tokens::total(&tokens);
        let window = self.agent.config.context_window;
        self.events.emit(Event::Context { used, window }).await;
    }

    /// Does what the model wants, and says so to it.
    async fn tool(&self, call: chat::Call) -> Value {
        let chat::Call { id, name, arguments } = call;
        let input = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
        let reported = Event::ToolCall { id: id.clone(), name: name.clone(), input: input.clone() };
        self.events.emit(reported).await;
        let (text, is_error) = match ToolCall::parse(&name, &input) {
            Ok(call) => {
                let ToolAnswer { text, is_error } = self.tools.call(call, self.events).await;
                (text, is_error)
            }
            // A tool of the orchestrator's, with an argument that is missing.
            Err(message) if is_own(&name) => (message, true),
            Err(_) => match shell::wanted(&name, &input) {
                Ok((command, limit)) => self.shell.run(command, limit).await,
                Err(message) => (message, true),
            },
        };
        self.events.emit(Event::ToolResult { id: id.clone(), is_error, text: text.clone() }).await;
        json!({"role": "tool", "tool_call_id": id, "content": text})
    }
}

/// Whether the orchestrator has a tool of this name.
fn is_own(name: &str) -> bool {
    agent_tools::definitions().iter().any(|tool| tool.name == name)
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    let seconds = limit.as_secs();
    tokio::time::timeout(limit, work).await.unwrap_or(Err(HttpError::TimedOut { seconds }))
}

fn unavailable(error: &HttpError) -> AgentError {
    AgentError::new(ErrorClass::Overloaded, error.to_string())
}

fn cancelled(reason: CancelReason) -> AgentError {
    let message = format!("the agent was ended: {}", reason.because());
    AgentError::new(ErrorClass::Cancelled, message)
}

export_plugin! {
    /// Asks a model at an OpenAI-compatible endpoint and runs its commands with bash.
    agent "chat", |config: Config| ChatAgent::build(config);
}
