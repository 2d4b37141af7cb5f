//! Performs the trials of benchmarks: makes the environment of each, has its agent run in it, verifies what was left, and
//! records what that came to. Plans, records, statistics and reports are those of the crate `bench`.
//! Must not know command lines or what prints.

pub mod adversary;
mod agent_run;
mod attempt;
mod called_programs;
pub mod cluster;
pub mod container;
mod contention;
mod decoys;
mod engine_call;
pub mod error;
mod faults;
mod file_lock;
mod folder_digest;
pub mod imported_task;
pub mod isolation;
pub mod job_setup;
pub mod lock;
pub mod mining;
mod missing_parts;
pub mod needed_programs;
mod opener;
pub mod planning;
mod regrading;
mod resources;
mod runner;
mod setup_layer;
mod snapshots;
mod step;
pub mod trial_config;
mod trial_environment;
mod verification;
pub mod visibility;
mod workers;

pub use job_setup::JobSetup;
pub use runner::Runner;
pub use workers::Workers;

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::CommandError;

/// Returns the path from the root, whether it exists or not.
///
/// # Errors
/// The current folder is gone.
pub fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    Ok(std::path::absolute(path)?)
}
