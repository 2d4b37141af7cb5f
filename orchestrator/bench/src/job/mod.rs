//! A job: its plan, what is recorded of it on disk, and the order in which its trials are performed.

mod budget;
mod claims;
mod error;
mod file_names;
mod files;
mod job_lock;
mod ledger_entry;
mod plan;
mod reuse;
mod schedule;
mod store;
mod submission;
mod usual_cost;
mod worker;

pub use budget::{Budgets, SpentMoney};
pub use error::JobError;
pub use file_names::LOCK_FILE;
pub use job_lock::{JobLock, LockScope};
pub use ledger_entry::LedgerEntry;
pub use plan::{FORMAT, Goal, JobPlan, PlannedTask, RunOptions};
pub use reuse::{ReusedTrials, find_reusable};
pub use schedule::{
    CONFIGURATION_ERROR, JobEnd, JobObserver, JobProgress, MISSING_PROGRAM_ERROR, Schedule,
    StopSignal, TASK_SETUP_ERROR, TrialOrder, TrialRunner, run_job,
};
pub use store::{JobContents, JobStore, StartedTrial, TrialLayout};
pub use submission::Submission;
pub use worker::{KnownWorker, WorkerIdentity};
