//! A backlog that another program holds for a while, such as a locked database, is waited for, and so is a tracker that
//! cannot be reached, or limits how often it is asked.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_orchestrator_backlog::{
    Backlog, BacklogError, BacklogItem, BacklogPlace, BacklogSnapshot, GuardReport, GuardRules,
    ItemStatus, NewItem, TrustedEdit,
};
use ralph_orchestrator_engine::StopRequests;

use crate::event::{BacklogEvent, BacklogObserver};

/// How long it is waited for, beside the seconds that each try takes.
const MOST_WAIT: Duration = Duration::from_secs(10 * 60);
/// The same for a tracker: the limits of hosts hold for an hour at most.
const MOST_WAIT_FOR_TRACKER: Duration = Duration::from_secs(65 * 60);
/// How long to pause between two tries; requests to stop are looked for as often.
const PAUSE: Duration = Duration::from_millis(200);
/// How long to pause at most between two tries of a tracker: each doubles the one before.
const MOST_PAUSE: Duration = Duration::from_secs(30);

/// Why there is no result yet.
struct Obstacle {
    /// For people.
    message: String,
    most_wait: Duration,
    /// How much longer than the one before each pause is.
    factor: u32,
}

/// Returns what keeps an operation from its result for a while; `None` if waiting does not help.
fn find_obstacle(error: &BacklogError) -> Option<Obstacle> {
    let minutes = |wait: Duration| wait.as_secs() / 60;
    match error {
        BacklogError::Busy { path } => Some(Obstacle {
            message: format!(
                "backlog: {} is held by another program; waiting for it, at most {} minutes",
                path.display(),
                minutes(MOST_WAIT)
            ),
            most_wait: MOST_WAIT,
            factor: 1,
        }),
        BacklogError::Tracker { is_temporary: true, .. } => Some(Obstacle {
            message: format!(
                "backlog: {error}; trying again, for at most {} minutes",
                minutes(MOST_WAIT_FOR_TRACKER)
            ),
            most_wait: MOST_WAIT_FOR_TRACKER,
            factor: 2,
        }),
        _ => None,
    }
}

/// A backlog whose operations are tried again while another program holds its file.
pub(crate) struct PatientBacklog {
    inner: Arc<dyn Backlog>,
    observer: Arc<dyn BacklogObserver>,
    requests: StopRequests,
    /// When nothing is waited for any more, if that is limited.
    until: Option<Instant>,
}

impl PatientBacklog {
    pub(crate) fn new(
        inner: Arc<dyn Backlog>,
        observer: Arc<dyn BacklogObserver>,
        requests: StopRequests,
    ) -> Self {
        Self { inner, observer, requests, until: None }
    }

    /// Has it wait no longer than until then.
    pub(crate) fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// Tries until the backlog can be used, the time is over, or a stop is requested.
    fn wait<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, BacklogError>,
    ) -> Result<T, BacklogError> {
        let mut since = None;
        let mut pause = PAUSE;
        loop {
            let result = attempt();
            let Some(obstacle) = result.as_ref().err().and_then(find_obstacle) else {
                return result;
            };
            let begun: &mut Instant = since.get_or_insert_with(|| {
                self.say(&obstacle.message);
                Instant::now()
            });
            if begun.elapsed() > obstacle.most_wait || self.is_late() || !self.pause(pause) {
                return result;
            }
            pause = pause.saturating_mul(obstacle.factor).min(MOST_PAUSE);
        }
    }

    /// Whether the time of all runs is over. Says so.
    fn is_late(&self) -> bool {
        let is_late = self.until.is_some_and(|until| until <= Instant::now());
        if is_late {
            self.say("backlog: limits.max_runtime is over, so it is not waited for any longer");
        }
        is_late
    }

    /// Returns false, and earlier, if a stop is requested.
    fn pause(&self, length: Duration) -> bool {
        let begun = Instant::now();
        loop {
            if self.requests.borrow().times > 0 {
                return false;
            }
            let left = length.saturating_sub(begun.elapsed());
            let until = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = until.map_or(left, |until| left.min(until));
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(PAUSE));
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

    fn place(&self) -> BacklogPlace {
        self.inner.place()
    }

    fn refresh(&self, held: Option<&BacklogItem>) -> Result<(), BacklogError> {
        self.wait(|| self.inner.refresh(held))
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

    fn report(&self, id: &str, mark: &str, text: &str) -> Result<(), BacklogError> {
        self.wait(|| self.inner.report(id, mark, text))
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
