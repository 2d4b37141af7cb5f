//! Makes the container of an attempt, and the files of this machine that are in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_bench::host::Host;
use ralph_orchestrator_bench::task::{
    EnvironmentSettings, EnvironmentSource, NetworkPolicy, StagedEnvironment, Task,
};
use ralph_orchestrator_bench::trial::{Cause, Fault, ResourceCeiling};
use ralph_orchestrator_config::Isolation;
use ralph_orchestrator_supervisor::{KillSwitch, Mount};

use super::super::faults::fault;
use super::super::resources::{CPUS, MEMORY_MB, list_ceilings};
use super::super::trial_environment::add_logs;
use super::command_line::{CreateOrder, EngineInfo, Resource};
use super::engine::{Engine, Image};
use super::image::ImageOrder;
use super::leftovers::remove_leftovers;
use super::running::Container;
use super::variables::ContainerVariables;

/// The folder of an attempt with what its container shows at some times only.
const FOLDERS: &str = "mounts";

/// What makes the containers of a job.
#[derive(Debug)]
pub struct JobContainers {
    pub(super) engine: Engine,
    info: EngineInfo,
    /// The id of the job.
    job: String,
}

/// A container to be made.
pub struct ContainerSetup<'a> {
    /// The task.
    pub task: &'a Task,
    /// What its image is made from.
    pub source: &'a EnvironmentSource,
    /// What the task says of it.
    pub settings: &'a EnvironmentSettings,
    /// The folder of the attempt, or in it that of the verifier's own environment.
    pub dir: &'a Path,
    /// What tells it from other containers of the job.
    pub name: String,
    /// What of this machine it shows.
    pub shared: Vec<Mount>,
    /// The orchestrator's environment variables.
    pub vars: &'a BTreeMap<String, String>,
    /// Folders of the image that are to be on this machine as well, such as `/data`.
    pub shown: Vec<String>,
    /// The image brings its own `/tests`.
    pub has_bundled_tests: bool,
    /// What its network reaches.
    pub network: &'a NetworkPolicy,
    /// The folder of locks of who builds images.
    pub cache: PathBuf,
    /// Kills what runs.
    pub switch: &'a KillSwitch,
}

impl JobContainers {
    /// Connects to the engine of an isolation.
    ///
    /// # Errors
    /// It is not installed, or does not answer.
    pub async fn connect(
        isolation: Isolation,
        vars: &BTreeMap<String, String>,
        job: &str,
    ) -> Result<Self, CommandError> {
        let engine = Engine::find(isolation, vars)?;
        let info = engine.require_info().await?;
        Ok(Self { engine, info, job: job.to_owned() })
    }

    /// Removes the containers that earlier starts of the job left, of which none is in use. Returns their names.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn remove_leftovers(&self) -> Result<Vec<String>, CommandError> {
        let removed = remove_leftovers(&self.engine, &self.job).await;
        removed.map_err(|error| self.engine.unavailable(error))
    }

    /// Returns the ceilings of an environment, and whether its container gets no more.
    pub fn list_ceilings(
        &self,
        settings: &EnvironmentSettings,
    ) -> BTreeMap<String, ResourceCeiling> {
        let cpus = self.cpus(settings).map(|_| CPUS);
        let memory = self.memory_mb(settings).map(|_| MEMORY_MB);
        let enforced: Vec<&str> = cpus.into_iter().chain(memory).collect();
        list_ceilings(settings, &enforced)
    }

    /// Returns the name of the container of an attempt. No other job has it.
    pub fn name(&self, trial: &str, attempt: u32) -> String {
        let trial: String =
            trial.chars().filter(|c| c.is_ascii_alphanumeric() || "_.-".contains(*c)).collect();
        format!("ralph-{}-{trial}-{attempt}", self.job)
    }

    fn memory_mb(&self, settings: &EnvironmentSettings) -> Option<u64> {
        settings.memory_mb.filter(|_| self.info.enforces.contains(&Resource::Memory))
    }

    /// Returns how many processors are a ceiling. More than there are cannot be one.
    fn cpus(&self, settings: &EnvironmentSettings) -> Option<f64> {
        let there = u32::try_from(Host::this().processors).unwrap_or(u32::MAX);
        let is_enforced = self.info.enforces.contains(&Resource::Cpus);
        settings.cpus.filter(|cpus| is_enforced && *cpus <= f64::from(there))
    }

    /// Makes the image of an environment, and those of its files that are on this machine.
    ///
    /// # Errors
    /// The image cannot be made, or the engine does not do its work.
    pub async fn stage(
        &self,
        setup: &ContainerSetup<'_>,
    ) -> Result<(StagedEnvironment, Image), Fault> {
        let order = ImageOrder {
            source: setup.source,
            settings: setup.settings,
            digest: setup.digest(),
            locks: setup.cache.clone(),
        };
        let image = order.require(&self.engine, setup.switch).await?;
        let mut staged = setup.describe(&image)?;
        self.copy_files(setup, &image, &mut staged).await?;
        add_logs(&mut staged, setup.dir).map_err(to_environment_fault)?;
        Ok((staged, image))
    }

    pub(super) fn order(&self, setup: &ContainerSetup<'_>, image: &Image) -> CreateOrder {
        CreateOrder {
            name: setup.name.clone(),
            image: image.name.clone(),
            job: self.job.clone(),
            attempt: setup.dir.display().to_string(),
            ..CreateOrder::default()
        }
    }

    /// Makes the container of an image, which shows these files.
    ///
    /// # Errors
    /// A folder cannot be made, or the engine does not do its work.
    pub async fn create(
        &self,
        setup: &ContainerSetup<'_>,
        image: &Image,
        staged: &StagedEnvironment,
    ) -> Result<Container, Fault> {
        let folders = setup.dir.join(FOLDERS);
        let mounts = setup.list_mounts(staged, &folders).map_err(to_environment_fault)?;
        let order = CreateOrder {
            workdir: staged.workdir.clone(),
            mounts: mounts.clone(),
            has_network: !matches!(setup.network, NetworkPolicy::NoNetwork),
            cpus: self.cpus(setup.settings),
            memory_mb: self.memory_mb(setup.settings),
            ..self.order(setup, image)
        };
        self.engine.create(&order).await?;
        let home = setup.vars.get("HOME").map(PathBuf::from);
        let is_in_home =
            |mount: &Mount| home.as_ref().is_some_and(|home| mount.target.starts_with(home));
        let has_home = setup.shared.iter().any(is_in_home);
        let switch = setup.switch.clone();
        let mut container =
            Container::new(self.engine.clone(), setup.name.clone(), mounts, folders, switch);
        container.variables = ContainerVariables { host: setup.vars.clone(), has_home };
        container.path = setup.search_path(image);
        container.owner = self.info.find_owner();
        Ok(container)
    }
}

pub(super) fn to_environment_fault(error: impl std::fmt::Display) -> Fault {
    fault(Cause::Infrastructure, "EnvironmentError", error.to_string())
}
