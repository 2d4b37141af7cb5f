//! Makes the files of an environment whose RUN lines are run by somebody, line by line.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_orchestrator_safe_fs::real_path;

use super::copy::create_folder;
use super::dockerfile::{Dockerfile, FileAction, SetupCommand};
use super::model::{EnvironmentSource, Task};
use super::provided::Package;
use super::stage::{DockerfileStager, StageError, StagedEnvironment, list_mounts};

/// The files of an environment while they are made.
pub struct SetupStage<'t> {
    dockerfile: &'t Dockerfile,
    /// How many lines were followed.
    done: usize,
    staged: StagedEnvironment,
}

impl Task {
    /// Whether the environment has RUN lines that have to be run, since what they do cannot be told, or is not
    /// provided.
    #[must_use]
    pub fn needs_setup(&self, provided: &[Package]) -> bool {
        let EnvironmentSource::Dockerfile(dockerfile) = &self.source else { return false };
        dockerfile.setup_commands().any(|command| !command.is_covered(provided))
    }

    /// Begins to make the files of the environment below `into/root`, which is created.
    ///
    /// # Errors
    /// It is not made from a Dockerfile, or a line of that cannot be followed.
    pub fn begin_setup(&self, into: &Path) -> Result<SetupStage<'_>, StageError> {
        let EnvironmentSource::Dockerfile(dockerfile) = &self.source else {
            return Err(self.not_files());
        };
        let root = real_path(into).join("root");
        create_folder(&root)?;
        let stage = SetupStage { dockerfile, done: 0, staged: StagedEnvironment::empty(root) };
        stage.stager().require_supported()?;
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
        self.describe_staged(staged, &self.source, &self.environment, host, false)
    }
}

impl SetupStage<'_> {
    fn stager(&self) -> DockerfileStager<'_> {
        DockerfileStager {
            dockerfile: self.dockerfile,
            root: &self.staged.root,
            has_bundled_tests: false,
        }
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
