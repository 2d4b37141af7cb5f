//! Takes in what people ask of the run, at every moment of it.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use ralph_orchestrator_machine::{Control, Effect, Input, ReceivedControl};
use ralph_orchestrator_store::{InboxContents, InboxReader, StateError};
use ralph_orchestrator_workspace::PromptWatch;
use tokio::time::Instant;

use super::clock::unix_ms;
use super::error::EngineError;
use super::run_journal::RunJournal;
use super::stop::StopRequests;

/// The shortest time between two readings of the inbox, however often it changes.
const PACE: Duration = Duration::from_millis(50);
/// How many files that are no message are named in one start of the orchestrator.
const MOST_WARNINGS: usize = 8;

/// The inbox of the run, from the engine's side.
struct ControlInbox {
    /// `None` until the run begins, and while a wait has it.
    watch: Option<InboxWatch>,
    reader: InboxReader,
    /// When this start of the orchestrator began, in milliseconds since the Unix epoch.
    began_ms: u64,
    warnings: usize,
    has_failed: bool,
}

/// The ways in which people ask something of a run: its inbox, and requests to stop.
pub(super) struct RunControls {
    inbox: ControlInbox,
    pub(super) stop: StopRequests,
}

/// Notices that the inbox has changed.
pub(super) struct InboxWatch {
    watch: PromptWatch,
    next: Instant,
}

impl ControlInbox {
    fn new() -> Self {
        Self {
            watch: None,
            reader: InboxReader::default(),
            began_ms: unix_ms(),
            warnings: 0,
            has_failed: false,
        }
    }
}

impl InboxWatch {
    fn new(inbox: &Path) -> Self {
        Self { watch: PromptWatch::new(inbox), next: Instant::now() }
    }

    /// Resolves when the inbox may have changed, and not too often. Nothing is lost if the future is dropped.
    pub(super) async fn changed(&mut self) {
        tokio::time::sleep_until(self.next).await;
        self.watch.changed().await;
        self.next = Instant::now() + PACE;
    }
}

impl RunControls {
    /// Returns those of a run that is asked to stop by these requests.
    pub(super) fn new(stop: StopRequests) -> Self {
        Self { inbox: ControlInbox::new(), stop }
    }

    /// Lends the watch of the inbox to something that waits.
    pub(super) fn lend_inbox_watch(&mut self, journal: &RunJournal) -> InboxWatch {
        let inbox = journal.store.layout().inbox();
        self.inbox.watch.take().unwrap_or_else(|| InboxWatch::new(&inbox))
    }

    pub(super) fn return_inbox_watch(&mut self, watch: InboxWatch) {
        self.inbox.watch = Some(watch);
    }

    /// Records what people ask of the run, then removes their messages. Returns the other effects.
    pub(super) fn take_controls(
        &mut self,
        journal: &mut RunJournal,
    ) -> Result<Vec<Effect>, EngineError> {
        if journal.state.started.is_none() || journal.state.completion().is_some() {
            return Ok(Vec::new());
        }
        let mut effects = Vec::new();
        loop {
            let InboxContents { controls, unusable, unreadable, has_more } =
                match journal.store.read_inbox(&journal.context.run, &mut self.inbox.reader) {
                    Ok(found) => found,
                    Err(error) => {
                        // The run goes on without it.
                        self.warn_of_failure(journal, &error)?;
                        return Ok(effects);
                    }
                };
            let mut is_done = true;
            for control in controls {
                is_done &= self.take_control(journal, control, &mut effects)?;
            }
            for (name, why) in unusable {
                self.discard_message(journal, &name, &why)?;
            }
            if let Some(error) = unreadable {
                self.warn_of_failure(journal, &error)?;
            }
            // What is neither taken nor ignored would be read again at once.
            if !has_more || !is_done {
                return Ok(effects);
            }
        }
    }

    /// Returns whether the control need not be read again.
    fn take_control(
        &mut self,
        journal: &mut RunJournal,
        received: ReceivedControl,
        effects: &mut Vec<Effect>,
    ) -> Result<bool, EngineError> {
        let id = received.origin.id.clone();
        // Who asked an earlier start to stop does not mean this one.
        let is_obsolete =
            received.control == Control::Stop && received.origin.sent_ms < self.inbox.began_ms;
        if !is_obsolete && !journal.state.controls.received.contains(&id) {
            effects.extend(journal.advance(Input::Control(received))?);
        }
        // What is not recorded is not lost: it stays where it is.
        if !is_obsolete && !journal.state.controls.received.contains(&id) {
            return Ok(false);
        }
        if let Err(error) = journal.store.remove_read_message(&id, &mut self.inbox.reader) {
            self.warn_of_failure(journal, &error)?;
        }
        Ok(true)
    }

    /// Warns that the inbox cannot be read or written, once in each start.
    fn warn_of_failure(
        &mut self,
        journal: &mut RunJournal,
        error: &StateError,
    ) -> Result<(), EngineError> {
        if std::mem::replace(&mut self.inbox.has_failed, true) {
            return Ok(());
        }
        journal.advance(Input::Warning(format!("messages to the run: {error}"))).map(drop)
    }

    /// Removes a file that is no message for this run, and names it in a warning.
    fn discard_message(
        &mut self,
        journal: &mut RunJournal,
        name: &OsStr,
        why: &str,
    ) -> Result<(), EngineError> {
        let removed = journal.store.discard_from_inbox(name, &mut self.inbox.reader);
        self.inbox.warnings = self.inbox.warnings.saturating_add(1);
        let shown: String = name.to_string_lossy().chars().take(80).collect();
        let becomes = match removed {
            Ok(()) => "discarded",
            Err(_) => "ignored, since it cannot be removed",
        };
        let message = match self.inbox.warnings {
            ..=MOST_WARNINGS => format!("the message {shown} in the inbox was {becomes}: {why}"),
            many if many == MOST_WARNINGS + 1 => {
                "more files in the inbox that are no messages are discarded without a word".into()
            }
            _ => return Ok(()),
        };
        journal.advance(Input::Warning(message)).map(drop)
    }
}
