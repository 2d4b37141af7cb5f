//! The files of a task whose Dockerfile has RUN lines that have to be run: made once, and copied for each trial.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use ralph_orchestrator_bench::job::TASK_SETUP_ERROR;
use ralph_orchestrator_bench::task::{
    EnvironmentSource, NetworkPolicy, Package, SetupCommand, SetupStage, TaskEnvironment,
};
use ralph_orchestrator_bench::trial::{Cause, Fault};
use ralph_orchestrator_config::TaskSetup;
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};

use super::faults::fault;
use super::file_lock::take_lock;
use super::job_setup::JobSetup;
use super::snapshots::copy_tree;
use super::trial_environment::{CommandEnd, TrialEnvironment};

/// The folder of what an environment consists of, in a layer as in an attempt.
const ENVIRONMENT: &str = "environment";
/// What of it trials get: the files of the environment, and what its lines left in the home folder.
const ROOT: &str = "root";
const HOME: &str = "home";
/// The most that a layer may have.
const MAX_BYTES: u64 = 64 << 30;
const MAX_DEPTH: usize = 128;
/// The last lines of a command that failed, in its message.
const LAST_LINES: usize = 20;

/// Makes layers.
#[derive(Clone, Copy)]
pub(super) struct SetupLayers<'a> {
    pub(super) job: &'a JobSetup,
    pub(super) switch: &'a KillSwitch,
    pub(super) supervisor: &'a Supervisor,
}

impl SetupLayers<'_> {
    /// Whether the files of an environment come from a layer.
    pub(super) fn is_needed(&self, environment: TaskEnvironment<'_>) -> bool {
        let is_on = self.job.loaded.config.bench.setup != TaskSetup::Off;
        is_on && environment.needs_setup(&self.provided())
    }

    /// Copies the files of an environment to `into/root`, and those of its home folder to `homes/home`. Makes them first if
    /// nobody has.
    ///
    /// # Errors
    /// A RUN line fails, or a file cannot be made.
    pub(super) async fn copy_into(
        &self,
        environment: TaskEnvironment<'_>,
        into: &Path,
        homes: &Path,
    ) -> Result<(), Fault> {
        let layer = self.require(environment).await?;
        for (name, into) in [(ROOT, into), (HOME, homes)] {
            let from = layer.join(ENVIRONMENT).join(name);
            copy_tree(&from, &into.join(name), MAX_DEPTH, &mut { MAX_BYTES }).map_err(failed)?;
        }
        Ok(())
    }

    /// Returns the folder of an environment's layer. A folder under its final name is complete.
    async fn require(&self, environment: TaskEnvironment<'_>) -> Result<PathBuf, Fault> {
        let layers = self.job.layers();
        let name = self.name(environment);
        let (layer, part) = (layers.join(&name), layers.join(format!("{name}.part")));
        if layer.is_dir() {
            return Ok(layer);
        }
        fs::create_dir_all(&layers).map_err(failed)?;
        let _lock = take_lock(&layers.join(format!("{name}.lock")), self.switch).await?;
        if layer.is_dir() {
            return Ok(layer);
        }
        if part.exists() {
            // Of a setup that was killed.
            fs::remove_dir_all(&part).map_err(failed)?;
        }
        let made = self.make(environment, &part).await;
        if let Err(fault) = made {
            drop(fs::remove_dir_all(&part));
            return Err(fault);
        }
        fs::rename(&part, &layer).map_err(failed)?;
        Ok(layer)
    }

    async fn make(&self, environment: TaskEnvironment<'_>, part: &Path) -> Result<(), Fault> {
        let into = part.join(ENVIRONMENT);
        fs::create_dir_all(&into).map_err(failed)?;
        let provided = self.provided();
        let mut stage = environment.begin_setup(&into).map_err(failed)?;
        while let Some(command) = stage.advance(&provided).map_err(failed)? {
            self.run(environment, &stage, &command, part).await?;
        }
        // There may have been no line that needed it.
        fs::create_dir_all(into.join(HOME)).map_err(failed)
    }

    async fn run(
        &self,
        of_task: TaskEnvironment<'_>,
        stage: &SetupStage<'_>,
        command: &SetupCommand,
        part: &Path,
    ) -> Result<(), Fault> {
        let staged = stage.staged();
        let (task, settings) = (of_task.task, of_task.settings);
        let environment = TrialEnvironment::create(task, staged, part, self.job, self.supervisor)
            // What agents share is nothing that a task may write to.
            .and_then(|environment| environment.for_verifier(part, staged, settings))
            .map_err(failed)?;
        let policy = match self.job.loaded.config.bench.setup {
            TaskSetup::Public => NetworkPolicy::Public,
            TaskSetup::Off | TaskSetup::NoNetwork => NetworkPolicy::NoNetwork,
        };
        let environment = environment.with_network(Some(&policy));
        let end = environment
            .run(&command.program, &command.env, settings.build_timeout, &[])
            .await
            .map_err(|fault| explain(stage, command, &fault.message, ""))?;
        if self.switch.is_pulled() {
            let message = "the setup of the task was killed on request".to_owned();
            return Err(fault(Cause::Cancelled, "CancelledError", message));
        }
        if end.is_success {
            return Ok(());
        }
        Err(explain(stage, command, &describe_end(&end, settings.build_timeout), &end.output))
    }

    /// Returns the name of a layer: everything that decides what is in it.
    fn name(&self, environment: TaskEnvironment<'_>) -> String {
        let bench = &self.job.loaded.config.bench;
        let mut hasher = blake3::Hasher::new();
        let parts = [
            env!("CARGO_PKG_VERSION").to_owned(),
            environment.task.digest.clone(),
            find_file(environment),
            format!("{:?}", bench.setup),
            bench.provided.join("\n"),
        ];
        for part in parts {
            hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    fn provided(&self) -> Vec<Package> {
        // What is no package was refused before the job.
        let texts = self.job.loaded.config.bench.provided.iter();
        texts.filter_map(|text| text.parse().ok()).collect()
    }
}

/// Returns the path of the Dockerfile, relative to the task.
fn find_file(environment: TaskEnvironment<'_>) -> String {
    let EnvironmentSource::Dockerfile(dockerfile) = environment.source else {
        return String::new();
    };
    let path = dockerfile.path.strip_prefix(&environment.task.folder);
    path.unwrap_or(&dockerfile.path).display().to_string()
}

fn describe_end(end: &CommandEnd, timeout: Duration) -> String {
    if end.is_timed_out {
        return format!("it took longer than {} s, its `build_timeout_sec`", timeout.as_secs());
    }
    end.status.clone()
}

/// Returns the fault of a RUN line: where it is, how it ended, and what it said last.
fn explain(stage: &SetupStage<'_>, command: &SetupCommand, end: &str, output: &str) -> Fault {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default().join("\n");
    let message = format!("{}:{}: RUN: {end}\n{last}", stage.dockerfile().display(), command.line);
    fault(Cause::Sandbox, TASK_SETUP_ERROR, message.trim_end().to_owned())
}

fn failed(error: impl Into<Box<dyn std::error::Error>>) -> Fault {
    let error: Box<dyn std::error::Error> = error.into();
    let is_io = error.is::<io::Error>();
    let cause = if is_io { Cause::Infrastructure } else { Cause::Sandbox };
    fault(cause, "EnvironmentError", error.to_string())
}
