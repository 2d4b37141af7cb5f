//! Sends controls to a run: to the orchestrator that holds it, or, where none does, into its journal.

mod messages;

mod origin;

mod target;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ralph_orchestrator_engine::{RecordedControl, record_control};
use ralph_orchestrator_machine::{Control, ControlOrigin, ReceivedControl, Record};
use ralph_orchestrator_store::{
    Layout, SeriesLock, StateError, Store, fits_in_message, is_control_waiting, read_current_run,
    send_control, withdraw_control,
};
use ralph_orchestrator_supervisor::PeerSocket;
use ralph_orchestrator_text::{local, one_line, timestamp};

pub use origin::{KeyedOrigin, own_origin};
pub use target::ControlTarget;

use crate::error::CommandError;
use crate::messages::info;
use crate::orphans::end_orphans;
use crate::run_above::{find_run_above, holders};

/// The name of a command in controls.
pub const COMMAND_LINE: &str = "command line";

/// How long the run may take to record a control; one that is stopped takes it in later.
const PATIENCE: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(10);

/// How far a control has come.
enum Delivery {
    /// The active run has recorded it.
    Taken(RecordedControl),
    /// It is recorded; no run is active.
    Stored(RecordedControl),
    /// It is in the inbox of a run that has not taken it yet.
    Queued,
}

impl Delivery {
    /// Returns what is recorded, and whether the run is active.
    const fn recorded(&self) -> Option<(&RecordedControl, bool)> {
        match self {
            Self::Taken(recorded) => Some((recorded, true)),
            Self::Stored(recorded) => Some((recorded, false)),
            Self::Queued => None,
        }
    }
}

/// What became of a control.
pub struct Outcome {
    /// What to say about it.
    pub message: String,
    /// The run has not taken it yet.
    pub is_queued: bool,
}

/// Delivers a control, and returns once it is recorded, or the run has not taken it for a while.
///
/// # Errors
/// It cannot take effect.
pub fn deliver(
    target: &ControlTarget<'_>,
    origin: ControlOrigin,
    control: &Control,
) -> Result<Outcome, CommandError> {
    match control {
        Control::Steer { text } if text.trim().is_empty() => {
            return Err(CommandError::user("the text is empty"));
        }
        Control::Answer { text } if text.trim().is_empty() => {
            return Err(CommandError::user("the answer is empty"));
        }
        _ => {}
    }
    refuse_from_below(&target.layout)?;
    let delivery = Sender::new(target, origin, control.clone())?.deliver()?;
    let message = messages::describe(control, &delivery, &target.invocation)?;
    Ok(Outcome { message, is_queued: matches!(delivery, Delivery::Queued) })
}

/// Refuses controls of what a run has started: an agent does not give itself more of anything. A request to stop
/// comes another way, and is nobody's gain.
fn refuse_from_below(layout: &Layout) -> Result<(), CommandError> {
    find_run_above(std::slice::from_ref(layout)).map_or(Ok(()), |pid| Err(from_below(pid)))
}

/// Refuses, in the same way, a control that came by a connection within this machine. A client that has left could be
/// anybody's.
pub fn refuse_client_below(
    layout: &Layout,
    client: SocketAddr,
    server: SocketAddr,
) -> Result<(), CommandError> {
    if client.ip().to_canonical() != server.ip().to_canonical()
        && !client.ip().to_canonical().is_loopback()
    {
        return Ok(());
    }
    let Some(socket) = PeerSocket::find(client, server) else {
        return Err(CommandError::user("who sent this control has not waited for the answer"));
    };
    match holders(layout).into_iter().find(|pid| socket.is_open_below(*pid)) {
        None => Ok(()),
        Some(pid) => Err(from_below(pid)),
    }
}

fn from_below(pid: i32) -> CommandError {
    let message = format!("a run takes no controls of what it has started (its process is {pid})");
    CommandError::user(message)
        .hinted("use another terminal; an agent asks a person by claiming that it needs one")
}

/// A control on its way.
struct Sender<'a> {
    target: &'a ControlTarget<'a>,
    control: ReceivedControl,
    /// The run whose inbox has it.
    sent_to: Option<String>,
}

impl<'a> Sender<'a> {
    fn new(
        target: &'a ControlTarget<'a>,
        origin: ControlOrigin,
        control: Control,
    ) -> Result<Self, CommandError> {
        if !target.layout.root().exists() {
            return Err(target.no_run());
        }
        if !fits_in_message(&control) {
            return Err(CommandError::user("the text is too long")
                .hinted("write it to a file of the workspace, and name the file"));
        }
        Ok(Self { target, control: ReceivedControl { origin, control }, sent_to: None })
    }

    fn layout(&self) -> &'a Layout {
        &self.target.layout
    }

    /// Delivers the control, and returns once it is recorded, or the run has not taken it for a while.
    fn deliver(mut self) -> Result<Delivery, CommandError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Between two items nobody holds the run, and the next one must find it free.
            if SeriesLock::holder(&self.target.series).is_none() || self.waits_for_answer()? {
                match Store::open_for_control(self.layout().clone()) {
                    Err(StateError::Busy { .. }) => {}
                    opened => return self.store(opened?),
                }
            }
            match &self.sent_to {
                None => self.send()?,
                Some(run) if !is_control_waiting(self.layout(), self.id()) => {
                    return self.find_recorded(run);
                }
                Some(_) => {}
            }
            if Instant::now() >= deadline {
                return match self.sent_to {
                    Some(_) => Ok(Delivery::Queued),
                    None => Err(CommandError::user("the run has only just started; try again")),
                };
            }
            std::thread::sleep(POLL);
        }
    }

    fn id(&self) -> &str {
        &self.control.origin.id
    }

    /// Returns whether the run is one of several that has asked a question: it is not begun again before that is answered.
    fn waits_for_answer(&self) -> Result<bool, CommandError> {
        Ok(self.target.item.is_some() && self.target.asks()?)
    }

    /// Puts it into the inbox of the active run, once that has begun.
    fn send(&mut self) -> Result<(), CommandError> {
        let Some(found) = read_current_run(self.layout(), |_| {})? else { return Ok(()) };
        if found.state.controls.received.contains(self.id()) {
            self.sent_to = Some(found.run);
            return Ok(());
        }
        if found.state.completion().is_some() {
            // The next item of the backlog is about to begin.
            if SeriesLock::holder(&self.target.series).is_some() {
                return Ok(());
            }
            return Err(self.complete(&found.run));
        }
        send_control(self.layout(), &found.run, &self.control)?;
        self.sent_to = Some(found.run);
        Ok(())
    }

    /// Records it where nobody holds the run.
    fn store(self, mut store: Store) -> Result<Delivery, CommandError> {
        let found = store.resume()?;
        // Otherwise nothing would tell the next start of them.
        for note in store.end_orphans(found.as_ref(), &end_orphans).notes {
            info(&note);
        }
        withdraw_control(self.layout(), self.id())?;
        let Some(found) = found else {
            return Err(self.target.no_run());
        };
        if found.state.controls.received.contains(self.id()) {
            return self.find_recorded(&found.run);
        }
        if found.state.completion().is_some() {
            return Err(self.complete(&found.run));
        }
        Ok(Delivery::Stored(record_control(&mut store, found, self.control)?))
    }

    /// Finds what the run has recorded of it.
    fn find_recorded(&self, run: &str) -> Result<Delivery, CommandError> {
        let (mut recorded, mut running) = (None, None);
        let found = read_current_run(self.layout(), |entry| {
            match &entry.record {
                Record::IterationStarted { iteration, .. } => running = Some(*iteration),
                Record::IterationEnded { .. } => running = None,
                _ => {}
            }
            if entry.record.control_origin().is_some_and(|origin| origin.id == self.id()) {
                recorded = Some((running, entry.record.refusal().map(str::to_owned)));
            }
        })?;
        match (found, recorded) {
            (Some(found), Some((iteration, refused))) => {
                Ok(Delivery::Taken(RecordedControl { state: found.state, iteration, refused }))
            }
            (Some(found), None) if found.state.completion().is_some() => {
                Err(self.complete(&found.run))
            }
            _ => {
                let message = format!("the run {run} ended before it took this in; try again");
                Err(CommandError::user(message))
            }
        }
    }

    fn complete(&self, run: &str) -> CommandError {
        CommandError::user(format!("run {run} is complete"))
            .hinted(format!("`{} run --restart` begins a new run", self.target.invocation))
    }
}

/// Who sent a control, and when.
pub fn sender(origin: &ControlOrigin) -> String {
    let user = one_line(&origin.user, 40);
    match timestamp(origin.sent_ms) {
        Some(time) => format!("{user}, {}", local(time)),
        None => user,
    }
}
