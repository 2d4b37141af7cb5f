//! Jobs of trials: what `bench` needs beside the commands.

pub(crate) mod adversary;
mod agent_run;
pub(crate) mod container;
mod contention;
mod decoys;
mod faults;
mod file_lock;
pub(crate) mod imported_task;
pub(crate) mod isolation;
pub(crate) mod job_line;
pub(crate) mod job_setup;
pub(crate) mod lock;
pub(crate) mod observer;
mod opener;
pub(crate) mod planning;
mod regrading;
mod resources;
mod runner;
mod setup_layer;
mod snapshots;
mod step;
pub(crate) mod trial_config;
mod trial_environment;
mod verification;
pub(crate) mod visibility;
mod workers;

pub(crate) use job_setup::JobSetup;
pub(crate) use runner::Runner;
pub(crate) use workers::Workers;

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::CommandError;

/// Returns the path from the root, whether it exists or not.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    Ok(std::path::absolute(path)?)
}
