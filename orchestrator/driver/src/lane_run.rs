//! One run of an item in its lane, from the making of the lane to the run's end.

use std::rc::Rc;
use std::sync::Arc;

use ralph_orchestrator_backlog::{Backlog, BacklogItem, ItemStatus};
use ralph_orchestrator_config::Limits;
use ralph_orchestrator_engine::{ProviderLimits, RunObserver, RunPart, StopRequests};
use ralph_orchestrator_store::{Disk, Layout};

use crate::driver::BacklogDriver;
use crate::error::DriverError;
use crate::event::{BacklogEvent, BacklogObserver};
use crate::executor::{Executor, RunOrder, RunReport, Submission};
use crate::item_env::item_env;
use crate::iteration_guard::SharedWork;
use crate::lane::{Lane, LanePlaces};
use crate::lane_work::{LaneObserver, LaneWork};
use crate::ledger::MergeStep;
use crate::patient::PatientBacklog;
use crate::record::SeriesRecord;

/// What a run in a lane is to do.
pub(crate) struct LaneOrder {
    pub(crate) item: BacklogItem,
    pub(crate) resume: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) is_first: bool,
    pub(crate) once: bool,
}

/// How it ended.
pub(crate) enum RunEnd {
    Ended(Box<RunReport>),
    Withheld(u8),
}

/// What a run in a lane needs of the driver.
pub(crate) struct LaneRun<E> {
    executor: Rc<E>,
    places: Rc<dyn LanePlaces>,
    work: Arc<SharedWork>,
    disk: Disk,
    requests: StopRequests,
    run_observer: Arc<dyn RunObserver>,
    observer: Arc<dyn BacklogObserver>,
    providers: ProviderLimits,
}

impl<E: Executor> LaneRun<E> {
    pub(crate) fn new(driver: &BacklogDriver<E>, places: Rc<dyn LanePlaces>) -> Self {
        Self {
            executor: Rc::clone(&driver.executor),
            places,
            work: Arc::clone(&driver.work),
            disk: driver.setup.disk.clone(),
            requests: driver.setup.requests.clone(),
            run_observer: Arc::clone(&driver.run_observer),
            observer: Arc::clone(&driver.observer),
            providers: driver.providers.clone(),
        }
    }

    /// Makes the lane if it is not there, opens the run, and performs it.
    pub(crate) async fn perform(self, order: LaneOrder) -> Result<RunEnd, E::Error> {
        let (lane, sent_back) = self.open_lane(&order.item.id).await?;
        let is_sent_back = sent_back.is_some();
        let work = self.share_work(&order.item, &lane, sent_back).await?;
        work.restore()?;
        let (of_text, of_claim) = (Arc::clone(&work), Arc::clone(&work));
        let of_description = Arc::clone(&work);
        let layout = Layout::new(lane.paths().state);
        let LaneOrder { item, resume, limits, is_first, once } = order;
        // One whose worktree is gone cannot go on: the item does, in another run.
        let resume = resume.filter(|run| self.is_in(run, &layout));
        let is_resumed = resume.is_some();
        let order = RunOrder {
            item: Some(item.clone()),
            part: RunPart {
                run: resume,
                item: Some(item.id.clone()),
                is_lane: true,
                is_sent_back,
                is_first,
                trusted_git: Some(self.places.trusted_git()),
                text: Arc::new(move |_: &str| of_text.item_text()),
                description: Arc::new(move |_: &str| of_description.describe_item()),
                env: item_env(&item.id, &layout),
                products: None,
                providers: self.providers.clone(),
                guard: Some(work.clone()),
            },
            lane: Some(lane),
            item_claim: Arc::new(move || of_claim.item_claim()),
            limits,
            once,
            restart: false,
        };
        let (run, report) = match self.executor.submit(order).await? {
            Submission::Withheld(status) => return Ok(RunEnd::Withheld(status)),
            Submission::Complete(report) => (report.run.clone(), Some(report)),
            Submission::Opened { run } => (run, None),
        };
        self.begin(&item, &run, is_resumed)?;
        if let Some(report) = report {
            return Ok(RunEnd::Ended(report));
        }
        let inner = Arc::clone(&self.run_observer);
        let observer = Arc::new(LaneObserver { work: Arc::clone(&work), inner });
        if work.is_ending() {
            // It came while the run was opened.
            self.work.ending.notify_one();
        }
        let report = self.executor.watch(&run, observer).await?;
        Ok(RunEnd::Ended(Box::new(report)))
    }

    /// Records the lane before it is made, and brings it to the merge with which the item was sent back, if it was.
    async fn open_lane(&self, item: &str) -> Result<(Lane, Option<String>), DriverError> {
        let fail = |problem| DriverError::Lane { item: item.to_owned(), problem };
        let known = self.work.state().ledger.lanes.get(item).cloned();
        let there = known.clone().filter(|open| self.places.is_there(&open.lane));
        let lane = match there {
            Some(open) => open.lane,
            None => {
                let before = known.as_ref().map(|open| &open.lane);
                let lane = self.places.plan(item, before).await.map_err(fail)?;
                if known.as_ref().is_none_or(|open| open.lane != lane) {
                    let (item, lane) = (item.to_owned(), lane.clone());
                    self.work.state().append(&SeriesRecord::LaneOpened { item, lane })?;
                }
                lane
            }
        };
        let warnings = self.places.open(&lane).await.map_err(fail)?;
        for message in warnings {
            self.observer.on_backlog_event(&BacklogEvent::BacklogWarning { message });
        }
        let Some(open) = known else { return Ok((lane, None)) };
        if let (Some((_, merge)), MergeStep::Rejected) = (&open.merge, &open.step) {
            self.places.follow(&lane, merge).await.map_err(fail)?;
        }
        Ok((lane, open.sent_back))
    }

    fn is_in(&self, run: &str, layout: &Layout) -> bool {
        let ledger = &self.work.state().ledger;
        let found = ledger.runs.iter().find(|entry| entry.run == run);
        found.is_some_and(|entry| entry.state.as_deref() == Some(layout.root()))
    }

    async fn share_work(
        &self,
        item: &BacklogItem,
        lane: &Lane,
        sent_back: Option<String>,
    ) -> Result<Arc<LaneWork>, DriverError> {
        let fail = |problem| DriverError::Lane { item: item.id.clone(), problem };
        let inner = self.places.backlog(lane).await.map_err(fail)?;
        let (observer, requests) = (Arc::clone(&self.observer), self.requests.clone());
        let backlog: Arc<dyn Backlog> = Arc::new(PatientBacklog::new(inner, observer, requests));
        let files = (self.disk.clone(), Layout::new(lane.paths().state));
        let item = (item.clone(), sent_back);
        Ok(Arc::new(LaneWork::new(Arc::clone(&self.work), backlog, files, item)))
    }

    /// Records the run of an item before its agent starts.
    fn begin(&self, item: &BacklogItem, run: &str, is_resumed: bool) -> Result<(), DriverError> {
        let (id, title) = (item.id.clone(), item.title.clone());
        let is_known = self.work.state().ledger.runs.iter().any(|entry| entry.run == run);
        if is_known {
            self.work
                .state()
                .append(&SeriesRecord::ItemResumed { item: id.clone(), run: run.to_owned() })?;
        } else {
            let record = SeriesRecord::ItemStarted {
                item: id.clone(),
                title: title.clone(),
                run: run.to_owned(),
            };
            self.work.state().append(&record)?;
        }
        let mut snapshot = self.work.backlog.load()?;
        let status = snapshot.find(&id).map(|item| item.status);
        let storable = snapshot.storable.contains(&ItemStatus::InProgress);
        if status == Some(ItemStatus::Pending) && storable {
            snapshot = self.work.backlog.set_status(&id, ItemStatus::InProgress)?;
        }
        self.work.state().ledger.apply_to(&mut snapshot, false);
        self.observer.on_backlog_event(&BacklogEvent::ItemStarted {
            item: id,
            title,
            run: run.to_owned(),
            resumed: is_resumed,
            items: snapshot.counts(),
        });
        Ok(())
    }
}
