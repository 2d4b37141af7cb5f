//! `bench check --deep`: the environments of trials, started without an agent.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_bench::task::{EnvironmentSource, Task, TaskForm};
use ralph_orchestrator_bench_run::container::JobContainers;
use ralph_orchestrator_bench_run::isolation::IsolationRow;
use ralph_orchestrator_bench_run::{JobSetup, Runner};
use ralph_orchestrator_terminal::{output, signals};

/// Starts one environment of each kind that these tasks have. Returns the tasks that no trial could begin of, and why.
///
/// # Errors
/// Nothing can be started at all.
pub(super) fn start_environments(
    setup: &JobSetup,
    tasks: &[Task],
) -> Result<Vec<(String, String)>, CommandError> {
    let signals = signals::listen()?;
    let isolation = setup.loaded.config.bench.isolation;
    let id = format!("check-{}", std::process::id());
    let containers = match IsolationRow::of(isolation).is_container() {
        true => Some(block_on(JobContainers::connect(isolation, &setup.vars, &id))?),
        false => None,
    };
    let runner =
        Runner::new(setup, tasks.to_vec(), signals.switch.clone(), signals.watch_requests())
            .with_containers(containers);
    let folder = std::env::temp_dir().join(format!("ralph-orchestrator-{id}"));
    let mut known = BTreeSet::new();
    let mut refused = Vec::new();
    // What is of the own form is copied, and started by its agent.
    let made = tasks.iter().filter(|task| task.form != TaskForm::Own);
    for task in made.filter(|task| known.insert(describe_kind(task))) {
        output::info(&format!("starting the environment of {}", task.name));
        let dir = TemporaryFolder::create(folder.clone())?;
        if let Err(fault) = block_on(async { Ok(runner.try_environment(task, &dir.0).await) })? {
            refused.push((task.name.clone(), fault.message));
        }
    }
    Ok(refused)
}

/// Returns what environments are alike by: the text of the Dockerfile, or what else they are made from and tested with.
fn describe_kind(task: &Task) -> String {
    let probes: Vec<_> = task.steps.iter().map(|step| step.verification.find_probe()).collect();
    let source = match &task.source {
        EnvironmentSource::Dockerfile(dockerfile) => {
            fs::read_to_string(&dockerfile.path).unwrap_or_default()
        }
        EnvironmentSource::Image(image) => image.clone(),
        _ => String::new(),
    };
    format!("{probes:?} {source}")
}

/// A folder that is removed with everything in it.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn create(path: PathBuf) -> Result<Self, CommandError> {
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
