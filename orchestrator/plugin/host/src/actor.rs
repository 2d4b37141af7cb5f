//! The task that handles a plugin's messages and forwards them to the calls that wait for them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_contract::{BuildError, Event};
use ralph_orchestrator_plugin_protocol::{
    Decoded, EventSent, HostFrame, Opened, Ping, PluginFrame, Provided, decode, feature,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout_at};

use crate::call_event::CallEvent;
use crate::frame_trace::TracedMessage;
use crate::protocol_state::ProtocolEvent;
use crate::session_state::{SessionClosed, Shared};
use crate::transport::{INBOUND_QUEUE, Inbound};
use crate::violation::Violation;

/// The interval between pings.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// A plugin that sends no frame during so many pings hangs: 30 s. Counted in pings, so that a suspended
/// host does not count.
const MAX_UNANSWERED: u32 = 6;
/// How long the standard error of a plugin that violates the protocol is read.
const STDERR_TIMEOUT: Duration = Duration::from_millis(250);

/// Breaks with the reason for closing the session.
type Flow = ControlFlow<String>;

pub(crate) async fn run(shared: Arc<Shared>, mut inbound: mpsc::Receiver<Inbound>) {
    let mut heartbeat = Heartbeat::new();
    // Received in batches: the sender that waits for room wakes once per batch, not once per message.
    let mut messages = Vec::with_capacity(INBOUND_QUEUE);
    let reason = loop {
        let flow = tokio::select! {
            biased;
            count = inbound.recv_many(&mut messages, INBOUND_QUEUE) => {
                heartbeat.reset();
                if count == 0 {
                    break "it is gone".to_owned();
                }
                shared.state().has_output = true;
                let mut flow = Flow::Continue(());
                let mut received = messages.drain(..);
                while let Some(message) = received.next() {
                    let is_end = matches!(message, Inbound::Ended(_));
                    shared.trace(TracedMessage::Received(&message));
                    flow = handle_inbound(&shared, message).await;
                    if flow.is_break() {
                        if !is_end {
                            keep_stderr(&shared, received, &mut inbound).await;
                        }
                        break;
                    }
                }
                flow
            }
            () = heartbeat.tick() => heartbeat.ping(&shared),
        };
        if let ControlFlow::Break(reason) = flow {
            break reason;
        }
    };
    shared.close(&reason);
    shared.ended.notify_one();
    // Dropping the receiver tells the sender that nobody reads any more.
}

/// Keeps what the plugin printed on standard error beside the message that closes the session: the other pipe
/// may be read later. A plugin that has ended has sent everything before its end.
async fn keep_stderr(
    shared: &Shared,
    received: impl Iterator<Item = Inbound>,
    inbound: &mut mpsc::Receiver<Inbound>,
) {
    let keep = |message| match message {
        Inbound::Stderr(line) => {
            shared.state().append_output(&line);
            ControlFlow::Continue(())
        }
        Inbound::Ended(_) => ControlFlow::Break(()),
        Inbound::Frame(_) | Inbound::TooLong { .. } => ControlFlow::Continue(()),
    };
    let mut flow = received.map(keep).find(ControlFlow::is_break);
    let until = Instant::now() + STDERR_TIMEOUT;
    while flow.is_none() {
        match timeout_at(until, inbound.recv()).await {
            Ok(Some(message)) => flow = Some(keep(message)).filter(ControlFlow::is_break),
            Ok(None) | Err(_) => return,
        }
    }
}

/// Pings the plugin while calls are open, and detects that it hangs.
struct Heartbeat {
    ticks: Interval,
    sent: u64,
    unanswered: u32,
}

impl Heartbeat {
    fn new() -> Self {
        let mut ticks = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, sent: 0, unanswered: 0 }
    }

    async fn tick(&mut self) {
        self.ticks.tick().await;
    }

    const fn reset(&mut self) {
        self.unanswered = 0;
    }

    fn ping(&mut self, shared: &Shared) -> Flow {
        let state = shared.state();
        let enabled = state.protocol.has_open_calls() && state.protocol.has_feature(feature::PING);
        drop(state);
        if !enabled || shared.options.is_attached {
            self.unanswered = 0;
            return Flow::Continue(());
        }
        if self.unanswered == MAX_UNANSWERED {
            let seconds = PING_INTERVAL.as_secs() * u64::from(MAX_UNANSWERED);
            return Flow::Break(format!(
                "it hangs: it sent nothing for {seconds} s, not even `pong`"
            ));
        }
        self.unanswered += 1;
        self.sent += 1;
        match shared.send(&HostFrame::Ping(Ping { n: self.sent })) {
            Ok(()) => Flow::Continue(()),
            Err(closed) => Flow::Break(closed.0),
        }
    }
}

/// Handles a message of the plugin, and forwards it to whoever waits for it.
async fn handle_inbound(shared: &Shared, message: Inbound) -> Flow {
    let result = match message {
        Inbound::Ended(how) => {
            let before = shared.state().protocol.first_open_call().map(|(call, method)| {
                format!(" before it answered call {call} of `{}`", method.word())
            });
            return Flow::Break(how + &before.unwrap_or_default());
        }
        Inbound::Stderr(line) => {
            shared.state().append_output(&line);
            forward_to_run(shared, CallEvent::Stderr(line)).await;
            return Flow::Continue(());
        }
        Inbound::TooLong { bytes } => Err(Violation::TooLong { bytes }),
        Inbound::Frame(bytes) => {
            let result = handle_frame(shared, &bytes).transpose();
            // Before the frame itself: it may be the last one of its call.
            forward_remarks(shared).await;
            let Some(result) = result else { return Flow::Continue(()) };
            result
        }
    };
    let event = match result {
        Ok(event) => event,
        Err(violation) => {
            let what = violation.describe(shared.options.remarks.is_library());
            return Flow::Break(format!("{}: it {what}", SessionClosed::VIOLATION));
        }
    };
    match event {
        ProtocolEvent::Hello(hello) => {
            let waiting = shared.state().hello.take();
            // Nobody waits for it any more if it came too late.
            if let Some(waiting) = waiting {
                drop(waiting.send(hello));
            }
        }
        ProtocolEvent::Opened { instance, result } => complete_open(shared, instance, result),
        ProtocolEvent::Call { call, event } => {
            let ended = matches!(event, CallEvent::Ended(_));
            let events = shared.state().calls.get(&call).cloned();
            // A closed channel means that the caller gave the call up.
            if let Some(events) = events {
                drop(events.send(event).await);
            }
            if ended {
                shared.state().remove_call(call);
            }
        }
        ProtocolEvent::Log(line) => {
            crate::log::trace(&line);
            shared.state().append_output(&crate::log::text(&line));
            forward_to_run(shared, CallEvent::Log(line)).await;
        }
        ProtocolEvent::Pong => {}
    }
    Flow::Continue(())
}

/// Warns of what was noticed for the first time.
async fn forward_remarks(shared: &Shared) {
    for what in shared.options.remarks.take_fresh() {
        let message = format!("the plugin sent {what}");
        forward_to_run(shared, CallEvent::Agent(Event::Warning { message })).await;
    }
}

/// Returns what a frame means; `None` if it is unknown.
fn handle_frame(shared: &Shared, bytes: &[u8]) -> Result<Option<ProtocolEvent>, Violation> {
    match decode::<PluginFrame>(bytes) {
        Ok(Decoded::Unknown(name)) => {
            shared.options.remarks.ignore_frame(&name);
            Ok(None)
        }
        Ok(Decoded::Known(frame)) => {
            observe_unknown(shared, &frame, bytes);
            shared.state().protocol.handle_frame(frame).map(Some)
        }
        Ok(Decoded::KnownInPart(frame, unknown)) => {
            unknown.iter().for_each(|word| shared.options.remarks.ignore_word(word));
            shared.state().protocol.handle_frame(frame).map(Some)
        }
        Err(error) => {
            let missing = shared.state().protocol.missing_answer(bytes);
            Err(missing.unwrap_or_else(|| error.into()))
        }
    }
}

/// Records what is ignored within a frame.
fn observe_unknown(shared: &Shared, frame: &PluginFrame, bytes: &[u8]) {
    match frame {
        PluginFrame::Event(EventSent { event: Event::Unknown, .. }) => {
            shared.options.remarks.ignore_event(bytes);
        }
        PluginFrame::Opened(Opened { provided: Provided::Agent(_), .. }) => {
            shared.options.remarks.ignore_capabilities(bytes);
        }
        _ => {}
    }
}

fn complete_open(shared: &Shared, instance: u64, result: Result<Provided, BuildError>) {
    let waiting = shared.state().opening.remove(&instance);
    if let Some(waiting) = waiting {
        drop(waiting.send(result));
    }
}

/// Forwards an event that belongs to no call to the first open `run`, or buffers it for the next one.
async fn forward_to_run(shared: &Shared, event: CallEvent) {
    let events = shared.state().first_run();
    match events {
        Some(events) => drop(events.send(event).await),
        None => shared.state().buffer(event),
    }
}
