//! One session: one process of the agent, from its start to its end.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ralph_adapter_common::{Actions, EXIT_GRACE, ProcessEnd, ProcessHandler};
use ralph_orchestrator_contract::{AgentError, CancelReason, ErrorClass, Event, Report};
use ralph_orchestrator_supervisor::{Input, Stop};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::client::{ClientIo, Progress, SessionSpec, TurnEnd, run_client};
use crate::failure::Failure;
use crate::permission::PermissionPolicy;
use crate::updates::UpdateTranslator;

/// How long the agent may take to cancel its work before signals follow.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the client may take to notice that the agent has exited.
const CLIENT_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Holds the conversation with an agent until its turn has ended.
type Client = Pin<Box<dyn Future<Output = Result<TurnEnd, Failure>> + Send>>;

/// Handles the process of one session.
pub(crate) struct AcpSession<'a> {
    client: Option<Client>,
    lines_to_client: Option<mpsc::UnboundedSender<String>>,
    progress: mpsc::UnboundedReceiver<Progress>,
    cancel: watch::Sender<bool>,
    policy: Arc<PermissionPolicy>,
    updates: UpdateTranslator,
    actions: Actions,
    stage: Stage,
    id: Option<String>,
    /// Who the agent says it is.
    agent_name: &'a OnceLock<String>,
    turn: Option<Result<TurnEnd, Failure>>,
    warned_of_noise: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Working,
    Cancelling,
    /// The turn has ended and the agent's input is closed: it has to exit by itself.
    Exiting,
}

impl<'a> AcpSession<'a> {
    /// Creates a session; `agent_name` is filled in once the agent has introduced itself.
    pub(crate) fn new(
        input: Input,
        spec: SessionSpec,
        policy: Arc<PermissionPolicy>,
        agent_name: &'a OnceLock<String>,
    ) -> Self {
        let (lines_to_client, lines) = mpsc::unbounded_channel();
        let (progress_sender, progress) = mpsc::unbounded_channel();
        let (cancel, cancelled) = watch::channel(false);
        let io = ClientIo { input, lines, progress: progress_sender, cancel: cancelled };
        Self {
            client: Some(Box::pin(run_client(io, spec, Arc::clone(&policy)))),
            lines_to_client: Some(lines_to_client),
            progress,
            cancel,
            policy,
            updates: UpdateTranslator::default(),
            actions: Actions::default(),
            stage: Stage::Starting,
            id: None,
            agent_name,
            turn: None,
            warned_of_noise: false,
        }
    }

    fn handle_progress(&mut self, progress: Progress) {
        match progress {
            Progress::Initialized { agent_name } => {
                // The handshake happens once.
                let _ = self.agent_name.set(agent_name);
            }
            Progress::SessionCreated { id, model } => {
                self.id = Some(id.clone());
                self.actions.emit(Event::Session { id, model });
            }
            Progress::Prompted if self.stage == Stage::Starting => self.stage = Stage::Working,
            Progress::Prompted => {}
        }
    }

    fn handle_all_progress(&mut self) {
        while let Ok(progress) = self.progress.try_recv() {
            self.handle_progress(progress);
        }
    }

    /// Handles the end of the turn. The agent's input is closed with the client: it should exit by itself.
    fn end_turn(&mut self, turn: Result<TurnEnd, Failure>) {
        self.client = None;
        self.lines_to_client = None;
        let mut events = Vec::new();
        self.updates.flush(&mut events);
        if let Ok(TurnEnd { tokens: Some(tokens), .. }) = &turn {
            self.updates.add_tokens(*tokens, &mut events);
        }
        self.turn = Some(turn);
        self.actions.emit_all(events);
        if self.stage == Stage::Cancelling {
            self.actions.stop(Stop::Terminate);
        }
        self.stage = Stage::Exiting;
        self.actions.set_timeout(Some(EXIT_GRACE));
    }

    /// Returns whether a message is about this session: agents may report on sessions that they began
    /// themselves, for agents of their own.
    fn is_own_session(&self, params: &Value) -> bool {
        let id = params.get("sessionId").and_then(Value::as_str);
        self.id.is_none() || id == self.id.as_deref()
    }

    fn unanswered() -> Failure {
        Failure::new(ErrorClass::Crashed, "the agent ended without an answer")
    }
}

impl ProcessHandler for AcpSession<'_> {
    fn actions(&mut self) -> &mut Actions {
        &mut self.actions
    }

    fn read_line(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        self.actions.emit(Event::Raw { line: line.clone() });
        let value = serde_json::from_str::<Value>(&line).ok();
        let Some(message) = value.filter(|value| value.get("jsonrpc").is_some()) else {
            if !std::mem::replace(&mut self.warned_of_noise, true) {
                let message = format!(
                    "the agent prints what is no message of its protocol, such as: {line:.200}"
                );
                self.actions.emit(Event::Warning { message });
            }
            return;
        };
        let method = message.get("method").and_then(Value::as_str);
        let params = message.get("params").unwrap_or(&Value::Null);
        let is_request = message.get("id").is_some();
        let events = match method {
            Some("session/update") if !is_request && self.is_own_session(params) => {
                self.updates.translate(params.get("update").unwrap_or(&Value::Null))
            }
            Some("_claude/sdkMessage") if !is_request && self.is_own_session(params) => {
                let message = params.get("message").unwrap_or(&Value::Null);
                self.updates.translate_claude(message, self.id.as_deref())
            }
            Some("session/request_permission") if is_request => {
                self.updates.translate_permission_request(params)
            }
            _ => Vec::new(),
        };
        self.actions.emit_all(events);
        if is_request && let Some(lines) = &self.lines_to_client {
            // The client may have ended; then nobody needs the line.
            let _ = lines.send(line);
        }
    }

    /// Waits for progress of the client or its end.
    async fn wait(&mut self) {
        let client = async {
            match &mut self.client {
                Some(client) => client.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(progress) = self.progress.recv() => self.handle_progress(progress),
            turn = client => self.end_turn(turn),
        }
    }

    fn is_done(&self) -> bool {
        self.turn.is_some()
    }

    /// Asks an agent at work to cancel it, and gives it some time for that.
    fn cancel(&mut self, _reason: CancelReason) {
        if self.stage == Stage::Working {
            self.stage = Stage::Cancelling;
            self.actions.set_timeout(Some(CANCEL_TIMEOUT));
            self.cancel.send_replace(true);
        } else {
            self.actions.stop(Stop::Terminate);
        }
    }

    /// Lets the client see that the agent is gone.
    async fn exited(&mut self) {
        self.lines_to_client = None;
        self.handle_all_progress();
        let Some(client) = self.client.take() else { return };
        let turn = timeout(CLIENT_EXIT_TIMEOUT, client).await;
        self.handle_all_progress();
        self.end_turn(turn.unwrap_or_else(|_| Err(Self::unanswered())));
    }

    fn finish(self, end: ProcessEnd) -> Result<Report, AgentError> {
        let turn = self.turn.unwrap_or_else(|| Err(Self::unanswered()));
        let failure = match turn {
            Ok(turn) => turn.failure.or_else(|| self.updates.failure()),
            Err(failure) => Some(failure),
        };
        let report = Report {
            final_text: self.updates.final_text(),
            usage: self.updates.usage(),
            session: self.id,
            denied: self.policy.denied(),
            ..Report::default()
        };
        let is_explained = failure.as_ref().is_some_and(|failure| {
            !matches!(failure.class, ErrorClass::Crashed | ErrorClass::Unavailable)
        });
        let crashed = failure.as_ref().is_some_and(|failure| failure.class == ErrorClass::Crashed);
        let end = ProcessEnd {
            hint: end.hint.filter(|_| !is_explained),
            // How the process ends after its turn says nothing about the turn.
            success: failure.is_none() || (end.success && !crashed),
            stderr: if is_explained { String::new() } else { end.stderr },
            ..end
        };
        end.conclude(match failure {
            None => Ok(report),
            Some(Failure { class, message }) => {
                Err(AgentError::new(class, message).with_report(report))
            }
        })
    }
}
