//! The client's side of the conversation: requests to the agent, and answers to its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ClientSessionCapabilities, ContentBlock,
    Implementation, InitializeRequest, InitializeResponse, McpServer, McpServerStdio, Meta,
    NewSessionRequest, NewSessionResponse, NoticeCapabilities, PromptRequest,
    RequestPermissionRequest, SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigOptionValue, SessionId, SetSessionConfigOptionRequest, SetSessionModeRequest,
    StopReason, TextContent,
};
use agent_client_protocol::{Agent, Client, Error, Lines};
use ralph_adapter_common::agent_tools::{SERVER, relay_command};
use ralph_orchestrator_contract::{ErrorClass, Tokens};
use ralph_orchestrator_supervisor::Input;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::failure::Failure;
use crate::permission::PermissionPolicy;

/// How long the agent may take for an answer before its turn. It may have to install itself.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// The session to begin.
#[derive(Clone, Debug)]
pub(crate) struct SessionSpec {
    pub(crate) cwd: PathBuf,
    pub(crate) mode: Option<String>,
    pub(crate) model: Option<String>,
    /// The prompt; without one the agent is only asked who it is.
    pub(crate) prompt: Option<String>,
    /// The file of the orchestrator's tools, if the agent has them.
    pub(crate) tools: Option<PathBuf>,
}

/// How far the conversation has come.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    /// The agent has introduced itself.
    Initialized { agent_name: String },
    /// A session has begun.
    SessionCreated { id: String, model: Option<String> },
    /// The agent has been given its prompt.
    Prompted,
}

/// How the agent's turn ended, by its own account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TurnEnd {
    pub(crate) tokens: Option<Tokens>,
    /// Why it did not end well.
    pub(crate) failure: Option<Failure>,
}

/// What connects the client to the agent's process and to the session.
pub(crate) struct ClientIo {
    pub(crate) input: Input,
    pub(crate) lines: mpsc::UnboundedReceiver<String>,
    pub(crate) progress: mpsc::UnboundedSender<Progress>,
    /// Whether the agent's work is to be cancelled.
    pub(crate) cancel: watch::Receiver<bool>,
}

/// Holds the conversation until the agent's turn has ended. The agent's input is closed when this returns.
pub(crate) async fn run_client(
    io: ClientIo,
    spec: SessionSpec,
    policy: Arc<PermissionPolicy>,
) -> Result<TurnEnd, Failure> {
    let ClientIo { input, lines, progress, cancel } = io;
    let outgoing = futures_util::sink::unfold(input, |input, line: String| async move {
        input.send(format!("{line}\n").into_bytes()).map_err(std::io::Error::other)?;
        Ok(input)
    });
    let incoming = futures_util::stream::unfold(lines, |mut lines| async move {
        lines.recv().await.map(|line| (Ok(line), lines))
    });
    let cancelled = cancel.clone();
    // A failure of the agent's is no error of the connection.
    let conversation = Client
        .v1()
        .name("ralph-orchestrator")
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                let cancelled = *cancelled.borrow();
                responder.respond(policy.answer(&request, cancelled))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(Lines::new(outgoing, incoming), async move |agent: ConnectionTo<Agent>| {
            Ok(Conversation { agent, spec, progress, cancel }.run().await)
        });
    Box::pin(conversation).await.unwrap_or_else(|error| Err(connection_failure(&error)))
}

/// Returns the server of the orchestrator's tools, whose address is in the file.
fn tools(file: &Path) -> McpServer {
    let (program, arguments) = relay_command(file);
    McpServer::Stdio(McpServerStdio::new(SERVER, program).args(arguments.into()))
}

fn connection_failure(error: &Error) -> Failure {
    let message =
        format!("the connection to the agent failed: {}", Failure::from_answer("", error).message);
    Failure::new(ErrorClass::Unavailable, message)
}

struct Conversation {
    agent: ConnectionTo<Agent>,
    spec: SessionSpec,
    progress: mpsc::UnboundedSender<Progress>,
    cancel: watch::Receiver<bool>,
}

impl Conversation {
    async fn run(mut self) -> Result<TurnEnd, Failure> {
        let agent_name = agent_name(&self.initialize().await?);
        self.report(Progress::Initialized { agent_name });
        let Some(prompt) = self.spec.prompt.take() else { return Ok(TurnEnd::default()) };
        let request = NewSessionRequest::new(self.spec.cwd.clone())
            .mcp_servers(self.spec.tools.iter().map(|file| tools(file)).collect())
            .meta(claude_messages());
        let session =
            self.with_timeout("session/new", self.agent.send_request(request).block_task());
        let session = session.await?;
        let options = session.config_options.as_deref().unwrap_or_default();
        let model = current_model(options);
        let configured = self.spec.model.clone();
        let id = session.session_id.to_string();
        self.report(Progress::SessionCreated { id, model: configured.or(model) });
        self.set_mode(&session).await?;
        self.set_model(&session.session_id, options).await?;
        self.prompt(session.session_id, prompt).await
    }

    async fn initialize(&self) -> Result<InitializeResponse, Failure> {
        // Notices keep what the agent's program says apart from what its model says.
        let session = ClientSessionCapabilities::new().notices(NoticeCapabilities::new());
        let request = InitializeRequest::new(agent_client_protocol::schema::ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new().session(session))
            .client_info(Implementation::new("ralph-orchestrator", env!("CARGO_PKG_VERSION")));
        self.with_timeout("initialize", self.agent.send_request(request).block_task()).await
    }

    async fn set_mode(&self, session: &NewSessionResponse) -> Result<(), Failure> {
        let Some(mode) = self.spec.mode.clone() else { return Ok(()) };
        let offered = session.modes.iter().flat_map(|modes| &modes.available_modes);
        let offered: Vec<&str> = offered.map(|mode| &*mode.id.0).collect();
        if !offered.contains(&mode.as_str()) {
            return Err(not_offered("mode", &mode, &offered));
        }
        let request = SetSessionModeRequest::new(session.session_id.clone(), mode);
        self.with_timeout("session/set_mode", self.agent.send_request(request).block_task())
            .await?;
        Ok(())
    }

    async fn set_model(
        &self,
        session: &SessionId,
        options: &[SessionConfigOption],
    ) -> Result<(), Failure> {
        let Some(model) = self.spec.model.clone() else { return Ok(()) };
        let Some(option) = options.iter().find(|option| is_model(option)) else {
            return Err(not_offered("model", &model, &[]));
        };
        let value = SessionConfigOptionValue::ValueId { value: model.into() };
        let request = SetSessionConfigOptionRequest::new(session.clone(), option.id.clone(), value);
        let set = self.agent.send_request(request).block_task();
        self.with_timeout("session/set_config_option", set).await?;
        Ok(())
    }

    async fn prompt(mut self, session: SessionId, prompt: String) -> Result<TurnEnd, Failure> {
        let content = vec![ContentBlock::Text(TextContent::new(prompt))];
        let request = PromptRequest::new(session.clone(), content);
        let mut answer = std::pin::pin!(self.agent.send_request(request).block_task());
        self.report(Progress::Prompted);
        // An end of the channel is none of the session.
        let cancelled = async { self.cancel.wait_for(|cancel| *cancel).await.is_ok() };
        let response = tokio::select! {
            response = &mut answer => response,
            true = cancelled => {
                let sent = self.agent.send_notification(CancelNotification::new(session));
                sent.map_err(|error| connection_failure(&error))?;
                answer.await
            }
        };
        let response = response.map_err(|error| Failure::from_answer("session/prompt", &error))?;
        let tokens = response.usage.map(|usage| Tokens {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cached_read_tokens.unwrap_or(0),
            cache_write: usage.cached_write_tokens.unwrap_or(0),
        });
        Ok(TurnEnd { tokens, failure: stop_failure(response.stop_reason) })
    }

    /// Returns the answer to a request, which may not take long.
    async fn with_timeout<T>(
        &self,
        method: &str,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
            Ok(answer) => answer.map_err(|error| Failure::from_answer(method, &error)),
            Err(_) => Err(Failure::new(
                ErrorClass::Unavailable,
                format!(
                    "the agent did not answer `{method}` within {} s",
                    REQUEST_TIMEOUT.as_secs()
                ),
            )),
        }
    }

    fn report(&self, progress: Progress) {
        // The session may have ended; then nobody needs it.
        let _ = self.progress.send(progress);
    }
}

/// Asks Claude Code for its model's messages, which report usage while it works; by the protocol alone that
/// comes when the turn has ended. Other agents ignore it.
fn claude_messages() -> Meta {
    let wanted = json!({"emitRawSDKMessages": [{"type": "assistant"}]});
    [("claudeCode".to_owned(), wanted)].into_iter().collect()
}

fn agent_name(response: &InitializeResponse) -> String {
    match &response.agent_info {
        Some(info) => {
            let name = info.title.as_ref().unwrap_or(&info.name);
            format!("{name:.100} {:.50}", info.version)
        }
        None => "an agent without a name".to_owned(),
    }
}

fn is_model(option: &SessionConfigOption) -> bool {
    option.category == Some(SessionConfigOptionCategory::Model)
}

/// Returns the current model; `default` is no model's name.
fn current_model(options: &[SessionConfigOption]) -> Option<String> {
    match &options.iter().find(|option| is_model(option))?.kind {
        SessionConfigKind::Select(select) => {
            Some(select.current_value.to_string()).filter(|model| model != "default")
        }
        _ => None,
    }
}

fn not_offered(what: &str, wanted: &str, offered: &[&str]) -> Failure {
    let choice = if offered.is_empty() {
        format!("it offers no choice of {what}s")
    } else {
        format!("it offers {}", offered.join(", "))
    };
    let message = format!("the agent has no {what} `{wanted}`: {choice}; change the key `{what}`");
    Failure::new(ErrorClass::InvalidRequest, message)
}

fn stop_failure(reason: StopReason) -> Option<Failure> {
    let (class, what) = match reason {
        StopReason::EndTurn => return None,
        StopReason::MaxTokens => {
            (ErrorClass::AgentLimit, "the model's answer reached its bound on tokens")
        }
        StopReason::MaxTurnRequests => {
            (ErrorClass::AgentLimit, "the agent reached its bound on requests in a turn")
        }
        StopReason::Refusal => (ErrorClass::InvalidRequest, "the model refuses to go on"),
        StopReason::Cancelled => (ErrorClass::Crashed, "the agent cancelled its turn by itself"),
        _ => (ErrorClass::Crashed, "the agent's turn ended for a reason not known here"),
    };
    Some(Failure::new(class, what))
}
