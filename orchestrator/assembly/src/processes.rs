//! The supervisor as the engine's [`Processes`].

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::Survivor;
use ralph_orchestrator_engine::Processes;
use ralph_orchestrator_supervisor::{self as supervise, Supervisor};

/// The processes of iterations, as the supervisor finds them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SupervisedProcesses;

#[async_trait]
impl Processes for SupervisedProcesses {
    fn clock_ticks(&self) -> u64 {
        supervise::clock_ticks()
    }

    fn of_iteration(&self, run: &str, iteration: u64) -> Vec<Survivor> {
        from_supervisor(supervise::iteration_processes(run, iteration))
    }

    fn end(&self, run: &str, iteration: u64, survivors: Vec<Survivor>) -> Vec<Survivor> {
        let survivors = survivors
            .into_iter()
            .map(|survivor| supervise::Survivor::from(<(String, i32, u64)>::from(survivor)));
        from_supervisor(supervise::end_iteration(run, iteration, survivors.collect()))
    }

    fn are_busy(&self, run: &str, iteration: u64, window: Duration) -> bool {
        supervise::are_busy(run, iteration, window)
    }

    async fn check_layers(&self, storage: &Path, folder: &Path) -> Result<(), String> {
        let supervisor = Supervisor::this_binary();
        supervisor.check_view_support(storage, folder).await.map_err(|error| error.to_string())
    }
}

fn from_supervisor(survivors: Vec<supervise::Survivor>) -> Vec<Survivor> {
    survivors
        .into_iter()
        .map(|survivor| Survivor::from(<(String, i32, u64)>::from(survivor)))
        .collect()
}
