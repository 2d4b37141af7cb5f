//! The loop over the items.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_orchestrator_backlog::{
    Backlog, BacklogItem, BacklogPlace, BacklogSnapshot, GuardRules, ItemCounts, ItemStatus,
    NextItem,
};
use ralph_orchestrator_config::Limits;
use ralph_orchestrator_engine::hooks::Hooks;
use ralph_orchestrator_engine::{
    GuardedPhase, PhaseGuard as _, ProviderLimits, Redactor, RunObserver, RunPart, StopRequests,
};
use ralph_orchestrator_machine::RunUsage;
use ralph_orchestrator_machine::{Control, ReceivedControl, State, StopReason};
use ralph_orchestrator_store::{
    Disk, Layout, Series, SeriesFiles, SeriesLock, StateError, read_run, send_control,
};

use crate::error::DriverError;
use crate::event::{BacklogEvent, BacklogObserver};
use crate::executor::{Executor, RunOrder, RunReport, Submission};
use crate::finding_text::describe_unread;
use crate::item_env::item_env;
use crate::item_limits::ItemLimits;
use crate::item_text::describe_question;
use crate::iteration_guard::{NoteObserver, SharedWork};
use crate::lane::LaneSetup;
use crate::ledger::{BacklogLedger, ItemRun};
use crate::patient::PatientBacklog;
use crate::record::{FORMAT_VERSION, SeriesRecord};
use crate::saver::{BacklogSaver, WorkPublisher};
use crate::stop::{Choice, Stop};

/// What a driver works on.
pub struct DriverSetup {
    /// The backlog.
    pub backlog: Arc<dyn Backlog>,
    /// Where the state of the runs is.
    pub layout: Layout,
    /// Where the state's file operations go.
    pub disk: Disk,
    /// The limits for all runs together.
    pub limits: Limits,
    /// Removes secrets from what is recorded of the backlog.
    pub redactor: Redactor,
    /// The requests to stop all work: nothing is waited for then.
    pub requests: StopRequests,
    /// What agents may change in the backlog.
    pub rules: GuardRules,
    /// What an item may use before it is blocked.
    pub item_limits: ItemLimits,
    /// An initializer makes a backlog that is not there.
    pub has_initializer: bool,
    /// Stop after one iteration.
    pub once: bool,
    /// Begin anew: what was used before counts no more.
    pub restart: bool,
    /// Only check and show the next run: nothing is started, written or recorded.
    pub dry: bool,
    /// Runs the user's commands, if there are any.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// The workspace.
    pub workspace: PathBuf,
    /// The run whose agent started this process, if one did.
    pub outer_run: Option<String>,
    /// Returns what a tracker is told of a run that completed its item.
    pub describe_completion: Option<DescribeCompletion>,
    /// What stores the backlog's file once an item is complete, if that is wanted.
    pub saver: Option<Box<dyn BacklogSaver>>,
    /// What publishes the work of an item before a tracker says that it is complete, if that is wanted.
    pub publisher: Option<Box<dyn WorkPublisher>>,
    /// How items are worked on at once, if they are.
    pub lanes: Option<LaneSetup>,
}

/// Describes what a run proved and what it cost.
pub type DescribeCompletion = Arc<dyn Fn(&str, &State) -> String + Send + Sync>;

/// How the work on a backlog ended, or ended for now.
#[derive(Clone, Debug, PartialEq)]
pub enum BacklogEnd {
    /// It stopped, or is complete.
    Stopped {
        /// Why.
        reason: StopReason,
        /// Whether a run that stopped after its only iteration ended well.
        ended_well: bool,
        /// The state of the run that stopped, if one did.
        state: Option<Box<State>>,
    },
    /// The next run was not to begin, with this exit status.
    Withheld(u8),
}

/// Works through a backlog.
pub struct BacklogDriver<E> {
    pub(crate) setup: DriverSetup,
    pub(crate) executor: Rc<E>,
    pub(crate) run_observer: Arc<dyn RunObserver>,
    pub(crate) observer: Arc<dyn BacklogObserver>,
    pub(crate) work: Arc<SharedWork>,
    /// A new beginning that is not recorded yet.
    pub(crate) begins: bool,
    /// No run was submitted yet.
    pub(crate) is_first: bool,
    pub(crate) providers: ProviderLimits,
}

/// What the work on one item led to.
enum ItemEnd {
    /// The item is complete.
    Completed,
    /// It is blocked or skipped; the others go on.
    SetAside,
    Ended(BacklogEnd),
}

impl<E: Executor> BacklogDriver<E> {
    /// Returns a driver whose runs and items are observed.
    pub fn new(
        mut setup: DriverSetup,
        executor: E,
        run_observer: Arc<dyn RunObserver>,
        observer: Arc<dyn BacklogObserver>,
    ) -> Self {
        let (inner, requests) = (Arc::clone(&setup.backlog), setup.requests.clone());
        let patient = PatientBacklog::new(inner, Arc::clone(&observer), requests);
        setup.backlog = Arc::new(patient.until(find_latest(&setup)));
        let work = Arc::new(SharedWork::new(
            Arc::clone(&setup.backlog),
            setup.rules,
            setup.redactor.clone(),
        ));
        let (begins, executor) = (setup.restart, Rc::new(executor));
        let providers = ProviderLimits::default();
        Self { setup, executor, run_observer, observer, work, begins, is_first: true, providers }
    }

    /// Works until every item is complete, nothing can be worked on, or a run stops for a reason that is not its item.
    ///
    /// # Errors
    /// The backlog or the state cannot be read or written, or a run cannot be opened or continued.
    pub async fn run(mut self) -> Result<BacklogEnd, E::Error> {
        // A mistake in the backlog must not change anything.
        let found = self.load();
        let has_begun = self.setup.layout.key().exists();
        let is_to_be_made = self.setup.has_initializer && self.setup.backlog.is_unwritten();
        if !has_begun
            && !is_to_be_made
            && let Err(error) = found
        {
            return Err(error.into());
        }
        let _lock = if self.setup.dry { None } else { Some(self.take_lock()?) };
        self.open_series()?;
        // What a killed driver left.
        self.follow_up().await?;
        let end = self.work().await?;
        self.follow_up().await?;
        Ok(end)
    }

    /// Has the items worked on, one after the other.
    async fn work(&mut self) -> Result<BacklogEnd, E::Error> {
        if let Some(end) = self.initialize().await? {
            return Ok(end);
        }
        match self.setup.lanes.clone() {
            Some(lanes) if !self.setup.dry => {
                return Box::pin(self.work_in_lanes(lanes)).await;
            }
            Some(_) => {}
            None => self.refuse_lanes()?,
        }
        if !self.setup.dry {
            self.recover().await?;
            self.warn_of_unread()?;
        }
        loop {
            let (item, resume, has_others) = match self.choose()? {
                Choice::Stop(stop) => return Ok(self.stop(stop)?),
                Choice::Work { item, resume, has_others } => (item, resume, has_others),
            };
            match self.work_on(&item, resume, has_others).await? {
                ItemEnd::Ended(end) => return Ok(end),
                ItemEnd::Completed if self.setup.once => {
                    let text = format!("item `{}` is complete (`--once`)", item.id);
                    let mut stop = Stop::new(StopReason::Once, text);
                    stop.ended_well = true;
                    if !matches!(self.load()?.select_next(), NextItem::Complete) {
                        return Ok(self.stop(stop)?);
                    }
                }
                ItemEnd::Completed | ItemEnd::SetAside => {}
            }
        }
    }

    /// Refuses to go on in one worktree with what was begun in several.
    fn refuse_lanes(&self) -> Result<(), DriverError> {
        let state = self.work.state();
        match state.ledger.lanes.keys().next() {
            Some(item) if !self.begins => Err(DriverError::InLanes { item: item.clone() }),
            _ => Ok(()),
        }
    }

    fn take_lock(&self) -> Result<SeriesLock, DriverError> {
        let DriverSetup { disk, layout, outer_run, .. } = &self.setup;
        SeriesLock::take(disk, layout).map_err(|error| match (error, outer_run) {
            (StateError::Busy { holder }, Some(run)) => {
                StateError::Nested { run: run.clone(), holder }.into()
            }
            (error, _) => error.into(),
        })
    }

    /// Reads what was recorded, and opens the record to be continued if there is a state directory.
    pub(crate) fn open_series(&mut self) -> Result<(), DriverError> {
        let DriverSetup { disk, layout, dry, restart, .. } = &self.setup;
        let mut state = self.work.state();
        if state.series.is_some() {
            return Ok(());
        }
        let mut ledger = BacklogLedger::default();
        if *dry {
            state.ledger = crate::ledger::read_ledger(layout)?.unwrap_or_default();
        } else {
            let opened = Series::open(disk, layout, |entry| ledger.apply(&entry.record));
            let opened = match opened {
                // Whoever begins anew needs nothing of what was damaged.
                Err(StateError::Damaged { .. }) if *restart => {
                    Series::remove(disk, layout)?;
                    ledger = BacklogLedger::default();
                    Series::open(disk, layout, |entry| ledger.apply(&entry.record))
                }
                opened => opened,
            }?;
            let files = SeriesFiles::open(disk, layout)?;
            state.series = opened.zip(files);
            state.ledger = ledger;
        }
        self.begins |= !state.ledger.is_started;
        Ok(())
    }

    /// Finishes what a killed driver has begun.
    async fn recover(&mut self) -> Result<(), DriverError> {
        for message in self.work.recover()? {
            self.warn(message);
        }
        let unfinished = self.work.state().ledger.unfinished().cloned();
        if let Some(entry) = unfinished
            && let Some(state) = read_state(&self.setup.layout, &entry.run)?
        {
            if let Some(note) = state.handoff_note() {
                let message = self.work.note_handoff((&entry.item, &entry.run), note)?;
                message.into_iter().for_each(|message| self.warn(message));
            }
            self.report_question(&entry.item, (&entry.run, &state))?;
            self.recover_stop(&entry, state)?;
        }
        self.write_completion().await?;
        self.write_blocked()?;
        self.find_unblocked()
    }

    /// Reads the backlog, without the items that are blocked or skipped.
    pub(crate) fn load(&self) -> Result<BacklogSnapshot, DriverError> {
        let mut snapshot = self.setup.backlog.load()?;
        self.work.state().ledger.apply_to(&mut snapshot, self.begins);
        Ok(snapshot)
    }

    pub(crate) fn used_beside(&self, run: Option<&str>) -> RunUsage {
        if self.begins { RunUsage::default() } else { self.work.state().ledger.used_beside(run) }
    }

    /// Works on an item until its run ends.
    async fn work_on(
        &mut self,
        item: &BacklogItem,
        resume: Option<String>,
        has_others: bool,
    ) -> Result<ItemEnd, E::Error> {
        self.work.set_item(item);
        let text = {
            let work = Arc::clone(&self.work);
            Arc::new(move |_: &str| work.item_text())
        };
        let description = {
            let work = Arc::clone(&self.work);
            Arc::new(move |_: &str| work.describe_item())
        };
        let before =
            if self.is_first { None } else { self.work.state().ledger.runs.last().cloned() };
        let order = RunOrder {
            item: Some(item.clone()),
            lane: None,
            limits: self.limits_of_item(&item.id, resume.as_deref(), has_others),
            part: RunPart {
                run: resume,
                item: Some(item.id.clone()),
                is_lane: false,
                is_sent_back: false,
                is_first: std::mem::take(&mut self.is_first),
                trusted_git: before.map(|entry| self.setup.layout.git(&entry.run)),
                text,
                description,
                env: item_env(&item.id, &self.setup.layout),
                products: None,
                providers: self.providers.clone(),
                guard: Some(self.work.clone()),
            },
            item_claim: {
                let work = Arc::clone(&self.work);
                Arc::new(move || work.item_claim())
            },
            once: self.setup.once,
            restart: std::mem::take(&mut self.setup.restart),
        };
        let (run, report) = match self.executor.submit(order).await? {
            Submission::Withheld(status) => {
                return Ok(ItemEnd::Ended(BacklogEnd::Withheld(status)));
            }
            Submission::Complete(report) => (report.run.clone(), Some(*report)),
            Submission::Opened { run } => (run, None),
        };
        self.carry_pause_over(&run)?;
        self.begin_item(item, &run)?;
        let report = match report {
            Some(report) => report,
            None => self.watch(&run).await?,
        };
        Ok(self.end_item(item, &report).await?)
    }

    /// Pauses a new run if the one before it ended paused: who paused the work meant more than one item. The id
    /// stays, so that repeating it after a crash changes nothing.
    fn carry_pause_over(&self, run: &str) -> Result<(), DriverError> {
        if self.begins {
            return Ok(());
        }
        let before = self.work.state().ledger.runs.last().cloned();
        let Some(before) = before.filter(|entry| entry.run != run) else { return Ok(()) };
        let state = read_state(&self.setup.layout, &before.run)?;
        let Some(pause) = state.and_then(|state| state.controls.pause) else { return Ok(()) };
        let control = Control::Pause { now: false };
        let control = ReceivedControl { origin: pause.origin, control };
        Ok(send_control(&self.setup.layout, run, &control)?)
    }

    /// Performs a run. What goes wrong with the backlog meanwhile ends it.
    async fn watch(&self, run: &str) -> Result<RunReport, E::Error> {
        let work = Arc::clone(&self.work);
        let inner = Arc::clone(&self.run_observer);
        let observer = Arc::new(NoteObserver { work: Arc::clone(&work), inner });
        let watched = self.executor.watch(run, observer);
        tokio::pin!(watched);
        let report = loop {
            tokio::select! {
                biased;
                // One that came after the end of the run before is no concern of this one.
                () = work.ending.notified() => if work.is_ending() { self.executor.cancel(run) },
                report = &mut watched => break report,
            }
        };
        // Also of a phase whose end could not be recorded.
        let messages = work.take_back();
        if let Some(failure) = work.state().failure.take() {
            return Err(failure.into());
        }
        let report = report?;
        for message in messages? {
            self.warn(message);
        }
        Ok(report)
    }

    /// Names the lines on which nobody will work, though they look like items.
    pub(crate) fn warn_of_unread(&self) -> Result<(), DriverError> {
        if let Some(unread) = describe_unread(self.setup.backlog.path(), &self.load()?) {
            self.warn(format!("backlog: {unread}"));
        }
        Ok(())
    }

    /// Records that the work on the backlog begins, or begins anew.
    pub(crate) fn begin_series(&mut self) -> Result<(), DriverError> {
        if !std::mem::take(&mut self.begins) {
            return Ok(());
        }
        self.reopen_blocked()?;
        self.work.state().append(&SeriesRecord::SeriesStarted {
            version: FORMAT_VERSION,
            format: self.setup.backlog.format().to_owned(),
            path: self.setup.backlog.path().display().to_string(),
        })
    }

    /// Records the run of an item before its agent starts.
    fn begin_item(&mut self, item: &BacklogItem, run: &str) -> Result<(), DriverError> {
        self.open_series()?;
        self.begin_series()?;
        let mut state = self.work.state();
        let unfinished = state.ledger.unfinished().cloned();
        let resumed = unfinished.as_ref().is_some_and(|entry| entry.run == run);
        if let Some(left) = unfinished.filter(|entry| !resumed && entry.reason.is_none()) {
            state.append(&abandoned(&self.setup.layout, &left)?)?;
        }
        if !resumed {
            let (item, title) = (item.id.clone(), item.title.clone());
            state.append(&SeriesRecord::ItemStarted { item, title, run: run.to_owned() })?;
        }
        drop(state);
        let mut snapshot = self.load()?;
        let status = snapshot.find(&item.id).map(|item| item.status);
        let storable = snapshot.storable.contains(&ItemStatus::InProgress);
        if status == Some(ItemStatus::Pending) && storable {
            snapshot = self.setup.backlog.set_status(&item.id, ItemStatus::InProgress)?;
        }
        self.store_tracked()?;
        self.observer.on_backlog_event(&BacklogEvent::ItemStarted {
            item: item.id.clone(),
            title: item.title.clone(),
            run: run.to_owned(),
            resumed,
            items: snapshot.counts(),
        });
        Ok(())
    }

    /// Records how the run of an item ended. Only a latch completes the item.
    async fn end_item(
        &mut self,
        item: &BacklogItem,
        report: &RunReport,
    ) -> Result<ItemEnd, DriverError> {
        let record = ended(&item.id, report, || self.find_block(report));
        self.work.state().append(&record)?;
        self.write_completion().await?;
        let is_aside = self.announce_end(item, report)?;
        if report.state.completion().is_some() {
            return Ok(ItemEnd::Completed);
        }
        if is_aside && !self.setup.once {
            return Ok(ItemEnd::SetAside);
        }
        self.stop(Stop::from_report(item, report)).map(ItemEnd::Ended)
    }

    /// Writes that an item is blocked, if it is, or what its agent asks, and announces how its run ended. Returns whether it is set aside.
    pub(crate) fn announce_end(
        &self,
        item: &BacklogItem,
        report: &RunReport,
    ) -> Result<bool, DriverError> {
        self.write_blocked()?;
        self.report_question(&item.id, (&report.run, &report.state))?;
        let aside = self.work.state().ledger.set_aside.get(&item.id).map(|item| item.aside.clone());
        let is_aside = aside.is_some();
        self.observer.on_backlog_event(&BacklogEvent::ItemFinished {
            item: item.id.clone(),
            title: item.title.clone(),
            run: report.run.clone(),
            stop_reason: report.reason,
            usage: RunUsage::from_state(&report.state),
            set_aside: aside.filter(|_| report.state.completion().is_none()),
            items: self.load()?.counts(),
        });
        Ok(is_aside)
    }

    /// Publishes the work of a complete run, writes the status that follows, stores the file, and records that both are
    /// done. Each can be repeated after a crash.
    pub(crate) async fn write_completion(&self) -> Result<(), DriverError> {
        let unwritten = self.work.state().ledger.unwritten().cloned();
        let Some(entry) = unwritten else { return Ok(()) };
        let status = ItemStatus::Completed;
        let item = &entry.item;
        if let Some(publisher) = &self.setup.publisher {
            let published = publisher.publish().await;
            published
                .map_err(|problem| DriverError::NotPublished { item: item.clone(), problem })?;
        }
        if self.load()?.find(item).is_some() {
            self.setup.backlog.set_status(item, status)?;
            self.report_completion(&entry)?;
        } else {
            self.warn(format!("backlog: item `{item}` is complete, but is in the backlog no more"));
        }
        if let Some(saver) = &self.setup.saver {
            // The commit runs hooks.
            let begun = self.work.begin_phase(&entry.run, 0, GuardedPhase::Git);
            let saved = saver.save(&entry).await;
            let ended = self.work.end_phase();
            begun.into_iter().chain(ended).for_each(|message| self.warn(message));
            if let Some(failure) = self.work.state().failure.take() {
                return Err(failure);
            }
            if let Err(problem) = saved {
                let what = format!("the status of item `{item}` is not committed");
                self.warn(format!("backlog: {what}: {problem}"));
            }
        }
        let ItemRun { item, run, .. } = entry;
        self.work.state().append(&SeriesRecord::StatusWritten { item, run, status })?;
        self.store_tracked()
    }

    /// Leaves word in a tracker of what was proved and what it cost. What was left before a crash is found by its mark.
    fn report_completion(&self, entry: &ItemRun) -> Result<(), DriverError> {
        let Some(describe) = &self.setup.describe_completion else { return Ok(()) };
        let Some(state) = read_state(&self.setup.layout, &entry.run)? else { return Ok(()) };
        let text = self.setup.redactor.text(&describe(&entry.run, &state)).into_owned();
        Ok(self.setup.backlog.report(&entry.item, &format!("run={}", entry.run), &text)?)
    }

    /// Leaves an agent's question in a tracker, once.
    fn report_question(&self, item: &str, (run, state): (&str, &State)) -> Result<(), DriverError> {
        let backlog = &self.setup.backlog;
        let Some(question) = state.question() else { return Ok(()) };
        if backlog.place() == BacklogPlace::File || backlog.load()?.find(item).is_none() {
            return Ok(());
        }
        let mark = format!("question run={run} iteration={}", state.iterations);
        let text = self.setup.redactor.text(&describe_question(question)).into_owned();
        Ok(backlog.report(item, &mark, &text)?)
    }

    /// Records and reports the end.
    pub(crate) fn stop(&mut self, stop: Stop) -> Result<BacklogEnd, DriverError> {
        let Stop { reason, message, waiting, ended_well, state } = stop;
        let (items, blocked) = match self.load() {
            // It is still to be made.
            Err(_) if self.work.state().ledger.initializing().is_some() => {
                (ItemCounts::default(), Vec::new())
            }
            loaded => {
                let loaded = loaded?;
                (loaded.counts(), loaded.blocked())
            }
        };
        let waiting = if waiting.is_empty() { blocked } else { waiting };
        if !self.setup.dry {
            let mut work = self.work.state();
            let known = (reason, message.clone());
            let is_known = work.ledger.stop.as_ref() == Some(&known) || work.ledger.is_complete();
            let hooks = self.end_hooks(reason);
            // The same end once more, after further work.
            let is_to_follow_up = !self.is_first && !hooks.is_empty() && !work.ledger.is_complete();
            if work.ledger.is_started && (!is_known || is_to_follow_up) {
                let message = message.clone();
                work.append(&SeriesRecord::SeriesStopped { reason, message, hooks })?;
                let unproved = work.ledger.unproved_items();
                drop(work);
                if let Some(items) = unproved {
                    self.warn(format!(
                        "the checks accepted the workspace before any work on {items}: that these are complete is not proved"
                    ));
                }
            }
        }
        self.observer.on_backlog_event(&BacklogEvent::BacklogFinished {
            stop_reason: reason,
            message,
            items,
            waiting,
            usage: self.work.state().ledger.used_beside(None),
            ended_well,
        });
        Ok(BacklogEnd::Stopped { reason, ended_well, state })
    }

    pub(crate) fn warn(&self, message: String) {
        self.observer.on_backlog_event(&BacklogEvent::BacklogWarning { message });
    }
}

/// Returns when all runs together will have used up their time, if they have a limit: nothing is waited for then.
fn find_latest(setup: &DriverSetup) -> Option<Instant> {
    let max = setup.limits.max_runtime?;
    let ledger = crate::ledger::read_ledger(&setup.layout).ok().flatten().unwrap_or_default();
    let is_new = setup.restart || ledger.is_complete();
    let used = if is_new { 0 } else { ledger.used_beside(None).runtime_ms };
    Instant::now().checked_add(max.saturating_sub(Duration::from_millis(used)))
}

/// Returns the state of a run; `None` if it was opened without having begun.
pub(crate) fn read_state(layout: &Layout, run: &str) -> Result<Option<State>, DriverError> {
    let journal = std::fs::read(layout.journal(run)).unwrap_or_default();
    if !journal.contains(&b'\n') {
        return Ok(None);
    }
    Ok(Some(read_run(layout, run, |_| {})?.found.state))
}

/// Returns the record of how the run of an item ended. `find_block` says why the item is blocked from now on, if it is.
pub(crate) fn ended(
    item: &str,
    report: &RunReport,
    find_block: impl FnOnce() -> Option<String>,
) -> SeriesRecord {
    match report.state.completion() {
        Some(completion) => SeriesRecord::ItemFinished {
            item: item.to_owned(),
            run: report.run.clone(),
            validated: completion.validated,
            accepted_before: report.state.validation.baseline_accepted == Some(true),
            usage: RunUsage::from_state(&report.state),
        },
        None => stopped(item, report, find_block()),
    }
}

/// Returns the record of a run that ended without completion, and blocks its item for this reason, if there is one.
pub(crate) fn stopped(item: &str, report: &RunReport, blocked: Option<String>) -> SeriesRecord {
    SeriesRecord::ItemStopped {
        item: item.to_owned(),
        run: report.run.clone(),
        reason: report.reason,
        message: report.message.clone(),
        usage: RunUsage::from_state(&report.state),
        blocked,
    }
}

/// Returns the record of a run whose end nobody recorded and that is not resumed.
fn abandoned(layout: &Layout, entry: &ItemRun) -> Result<SeriesRecord, DriverError> {
    let state = read_state(layout, &entry.run)?;
    let usage = state.as_ref().map(RunUsage::from_state).unwrap_or_default();
    Ok(SeriesRecord::ItemStopped {
        item: entry.item.clone(),
        run: entry.run.clone(),
        reason: StopReason::Interrupted,
        message: "the run was interrupted and is not resumed".to_owned(),
        usage,
        blocked: None,
    })
}
