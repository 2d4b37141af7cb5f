//! The form of `ralph.toml`, where it differs from the [`Config`] that it is resolved to.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::backlog_table::BacklogTable;
use crate::model::{
    AfterRejection, AgentConfig, BaselineMode, Bench, CompletionTrigger, Config, ContextCommand,
    Env, Git, Handoff, Hooks, Initializer, InstructionsMode, Limits, Memory, Notify, Parallel,
    PluginConfig, Prompts, Run, Sandbox, StateConfig, Telemetry, TrustMode, UserBudget, Validation,
};
use crate::strict;
use crate::validator_table::ValidatorTable;

/// The configuration of ralph-orchestrator.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConfigDocument {
    /// The way of working whose values apply where nothing else is set: see `config show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) preset: Option<String>,
    /// Whether a file that decides what runs is obeyed after it changed where an agent could write it: only once a
    /// person has accepted the change ("ask"), or always. Belongs into the user's own configuration.
    #[serde(skip_serializing)]
    pub(crate) trust: TrustMode,
    /// What all runs of this user together may use, in all workspaces: see `budget`. Belongs into the user's own
    /// configuration.
    #[serde(deserialize_with = "strict::table", skip_serializing)]
    pub(crate) budget: UserBudget,
    /// What to do, and where.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) run: Run,
    /// The agent of the loop.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) agent: AgentConfig,
    /// Further agents, by name.
    #[serde(deserialize_with = "strict::tables")]
    pub(crate) agents: BTreeMap<String, AgentConfig>,
    /// Agents, detectors, validators and formats of backlogs by others, by name.
    #[serde(deserialize_with = "strict::tables")]
    pub(crate) plugins: BTreeMap<String, PluginConfig>,
    /// The prompts of roles, instead of one prompt file.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_table")]
    #[schemars(with = "Prompts")]
    pub(crate) prompts: Option<Prompts>,
    /// What has to be there before the work begins. With a `[backlog]` that is the backlog, too; then the
    /// initializer works only as long as that has no items.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_table")]
    #[schemars(with = "Initializer")]
    pub(crate) initializer: Option<Initializer>,
    /// How completion is claimed.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) completion: CompletionTable,
    /// In which tree the checks run, and how long is looked for what made them green.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) validation: Validation,
    /// Those who decide whether a claim stands.
    pub(crate) validator: Vec<ValidatorTable>,
    /// The bounds of the run. Durations are text such as "2h 30m".
    #[serde(deserialize_with = "strict::table")]
    pub(crate) limits: Limits,
    /// What is stored in the git repository of the workspace.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) git: Git,
    /// When an iteration is ended so that the next one continues with a fresh context.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) handoff: Handoff,
    /// What is written down about each iteration, and what of it the next agent is given.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) memory: Memory,
    /// The list of items that is worked, each in a run of its own. Without `kind` there is none.
    #[serde(deserialize_with = "strict::table", skip_serializing_if = "BacklogTable::is_empty")]
    pub(crate) backlog: BacklogTable,
    /// How many items of the backlog are worked on at once.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) parallel: Parallel,
    /// Receivers of notices about a run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notify: Vec<Notify>,
    /// Commands at points of a run.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) hooks: Hooks,
    /// What a command adds to the prompt of each iteration.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) context: ContextCommand,
    /// The trace of a run.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) telemetry: Telemetry,
    /// What `bench` compares.
    #[serde(deserialize_with = "strict::table", skip_serializing_if = "Bench::is_default")]
    pub(crate) bench: Bench,
    /// The environment of agents and validators.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) env: Env,
    /// What agents may do to files.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) sandbox: Sandbox,
    /// Where the run's state is kept.
    #[serde(deserialize_with = "strict::table")]
    pub(crate) state: StateConfig,
}

/// How completion is claimed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Completion")]
pub(crate) struct CompletionTable {
    /// The names of the detectors that look for claims. The default applies only if there is no
    /// `[[completion.detector]]` either.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub(crate) detectors: Option<Vec<String>>,
    /// Options of those named in `detectors`, and further ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) detector: Vec<DetectorTable>,
    /// What makes the validators run: "claimed" waits for the agent to claim completion, "proved" runs
    /// them after each iteration that changed something, too.
    pub(crate) when: CompletionTrigger,
    /// Whether the agent is told how to claim completion: "auto" says so after the prompt, if neither the
    /// prompt nor the agent's command line shows a form that a detector knows; "never" does not.
    pub(crate) instructions: InstructionsMode,
    /// The agent's word is enough: no required validator is needed.
    pub(crate) trust_agent: bool,
    /// What becomes of a claim that was rejected: "keep" validates it again after each iteration,
    /// "require_new_claim" waits for the agent to claim again.
    pub(crate) after_rejection: AfterRejection,
    /// Whether the required validators that run something are run once before the first iteration: "warn"
    /// says so if all of them accept already, "must_fail" then does not begin, "off" does not run them.
    pub(crate) baseline: BaselineMode,
}

impl Default for CompletionTable {
    fn default() -> Self {
        Self {
            detectors: None,
            detector: Vec::new(),
            when: CompletionTrigger::Claimed,
            instructions: InstructionsMode::Auto,
            trust_agent: false,
            after_rejection: AfterRejection::Keep,
            baseline: BaselineMode::Warn,
        }
    }
}

/// A detector with options, of which only the name is ours.
#[derive(Clone, Debug, Default)]
pub(crate) struct DetectorTable {
    pub(crate) name: Option<String>,
    pub(crate) config: Map<String, Value>,
}

/// A `[[completion.detector]]`. Keys beside `name` are the detector's options.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Detector")]
struct DetectorKeys {
    /// The detector's name.
    #[schemars(extend("minLength" = 1))]
    name: String,
}

impl<'de> Deserialize<'de> for DetectorTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = DetectorTable;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DetectorTable, A::Error> {
                let mut detector = DetectorTable::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "name" {
                        detector.name = Some(map.next_value()?);
                    } else {
                        detector.config.insert(key, map.next_value()?);
                    }
                }
                Ok(detector)
            }
        }
        deserializer.deserialize_any(Keys)
    }
}

impl Serialize for DetectorTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = DetectorKeys { name: self.name.clone().unwrap_or_default() };
        strict::join(&keys, &self.config)
            .ok_or_else(|| S::Error::custom("a detector that cannot be written"))?
            .serialize(serializer)
    }
}

impl JsonSchema for DetectorTable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        DetectorKeys::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        DetectorKeys::json_schema(generator)
    }
}

impl From<&Config> for ConfigDocument {
    fn from(config: &Config) -> Self {
        let table = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let detectors = &config.completion.detectors;
        Self {
            preset: config.preset.clone(),
            trust: config.trust,
            budget: config.budget.clone(),
            run: config.run.clone(),
            agent: config.agent.clone(),
            agents: config.agents.clone(),
            plugins: config.plugins.clone(),
            prompts: config.prompts.clone(),
            initializer: config.initializer.clone(),
            completion: CompletionTable {
                detectors: Some(detectors.iter().map(|d| d.name.clone()).collect()),
                detector: detectors
                    .iter()
                    .map(|d| DetectorTable { name: Some(d.name.clone()), config: table(&d.config) })
                    .filter(|d| !d.config.is_empty())
                    .collect(),
                when: config.completion.when,
                instructions: config.completion.instructions,
                trust_agent: config.completion.trust_agent,
                after_rejection: config.completion.after_rejection,
                baseline: config.completion.baseline,
            },
            validation: config.validation.clone(),
            validator: config
                .validators
                .iter()
                .map(|v| ValidatorTable {
                    kind: Some(v.kind.clone()),
                    name: Some(v.name.clone()),
                    required: Some(v.required),
                    timeout: v.timeout,
                    artefacts: v.artefacts.clone(),
                    config: table(&v.config),
                })
                .collect(),
            limits: config.limits.clone(),
            git: config.git,
            handoff: config.handoff,
            memory: config.memory.clone(),
            backlog: config.backlog.as_ref().map(BacklogTable::from).unwrap_or_default(),
            parallel: config.parallel,
            notify: config.notify.clone(),
            hooks: config.hooks.clone(),
            context: config.context.clone(),
            telemetry: config.telemetry.clone(),
            bench: config.bench.clone(),
            env: config.env.clone(),
            sandbox: config.sandbox.clone(),
            state: config.state.clone(),
        }
    }
}
