//! Sends controls to the run of a command: to the orchestrator that holds it, or, where none does, into its
//! journal.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use ralph_orchestrator_core::engine::{RecordedControl, new_run_id, record_control};
use ralph_orchestrator_core::machine::{Answer, Control, ControlOrigin, ReceivedControl, Record};
use ralph_orchestrator_core::store::{
    Layout, SeriesLock, StateError, Store, fits_in_message, is_control_waiting, read_current_run,
    send_control, withdraw_control,
};

use crate::commands::run_selection;
use crate::context::{self, Context};
use crate::discovery::ConfigFile;
use crate::error::CommandError;
use crate::orphans::end_orphans;
use crate::output;
use crate::render::text::{local, one_line, timestamp};

/// The name of this program in controls.
const PROGRAM: &str = "command line";
/// How long the run may take to record a control; one that is stopped takes it in later.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// What became of a control.
pub(crate) enum Delivery {
    /// The active run has recorded it.
    Taken(RecordedControl),
    /// It is recorded; no run is active.
    Stored(RecordedControl),
    /// It is in the inbox of a run that has not taken it yet.
    Queued,
}

impl Delivery {
    /// Returns what is recorded, and whether the run is active.
    pub(crate) const fn recorded(&self) -> Option<(&RecordedControl, bool)> {
        match self {
            Self::Taken(recorded) => Some((recorded, true)),
            Self::Stored(recorded) => Some((recorded, false)),
            Self::Queued => None,
        }
    }

    /// Returns what is recorded, and whether the run is active, unless the run has yet to take it, which is said.
    ///
    /// # Errors
    /// The control cannot take effect.
    pub(crate) fn accepted(&self) -> Result<Option<(&RecordedControl, bool)>, CommandError> {
        let Some((recorded, is_active)) = self.recorded() else {
            output::result(QUEUED);
            return Ok(None);
        };
        match &recorded.refused {
            Some(reason) => Err(refuse(reason)),
            None => Ok(Some((recorded, is_active))),
        }
    }
}

/// A control on its way.
pub(crate) struct Sender<'a> {
    context: &'a Context,
    layout: Layout,
    program: String,
    control: ReceivedControl,
    /// The run whose inbox has it.
    sent_to: Option<String>,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(
        context: &'a Context,
        file: &ConfigFile,
        control: Control,
    ) -> Result<Self, CommandError> {
        let layout = context.layout()?;
        if !layout.root().exists() {
            return Err(CommandError::user(run_selection::no_run(context)));
        }
        if !fits_in_message(&control) {
            return Err(CommandError::user("the text is too long")
                .hinted("write it to a file of the workspace, and name the file"));
        }
        let control = ReceivedControl { origin: own_origin(), control };
        let program = context::invocation(file);
        Ok(Self { context, layout, program, control, sent_to: None })
    }

    /// Delivers the control, and returns once it is recorded, or the run has not taken it for a while.
    pub(crate) fn deliver(mut self) -> Result<Delivery, CommandError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Between two items nobody holds the run, and the next one must find it free.
            if SeriesLock::holder(&self.layout).is_none() {
                match Store::open(self.layout.clone()) {
                    Err(StateError::Busy { .. }) => {}
                    opened => return self.store(opened?),
                }
            }
            match &self.sent_to {
                None => self.send()?,
                Some(run) if !is_control_waiting(&self.layout, self.id()) => {
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

    /// Puts it into the inbox of the active run, once that has begun.
    fn send(&mut self) -> Result<(), CommandError> {
        let Some(found) = read_current_run(&self.layout, |_| {})? else { return Ok(()) };
        if found.state.completion().is_some() {
            // The next item of the backlog is about to begin.
            if SeriesLock::holder(&self.layout).is_some() {
                return Ok(());
            }
            return Err(self.complete(&found.run));
        }
        send_control(&self.layout, &found.run, &self.control)?;
        self.sent_to = Some(found.run);
        Ok(())
    }

    /// Records it where nobody holds the run.
    fn store(self, mut store: Store) -> Result<Delivery, CommandError> {
        let found = store.resume()?;
        // Otherwise nothing would tell the next start of them.
        for note in store.end_orphans(found.as_ref(), &end_orphans).notes {
            output::info(&note);
        }
        withdraw_control(&self.layout, self.id())?;
        let Some(found) = found else {
            return Err(CommandError::user(run_selection::no_run(self.context)));
        };
        if found.state.completion().is_some() {
            return Err(self.complete(&found.run));
        }
        Ok(Delivery::Stored(record_control(&mut store, found, self.control)?))
    }

    /// Finds what the run has recorded of it.
    fn find_recorded(&self, run: &str) -> Result<Delivery, CommandError> {
        let (mut recorded, mut running) = (None, None);
        let found = read_current_run(&self.layout, |entry| {
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
            .hinted(format!("`{} run --restart` begins a new run", self.program))
    }
}

/// Returns the origin of a control that is sent now.
pub(crate) fn own_origin() -> ControlOrigin {
    let sent_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
    ControlOrigin { id: new_run_id(), user: user_name(), program: PROGRAM.to_owned(), sent_ms }
}

/// The name of the user who runs this program, or the number.
fn user_name() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("user {uid}"))
}

/// Who sent a control, and when.
pub(crate) fn sender(origin: &ControlOrigin) -> String {
    let user = one_line(&origin.user, 40);
    match timestamp(origin.sent_ms) {
        Some(time) => format!("{user}, {}", local(time)),
        None => user,
    }
}

/// How far an answer or guidance has come, in a word, and in which iteration.
pub(crate) fn progress(answer: &Answer) -> (&'static str, Option<u64>) {
    let word = match (answer.is_seen, answer.delivered_in) {
        (true, _) => "seen",
        (false, Some(_)) => "delivered",
        (false, None) => "queued",
    };
    (word, answer.delivered_in)
}

/// Refuses, with the run's reason.
pub(crate) fn refuse(reason: &str) -> CommandError {
    CommandError::user(reason.to_owned())
}

/// The message of a control that the run has not taken yet.
pub(crate) const QUEUED: &str =
    "queued: the run does not take messages at the moment; it takes this one as soon as it can";
