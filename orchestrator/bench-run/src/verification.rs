//! Runs a task's verifier on what the agent made, and reads the reward.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_bench::job::MISSING_PROGRAM_ERROR;
use ralph_orchestrator_bench::task::{
    MAIN_SERVICE, RewardSource, StagedEnvironment, Step, Task, TreeError, Verification,
    VerifierEnvironment, copy_artifacts, read_pytest_summary, resolve_env, reward,
};
use ralph_orchestrator_bench::trial::{Cause, Fault, REWARD, reduce_rewards};
use ralph_orchestrator_config::Isolation;
use ralph_orchestrator_safe_fs::replace_file;
use ralph_orchestrator_supervisor::{KillSwitch, Mount, MountAccess, Supervisor};

use super::container::{ContainerSetup, JobContainers, find_folders};
use super::faults::fault;
use super::missing_parts::{find_missing_package, list_missing_programs};
use super::needed_programs::{MissingProgram, ProgramSight};
use super::setup_layer::SetupLayers;
use super::trial_environment::{CommandEnd, TESTS, TrialEnvironment, add_logs};

/// The kind of fault of work that cannot be verified for what the agent left in the place of files.
pub(super) const UNUSABLE_WORK: &str = "UnusableWorkError";

/// The kind of fault of a verifier that does not end in time.
pub(super) const VERIFIER_TIMEOUT: &str = "VerifierTimeoutError";

/// What a verifier found.
pub(super) type Rewards = BTreeMap<String, f64>;

/// The verification of a step.
pub(super) struct Verifier<'a> {
    /// What variables of the task can name.
    pub(super) vars: BTreeMap<String, String>,
    pub(super) task: &'a Task,
    pub(super) step: &'a Step,
    pub(super) staged: &'a StagedEnvironment,
    pub(super) environment: &'a TrialEnvironment,
    /// What tells its folders from those of other verifications of the attempt.
    pub(super) name: String,
    /// What runs RUN lines of the verifier's own environment.
    pub(super) layers: SetupLayers<'a>,
    /// What makes a container of the verifier's own, if trials are performed in containers.
    pub(super) containers: Option<VerifierContainers<'a>>,
}

/// What makes the containers of verifiers with an environment of their own.
pub(super) struct VerifierContainers<'a> {
    pub(super) containers: &'a JobContainers,
    /// What the names of these containers begin with.
    pub(super) name: String,
    /// What agents see of this machine.
    pub(super) shared: Vec<Mount>,
    pub(super) isolation: Isolation,
    pub(super) cache: PathBuf,
    pub(super) switch: &'a KillSwitch,
    pub(super) supervisor: &'a Supervisor,
}

impl Verifier<'_> {
    /// Verifies the work.
    ///
    /// # Errors
    /// There is no valid reward.
    pub(super) async fn verify(&self) -> Result<Rewards, Fault> {
        for collect in &self.step.verifier.collect {
            if collect.service == MAIN_SERVICE {
                let words = ["sh", "-c", &collect.command].map(str::to_owned);
                // What it could not collect is missing, and the tests say so.
                self.environment.run(&words, &BTreeMap::new(), collect.timeout, &[]).await?;
            }
        }
        let kept = self.environment.dir.join("artifacts").join(&self.name);
        let of_agent = match self.environment.container() {
            Some(container) => {
                container.copy_artifacts_out(&self.step.artifacts, self.staged, &self.name).await?
            }
            None => self.staged.clone(),
        };
        let Some(own) = &self.step.verifier.environment else {
            copy_artifacts(&self.step.artifacts, &of_agent, &kept, None)
                .map_err(|error| unusable_work(self.task, error))?;
            let environment = self.environment.with_network(self.step.verifier.network.as_ref());
            return self.run_tests(self.staged, &environment).await;
        };
        if let Some(containers) = &self.containers {
            return self.verify_in_container(containers, own, &of_agent, &kept).await;
        }
        // Its own environment gets nothing of the agent's but the artifacts.
        let folder = self.environment.dir.join(format!("verifier-{}", self.name));
        let of_verifier = self.task.verifier_environment(own);
        let staged = if self.layers.is_needed(of_verifier) {
            self.layers.copy_into(of_verifier, &folder, &folder.join("environment")).await?;
            of_verifier.adopt_files(&folder, &self.vars)
        } else {
            self.task.stage_verifier(own, &folder, &self.vars)
        };
        let mut staged =
            staged.map_err(|error| fault(Cause::Sandbox, "EnvironmentError", error.to_string()))?;
        add_logs(&mut staged, &folder).map_err(no_tests)?;
        copy_artifacts(&self.step.artifacts, &of_agent, &kept, Some(&mut staged))
            .map_err(|error| unusable_work(self.task, error))?;
        let environment =
            self.environment.for_verifier(&folder, &staged, &own.settings).map_err(no_tests)?;
        let environment = environment.with_network(self.step.verifier.network.as_ref());
        self.run_tests(&staged, &environment).await
    }

    /// Verifies the artifacts in a container of the verifier's own.
    async fn verify_in_container(
        &self,
        of_job: &VerifierContainers<'_>,
        own: &VerifierEnvironment,
        of_agent: &StagedEnvironment,
        kept: &Path,
    ) -> Result<Rewards, Fault> {
        let folder = self.environment.dir.join(format!("verifier-{}", self.name));
        // What the agent could write to would carry more than artifacts.
        let is_read_only = |mount: &&Mount| mount.access == MountAccess::ReadOnly;
        let setup = ContainerSetup {
            task: self.task,
            source: &own.source,
            settings: &own.settings,
            dir: &folder,
            name: format!("{}-{}", of_job.name, self.name),
            shared: of_job.shared.iter().filter(is_read_only).cloned().collect(),
            vars: &self.vars,
            shown: find_folders(&self.step.artifacts, &of_agent.workdir),
            has_bundled_tests: own.has_bundled_tests,
            network: self.step.verifier.network.as_ref().unwrap_or(&own.settings.network),
            cache: of_job.cache.clone(),
            switch: of_job.switch,
        };
        let (mut staged, image) = of_job.containers.stage(&setup).await?;
        copy_artifacts(&self.step.artifacts, of_agent, kept, Some(&mut staged))
            .map_err(|error| unusable_work(self.task, error))?;
        let container = of_job.containers.create(&setup, &image, &staged).await?;
        let (isolation, supervisor) = (of_job.isolation, of_job.supervisor);
        let environment =
            TrialEnvironment::from_container(container, &staged, &folder, isolation, supervisor);
        let rewards = self.run_tests(&staged, &environment).await;
        // What is left of it is removed with the job's.
        drop(environment.remove().await);
        rewards
    }

    async fn run_tests(
        &self,
        staged: &StagedEnvironment,
        environment: &TrialEnvironment,
    ) -> Result<Rewards, Fault> {
        let logs = environment.dir.join("logs/verifier");
        // What an agent put there is no reward, nor is that it put something in the place of the folder.
        reward::remove_rewards(&logs).map_err(|source| {
            unusable_work(self.task, TreeError::Io { path: logs.clone(), source })
        })?;
        let into = environment.dir.join(format!("tests-{}", self.name));
        let tests = self
            .task
            .install_tests(self.step, staged, &into)
            .map_err(|error| unusable_work(self.task, error))?;
        let settings = &self.step.verifier;
        let mut env = resolve_env(&settings.env, &self.vars).map_err(|error| {
            fault(Cause::Sandbox, "EnvironmentVariableError", error.to_string())
        })?;
        match &self.step.verification {
            Verification::Script { script, reward: source, .. } => {
                let (seen, mounts) = see_tests(tests, environment);
                let path = seen.join(script);
                let words = ["bash".to_owned(), path.display().to_string()];
                let end = self.run(&words, &env, environment, &mounts, settings.timeout).await?;
                let rewards = match source {
                    RewardSource::File => reward::read_rewards(&logs),
                    RewardSource::PytestSummary => read_pytest_summary(&end.output)
                        .map(|reward| Rewards::from([(REWARD.to_owned(), reward)])),
                };
                let rewards = rewards
                    .map_err(|error| fault(Cause::Verifier, error.kind(), error.to_string()));
                self.require_programs(rewards, &end, environment)
            }
            Verification::Command { program, env: own, .. } => {
                env.extend(own.clone());
                let end = self.run(program, &env, environment, &[], settings.timeout).await?;
                let reward = f64::from(u8::from(end.is_success));
                let rewards = Rewards::from([(REWARD.to_owned(), reward)]);
                self.require_packages(&end)?;
                self.require_programs(Ok(rewards), &end, environment)
            }
            Verification::Validators { .. } => Ok(Rewards::new()),
        }
    }

    /// Returns the rewards, unless they are less than full for want of a program that this machine lacks. Only what the task
    /// itself calls counts, and what no agent can have removed: that would be its way not to be judged.
    fn require_programs(
        &self,
        rewards: Result<Rewards, Fault>,
        end: &CommandEnd,
        environment: &TrialEnvironment,
    ) -> Result<Rewards, Fault> {
        let is_solved = rewards.as_ref().is_ok_and(|rewards| reduce_rewards(rewards) >= Some(1.0));
        if is_solved || !environment.has_root() || environment.container().is_some() {
            return rewards;
        }
        let sight = ProgramSight::of(self.layers.job);
        let named = list_missing_programs(&end.output);
        let is_cause = |program: &MissingProgram| {
            end.is_missing_program || program.is_certain && named.contains(&program.name.as_str())
        };
        let missing = sight.find_missing_for_tests(self.task, self.step).into_iter().find(is_cause);
        let unseen = || {
            named
                .iter()
                .find(|name| end.is_missing_program && sight.is_called_in_vain(name, self.step))
        };
        let advice = match missing {
            Some(program) => sight.explain(&program),
            None => match unseen() {
                Some(name) => format!("this machine has no `{name}`"),
                None => return rewards,
            },
        };
        let message = format!("the tests ended with {}: {advice}", end.status);
        Err(fault(Cause::Verifier, MISSING_PROGRAM_ERROR, message))
    }

    /// Checks that tests did not fail for want of a package that the task itself names.
    fn require_packages(&self, end: &CommandEnd) -> Result<(), Fault> {
        if end.is_success {
            return Ok(());
        }
        let Some(name) = find_missing_package(&end.output) else { return Ok(()) };
        if !self.task.names_package(self.step, name) {
            return Ok(());
        }
        let message = format!(
            "the tests need the package {name}, which this machine does not have: install it, or put the folder that it is \
             downloaded to, such as ~/.cargo or ~/go, into `read` of [sandbox]"
        );
        Err(fault(Cause::Verifier, MISSING_PROGRAM_ERROR, message))
    }

    /// Runs the verifier's program, and keeps what it prints.
    async fn run(
        &self,
        words: &[String],
        env: &BTreeMap<String, String>,
        environment: &TrialEnvironment,
        mounts: &[Mount],
        timeout: Duration,
    ) -> Result<CommandEnd, Fault> {
        let end = environment.run(words, env, timeout, mounts).await?;
        let kept = environment.dir.join("logs/verifier/test-stdout.txt");
        // The tests may have run what the agent left, which could have put a link there. The reward does not depend
        // on what is kept for people.
        let redactor = self.layers.job.redactor();
        let output = redactor.text(&end.output);
        let _ = replace_file(&kept, output.as_bytes(), &environment.dir);
        if end.is_timed_out {
            let message = format!("the verifier did not end within {} s", timeout.as_secs());
            return Err(fault(Cause::Verifier, VERIFIER_TIMEOUT, message));
        }
        Ok(end)
    }
}

/// Returns the path of the tests as the verifier sees it, and what has to be mounted for that.
fn see_tests(tests: Option<PathBuf>, environment: &TrialEnvironment) -> (PathBuf, Vec<Mount>) {
    let Some(folder) = tests else { return (PathBuf::from(TESTS), Vec::new()) };
    let seen = environment.inside(TESTS, &folder);
    let mount = Mount { source: folder, target: TESTS.into(), access: MountAccess::Writable };
    (seen, vec![mount])
}

/// Returns the fault of an error after the agent has ended: its own if it can have caused it, so that no agent chooses
/// not to be judged.
pub(super) fn unusable_work(task: &Task, error: TreeError) -> Fault {
    if error.can_be_of_agent() && !error.path().starts_with(&task.folder) {
        return fault(Cause::Agent, UNUSABLE_WORK, error.to_string());
    }
    no_tests(error)
}

fn no_tests(error: impl std::fmt::Display) -> Fault {
    fault(Cause::Infrastructure, "TestsError", error.to_string())
}
