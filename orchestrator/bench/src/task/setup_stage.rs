//! Makes the files of an environment whose RUN lines are run by somebody, line by line.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_orchestrator_safe_fs::real_path;

use super::copy::create_folder;
use super::dockerfile::{Dockerfile, FileAction, SetupCommand};
use super::model::{EnvironmentSource, Task, VerifierEnvironment};
use super::provided::Package;
use super::settings::EnvironmentSettings;
use super::stage::{
    DockerfileStager, StageError, StagedEnvironment, find_image_folder, list_mounts, locate,
};

/// The files of an environment while they are made.
pub struct SetupStage<'t> {
    dockerfile: &'t Dockerfile,
    /// How many lines were followed.
    done: usize,
    staged: StagedEnvironment,
}

/// An environment of a task: the agent's, or a verifier's own.
#[derive(Clone, Copy, Debug)]
pub struct TaskEnvironment<'t> {
    /// The task.
    pub task: &'t Task,
    /// What it is made from.
    pub source: &'t EnvironmentSource,
    /// What it asks for.
    pub settings: &'t EnvironmentSettings,
    /// It brings its own `/tests`.
    pub has_bundled_tests: bool,
}

impl Task {
    /// Returns the environment of the agent.
    #[must_use]
    pub const fn agent_environment(&self) -> TaskEnvironment<'_> {
        let (source, settings) = (&self.source, &self.environment);
        TaskEnvironment { task: self, source, settings, has_bundled_tests: false }
    }

    /// Returns the environment of a verifier that has one of its own.
    #[must_use]
    pub const fn verifier_environment<'t>(
        &'t self,
        own: &'t VerifierEnvironment,
    ) -> TaskEnvironment<'t> {
        let VerifierEnvironment { settings, source, has_bundled_tests } = own;
        TaskEnvironment { task: self, source, settings, has_bundled_tests: *has_bundled_tests }
    }

    /// Returns the agent's environment, whose files are below `into/root` already: see [`TaskEnvironment::adopt_files`].
    ///
    /// # Errors
    /// A variable is missing, or the files cannot be read.
    pub fn adopt_files(
        &self,
        into: &Path,
        host: &BTreeMap<String, String>,
    ) -> Result<StagedEnvironment, StageError> {
        self.agent_environment().adopt_files(into, host)
    }
}

impl<'t> TaskEnvironment<'t> {
    /// Whether it has RUN lines that have to be run, since what they do cannot be told, or is not provided.
    #[must_use]
    pub fn needs_setup(&self, provided: &[Package]) -> bool {
        let EnvironmentSource::Dockerfile(dockerfile) = self.source else { return false };
        dockerfile.setup_commands().any(|command| !command.is_covered(provided))
    }

    /// Begins to make the files of the environment below `into/root`, which is created.
    ///
    /// # Errors
    /// It is not made from a Dockerfile, or a line of that cannot be followed.
    pub fn begin_setup(&self, into: &Path) -> Result<SetupStage<'t>, StageError> {
        let EnvironmentSource::Dockerfile(dockerfile) = self.source else {
            return Err(self.task.not_files());
        };
        let root = real_path(into).join("root");
        create_folder(&root)?;
        let staged = StagedEnvironment::empty(root);
        let stage = SetupStage { dockerfile, done: 0, staged };
        stage.stager().require_supported()?;
        stage.create_mount_points()?;
        Ok(stage)
    }

    /// Returns the environment whose files are below `into/root` already: those that [`begin_setup`](Self::begin_setup)
    /// made, or that a trial has left.
    ///
    /// # Errors
    /// A variable is missing, or the files cannot be read.
    pub fn adopt_files(
        &self,
        into: &Path,
        host: &BTreeMap<String, String>,
    ) -> Result<StagedEnvironment, StageError> {
        let staged = StagedEnvironment::empty(real_path(into).join("root"));
        let Self { task, source, settings, has_bundled_tests } = *self;
        task.describe_staged(staged, source, settings, host, has_bundled_tests)
    }
}

impl SetupStage<'_> {
    /// Makes the folders of the root that WORKDIR and VOLUME lines name: a RUN line before them may write there, and nothing
    /// else makes a folder of the root, which is read-only.
    fn create_mount_points(&self) -> Result<(), StageError> {
        for action in &self.dockerfile.actions {
            if let FileAction::Folder { path } = action {
                let point = find_image_folder(path).map_err(StageError::Path)?;
                create_folder(&locate(&self.staged.root, &point))?;
            }
        }
        Ok(())
    }

    fn stager(&self) -> DockerfileStager<'_> {
        DockerfileStager { dockerfile: self.dockerfile, root: &self.staged.root }
    }

    /// Follows lines up to the next one that has to be run, and returns its command; none at the end. The environment
    /// of the command is [`staged`](Self::staged).
    ///
    /// # Errors
    /// A line cannot be followed.
    pub fn advance(&mut self, provided: &[Package]) -> Result<Option<SetupCommand>, StageError> {
        let dockerfile = self.dockerfile;
        for action in dockerfile.actions.iter().skip(self.done) {
            self.done += 1;
            match action {
                FileAction::Run(command) if !command.is_covered(provided) => {
                    self.staged.workdir.clone_from(&command.workdir);
                    self.staged.env.clone_from(&command.env);
                    self.staged.mounts = list_mounts(&self.staged.root)?;
                    return Ok(Some(command.clone()));
                }
                action => self.stager().perform(action)?,
            }
        }
        Ok(None)
    }

    /// Returns the environment as it is so far.
    #[must_use]
    pub const fn staged(&self) -> &StagedEnvironment {
        &self.staged
    }

    /// Returns the Dockerfile.
    #[must_use]
    pub fn dockerfile(&self) -> &Path {
        &self.dockerfile.path
    }
}
