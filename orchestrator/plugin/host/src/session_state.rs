//! What a session, its actor and its calls share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ralph_orchestrator_contract::{BuildError, Event};
use ralph_orchestrator_plugin_protocol::{HostFrame, PluginHello, Provided, encode};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::call_event::CallEvent;
use crate::frame_trace::{FrameTrace, TracedMessage};
use crate::protocol_state::ProtocolState;
use crate::remarks::PluginRemarks;
use crate::transport::Transport;

/// The number of bytes from the end of the standard error that messages include.
const STDERR_TAIL: usize = 2 * 1024;

/// The number of bytes of output buffered while there is no `run` that could receive it.
const BUFFERED_BYTES: usize = 1024 * 1024;

/// The session is closed. Holds the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SessionClosed(pub String);

impl SessionClosed {
    /// How the reason begins if the plugin violated the protocol.
    pub(crate) const VIOLATION: &str = "it violated the protocol";

    /// Returns whether the plugin violated the protocol.
    pub(crate) fn is_violation(&self) -> bool {
        self.0.starts_with(Self::VIOLATION)
    }
}

/// How a session is observed, and whether it is waited for.
#[derive(Clone, Default)]
pub(crate) struct SessionOptions {
    /// Keeps what is noticed.
    pub(crate) remarks: Arc<PluginRemarks>,
    /// Is given what passes.
    pub(crate) trace: Option<FrameTrace>,
    /// A person may have stopped the plugin in a debugger: it is waited for.
    pub(crate) is_attached: bool,
}

/// Shared by the session, its actor and its calls.
pub(crate) struct Shared {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) state: Mutex<State>,
    pub(crate) options: SessionOptions,
    /// Notified when nothing is read any more.
    pub(crate) ended: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) protocol: ProtocolState,
    pub(crate) hello: Option<oneshot::Sender<PluginHello>>,
    pub(crate) opening: BTreeMap<u64, oneshot::Sender<Result<Provided, BuildError>>>,
    pub(crate) calls: BTreeMap<u64, mpsc::Sender<CallEvent>>,
    /// Those of the calls that are a `run`, which also receive what belongs to no call.
    pub(crate) runs: Vec<u64>,
    /// What the plugin printed and logged while no `run` was open.
    pub(crate) buffered: VecDeque<CallEvent>,
    pub(crate) buffered_bytes: usize,
    pub(crate) closed: Option<SessionClosed>,
    pub(crate) stderr_tail: String,
    /// Whether anything was received from the plugin.
    pub(crate) has_output: bool,
}

impl State {
    /// Appends a line to the bounded tail of the standard error and the log.
    pub(crate) fn append_output(&mut self, line: &str) {
        self.stderr_tail.push_str(line);
        self.stderr_tail.push('\n');
        if self.stderr_tail.len() > STDERR_TAIL {
            let surplus = self.stderr_tail.ceil_char_boundary(self.stderr_tail.len() - STDERR_TAIL);
            // The cut has to be visible: what follows it may be the rest of a secret.
            self.stderr_tail.replace_range(..surplus, "…");
        }
    }

    /// Returns the channel of the first open `run`.
    pub(crate) fn first_run(&self) -> Option<mpsc::Sender<CallEvent>> {
        self.runs.first().and_then(|run| self.calls.get(run)).cloned()
    }

    /// Buffers an event until the next `run`.
    pub(crate) fn buffer(&mut self, event: CallEvent) {
        // Each takes some room beside its text.
        self.buffered_bytes = self.buffered_bytes.saturating_add(event.text_len() + 64);
        if self.buffered_bytes <= BUFFERED_BYTES {
            self.buffered.push_back(event);
        }
    }

    pub(crate) fn take_buffered(&mut self) -> VecDeque<CallEvent> {
        self.buffered_bytes = 0;
        std::mem::take(&mut self.buffered)
    }

    /// Takes the warnings among what is buffered, for whoever has no `run`.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        self.buffered.retain(|event| match event {
            CallEvent::Agent(Event::Warning { message }) => {
                warnings.push(message.clone());
                false
            }
            _ => true,
        });
        warnings
    }

    pub(crate) fn remove_call(&mut self, call: u64) {
        self.calls.remove(&call);
        self.runs.retain(|run| *run != call);
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long is waited for something that may take so long.
    pub(crate) const fn patience(&self, limit: Duration) -> Duration {
        if self.options.is_attached { Duration::MAX } else { limit }
    }

    /// Shows a message to what traces the session, if anything does.
    pub(crate) fn trace(&self, message: TracedMessage<'_>) {
        if let Some(trace) = &self.options.trace {
            trace(message);
        }
    }

    /// Sends a frame. A transport that fails closes the session.
    pub(crate) fn send(&self, frame: &HostFrame) -> Result<(), SessionClosed> {
        let bytes = encode(frame).map_err(|error| SessionClosed(error.to_string()))?;
        self.trace(TracedMessage::Sent(&bytes));
        self.transport.send(bytes).map_err(|closed| {
            self.close(&closed.0);
            SessionClosed(closed.0)
        })
    }

    /// Closes the session: everything that waits fails with the reason. The first reason is kept.
    pub(crate) fn close(&self, reason: &str) {
        let mut state = self.state();
        let reason = with_stderr(reason, &state.stderr_tail);
        state.closed.get_or_insert(SessionClosed(reason));
        state.opening.clear();
        state.calls.clear();
        state.runs.clear();
        state.hello = None;
    }

    /// Returns why the session is closed, if it is.
    pub(crate) fn closed(&self) -> Option<SessionClosed> {
        self.state().closed.clone()
    }

    /// Returns why the session is closed, where it is known to be.
    pub(crate) fn close_reason(&self) -> SessionClosed {
        self.closed().unwrap_or_else(|| SessionClosed("the session was closed".to_owned()))
    }
}

fn with_stderr(reason: &str, tail: &str) -> String {
    match tail.trim() {
        "" => reason.to_owned(),
        tail => format!("{reason}; its standard error: {tail}"),
    }
}
