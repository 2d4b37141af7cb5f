//! Controls: what people ask of a run while it is active, or between two of its starts.

use std::collections::BTreeMap;
use std::fmt;

use ralph_orchestrator_contract::Usd;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::limits::{Limit, LimitUnit, LimitValue, RunLimits};

/// Where a control came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlOrigin {
    /// Its id: unique, and sorted by time.
    pub id: String,
    /// The name of the user who sent it.
    pub user: String,
    /// The program that sent it, such as `command line`.
    pub program: String,
    /// When, in milliseconds since the Unix epoch.
    pub sent_ms: u64,
}

/// What a person asks of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Control {
    /// Guidance for the agent, at the top of the next prompt.
    Steer {
        /// The text.
        text: String,
    },
    /// The answer to the open question; guidance if there is none.
    Answer {
        /// The text.
        text: String,
    },
    /// Start no further iteration.
    Pause {
        /// Cancel the running one; it is begun again after the pause.
        now: bool,
    },
    /// End the pause.
    Resume,
    /// Change limits, from now on and over restarts.
    Limits(LimitChanges),
    /// Stop the run, which can be resumed.
    Stop,
}

impl Control {
    /// Returns its name: that of the command that sends it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Steer { .. } => "steer",
            Self::Answer { .. } => "answer",
            Self::Pause { .. } => "pause",
            Self::Resume => "resume",
            Self::Limits(_) => "limits",
            Self::Stop => "stop",
        }
    }
}

/// The name of [`LimitChanges::clear`] in the journal.
const CLEAR: &str = "clear";

/// Changes of limits on what the run may use. What is missing stays as it is; `null` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitChanges {
    /// First return to the limits of the configuration.
    pub clear: bool,
    changes: BTreeMap<Limit, Option<LimitValue>>,
}

impl LimitChanges {
    /// Returns none. `clear`: first return to the limits of the configuration.
    #[must_use]
    pub const fn new(clear: bool) -> Self {
        Self { clear, changes: BTreeMap::new() }
    }

    /// Returns these changes and another one; `None` is no limit.
    #[must_use]
    pub fn with(mut self, limit: Limit, max: Option<LimitValue>) -> Self {
        self.changes.insert(limit, max);
        self
    }

    /// Returns the change of a limit, if it changes.
    #[must_use]
    pub fn change(&self, limit: Limit) -> Option<Option<LimitValue>> {
        self.changes.get(&limit).copied()
    }

    /// Returns all limits that change.
    pub fn all(&self) -> impl Iterator<Item = (Limit, Option<LimitValue>)> {
        self.changes.iter().map(|(limit, max)| (*limit, *max))
    }

    /// Whether nothing would change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Serialize for LimitChanges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.clear {
            map.serialize_entry(CLEAR, &true)?;
        }
        for (limit, max) in self.all() {
            let name = limit.record_name();
            match max {
                Some(LimitValue::Money(usd)) => map.serialize_entry(&name, &usd)?,
                max => map.serialize_entry(&name, &max.map(LimitValue::amount))?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for LimitChanges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ChangesVisitor)
    }
}

struct ChangesVisitor;

impl<'de> Visitor<'de> for ChangesVisitor {
    type Value = LimitChanges;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("changes of limits")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LimitChanges, A::Error> {
        let mut changes = LimitChanges::default();
        while let Some(name) = map.next_key::<String>()? {
            let limit = Limit::budgets().find(|(limit, _)| limit.record_name() == name);
            match limit.map(|(limit, _)| limit) {
                Some(limit) => {
                    let max = match limit.row().unit {
                        LimitUnit::Money => map.next_value::<Option<Usd>>()?.map(LimitValue::Money),
                        unit => map.next_value::<Option<u64>>()?.map(|max| unit.to_value(max)),
                    };
                    changes.changes.insert(limit, max);
                }
                None if name == CLEAR => changes.clear = map.next_value()?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(changes)
    }
}

/// A limit that replaces that of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LimitOverride {
    /// The limit; `None` is no limit.
    max: Option<LimitValue>,
    /// Who set it.
    origin: ControlOrigin,
    /// The run was resumed since: what its command line states is newer.
    is_older: bool,
}

/// The limits that replace those of the configuration until they are cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitOverrides(BTreeMap<Limit, LimitOverride>);

impl LimitOverrides {
    /// Returns who set this limit; `None` if it is that of the configuration.
    #[must_use]
    pub fn origin(&self, limit: Limit) -> Option<&ControlOrigin> {
        self.0.get(&limit).map(|set| &set.origin)
    }

    /// Whether a start is held to the value that it states: a person has set none, or a looser one.
    #[must_use]
    pub fn yields_to(&self, limit: Limit, stated: Option<LimitValue>) -> bool {
        self.0.get(&limit).is_none_or(|set| {
            stated.is_some_and(|stated| set.max.is_none_or(|max| stated.amount() < max.amount()))
        })
    }

    /// Whether what the last start states holds instead of what was set before it.
    pub(super) fn is_beaten(&self, limit: Limit, configured: &RunLimits) -> bool {
        let is_older = self.0.get(&limit).is_some_and(|set| set.is_older);
        let is_stated = configured.stated.contains(&limit);
        is_older && is_stated && self.yields_to(limit, configured.value(limit))
    }

    /// Notes that the run is resumed.
    pub(super) fn resume(&mut self) {
        self.0.values_mut().for_each(|set| set.is_older = true);
    }

    pub(super) fn apply(&mut self, changes: &LimitChanges, origin: &ControlOrigin) {
        if changes.clear {
            self.0.clear();
        }
        for (limit, max) in changes.all() {
            let origin = origin.clone();
            self.0.insert(limit, LimitOverride { max, origin, is_older: false });
        }
    }

    /// Returns the limits in force, given those of the configuration, with what the last start states of them.
    pub(super) fn over(&self, configured: &RunLimits) -> RunLimits {
        let mut limits = configured.clone();
        for (limit, set) in self.0.iter().filter(|(limit, _)| !self.is_beaten(**limit, configured))
        {
            limits.set(*limit, set.max);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_the_names_of_the_journal() {
        let changes = LimitChanges::new(true)
            .with(Limit::Runtime, Some(LimitValue::Duration(1500)))
            .with(Limit::Cost, Usd::from_dollars(2.5).map(LimitValue::Money))
            .with(Limit::Tokens, None);
        let json = r#"{"clear":true,"max_runtime_ms":1500,"max_cost_usd":2.5,"max_tokens":null}"#;
        assert_eq!(serde_json::to_string(&changes).unwrap(), json);
        assert_eq!(serde_json::from_str::<LimitChanges>(json).unwrap(), changes);
        let later = r#"{"max_iterations":7,"max_colours":3}"#;
        let known = LimitChanges::default().with(Limit::Iterations, Some(LimitValue::Count(7)));
        assert_eq!(serde_json::from_str::<LimitChanges>(later).unwrap(), known);
        assert!(serde_json::from_str::<LimitChanges>(r#"{"max_tokens":"many"}"#).is_err());
    }
}
