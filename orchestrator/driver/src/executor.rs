//! Where runs take place.

use std::sync::Arc;

use async_trait::async_trait;
use ralph_orchestrator_backlog::BacklogItem;
use ralph_orchestrator_config::Limits;
use ralph_orchestrator_engine::{RunObserver, RunPart};
use ralph_orchestrator_machine::{IterationOutcome, State, StopReason};

use crate::detector::ItemClaim;
use crate::error::DriverError;
use crate::lane::Lane;

/// What a run is to do.
#[derive(Clone)]
pub struct RunOrder {
    /// The item that it works on; none for the run of the initializer.
    pub item: Option<BacklogItem>,
    /// The lane in which it works; none for a run in the workspace itself.
    pub lane: Option<Lane>,
    /// What it works on, and the run to resume.
    pub part: RunPart,
    /// What the agent claims of the item, for the detector `backlog`.
    pub item_claim: ItemClaim,
    /// Its limits.
    pub limits: Limits,
    /// Stop after one iteration.
    pub once: bool,
    /// Begin a new run, whatever there was.
    pub restart: bool,
}

/// The result of submitting a run.
pub enum Submission {
    /// It is open; nothing is started before it is watched.
    Opened {
        /// The run.
        run: String,
    },
    /// It is complete already.
    Complete(Box<RunReport>),
    /// It was checked and is not to begin, with this exit status: a question is open, or only that was
    /// asked for.
    Withheld(u8),
}

/// How a run ended, or ended for now.
pub struct RunReport {
    /// The run.
    pub run: String,
    /// Why.
    pub reason: StopReason,
    /// The same for people.
    pub message: String,
    /// Its state.
    pub state: State,
}

impl RunReport {
    /// Whether its last iteration ended well.
    pub(crate) fn ended_well(&self) -> bool {
        matches!(self.state.last_outcome, Some(IterationOutcome::Succeeded))
    }
}

/// Performs runs: in this process, or wherever an implementation wants to.
#[async_trait(?Send)]
pub trait Executor {
    /// Why a run cannot be performed.
    type Error: From<DriverError>;

    /// Opens a run: everything is checked and locked, and nothing is started. Runs that were opened before and are not watched are
    /// closed, unless both are in lanes.
    async fn submit(&self, order: RunOrder) -> Result<Submission, Self::Error>;

    /// Performs a run that was opened, and returns when it has ended.
    async fn watch(
        &self,
        run: &str,
        observer: Arc<dyn RunObserver>,
    ) -> Result<RunReport, Self::Error>;

    /// Requests a run that is watched to stop. It can be resumed.
    fn cancel(&self, run: &str);

    /// Whether somebody requests all work to stop.
    fn is_stopping(&self) -> bool;
}
