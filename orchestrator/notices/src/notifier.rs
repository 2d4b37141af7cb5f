//! Follows the records of runs, and passes their notices to the receivers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{Layout, list_runs, read_run};
use tokio::sync::watch;

use crate::deliveries::Deliveries;
use crate::lane::Lane;
use crate::notice::{Notice, NoticeSource};
use crate::receiver::Receiver;
use crate::transport::Transport;

/// Older notices are of no use to anybody.
const OLDEST: jiff::SignedDuration = jiff::SignedDuration::from_hours(72);

/// What a notifier needs.
pub struct NotifierSetup {
    /// The state directory.
    pub layout: Layout,
    /// The workspace.
    pub workspace: String,
    /// How this user calls the program for this run, in any folder.
    pub program: String,
    /// The runs are those of a backlog's items.
    pub has_backlog: bool,
    /// Who is sent what.
    pub receivers: Vec<Receiver>,
    /// Hands the notices over.
    pub transport: Arc<dyn Transport>,
    /// Says something to the user.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Notices that were not answered in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The receiver.
    pub receiver: String,
    /// How many.
    pub notices: usize,
}

/// Derives notices from records as they are written, and has them sent.
pub struct Notifier {
    setup: NotifierSetup,
    closing: watch::Sender<bool>,
    state: Mutex<NotifierState>,
}

struct NotifierState {
    lanes: Vec<Lane>,
    current: Option<CurrentRun>,
    /// A run of this start has written a record: agents may have worked since.
    has_begun: bool,
}

struct CurrentRun {
    run: String,
    source: NoticeSource,
    deliveries: Arc<Deliveries>,
}

impl Notifier {
    /// Begins to serve the receivers, within a runtime. What an earlier run left is sent, too.
    #[must_use]
    pub fn start(mut setup: NotifierSetup) -> Self {
        let (closing, closed) = watch::channel(false);
        let receivers = std::mem::take(&mut setup.receivers);
        let lanes = receivers.into_iter().map(|receiver| {
            let (transport, say) = (Arc::clone(&setup.transport), Arc::clone(&setup.say));
            Lane::start(receiver, transport, closed.clone(), say)
        });
        let state = NotifierState { lanes: lanes.collect(), current: None, has_begun: false };
        let state = Mutex::new(state);
        Self { setup, closing, state }
    }

    fn state(&self) -> MutexGuard<'_, NotifierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what the newest runs of the state directory left unanswered: of one that begins, there is nothing yet.
    pub fn send_left(&self) {
        let runs = list_runs(&self.setup.layout).unwrap_or_default();
        let mut state = self.state();
        for run in runs.iter().take(2).rev() {
            let current = self.replay(&mut state, run, None);
            state.current = Some(current);
        }
    }

    /// Takes a record that was just written.
    pub fn take(&self, run: &str, seq: u64, time: Timestamp, record: &Record) {
        let mut state = self.state();
        if state.current.as_ref().is_none_or(|current| current.run != run) {
            let current = self.replay(&mut state, run, Some(seq));
            state.current = Some(current);
        }
        state.has_begun = true;
        let NotifierState { lanes, current, .. } = &mut *state;
        let Some(current) = current else { return };
        let Some(notice) = current.source.take(seq, time, record) else { return };
        offer(lanes, &notice, &current.deliveries, None);
    }

    /// Takes the completion of a backlog. Of any other end, the run of its last item has said why it stopped.
    pub fn take_backlog_completion(&self, message: &str) {
        let mut state = self.state();
        let NotifierState { lanes, current, .. } = &mut *state;
        let Some(current) = current else { return };
        let notice = current.source.backlog_completed(Timestamp::now(), message);
        offer(lanes, &notice, &current.deliveries, None);
    }

    /// Reads a run up to a record, or to its end, and sends what was not answered.
    fn replay(&self, state: &mut NotifierState, run: &str, before: Option<u64>) -> CurrentRun {
        let folder = self.setup.layout.run(run);
        let deliveries = Arc::new(Deliveries::read(&folder));
        let NotifierSetup { workspace, program, has_backlog, .. } = &self.setup;
        let mut source = NoticeSource::new(run, workspace, program, *has_backlog);
        let mut notices = Vec::new();
        let (mut last, mut has_worked) = (0, false);
        // Of a run that cannot be read, nothing is sent.
        let _unreadable = read_run(&self.setup.layout, run, |entry| {
            if before.is_none_or(|before| entry.seq < before) {
                last = entry.seq;
                has_worked |= matches!(entry.record, Record::IterationStarted { .. });
                let notice = source.take(entry.seq, entry.time, &entry.record);
                notices.extend(notice.map(|notice| (entry.seq, notice)));
            }
        });
        let earlier = state.current.as_ref().filter(|_| state.has_begun);
        if let Some(earlier) = earlier
            && let Err(error) = deliveries.adopt_scripts(&earlier.deliveries)
        {
            (self.setup.say)(&format!("notify: what commands run cannot be recorded: {error}"));
        }
        for lane in &mut state.lanes {
            lane.begin_run();
            let name = lane.receiver.name.clone();
            if let Err(error) = deliveries.accept_scripts(&name, &lane.receiver.scripts, false) {
                (self.setup.say)(&format!("notify {name}: cannot be recorded: {error}"));
            }
            if deliveries.after(&name).is_none() {
                // Whoever is new is not sent all that has happened.
                let after = if has_worked || before.is_none() { last } else { 0 };
                if let Err(error) = deliveries.begin(&name, after) {
                    (self.setup.say)(&format!("notify {name}: cannot be recorded: {error}"));
                }
            }
        }
        for (seq, notice) in notices {
            offer(&mut state.lanes, &notice, &deliveries, Some(seq));
        }
        CurrentRun { run: run.to_owned(), source, deliveries }
    }

    /// Takes no more notices, and waits for at most `grace` until the last ones are answered.
    pub async fn finish(&self, grace: Duration) -> Vec<Undelivered> {
        let lanes = std::mem::take(&mut self.state().lanes);
        self.closing.send_replace(true);
        let deadline = tokio::time::Instant::now() + grace;
        let mut undelivered = Vec::new();
        for lane in lanes {
            let (receiver, waiting, mut worker) = lane.close();
            if tokio::time::timeout_at(deadline, &mut worker).await.is_err() {
                worker.abort();
            }
            let notices = waiting.load(Ordering::Relaxed);
            if notices > 0 {
                undelivered.push(Undelivered { receiver, notices });
            }
        }
        undelivered
    }
}

/// Takes the files that the commands of these receivers run as they are for those that a person wants run, in the newest
/// run of a state directory.
///
/// # Errors
/// It cannot be recorded.
pub fn accept_scripts(layout: &Layout, receivers: &[Receiver]) -> std::io::Result<Vec<String>> {
    let Some(run) = list_runs(layout).unwrap_or_default().into_iter().next() else {
        return Ok(Vec::new());
    };
    let deliveries = Deliveries::read(&layout.run(&run));
    let mut changed = Vec::new();
    for receiver in receivers {
        changed.extend(deliveries.accept_scripts(&receiver.name, &receiver.scripts, true)?);
    }
    Ok(changed)
}

/// Returns a file that the command of a receiver runs and that was changed since the newest run began.
#[must_use]
pub fn find_changed_script(layout: &Layout, receiver: &Receiver) -> Option<String> {
    let run = list_runs(layout).ok()?.into_iter().next()?;
    Deliveries::read(&layout.run(&run)).find_changed_script(&receiver.name, &receiver.scripts)
}

/// Passes a notice to those that want it. `seq` is the number of its record if that was written before this start.
fn offer(lanes: &mut [Lane], notice: &Notice, deliveries: &Arc<Deliveries>, seq: Option<u64>) {
    let is_old = Timestamp::now().duration_since(notice.time) > OLDEST;
    for lane in lanes {
        let name = lane.receiver.name.clone();
        let is_before = seq.is_some_and(|seq| deliveries.after(&name).is_some_and(|a| seq <= a));
        if lane.wants(notice) && !is_before && !is_old && !deliveries.has_ended(&name, &notice.id) {
            lane.push(notice, deliveries);
        }
    }
}
