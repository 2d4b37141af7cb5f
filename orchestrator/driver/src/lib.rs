//! Works through a backlog: each item is a run of the engine.
//!
//! [`BacklogDriver`] picks the next item, submits a run for it to an [`Executor`], and writes the item's status
//! from that run's latch and from nothing else. Limits hold for the backlog as a whole: each run is given
//! what is left of them. [`BacklogLedger`] is the fold of what the driver records beside the runs: which
//! item is which run, and what was used. [`LocalExecutor`] opens runs in this process.
//!
//! The crate must not know how a run is decided, the names of formats, adapters or validators, or
//! terminals. The engine knows no items: it is given a text that follows the prompt.

mod additions;
mod aside;
mod budget;
mod choice;
mod decisions;
mod detector;
mod driver;
mod error;
mod event;
mod executor;
mod finding_text;
mod followed_up;
mod initializer;
mod item_env;
mod item_file;
mod item_limits;
mod item_text;
mod iteration_base;
mod iteration_guard;
mod lane;
mod lane_budget;
mod lane_run;
mod lane_work;
mod lanes;
mod ledger;
mod local;
mod merging;
mod patient;
mod proved;
mod record;
mod saver;
mod stop;
mod tracked;

pub use additions::{AddOutcome, add_item};
pub use choice::NOTHING_TO_WORK_ON;
pub use decisions::{Decision, DecisionOutcome, decide_item};
pub use detector::{BACKLOG_DETECTOR, BacklogDetectorKeys, ItemClaim, build_backlog_detector};
pub use driver::{BacklogDriver, BacklogEnd, DescribeCompletion, DriverSetup};
pub use error::DriverError;
pub use event::{BacklogEvent, BacklogObserver};
pub use executor::{Executor, RunOrder, RunReport, Submission};
pub use finding_text::describe_unread;
pub use item_limits::ItemLimits;
pub use lane::{
    BranchMove, Lane, LaneMerge, LanePaths, LanePlaces, LaneSetup, LaneStart, LaneTrunk, MergeProof,
};
pub use ledger::{AsideItem, BacklogLedger, ItemRun, MergeState, MergeStep, OpenLane, read_ledger};
pub use local::{LocalExecutor, RunOpener};
pub use proved::read_proved;
pub use record::SeriesRecord;
pub use saver::{BacklogSaver, WorkPublisher, differ_in_records_only};
