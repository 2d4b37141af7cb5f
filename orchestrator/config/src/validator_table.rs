//! `[[validator]]`, as the file has it.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::model::units;
use crate::strict;

/// How long a validation may take where nothing else is said.
pub const VALIDATOR_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A validator, of whose options only the common ones are ours.
#[derive(Clone, Debug)]
pub(crate) struct ValidatorTable {
    pub(crate) kind: Option<String>,
    pub(crate) name: Option<String>,
    /// As its kind has it, where nothing else is said.
    pub(crate) required: Option<bool>,
    pub(crate) timeout: Duration,
    pub(crate) artefacts: Vec<String>,
    pub(crate) config: Map<String, Value>,
}

impl Default for ValidatorTable {
    fn default() -> Self {
        Self {
            kind: None,
            name: None,
            required: None,
            timeout: VALIDATOR_TIMEOUT,
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
    /// Completion needs its acceptance. True by default, but for a review.
    #[schemars(default = "required_by_default")]
    required: bool,
    /// The longest that a validation may take. "none" is no limit.
    #[serde(serialize_with = "units::duration_or_longest::serialize")]
    #[schemars(schema_with = "units::duration_or_none_schema", default = "timeout_by_default")]
    timeout: Duration,
    /// Globs, relative to the workspace, of the files that it writes, such as its own reports: no part of
    /// the work, whoever changes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, inner(length(min = 1)))]
    artefacts: Vec<String>,
}

const fn required_by_default() -> bool {
    true
}

fn timeout_by_default() -> Duration {
    ValidatorTable::default().timeout
}

/// Reads a duration where a visitor wants a type.
struct Timeout(Duration);

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        units::zero_or_longer(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for ValidatorTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = ValidatorTable;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ValidatorTable, A::Error> {
                let mut validator = ValidatorTable::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "kind" => validator.kind = Some(map.next_value()?),
                        "name" => validator.name = Some(map.next_value()?),
                        "required" => validator.required = Some(map.next_value()?),
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

impl Serialize for ValidatorTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = ValidatorKeys {
            kind: self.kind.clone().unwrap_or_default(),
            name: self.name.clone(),
            required: self.required.unwrap_or_else(required_by_default),
            timeout: self.timeout,
            artefacts: self.artefacts.clone(),
        };
        strict::join(&keys, &self.config)
            .ok_or_else(|| S::Error::custom("a validator that cannot be written"))?
            .serialize(serializer)
    }
}

impl JsonSchema for ValidatorTable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        ValidatorKeys::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ValidatorKeys::json_schema(generator)
    }
}
