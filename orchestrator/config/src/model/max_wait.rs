//! `limits.max_wait`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::model::units;

/// The words for waits that end when the provider said.
const UNTIL_RESET: &str = "until reset";

/// How long a run waits for its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxWait {
    /// So long in a row, without a session that worked.
    AtMost(Duration),
    /// Until the moment that the provider named. Where it named none, as long as by default.
    UntilReset,
}

impl MaxWait {
    /// Returns the bound of waits for which the provider named no moment.
    #[must_use]
    pub const fn longest(self) -> Duration {
        match self {
            Self::AtMost(duration) => duration,
            Self::UntilReset => Duration::from_secs(6 * 60 * 60),
        }
    }
}

impl Default for MaxWait {
    fn default() -> Self {
        Self::AtMost(Self::UntilReset.longest())
    }
}

impl Serialize for MaxWait {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AtMost(duration) => units::duration_or_longest::serialize(duration, serializer),
            Self::UntilReset => serializer.serialize_str(UNTIL_RESET),
        }
    }
}

impl<'de> Deserialize<'de> for MaxWait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MaxWaitVisitor)
    }
}

struct MaxWaitVisitor;

impl Visitor<'_> for MaxWaitVisitor {
    type Value = MaxWait;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or \"{UNTIL_RESET}\"", units::A_DURATION)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<MaxWait, E> {
        match text {
            UNTIL_RESET => Ok(MaxWait::UntilReset),
            units::NONE => Ok(MaxWait::AtMost(units::LONGEST)),
            _ => units::parse_duration(text)
                .map(MaxWait::AtMost)
                .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
    fn visit_unit<E: Error>(self) -> Result<MaxWait, E> {
        Ok(MaxWait::AtMost(units::LONGEST))
    }
}

impl JsonSchema for MaxWait {
    fn schema_name() -> Cow<'static, str> {
        "MaxWait".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^(none$|until reset$|\s*\d)",
            "examples": ["4h", "until reset"],
        })
    }
}
