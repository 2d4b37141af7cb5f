//! A job: its plan, what is recorded of it on disk, and the order in which its trials are performed.

mod budget;
mod error;
mod job_lock;
mod plan;
mod schedule;
mod store;

pub use budget::{Budgets, SpentMoney};
pub use error::JobError;
pub use job_lock::{JobLock, LOCK_FILE, find_reusable};
pub use plan::{FORMAT, Goal, Host, JobPlan, PlannedTask, RunOptions};
pub use schedule::{
    CONFIGURATION_ERROR, JobEnd, JobObserver, JobProgress, Schedule, StopSignal, TASK_SETUP_ERROR,
    TrialOrder, TrialRunner, run_job,
};
pub use store::{JobContents, JobStore, LedgerEntry, StartedTrial, TrialLayout};
