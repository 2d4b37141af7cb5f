//! `[bench]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator_contract::Usd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::inline::toml_text;
use crate::model::bench_cluster::BenchCluster;
use crate::model::units;
use crate::strict::{self, strict_enum};
use crate::validator_table::ValidatorTable;

/// What `bench` compares: agents and variants of the configuration, on tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bench {
    /// The agents: names of `[agents.NAME]`, adapters with their defaults, "oracle", which performs a task's own
    /// solution, or "nop", which does nothing. Without any, the agent of `[agent]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub agents: Vec<String>,
    /// Folders with tasks, or of one task each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub tasks: Vec<PathBuf>,
    /// Trials of each agent and variant on each task.
    #[schemars(range(min = 1))]
    pub trials: u32,
    /// Decides the order of the trials.
    pub seed: u64,
    /// Trials at the same time.
    #[schemars(range(min = 1))]
    pub concurrency: u32,
    /// The same of one agent, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agent_concurrency: BTreeMap<String, u32>,
    /// The folder in which each job has a folder of its own.
    #[schemars(extend("minLength" = 1))]
    pub out: PathBuf,
    /// What a trial sees of this machine: "namespace" is a file system of its own over the system's, read-only;
    /// "bubblewrap" is the same, made by the program `bwrap`; "docker" and "podman" are containers of the task's image;
    /// "none" is the machine as it is, for tasks without absolute paths.
    pub isolation: Isolation,
    /// What this machine has of what tasks install, such as "pip:pytest" or "apt:bats".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub provided: Vec<String>,
    /// Whether RUN lines of a task's Dockerfile are run that the machine does not provide: "off", "no-network", or
    /// "public" with the machine's network. Once for each task as it is; trials get a copy of what they made.
    pub setup: TaskSetup,
    /// The agent's word ends a trial of a task that brings no validators: no `[[bench.validator]]` is needed.
    pub trust_agent: bool,
    /// Those who decide within a trial whether a claim stands, instead of `[[validator]]`. A task's own tests are
    /// never among them: they give the reward after the trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<ValidatorTable>")]
    pub validator: Vec<Map<String, Value>>,
    /// Variants of the configuration, by name; each is tried beside the configuration as it is.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "strict::tables")]
    pub variant: BTreeMap<String, BenchVariant>,
    /// US dollars that one trial may cost, beside `limits.max_cost_usd`. "none" is no limit.
    #[serde(deserialize_with = "units::usd_or_none")]
    #[schemars(schema_with = "units::usd_or_none_schema")]
    pub max_cost_per_trial_usd: Option<Usd>,
    /// US dollars that all trials of one agent may cost. "none" is no limit.
    #[serde(deserialize_with = "units::usd_or_none")]
    #[schemars(schema_with = "units::usd_or_none_schema")]
    pub max_cost_per_agent_usd: Option<Usd>,
    /// US dollars that the job may cost. "none" is no limit.
    #[serde(deserialize_with = "units::usd_or_none")]
    #[schemars(schema_with = "units::usd_or_none_schema")]
    pub max_cost_usd: Option<Usd>,
    /// How often a trial is repeated that failed for reasons of the provider, the machine or the environment.
    pub max_retries: u32,
    /// The agent's time, as a multiple of what each task allows.
    pub agent_time_factor: f64,
    /// Whose files stay when a trial has ended: those of "all" attempts, of attempts that "failed", which is less than
    /// the full reward, or of "none". Records, journals, transcripts, logs and artifacts stay in any case.
    pub keep: KeptFiles,
    /// The work is verified after each iteration, too, once the trial is over.
    pub curve: bool,
    /// What a trial is worth whose verifier does not end in time: "zero" if an agent has worked, since what it left may keep the
    /// tests from ending, or "unjudged", which leaves it out of the score.
    pub verifier_timeout: VerifierTimeout,
    /// The cluster whose engine starts workers for `bench submit`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_table")]
    #[schemars(with = "BenchCluster")]
    pub cluster: Option<BenchCluster>,
}

impl Default for Bench {
    fn default() -> Self {
        Self {
            agents: Vec::new(),
            tasks: Vec::new(),
            trials: 1,
            seed: 0,
            concurrency: 1,
            agent_concurrency: BTreeMap::new(),
            out: PathBuf::from("jobs"),
            isolation: Isolation::Namespace,
            provided: Vec::new(),
            setup: TaskSetup::Off,
            trust_agent: false,
            validator: Vec::new(),
            variant: BTreeMap::new(),
            max_cost_per_trial_usd: None,
            max_cost_per_agent_usd: None,
            max_cost_usd: None,
            max_retries: 2,
            agent_time_factor: 1.0,
            keep: KeptFiles::All,
            curve: false,
            verifier_timeout: VerifierTimeout::Zero,
            cluster: None,
        }
    }
}

impl Bench {
    /// Returns whether the file says nothing of benchmarks.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the validators of trials, as the value of `validator` is written in TOML.
    #[must_use]
    pub fn validators_toml(&self) -> String {
        toml_text(&self.validator.iter().cloned().map(Value::Object).collect())
    }
}

/// Values that replace those of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BenchVariant {
    /// Keys, such as "memory.mode", and their values.
    pub set: BTreeMap<String, Value>,
}

impl BenchVariant {
    /// Returns each key with its value, as `--set` takes them.
    #[must_use]
    pub fn sets(&self) -> Vec<(String, String)> {
        self.set.iter().map(|(key, value)| (key.clone(), toml_text(value))).collect()
    }
}

strict_enum! {
    /// Whose files stay.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum KeptFiles {
        /// Of all attempts.
        #[default]
        All = "all",
        /// Of attempts without the full reward.
        Failed = "failed",
        /// Of no attempt.
        None = "none",
    }
}

strict_enum! {
    /// What a trial is worth whose verifier does not end in time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum VerifierTimeout {
        /// The reward 0, except of `oracle` and `nop`.
        #[default]
        Zero = "zero",
        /// Nothing: it does not count.
        Unjudged = "unjudged",
    }
}

strict_enum! {
    /// Whether RUN lines are run.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum TaskSetup {
        /// No: a task that needs it is refused.
        #[default]
        Off = "off",
        /// Without network.
        NoNetwork = "no-network",
        /// With the machine's network.
        Public = "public",
    }
}

strict_enum! {
    /// What a trial sees of the machine.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum Isolation {
        /// A file system of its own.
        #[default]
        Namespace = "namespace",
        /// The same, made by `bwrap`.
        Bubblewrap = "bubblewrap",
        /// A container of Docker.
        Docker = "docker",
        /// A container of Podman.
        Podman = "podman",
        /// The machine as it is.
        None = "none",
    }
}
