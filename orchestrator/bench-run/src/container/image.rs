//! The image of a task: built from its Dockerfile once for each digest, or used as it is.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_bench::job::TASK_SETUP_ERROR;
use ralph_orchestrator_bench::task::{Dockerfile, EnvironmentSettings, EnvironmentSource};
use ralph_orchestrator_bench::trial::{Cause, Fault};
use ralph_orchestrator_supervisor::KillSwitch;

use super::super::faults::fault;
use super::super::file_lock::take_lock;
use super::engine::{Engine, Image};
use crate::engine_call::EngineError;

/// The name of images that are built here. The engine is not to look for it elsewhere.
const REPOSITORY: &str = "localhost/ralph-orchestrator-bench";

/// What an image is made from.
pub(super) struct ImageOrder<'a> {
    pub(super) source: &'a EnvironmentSource,
    pub(super) settings: &'a EnvironmentSettings,
    /// Identifies everything that the image is made from.
    pub(super) digest: String,
    /// The folder in which whoever builds an image holds a lock.
    pub(super) locks: PathBuf,
}

impl ImageOrder<'_> {
    /// Returns the image, which is built or pulled if it is not on this machine.
    ///
    /// # Errors
    /// A line of the Dockerfile fails, or there is no such image.
    pub(super) async fn require(
        &self,
        engine: &Engine,
        switch: &KillSwitch,
    ) -> Result<Image, Fault> {
        let engine = engine.with_kill_switch(switch);
        let recipe = self.find_recipe();
        let name = match (&self.settings.docker_image, self.source) {
            (Some(image), _) | (None, EnvironmentSource::Image(image)) => image.clone(),
            (None, EnvironmentSource::Dockerfile(_)) => format!("{REPOSITORY}:{}", self.tag()),
            _ => return Err(no_image("the task has neither a Dockerfile nor an image".to_owned())),
        };
        if let Some(image) = engine.find_image(&name).await? {
            return Ok(image);
        }
        fs::create_dir_all(&self.locks).map_err(|error| no_image(error.to_string()))?;
        let _lock = take_lock(&self.locks.join(format!("{}.lock", self.tag())), switch).await?;
        if let Some(image) = engine.find_image(&name).await? {
            return Ok(image);
        }
        let timeout = self.settings.build_timeout;
        let made = match recipe {
            Some(recipe) => engine.build(&name, &recipe.path, &recipe.context, timeout).await,
            None => engine.pull(&name, timeout).await,
        };
        if switch.is_pulled() {
            let message = "the image of the task was not made, on request".to_owned();
            return Err(fault(Cause::Cancelled, "CancelledError", message));
        }
        made.map_err(|error| explain(recipe.map(|recipe| recipe.path.as_path()), &error))?;
        let found = engine.find_image(&name).await?;
        found.ok_or_else(|| no_image(format!("{name} is not there although it was made")))
    }

    /// Returns what the image is built from; none if it is used as it is.
    fn find_recipe(&self) -> Option<&Dockerfile> {
        match (&self.settings.docker_image, self.source) {
            (None, EnvironmentSource::Dockerfile(dockerfile)) => Some(dockerfile),
            _ => None,
        }
    }

    /// Returns what tells the image from others of this program.
    fn tag(&self) -> String {
        self.digest.chars().take(32).collect()
    }
}

/// Returns the fault of an image that cannot be made; another attempt would only meet it again.
fn explain(file: Option<&Path>, error: &EngineError) -> Fault {
    let from = file.map(|file| format!("{}: ", file.display())).unwrap_or_default();
    fault(Cause::Sandbox, TASK_SETUP_ERROR, format!("{from}{error}"))
}

fn no_image(message: String) -> Fault {
    fault(Cause::Sandbox, "EnvironmentError", message)
}

impl From<EngineError> for Fault {
    fn from(error: EngineError) -> Self {
        fault(Cause::Sandbox, "ContainerEngineError", error.to_string())
    }
}
