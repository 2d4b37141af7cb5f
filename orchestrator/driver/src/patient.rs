//! A backlog that another program holds for a while, such as a locked database, is waited for.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_orchestrator_backlog::{
    Backlog, BacklogError, BacklogSnapshot, GuardReport, GuardRules, ItemStatus, NewItem,
    TrustedEdit,
};
use ralph_orchestrator_engine::StopRequests;

use crate::event::{BacklogEvent, BacklogObserver};

/// How long it is waited for, beside the seconds that each try takes.
const MOST_WAIT: Duration = Duration::from_secs(10 * 60);
/// How long to pause between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// A backlog whose operations are tried again while another program holds its file.
pub(crate) struct PatientBacklog {
    inner: Arc<dyn Backlog>,
    observer: Arc<dyn BacklogObserver>,
    requests: StopRequests,
}

impl PatientBacklog {
    pub(crate) fn new(
        inner: Arc<dyn Backlog>,
        observer: Arc<dyn BacklogObserver>,
        requests: StopRequests,
    ) -> Self {
        Self { inner, observer, requests }
    }

    /// Tries until the file is free, the time is over, or a stop is requested.
    fn wait<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, BacklogError>,
    ) -> Result<T, BacklogError> {
        let mut since = None;
        loop {
            let result = attempt();
            if !matches!(result, Err(BacklogError::Busy { .. })) {
                return result;
            }
            let begun: &mut Instant = since.get_or_insert_with(|| {
                self.say(&format!(
                    "backlog: {} is held by another program; waiting for it, at most {} minutes",
                    self.inner.path().display(),
                    MOST_WAIT.as_secs() / 60
                ));
                Instant::now()
            });
            if begun.elapsed() > MOST_WAIT || self.requests.borrow().times > 0 {
                return result;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn say(&self, message: &str) {
        self.observer
            .on_backlog_event(&BacklogEvent::BacklogWarning { message: message.to_owned() });
    }
}

impl Backlog for PatientBacklog {
    fn format(&self) -> &str {
        self.inner.format()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn load(&self) -> Result<BacklogSnapshot, BacklogError> {
        self.wait(|| self.inner.load())
    }

    fn is_unwritten(&self) -> bool {
        self.inner.is_unwritten()
    }

    fn example(&self) -> &str {
        self.inner.example()
    }

    fn instructions(&self) -> &str {
        self.inner.instructions()
    }

    fn parse(&self, bytes: &[u8]) -> Result<BacklogSnapshot, BacklogError> {
        self.inner.parse(bytes)
    }

    fn set_status(&self, id: &str, status: ItemStatus) -> Result<BacklogSnapshot, BacklogError> {
        self.wait(|| self.inner.set_status(id, status))
    }

    fn append_note(&self, id: &str, note: &str) -> Result<BacklogSnapshot, BacklogError> {
        self.wait(|| self.inner.append_note(id, note))
    }

    fn add_item(&self, item: &NewItem) -> Result<(String, BacklogSnapshot), BacklogError> {
        self.wait(|| self.inner.add_item(item))
    }

    fn preview_add(
        &self,
        base: &[u8],
        item: &NewItem,
    ) -> Result<(String, BacklogSnapshot), BacklogError> {
        self.inner.preview_add(base, item)
    }

    fn guard(
        &self,
        base: &BacklogSnapshot,
        edits: &[TrustedEdit],
        rules: GuardRules,
    ) -> Result<GuardReport, BacklogError> {
        self.wait(|| self.inner.guard(base, edits, rules))
    }
}
