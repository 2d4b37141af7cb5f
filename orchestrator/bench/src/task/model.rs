//! What a task is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::dockerfile::Dockerfile;
use super::problem::Problem;
use super::settings::{
    AgentSettings, Artifact, CollectCommand, DEFAULT_VERIFIER_TIMEOUT, EnvironmentSettings,
    Healthcheck, NetworkPolicy, RewardGate, RewardStrategy, User,
};

/// The form that a task is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskForm {
    /// A Harbor task directory, with `task.toml`.
    Harbor,
    /// A task of Terminal-Bench 1, with `task.yaml`.
    TerminalBench,
    /// A practice exercise, with `.meta/config.json`.
    Exercism,
    /// A folder with `ralph.toml`, whose validators decide.
    Own,
}

/// A task: what the agent is told, what it works in, and what decides about its work.
#[derive(Clone, Debug)]
pub struct Task {
    /// The name: `org/name` of the task's file, else the name of its folder. Where another task of the job has it too, the
    /// folders in which they differ stand before it.
    pub name: String,
    /// The form it is written in.
    pub form: TaskForm,
    /// The folder, absolute and without links.
    pub folder: PathBuf,
    /// BLAKE3 of paths, executable bits and contents of the folder, in hexadecimal.
    pub digest: String,
    /// What the task's file says about it.
    pub about: TaskDescription,
    /// What its environment is made from.
    pub source: EnvironmentSource,
    /// What its environment has to offer.
    pub environment: EnvironmentSettings,
    /// Environment variables of the oracle; values may be `${NAME}` or `${NAME:-default}`.
    pub solution_env: BTreeMap<String, String>,
    /// The steps, at least one. A task without `[[steps]]` has one without a name.
    pub steps: Vec<Step>,
    /// How the rewards of the steps become that of the trial.
    pub reward_strategy: RewardStrategy,
    /// What has no effect or may disturb, such as unknown keys.
    pub warnings: Vec<Problem>,
}

impl Task {
    /// Returns the name without the organisation, for file names.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// Whether the task has named steps.
    #[must_use]
    pub fn is_multi_step(&self) -> bool {
        self.steps.iter().any(|step| step.name.is_some())
    }
}

/// What a task's file says about the task; nothing depends on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskDescription {
    /// The version of the schema that it is written for, if it names one.
    pub schema_version: Option<String>,
    /// The version of the task.
    pub version: Option<String>,
    /// What it is about, for people.
    pub description: String,
    /// Who wrote it: name and mail address.
    pub authors: Vec<(String, Option<String>)>,
    /// Words to find it by.
    pub keywords: Vec<String>,
    /// Where it comes from.
    pub origin: Option<String>,
    /// Everything below `[metadata]`: difficulty, category, tags and whatever else.
    pub metadata: toml::Table,
}

/// What an environment is made from.
#[derive(Clone, Debug)]
pub enum EnvironmentSource {
    /// A Dockerfile and the folder beside it.
    Dockerfile(Box<Dockerfile>),
    /// A container image that is made already.
    Image(String),
    /// Several services.
    Compose(PathBuf),
    /// Files of the task that are put into the work directory.
    Files(Vec<FileCopy>),
    /// The folder itself, as its configuration says.
    Configuration(PathBuf),
    /// Nothing: the folder lacks what it takes.
    Nothing(PathBuf),
}

/// A file of the task, and where it comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCopy {
    /// The file on this machine.
    pub source: PathBuf,
    /// Its path, relative to the work directory.
    pub target: PathBuf,
}

/// A part of a task: an instruction, and the verification of what the agent made of it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The name; none for the only step of a task without `[[steps]]`.
    pub name: Option<String>,
    /// What the agent is told; none if the task's own configuration says it.
    pub instruction: Option<String>,
    /// What the step asks for its agent.
    pub agent: AgentSettings,
    /// What the step asks for its verifier.
    pub verifier: VerifierSettings,
    /// What decides about the work.
    pub verification: Verification,
    /// What solves the step; none if the task brings no solution.
    pub oracle: Option<Oracle>,
    /// What its rewards have to be for the next step to begin.
    pub min_reward: Option<RewardGate>,
    /// What says that the step may begin.
    pub healthcheck: Option<Healthcheck>,
    /// What is kept of the environment, that of the whole task included.
    pub artifacts: Vec<Artifact>,
    /// A folder whose content is put into the work directory before the step. Its `setup.sh`, if any, is run there.
    pub workdir_files: Option<PathBuf>,
    /// What an agent did before, as a trajectory.
    pub prior_trajectory: Option<PathBuf>,
}

/// What a task asks for its verifier.
#[derive(Clone, Debug)]
pub struct VerifierSettings {
    /// Longest time of the verification.
    pub timeout: Duration,
    /// Environment variables; values may be `${NAME}` or `${NAME:-default}`.
    pub env: BTreeMap<String, String>,
    /// The user it runs as; none for the environment's.
    pub user: Option<User>,
    /// Which hosts it may reach; none for its environment's policy.
    pub network: Option<NetworkPolicy>,
    /// Its own environment; none if it runs in the agent's.
    pub environment: Option<VerifierEnvironment>,
    /// Commands that run before artifacts are collected.
    pub collect: Vec<CollectCommand>,
}

impl Default for VerifierSettings {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_VERIFIER_TIMEOUT,
            env: BTreeMap::new(),
            user: None,
            network: None,
            environment: None,
            collect: Vec::new(),
        }
    }
}

/// An environment of the verifier's own: the agent's work reaches it only as artifacts.
#[derive(Clone, Debug)]
pub struct VerifierEnvironment {
    /// What it asks for.
    pub settings: EnvironmentSettings,
    /// What it is made from.
    pub source: EnvironmentSource,
    /// The environment brings its own `/tests`: no tests are copied into it.
    pub has_bundled_tests: bool,
}

/// What decides about the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// What is copied to `/tests`, and a script in it, whose exit status says nothing.
    Script {
        /// Folders on this machine, later ones over earlier ones.
        folders: Vec<PathBuf>,
        /// Files beside them. Without folders and files the verifier's environment brings its own `/tests`.
        files: Vec<FileCopy>,
        /// The script, relative to `/tests`.
        script: PathBuf,
        /// Where it leaves the reward.
        reward: RewardSource,
    },
    /// Files that are put into the work directory, and a command that runs there: the reward is 1 if it exits with 0,
    /// else 0.
    Command {
        /// The files.
        files: Vec<FileCopy>,
        /// The command; empty if none is known for this kind of file.
        program: Vec<String>,
        /// Its environment variables.
        env: BTreeMap<String, String>,
    },
    /// The validators of the task's configuration: the reward is 1 if all accept, else 0.
    Validators {
        /// Files of the task, relative to its folder, that the validators run or protect.
        files: Vec<PathBuf>,
    },
}

/// Where the script of a verification leaves the reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewardSource {
    /// In a file in `/logs/verifier`.
    File,
    /// In the summary of pytest that it prints.
    PytestSummary,
}

impl Verification {
    /// Returns the package that its command needs, as an entry of `provided`, if it is one of those of the Exercism
    /// layout that a machine may lack.
    #[must_use]
    pub fn needed_package(&self) -> Option<&'static str> {
        let Self::Command { program, .. } = self else { return None };
        let is_pytest = program.iter().take(3).eq(["python3", "-m", "pytest"].iter());
        is_pytest.then_some("pip:pytest")
    }

    /// Returns a command that succeeds where what runs its tests is installed. None if nothing more is known than the name of
    /// its program.
    #[must_use]
    pub fn find_probe(&self) -> Option<&'static [&'static str]> {
        let Self::Command { program, .. } = self else { return None };
        Some(match program.first()?.as_str() {
            "python3" => &["python3", "-c", "import pytest"],
            "bats" => &["bats", "--version"],
            "cargo" => &["cargo", "--version"],
            "go" => &["go", "version"],
            "ruby" => &["ruby", "--version"],
            _ => return None,
        })
    }
}

/// What solves a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oracle {
    /// A folder that is copied to `/solution`, and a script in it.
    Script {
        /// The folder on this machine.
        folder: PathBuf,
        /// The script, relative to the folder.
        script: PathBuf,
    },
    /// Files that are put into the work directory.
    Files(Vec<FileCopy>),
}
