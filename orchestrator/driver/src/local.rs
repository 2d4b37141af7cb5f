//! Runs in this process.

use std::cell::RefCell;
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

/// Performs runs one after the other, by the engine.
pub struct LocalExecutor<O> {
    opener: O,
    /// The requests to stop all work.
    requests: StopRequests,
    /// The requests to stop the run that is watched: the former, and cancellations.
    stop: watch::Sender<StopRequest>,
    opened: RefCell<Option<Box<Session>>>,
}

impl<O: RunOpener> LocalExecutor<O> {
    /// Returns an executor whose runs stop at these requests.
    pub fn new(opener: O, requests: StopRequests) -> Self {
        Self {
            opener,
            requests,
            stop: watch::channel(StopRequest::default()).0,
            opened: RefCell::new(None),
        }
    }

    /// Forwards requests to stop for as long as it is polled.
    async fn forward_requests(&self) {
        let mut requests = self.requests.clone();
        loop {
            let request = *requests.borrow_and_update();
            self.stop.send_if_modified(|known| {
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
        // Its locks are released first.
        drop(self.opened.take());
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
        self.opened.replace(Some(session));
        Ok(Submission::Opened { run })
    }

    async fn watch(
        &self,
        run: &str,
        observer: Arc<dyn RunObserver>,
    ) -> Result<RunReport, O::Error> {
        let opened = self.opened.take().filter(|session| session.run_id() == run);
        let session = opened.ok_or_else(|| DriverError::NotSubmitted { run: run.to_owned() })?;
        self.stop.send_replace(*self.requests.borrow());
        let work = Box::pin(session.drive(observer, self.stop.subscribe()));
        let finished = tokio::select! {
            biased;
            () = self.forward_requests() => None,
            finished = work => Some(finished),
        };
        let finished = finished.ok_or_else(|| DriverError::NotSubmitted { run: run.to_owned() })?;
        let finished = finished.map_err(DriverError::from)?;
        let (reason, message) = (finished.reason, finished.message);
        Ok(RunReport { run: finished.run, reason, message, state: finished.state })
    }

    fn cancel(&self, _run: &str) {
        self.stop.send_modify(|request| request.times = request.times.saturating_add(1));
    }

    fn is_stopping(&self) -> bool {
        self.requests.borrow().times > 0
    }
}
