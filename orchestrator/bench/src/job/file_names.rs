//! Names of the files in the folder of a job.

/// The file of the plan.
pub(super) const PLAN: &str = "bench.json";

/// The name of the file in the folder of a job.
pub const LOCK_FILE: &str = "bench.lock.json";
