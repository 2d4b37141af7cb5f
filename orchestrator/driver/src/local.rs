//! Runs in this process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ralph_orchestrator_backlog::BacklogItem;
use ralph_orchestrator_engine::{OpenOutcome, RunObserver, Session, StopRequest, StopRequests};
use ralph_orchestrator_machine::StopReason;
use tokio::sync::watch;

use crate::error::DriverError;
use crate::executor::{Executor, RunOrder, RunReport, Submission};

/// Opens runs of a configuration.
#[async_trait(?Send)]
pub trait RunOpener {
    /// Why a run cannot be opened.
    type Error: From<DriverError>;

    /// Opens a run.
    async fn open(&self, order: RunOrder) -> Result<OpenOutcome, Self::Error>;

    /// Called with a run and its item before it begins. Returns the exit status if it is not to.
    fn prepare(
        &self,
        session: &mut Session,
        item: Option<&BacklogItem>,
    ) -> Result<Option<u8>, Self::Error>;
}

/// Performs runs by the engine, one after the other or in lanes at once.
pub struct LocalExecutor<O> {
    opener: O,
    /// The requests to stop all work.
    requests: StopRequests,
    /// The runs that are open and not watched yet.
    opened: RefCell<BTreeMap<String, Box<Session>>>,
    /// The requests to stop the runs that are watched: the former, and cancellations.
    stops: RefCell<BTreeMap<String, watch::Sender<StopRequest>>>,
}

impl<O: RunOpener> LocalExecutor<O> {
    /// Returns an executor whose runs stop at these requests.
    pub fn new(opener: O, requests: StopRequests) -> Self {
        Self { opener, requests, opened: RefCell::default(), stops: RefCell::default() }
    }

    /// Forwards requests to stop for as long as it is polled.
    async fn forward_requests(&self, stop: &watch::Sender<StopRequest>) {
        let mut requests = self.requests.clone();
        loop {
            let request = *requests.borrow_and_update();
            stop.send_if_modified(|known| {
                let is_more = request > *known;
                *known = request.max(*known);
                is_more
            });
            if requests.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

#[async_trait(?Send)]
impl<O: RunOpener> Executor for LocalExecutor<O> {
    type Error = O::Error;

    async fn submit(&self, order: RunOrder) -> Result<Submission, O::Error> {
        if order.lane.is_none() {
            // Their locks are released first.
            drop(self.opened.take());
        }
        let item = order.item.clone();
        let mut session = match self.opener.open(order).await? {
            OpenOutcome::Complete { found, .. } => {
                return Ok(Submission::Complete(Box::new(RunReport {
                    run: found.run,
                    reason: StopReason::Completed,
                    message: "already complete".to_owned(),
                    state: found.state,
                })));
            }
            OpenOutcome::Ready(session) => session,
        };
        if let Some(status) = self.opener.prepare(&mut session, item.as_ref())? {
            return Ok(Submission::Withheld(status));
        }
        let run = session.run_id().to_owned();
        self.opened.borrow_mut().insert(run.clone(), session);
        Ok(Submission::Opened { run })
    }

    async fn watch(
        &self,
        run: &str,
        observer: Arc<dyn RunObserver>,
    ) -> Result<RunReport, O::Error> {
        let opened = self.opened.borrow_mut().remove(run);
        let session = opened.ok_or_else(|| DriverError::NotSubmitted { run: run.to_owned() })?;
        let (stop, requests) = watch::channel(*self.requests.borrow());
        self.stops.borrow_mut().insert(run.to_owned(), stop.clone());
        let work = Box::pin(session.drive(observer, requests));
        let finished = tokio::select! {
            biased;
            () = self.forward_requests(&stop) => None,
            finished = work => Some(finished),
        };
        self.stops.borrow_mut().remove(run);
        let finished = finished.ok_or_else(|| DriverError::NotSubmitted { run: run.to_owned() })?;
        let finished = finished.map_err(DriverError::from)?;
        let (reason, message) = (finished.reason, finished.message);
        Ok(RunReport { run: finished.run, reason, message, state: finished.state })
    }

    fn cancel(&self, run: &str) {
        if let Some(stop) = self.stops.borrow().get(run) {
            stop.send_modify(|request| request.times = request.times.saturating_add(1));
        }
    }

    fn is_stopping(&self) -> bool {
        self.requests.borrow().times > 0
    }
}
