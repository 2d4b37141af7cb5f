//! The file's own form, where it differs from the [`Config`](super::Config) it becomes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::limits::Limits;
use super::model::{
    AfterRejection, AgentConfig, BaselineMode, CompletionTrigger, Config, Env, InstructionsMode,
    Run, Sandbox, StateConfig,
};
use super::plugins::PluginConfig;
use super::{tables, units};

/// The configuration of ralph-orchestrator.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    /// What to do, and where.
    #[serde(deserialize_with = "tables::table")]
    pub(super) run: Run,
    /// The agent of the loop.
    #[serde(deserialize_with = "tables::table")]
    pub(super) agent: AgentConfig,
    /// Further agents, by name.
    #[serde(deserialize_with = "tables::tables")]
    pub(super) agents: BTreeMap<String, AgentConfig>,
    /// Agents, detectors and validators by others, by name.
    #[serde(deserialize_with = "tables::tables")]
    pub(super) plugins: BTreeMap<String, PluginConfig>,
    /// How completion is claimed.
    #[serde(deserialize_with = "tables::table")]
    pub(super) completion: FileCompletion,
    /// Those who decide whether a claim stands.
    pub(super) validator: Vec<FileValidator>,
    /// The bounds of the run. Durations are text such as "2h 30m".
    #[serde(deserialize_with = "tables::table")]
    pub(super) limits: Limits,
    /// The environment of agents and validators.
    #[serde(deserialize_with = "tables::table")]
    pub(super) env: Env,
    /// What agents may do to files.
    #[serde(deserialize_with = "tables::table")]
    pub(super) sandbox: Sandbox,
    /// Where the run's state is kept.
    #[serde(deserialize_with = "tables::table")]
    pub(super) state: StateConfig,
}

/// How completion is claimed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Completion")]
pub(super) struct FileCompletion {
    /// The names of those who look for claims: "promise" and "marker" if neither this nor a
    /// `[[completion.detector]]` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub(super) detectors: Option<Vec<String>>,
    /// Options of those named in `detectors`, and further ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) detector: Vec<FileDetector>,
    /// What makes the validators run: "claimed" waits for the agent to claim completion, "proved" runs
    /// them after each iteration that changed something, too.
    #[serde(deserialize_with = "tables::word")]
    pub(super) when: CompletionTrigger,
    /// Whether the agent is told how to claim completion: "auto" says so after the prompt, if neither the
    /// prompt nor the agent's command line shows a form that a detector knows; "never" does not.
    #[serde(deserialize_with = "tables::word")]
    pub(super) instructions: InstructionsMode,
    /// The agent's word is enough: no required validator is needed.
    pub(super) trust_agent: bool,
    /// What becomes of a claim that was rejected: "keep" validates it again after each iteration,
    /// "reclaim" waits for the agent to claim again.
    #[serde(deserialize_with = "tables::word")]
    pub(super) after_rejection: AfterRejection,
    /// Whether the required validators that run something are run once before the first iteration: "warn"
    /// says so if all of them accept already, "must_fail" then does not begin, "off" does not run them.
    #[serde(deserialize_with = "tables::word")]
    pub(super) baseline: BaselineMode,
}

impl Default for FileCompletion {
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
pub(super) struct FileDetector {
    pub(super) name: Option<String>,
    pub(super) config: Map<String, Value>,
}

/// A `[[completion.detector]]`. Keys beside `name` are the detector's options.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Detector")]
struct DetectorKeys {
    /// The detector's name.
    #[schemars(extend("minLength" = 1))]
    name: String,
}

impl<'de> Deserialize<'de> for FileDetector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = FileDetector;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FileDetector, A::Error> {
                let mut detector = FileDetector::default();
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

impl Serialize for FileDetector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = DetectorKeys { name: self.name.clone().unwrap_or_default() };
        tables::join(&keys, &self.config)
            .ok_or_else(|| S::Error::custom("a detector that cannot be written"))?
            .serialize(serializer)
    }
}

impl JsonSchema for FileDetector {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        DetectorKeys::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        DetectorKeys::json_schema(generator)
    }
}

/// A validator, of whose options only the common ones are ours.
#[derive(Clone, Debug)]
pub(super) struct FileValidator {
    pub(super) kind: Option<String>,
    pub(super) name: Option<String>,
    pub(super) required: bool,
    pub(super) timeout: Duration,
    pub(super) artefacts: Vec<String>,
    pub(super) config: Map<String, Value>,
}

impl Default for FileValidator {
    fn default() -> Self {
        Self {
            kind: None,
            name: None,
            required: true,
            timeout: Duration::from_secs(10 * 60),
            artefacts: Vec::new(),
            config: Map::new(),
        }
    }
}

/// A `[[validator]]`. Keys beside these are the options of its kind.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Validator")]
struct ValidatorKeys {
    /// The kind of validator.
    #[schemars(extend("minLength" = 1))]
    kind: String,
    /// A name for people: the kind if it is not given, made unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "String", extend("minLength" = 1))]
    name: Option<String>,
    /// Completion needs its acceptance.
    #[schemars(default = "required_by_default")]
    required: bool,
    /// The longest that a validation may take.
    #[serde(serialize_with = "units::duration::serialize")]
    #[schemars(schema_with = "units::duration_schema", default = "timeout_by_default")]
    timeout: Duration,
    /// Globs, relative to the workspace, of the files that it writes, such as its own reports: no part of
    /// the work, whoever changes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, inner(length(min = 1)))]
    artefacts: Vec<String>,
}

fn required_by_default() -> bool {
    FileValidator::default().required
}

fn timeout_by_default() -> Duration {
    FileValidator::default().timeout
}

/// Reads a duration where a visitor wants a type.
struct Timeout(Duration);

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        units::duration::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for FileValidator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = FileValidator;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FileValidator, A::Error> {
                let mut validator = FileValidator::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "kind" => validator.kind = Some(map.next_value()?),
                        "name" => validator.name = Some(map.next_value()?),
                        "required" => validator.required = map.next_value()?,
                        "timeout" => validator.timeout = map.next_value::<Timeout>()?.0,
                        "artefacts" => validator.artefacts = map.next_value()?,
                        _ => {
                            validator.config.insert(key, map.next_value()?);
                        }
                    }
                }
                Ok(validator)
            }
        }
        deserializer.deserialize_any(Keys)
    }
}

impl Serialize for FileValidator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = ValidatorKeys {
            kind: self.kind.clone().unwrap_or_default(),
            name: self.name.clone(),
            required: self.required,
            timeout: self.timeout,
            artefacts: self.artefacts.clone(),
        };
        tables::join(&keys, &self.config)
            .ok_or_else(|| S::Error::custom("a validator that cannot be written"))?
            .serialize(serializer)
    }
}

impl JsonSchema for FileValidator {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        ValidatorKeys::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ValidatorKeys::json_schema(generator)
    }
}

impl From<&Config> for File {
    fn from(config: &Config) -> Self {
        let table = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let detectors = &config.completion.detectors;
        Self {
            run: config.run.clone(),
            agent: config.agent.clone(),
            agents: config.agents.clone(),
            plugins: config.plugins.clone(),
            completion: FileCompletion {
                detectors: Some(detectors.iter().map(|d| d.name.clone()).collect()),
                detector: detectors
                    .iter()
                    .map(|d| FileDetector { name: Some(d.name.clone()), config: table(&d.config) })
                    .filter(|d| !d.config.is_empty())
                    .collect(),
                when: config.completion.when,
                instructions: config.completion.instructions,
                trust_agent: config.completion.trust_agent,
                after_rejection: config.completion.after_rejection,
                baseline: config.completion.baseline,
            },
            validator: config
                .validators
                .iter()
                .map(|v| FileValidator {
                    kind: Some(v.kind.clone()),
                    name: Some(v.name.clone()),
                    required: v.required,
                    timeout: v.timeout,
                    artefacts: v.artefacts.clone(),
                    config: table(&v.config),
                })
                .collect(),
            limits: config.limits.clone(),
            env: config.env.clone(),
            sandbox: config.sandbox.clone(),
            state: config.state.clone(),
        }
    }
}
