//! The checked configuration.

mod backlog;
mod bench;
mod bench_cluster;
mod context;
mod escalation;
mod git;
mod handoff;
mod hooks;
mod limits;
mod max_wait;
mod memory;
mod notify;
mod parallel;
mod plugins;
mod prompts;
pub(crate) mod size;
mod telemetry;
pub(crate) mod units;
mod user_budget;
mod validation;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::strict::{self, strict_enum};

pub use backlog::{AgentCompletions, BacklogConfig, BacklogLabels, BacklogOrder, BacklogTracker};
pub(crate) use backlog::{ITEM, VERIFY};
pub use bench::{Bench, BenchVariant, Isolation, KeptFiles, TaskSetup, VerifierTimeout};
pub use bench_cluster::{BenchCluster, BenchPod, ClusterKind};
pub use context::ContextCommand;
pub use escalation::{EscalateAfter, EscalateStart};
pub use git::{CommitMode, Git, OnComplete};
pub use handoff::Handoff;
pub use hooks::{HookSandbox, Hooks};
pub use limits::Limits;
pub use max_wait::MaxWait;
pub use memory::{Memory, MemoryMode, ProgressFormat};
pub use notify::{NoticeTopic, Notify, NotifyKind};
pub use parallel::Parallel;
pub use plugins::PluginConfig;
pub use prompts::{Initializer, Prompts, Role, RoleAgents, RoleNames, WorkingRole};
pub use telemetry::Telemetry;
pub use units::{CountOrAuto, duration_text, parse_duration};
pub use user_budget::{CostBudget, TokenBudget, UserBudget};
pub use validation::{CheckPlace, Validation};

/// A complete configuration: every default filled in, every path absolute.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `preset`: the way of working whose values apply where nothing else is set.
    pub preset: Option<String>,
    /// `trust`: whether changes of files that decide what runs are asked for.
    pub trust: TrustMode,
    /// `[budget]`: what all runs of this user together may use.
    pub budget: UserBudget,
    /// `[run]`
    pub run: Run,
    /// `[agent]`: the agent of the loop.
    pub agent: AgentConfig,
    /// `[agents.NAME]`: further agents.
    pub agents: BTreeMap<String, AgentConfig>,
    /// `[plugins.NAME]`
    pub plugins: BTreeMap<String, PluginConfig>,
    /// `[prompts]`, if it is given.
    pub prompts: Option<Prompts>,
    /// `[initializer]`, if it is given.
    pub initializer: Option<Initializer>,
    /// `[completion]`
    pub completion: Completion,
    /// `[validation]`
    pub validation: Validation,
    /// `[[validator]]`, in the order of the file.
    pub validators: Vec<ValidatorConfig>,
    /// `[limits]`
    pub limits: Limits,
    /// `[git]`
    pub git: Git,
    /// `[handoff]`
    pub handoff: Handoff,
    /// `[memory]`
    pub memory: Memory,
    /// `[backlog]`
    pub backlog: Option<BacklogConfig>,
    /// `[parallel]`
    pub parallel: Parallel,
    /// `[[notify]]`, in the order of the file.
    pub notify: Vec<Notify>,
    /// `[hooks]`
    pub hooks: Hooks,
    /// `[context]`
    pub context: ContextCommand,
    /// `[telemetry]`
    pub telemetry: Telemetry,
    /// `[bench]`
    pub bench: Bench,
    /// `[env]`
    pub env: Env,
    /// `[sandbox]`
    pub sandbox: Sandbox,
    /// `[state]`
    pub state: StateConfig,
}

impl Config {
    /// Returns the table `[agents.NAME]`, or `[agent]` without a name.
    #[must_use]
    pub fn agent_table(&self, name: Option<&str>) -> Option<&AgentConfig> {
        match name {
            Some(name) => self.agents.get(name),
            None => Some(&self.agent),
        }
    }

    /// Returns the names of the agents of which one works at a time where `[agents.NAME]`, or `[agent]`, escalates.
    #[must_use]
    pub fn escalation(&self, name: Option<&str>) -> Option<&AgentConfig> {
        self.agent_table(name).filter(|agent| !agent.escalate.is_empty())
    }

    /// Returns the names of all agents that can work beside the first one where `[agents.NAME]`, or `[agent]`, is to: its
    /// fallbacks, then those that it escalates to, each with its own. None comes twice.
    #[must_use]
    pub fn other_agents<'a>(&'a self, name: Option<&'a str>) -> Vec<&'a str> {
        let escalating = self.escalation(name).into_iter();
        let steps = escalating.flat_map(|agent| agent.escalate.iter().map(String::as_str));
        let of_steps =
            steps.flat_map(|step| std::iter::once(step).chain(self.fallback(Some(step))));
        let first = self.first_agent(name);
        let mut others: Vec<&str> = Vec::new();
        for other in self.fallback(name).into_iter().chain(of_steps) {
            if Some(other) != first && !others.contains(&other) {
                others.push(other);
            }
        }
        others
    }

    /// Whether a new run begins with the agent that worked last, where `[agents.NAME]`, or `[agent]`, is to work.
    #[must_use]
    pub fn starts_with_last(&self, name: Option<&str>) -> bool {
        self.escalation(name).is_some_and(|agent| agent.start == EscalateStart::Last)
    }

    /// Returns which agent of `[agents]` is the first to work where `[agents.NAME]`, or `[agent]`, is to; `None` is `[agent]`.
    #[must_use]
    pub fn first_agent<'a>(&'a self, name: Option<&'a str>) -> Option<&'a str> {
        let first = self.escalation(name).and_then(|agent| agent.escalate.first());
        first.map(String::as_str).or(name)
    }

    /// Returns the names of the agents that take over from the one of `[agents.NAME]`, or of `[agent]`, in
    /// order: each is followed by those that take over from it. None comes twice.
    #[must_use]
    pub fn fallback<'a>(&'a self, name: Option<&str>) -> Vec<&'a str> {
        let name = self.first_agent(name);
        let first = self.agent_table(name);
        let names = |agent: &'a AgentConfig| agent.fallback.iter().rev().map(String::as_str);
        let mut order: Vec<&str> = Vec::new();
        let mut open: Vec<&str> = first.into_iter().flat_map(names).collect();
        while let Some(to) = open.pop() {
            if name != Some(to) && !order.contains(&to) {
                order.push(to);
                open.extend(self.agents.get(to).into_iter().flat_map(names));
            }
        }
        order
    }
}

/// What to do, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// The prompt file. "PROMPT.md" if neither this nor `prompt_text` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", extend("minLength" = 1))]
    pub prompt: Option<PathBuf>,
    /// The prompt itself, instead of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub prompt_text: Option<String>,
    /// The agent may edit the prompt file.
    pub prompt_editable: bool,
    /// The prompt of the iterations that do the work: "coding", which is the default, or "yolo". Needs
    /// `[prompts]`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional")]
    #[schemars(with = "WorkingRole")]
    pub role: Option<WorkingRole>,
    /// The folder in which the agent works.
    #[schemars(extend("minLength" = 1))]
    pub workspace: PathBuf,
    /// The folder from which the workspace is made, if it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", extend("minLength" = 1))]
    pub template: Option<PathBuf>,
    /// The pause between two iterations.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema")]
    pub delay: Duration,
    /// The command that prepares the workspace before each iteration's agent, and before the checks of the
    /// baseline: a program and its arguments, such as ["./init.sh"]. A path is relative to the workspace, in
    /// which it runs; while that file does not exist, as before the initializer has made it, it is skipped.
    /// What it changes is no progress, and its failure is passed to the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// The longest that the setup may take. "none" is no limit.
    #[serde(with = "units::duration_or_longest")]
    #[schemars(schema_with = "units::duration_or_none_schema")]
    pub setup_timeout: Duration,
    /// Globs, relative to the workspace, of files in which work is only recorded, such as plans and
    /// progress notes: no part of the work, and an edit of them is no progress. A backlog's file is one
    /// anyway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub bookkeeping: Vec<String>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            prompt: None,
            prompt_text: None,
            prompt_editable: true,
            role: None,
            workspace: PathBuf::from("."),
            template: None,
            delay: Duration::from_secs(2),
            setup: Vec::new(),
            setup_timeout: Duration::from_secs(10 * 60),
            bookkeeping: Vec::new(),
        }
    }
}

/// An agent: its adapter, and the adapter's own configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// The adapter that drives the agent.
    #[schemars(extend("minLength" = 1))]
    pub adapter: String,
    /// The adapter's own keys, checked by it.
    #[serde(deserialize_with = "strict::open_table")]
    #[schemars(with = "Map<String, Value>")]
    pub config: Value,
    /// The names of those in `[agents]` that take over, in this order, when this one is not there, not
    /// logged in, out of credit, or refused by its provider for longer than five minutes or
    /// `limits.max_wait`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub fallback: Vec<String>,
    /// Names of those in `[agents]`, the weakest first, of which one works at a time: the next one once `escalate_after` says so.
    /// The other keys of this table, but `escalate_after` and `start`, then count for nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub escalate: Vec<String>,
    /// What makes the next agent of `escalate` take over.
    #[serde(deserialize_with = "strict::table", skip_serializing_if = "EscalateAfter::is_default")]
    pub escalate_after: EscalateAfter,
    /// With which agent of `escalate` a new run begins: the "cheapest", which is the first, or the one that worked "last" in the
    /// run before. Each item of a backlog is a new run.
    #[serde(skip_serializing_if = "EscalateStart::is_default")]
    pub start: EscalateStart,
    /// Files that the agent reads at its start, beside the configuration file: they are part of what
    /// it is given, and are put back before each iteration if they were changed. Those that
    /// `--mcp-config` and `--settings` name are among them anyway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub inputs: Vec<PathBuf>,
    /// The agent may run although it reports neither cost nor tokens and a cost limit is set.
    pub unmetered: bool,
    /// What tokens cost, for an agent that reports tokens but no cost.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_table")]
    #[schemars(with = "Prices")]
    pub prices: Option<Prices>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            adapter: String::new(),
            config: Value::Object(Map::new()),
            fallback: Vec::new(),
            escalate: Vec::new(),
            escalate_after: EscalateAfter::default(),
            start: EscalateStart::Cheapest,
            inputs: Vec::new(),
            unmetered: false,
            prices: None,
        }
    }
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Input tokens.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Output tokens.
    #[schemars(range(min = 0))]
    pub output: f64,
    /// Input tokens read from the cache.
    #[schemars(range(min = 0))]
    pub cache_read: f64,
    /// Input tokens written to the cache.
    #[schemars(range(min = 0))]
    pub cache_write: f64,
}

/// How completion is claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// What makes the validators run.
    pub when: CompletionTrigger,
    /// Whether the agent is told how to claim completion.
    pub instructions: InstructionsMode,
    /// The detectors that look for claims. Never empty.
    pub detectors: Vec<DetectorConfig>,
    /// The agent's word is enough: no required validator is needed.
    pub trust_agent: bool,
    /// What becomes of a claim that was rejected.
    pub after_rejection: AfterRejection,
    /// What follows from checks that accept before any work is done.
    pub baseline: BaselineMode,
}

strict_enum! {
    /// What makes the validators run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum CompletionTrigger {
        /// A claim.
        Claimed = "claimed",
        /// A claim, or an iteration that changed something.
        Proved = "proved",
    }
}

strict_enum! {
    /// Whether the agent is told how to claim completion.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum InstructionsMode {
        /// After the prompt, if a claim is needed and the agent is not told by anything else how to make one.
        Auto = "auto",
        /// The agent reads nothing but the prompt and what there is to say about earlier iterations.
        Never = "never",
    }
}

strict_enum! {
    /// What follows from checks that accept before any work is done.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum BaselineMode {
        /// The user is warned.
        Warn = "warn",
        /// The run does not begin.
        MustFail = "must_fail",
        /// They are not run.
        Off = "off",
    }
}

strict_enum! {
    /// What becomes of a claim that was rejected.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum AfterRejection {
        /// It stays pending, and is validated again after each iteration.
        Keep = "keep",
        /// The agent has to claim again.
        RequireNewClaim = "require_new_claim",
    }
}

/// A detector and its options.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorConfig {
    /// The detector's name.
    pub name: String,
    /// Its options: an object.
    pub config: Value,
}

/// A validator and its options.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatorConfig {
    /// The kind of validator.
    pub kind: String,
    /// Its name, unique in the configuration: by default the kind, with a number from the second on.
    pub name: String,
    /// Completion needs its acceptance. Otherwise its verdict is only reported.
    pub required: bool,
    /// The longest that a validation may take.
    pub timeout: Duration,
    /// Globs, relative to the workspace, of what it writes: no part of the work.
    pub artefacts: Vec<String>,
    /// The kind's own options: an object.
    pub config: Value,
    /// Its place among the `[[validator]]` tables, from 0; a part of its keys' names.
    pub index: usize,
}

/// The environment of agents and validators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Env {
    /// "clean": an allow-list, `pass` and `set`. "inherit": everything, and `set`.
    pub mode: EnvMode,
    /// Names of variables that are handed on in a clean environment.
    pub pass: Vec<String>,
    /// Variables with the values they get.
    pub set: BTreeMap<String, String>,
}

impl Default for Env {
    fn default() -> Self {
        Self { mode: EnvMode::Clean, pass: Vec::new(), set: BTreeMap::new() }
    }
}

strict_enum! {
    /// Where the environment of agents and validators comes from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum EnvMode {
        /// An allow-list, what is passed, and what is set.
        Clean = "clean",
        /// The orchestrator's own environment, and what is set.
        Inherit = "inherit",
    }
}

/// What agents may do to files. Validators are not confined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// "off", or "landlock": agents write only to the workspace and what is listed here, and never
    /// reach the state. Needs Linux 6.2 or later; where the kernel cannot do it nothing is started.
    pub mode: SandboxMode,
    /// "open": agents can write everything in the workspace, and what is protected there is compared when
    /// the work is validated. "locked": they can write neither what is protected nor `ralph.toml`; then
    /// nothing can be created, removed or renamed in the folders that lead to these, either.
    pub workspace: SandboxWorkspace,
    /// Further files and folders that agents may read and execute. They have to exist.
    #[schemars(inner(length(min = 1)))]
    pub read: Vec<PathBuf>,
    /// Further files and folders that agents may read, execute and write. They have to exist.
    #[schemars(inner(length(min = 1)))]
    pub write: Vec<PathBuf>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            mode: SandboxMode::Off,
            workspace: SandboxWorkspace::Open,
            read: Vec::new(),
            write: Vec::new(),
        }
    }
}

strict_enum! {
    /// Whether a file that decides what runs is obeyed after it changed where an agent could write it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum TrustMode {
        /// Once a person has accepted the change.
        #[default]
        Ask = "ask",
        /// Always.
        Always = "always",
    }
}

strict_enum! {
    /// Who keeps agents from files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum SandboxMode {
        /// Nobody.
        Off = "off",
        /// The kernel, by Landlock.
        Landlock = "landlock",
    }
}

strict_enum! {
    /// What the sandbox does within the workspace.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum SandboxWorkspace {
        /// Nothing.
        Open = "open",
        /// What is protected cannot be written.
        Locked = "locked",
    }
}

/// Where the run's state is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StateConfig {
    /// The folder. By default one for each workspace under `$XDG_STATE_HOME/ralph-orchestrator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", extend("minLength" = 1))]
    pub dir: Option<PathBuf>,
}
