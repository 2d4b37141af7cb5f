//! A session with a plugin, from `hello` to `close`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ralph_orchestrator_contract::{BuildContext, BuildError};
use ralph_orchestrator_plugin_protocol::{
    Close, HostFrame, ItemKind, Method, PluginHello, Provided, WINDOW, feature,
};
use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::actor;
use crate::call::CallHandle;
use crate::call_event::CallEvent;
use crate::protocol_state::ProtocolState;
use crate::session_state::{SessionClosed, SessionOptions, Shared};
use crate::transport::{Inbound, Transport};

/// The time in which a plugin has to answer `hello`.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// The time in which a plugin has to build an instance.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the rest of a plugin's output is waited for once its process has ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// The capacity of a call's channel: events within the credit, a preview request, a question about a path, the
/// end, and as much again for log messages.
pub(crate) const CALL_QUEUE: usize = 2 * WINDOW as usize + 3;

/// Why an instance was not built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The plugin rejects its table.
    #[error(transparent)]
    Refused(#[from] BuildError),
    /// The plugin provides no such item.
    #[error("{0}")]
    NotProvided(String),
    /// The session closed.
    #[error(transparent)]
    SessionClosed(#[from] SessionClosed),
}

/// A session with a plugin. Dropping it stops reading from the transport.
pub struct Session {
    shared: Arc<Shared>,
    hello: PluginHello,
    /// Permits one call at a time, for a plugin without the feature `credit`.
    turns: Option<Arc<Semaphore>>,
    _actor: ActorGuard,
}

/// Stops the actor when dropped.
struct ActorGuard {
    shared: Arc<Shared>,
    actor: JoinHandle<()>,
}

impl Drop for ActorGuard {
    fn drop(&mut self) {
        self.actor.abort();
        self.shared.close("the session was closed");
    }
}

impl Session {
    /// Sends `hello` and waits for the plugin's. Needs a tokio runtime, on which it spawns the task that
    /// reads from the transport.
    ///
    /// # Errors
    /// The plugin does not send a valid `hello` within [`HELLO_TIMEOUT`].
    pub async fn start(
        transport: Arc<dyn Transport>,
        inbound: mpsc::Receiver<Inbound>,
    ) -> Result<Self, SessionClosed> {
        Self::start_with(transport, inbound, SessionOptions::default()).await
    }

    /// The same with options.
    pub(crate) async fn start_with(
        transport: Arc<dyn Transport>,
        inbound: mpsc::Receiver<Inbound>,
        options: SessionOptions,
    ) -> Result<Self, SessionClosed> {
        let (state, ended) = (Mutex::default(), Notify::new());
        let shared = Arc::new(Shared { transport, state, options, ended });
        let (hello_tx, hello_rx) = oneshot::channel();
        shared.state().hello = Some(hello_tx);
        let actor = tokio::spawn(actor::run(Arc::clone(&shared), inbound));
        let guard = ActorGuard { shared: Arc::clone(&shared), actor };
        shared.send(&HostFrame::Hello(ProtocolState::hello()))?;
        let Ok(hello) = timeout(shared.patience(HELLO_TIMEOUT), hello_rx).await else {
            let seconds = HELLO_TIMEOUT.as_secs();
            let hint = match (shared.state().has_output, shared.options.remarks.is_library()) {
                (true, _) => shared.options.remarks.frames_instead(),
                (false, true) => {
                    "; it has not called `emit`: does it answer from a thread of its own?"
                        .to_owned()
                }
                (false, false) => {
                    "; it has printed no line: does it end each one, and flush its standard output then?"
                        .to_owned()
                }
            };
            shared.close(&format!("no reply to `hello` within {seconds} s{hint}"));
            return Err(shared.close_reason());
        };
        let hello = hello.map_err(|_| shared.close_reason())?;
        let credit = shared.state().protocol.has_feature(feature::CREDIT);
        let turns = (!credit).then(|| Arc::new(Semaphore::new(1)));
        Ok(Self { shared, hello, turns, _actor: guard })
    }

    /// Returns the plugin's `hello`.
    #[must_use]
    pub const fn hello(&self) -> &PluginHello {
        &self.hello
    }

    /// Whether the plugin announced a feature.
    pub(crate) fn has_feature(&self, feature: &str) -> bool {
        self.shared.state().protocol.has_feature(feature)
    }

    /// Returns how long is waited for something that may take so long.
    pub(crate) fn patience(&self, limit: Duration) -> Duration {
        self.shared.patience(limit)
    }

    /// Returns why the session is closed, if it is.
    #[must_use]
    pub fn closed(&self) -> Option<SessionClosed> {
        self.shared.closed()
    }

    /// Returns what the plugin printed on standard error and logged after its run had ended: the pipe of a quick one is read
    /// later than its report. For a session whose process has ended.
    pub(crate) async fn late_output(&self) -> VecDeque<CallEvent> {
        // It reads what is left in the channel first.
        drop(timeout(DRAIN_TIMEOUT, self.shared.ended.notified()).await);
        self.shared.state().take_buffered()
    }

    /// Returns the warnings of a session that has no `run`.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.shared.state().take_warnings()
    }

    /// Closes the session with this reason; everything that waits fails with it.
    pub fn abort(&self, reason: &str) {
        self.shared.close(reason);
    }

    /// Builds an instance of the item of that kind and name, or of the only one of that kind. Returns its
    /// number and description.
    ///
    /// # Errors
    /// The plugin rejects the table, does not answer within [`OPEN_TIMEOUT`], or the session closed.
    pub async fn open(
        &self,
        kind: ItemKind,
        name: Option<&str>,
        config: Value,
        context: &BuildContext,
    ) -> Result<(u64, Provided), OpenError> {
        let (result_tx, result_rx) = oneshot::channel();
        let open = {
            let mut state = self.shared.state();
            if let Some(closed) = &state.closed {
                return Err(closed.clone().into());
            }
            let open = state.protocol.open(kind, name, config, context);
            state.opening.insert(open.instance, result_tx);
            open
        };
        let instance = open.instance;
        if let Err(closed) = self.shared.send(&HostFrame::Open(open)) {
            let mut state = self.shared.state();
            state.protocol.forget_instance(instance);
            state.opening.remove(&instance);
            return Err(closed.into());
        }
        match timeout(self.patience(OPEN_TIMEOUT), result_rx).await {
            Ok(Ok(result)) => Ok((instance, result?)),
            Ok(Err(_)) => Err(self.shared.close_reason().into()),
            Err(_) => {
                let instead = self.shared.options.remarks.frames_instead();
                let seconds = OPEN_TIMEOUT.as_secs();
                self.abort(&format!("no reply to `open` within {seconds} s{instead}"));
                Err(self.shared.close_reason().into())
            }
        }
    }

    /// Starts a call. A plugin without the feature `credit` has one at a time: then this waits.
    ///
    /// # Errors
    /// The session closed, or the call cannot be encoded.
    pub async fn call(&self, instance: u64, method: Method) -> Result<CallHandle, SessionClosed> {
        let turn = self.turn().await;
        let (events_tx, events_rx) = mpsc::channel(CALL_QUEUE);
        let is_run = matches!(method, Method::Run { .. });
        let mut before = VecDeque::new();
        let call = {
            let mut state = self.shared.state();
            if let Some(closed) = &state.closed {
                return Err(closed.clone());
            }
            let call = state.protocol.call(instance, method);
            if is_run {
                before = state.take_buffered();
                state.runs.push(call.call);
            }
            state.calls.insert(call.call, events_tx);
            call
        };
        let number = call.call;
        if let Err(closed) = self.shared.send(&HostFrame::Call(call)) {
            let mut state = self.shared.state();
            state.protocol.forget_call(number);
            state.remove_call(number);
            return Err(closed);
        }
        Ok(CallHandle::new(Arc::clone(&self.shared), number, (before, events_rx), turn))
    }

    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turns = self.turns.clone()?;
        turns.acquire_owned().await.ok()
    }

    /// Sends `close`.
    pub fn close(&self) {
        // A plugin that is gone needs no `close`.
        drop(self.shared.send(&HostFrame::Close(Close {})));
    }
}
