//! Reads and writes durations, money and counts: the same in the file, in `--set`, and in the journal.

use std::fmt;
use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::{SpanParser, SpanPrinter};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use ralph_orchestrator_contract::Usd;

/// Longer durations are mistakes, and would overflow clocks.
pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// Larger amounts are mistakes. Below it every amount survives being written as a number of dollars.
const RICHEST: f64 = 1_000_000.0;
/// The word for "no such limit".
pub(crate) const NONE: &str = "none";
/// The word for what the orchestrator decides.
const AUTO: &str = "auto";

pub(crate) const A_DURATION: &str = r#"a duration such as "90s" or "2h 30m""#;

/// Returns the duration as the file would say it, such as `2h 30m`.
#[must_use]
pub fn duration_text(duration: Duration) -> String {
    SpanPrinter::new().unsigned_duration_to_string(&duration)
}

/// Reads a duration such as `90s`, `2h 30m` or `30d`, of days of 24 hours. `None` if it is none, or is longer than ten
/// years.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let span = SpanParser::new().parse_span(text.trim()).ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let duration = Duration::try_from(duration).ok()?;
    (duration <= LONGEST).then_some(duration)
}

/// A largest number of something: what the orchestrator decides, none, or one that is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountOrAuto {
    /// The orchestrator decides.
    #[default]
    Auto,
    /// There is none.
    Unlimited,
    /// This one.
    Count(u64),
}

impl Serialize for CountOrAuto {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str(AUTO),
            Self::Unlimited => serializer.serialize_str(NONE),
            Self::Count(count) => serializer.serialize_u64(*count),
        }
    }
}

impl<'de> Deserialize<'de> for CountOrAuto {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountOrAutoVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(A_DURATION)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// A duration, or none if the orchestrator is to find one.
struct DurationOrAutoVisitor;

impl Visitor<'_> for DurationOrAutoVisitor {
    type Value = Option<Duration>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{A_DURATION}, or \"{AUTO}\"")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == AUTO {
            return Ok(None);
        }
        parse_duration(text).map(Some).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// A duration longer than no time at all.
struct PositiveDurationVisitor;

impl Visitor<'_> for PositiveDurationVisitor {
    type Value = Duration;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DurationVisitor.expecting(f)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        let duration = DurationVisitor.visit_str(text)?;
        if duration.is_zero() { Err(E::custom("must be greater than 0s")) } else { Ok(duration) }
    }
}

/// A count that may be "auto" or "none".
struct CountOrAutoVisitor;

impl Visitor<'_> for CountOrAutoVisitor {
    type Value = CountOrAuto;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number, 1 or more, \"{AUTO}\", or \"{NONE}\"")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<CountOrAuto, E> {
        match text {
            AUTO => Ok(CountOrAuto::Auto),
            NONE => Ok(CountOrAuto::Unlimited),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
    fn visit_i64<E: Error>(self, count: i64) -> Result<CountOrAuto, E> {
        CountVisitor.visit_i64(count).map(CountOrAuto::Count)
    }
    fn visit_u64<E: Error>(self, count: u64) -> Result<CountOrAuto, E> {
        CountVisitor.visit_u64(count).map(CountOrAuto::Count)
    }
}

struct UsdVisitor;

impl Visitor<'_> for UsdVisitor {
    type Value = Usd;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of dollars")
    }
    fn visit_f64<E: Error>(self, dollars: f64) -> Result<Usd, E> {
        let amount = usd(dollars)
            .ok_or_else(|| E::invalid_value(Unexpected::Float(dollars), &DOLLARS_RANGE))?;
        reject_no_dollars(amount)
    }
    fn visit_i64<E: Error>(self, dollars: i64) -> Result<Usd, E> {
        let amount = whole_usd(dollars)
            .ok_or_else(|| E::invalid_value(Unexpected::Signed(dollars), &DOLLARS_RANGE))?;
        reject_no_dollars(amount)
    }
    fn visit_u64<E: Error>(self, dollars: u64) -> Result<Usd, E> {
        let amount = i64::try_from(dollars)
            .ok()
            .and_then(whole_usd)
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(dollars), &DOLLARS_RANGE))?;
        reject_no_dollars(amount)
    }
}

const DOLLARS_RANGE: &str = "a number of dollars above 0, at most 1000000";

fn usd(dollars: f64) -> Option<Usd> {
    if dollars > RICHEST { None } else { Usd::from_dollars(dollars) }
}

fn whole_usd(dollars: i64) -> Option<Usd> {
    usd(f64::from(i32::try_from(dollars).ok()?))
}

fn reject_no_dollars<E: Error>(amount: Usd) -> Result<Usd, E> {
    if amount == Usd::ZERO {
        Err(E::custom("expected more than 0 dollars, found 0"))
    } else {
        Ok(amount)
    }
}

struct CountVisitor;

impl Visitor<'_> for CountVisitor {
    type Value = u64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, 1 or more")
    }
    fn visit_i64<E: Error>(self, count: i64) -> Result<u64, E> {
        let count =
            u64::try_from(count).map_err(|_| E::invalid_value(Unexpected::Signed(count), &self))?;
        self.visit_u64(count)
    }
    fn visit_u64<E: Error>(self, count: u64) -> Result<u64, E> {
        if count == 0 {
            Err(E::invalid_value(Unexpected::Unsigned(0), &"1 or more"))
        } else {
            Ok(count)
        }
    }
}

/// A count that fits into fewer bits.
struct SmallCountVisitor;

impl Visitor<'_> for SmallCountVisitor {
    type Value = u32;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        CountVisitor.expecting(f)
    }
    fn visit_i64<E: Error>(self, count: i64) -> Result<u32, E> {
        let count = u64::try_from(count)
            .map_err(|_| E::invalid_value(Unexpected::Signed(count), &SMALL_RANGE))?;
        self.visit_u64(count)
    }
    fn visit_u64<E: Error>(self, count: u64) -> Result<u32, E> {
        u32::try_from(CountVisitor.visit_u64(count)?)
            .map_err(|_| E::invalid_value(Unexpected::Unsigned(count), &SMALL_RANGE))
    }
}

const SMALL_RANGE: &str = "a whole number from 1 to 4294967295";

/// A share of a whole: more than nothing, less than all.
struct ShareVisitor;

impl Visitor<'_> for ShareVisitor {
    type Value = f64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a share above 0 and below 1, such as 0.7")
    }
    fn visit_f64<E: Error>(self, share: f64) -> Result<f64, E> {
        if share > 0.0 && share < 1.0 {
            Ok(share)
        } else {
            Err(E::invalid_value(Unexpected::Float(share), &self))
        }
    }
    fn visit_i64<E: Error>(self, whole: i64) -> Result<f64, E> {
        Err(E::invalid_value(Unexpected::Signed(whole), &self))
    }
    fn visit_u64<E: Error>(self, whole: u64) -> Result<f64, E> {
        Err(E::invalid_value(Unexpected::Unsigned(whole), &self))
    }
}

/// Lets the inner visitor's value be `"none"`, or null in JSON.
struct OrNone<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for OrNone<V> {
    type Value = Option<V::Value>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == NONE { Ok(None) } else { self.0.visit_str(text).map(Some) }
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        self.0.visit_f64(value).map(Some)
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.0.visit_i64(value).map(Some)
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        self.0.visit_u64(value).map(Some)
    }
    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// `#[serde(with = …)]` for a duration.
pub(crate) mod duration {
    use super::{Duration, DurationVisitor, duration_text};
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&duration_text(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

/// `#[serde(with = …)]` for a positive duration that may be off.
pub(crate) mod duration_or_none {
    use super::{Duration, OrNone, PositiveDurationVisitor, duration_text};
    use serde::{Deserializer, Serialize as _, Serializer};

    // The signature is serde's.
    #[allow(clippy::ref_option)]
    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(duration_text).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        deserializer.deserialize_any(OrNone(PositiveDurationVisitor))
    }
}

/// `#[serde(with = …)]` for a duration that may be "auto", and may be 0s.
pub(crate) mod duration_or_auto {
    use super::{AUTO, Duration, DurationOrAutoVisitor, duration_text};
    use serde::{Deserializer, Serializer};

    // The signature is serde's.
    #[allow(clippy::ref_option)]
    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_str(&duration_text(*duration)),
            None => serializer.serialize_str(AUTO),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        deserializer.deserialize_str(DurationOrAutoVisitor)
    }
}

/// `#[serde(with = …)]` for a positive duration of which "none" is the longest that there is.
pub(crate) mod duration_or_longest {
    use super::{Duration, LONGEST, NONE, OrNone, PositiveDurationVisitor, duration_text};
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        if *duration == LONGEST {
            return serializer.serialize_str(NONE);
        }
        serializer.serialize_str(&duration_text(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let duration = deserializer.deserialize_any(OrNone(PositiveDurationVisitor))?;
        Ok(duration.unwrap_or(LONGEST))
    }
}

/// Returns the counterpart of [`duration_or_longest::serialize`] for a duration that may be 0s.
pub(crate) fn zero_or_longer<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    Ok(deserializer.deserialize_any(OrNone(DurationVisitor))?.unwrap_or(LONGEST))
}

pub(crate) fn small_count_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    deserializer.deserialize_any(OrNone(SmallCountVisitor))
}

pub(crate) fn usd_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Usd>, D::Error> {
    deserializer.deserialize_any(OrNone(UsdVisitor))
}

pub(crate) fn share_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    deserializer.deserialize_any(OrNone(ShareVisitor))
}

pub(crate) fn count_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    deserializer.deserialize_any(OrNone(CountVisitor))
}

pub(crate) fn duration_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": r"^\s*\d", "examples": ["90s", "2h 30m"]})
}

pub(crate) fn duration_or_none_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": r"^(none$|\s*\d)", "examples": ["4h", "none"]})
}

pub(crate) fn duration_or_auto_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": r"^(auto$|\s*\d)", "examples": ["10m", "0s"]})
}

pub(crate) fn usd_or_none_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000},
        {"type": "string", "const": "none"},
    ]})
}

pub(crate) fn share_or_none_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "string", "const": "none"},
    ]})
}

pub(crate) fn count_or_auto_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "enum": ["auto", "none"]},
    ]})
}

pub(crate) fn count_or_none_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "const": "none"},
    ]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_people_write() {
        for (text, seconds) in [
            ("90s", 90),
            ("2h 30m", 9000),
            ("2h30m", 9000),
            ("0s", 0),
            ("1 hour, 5 minutes", 3900),
            ("1.5h", 5400),
            (" 4h ", 14400),
            ("30d", 30 * 86400),
            ("1 week 12h", 7 * 86400 + 43200),
            ("87600h", LONGEST.as_secs()),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "5",
            "1 month",
            "-1d",
            "-5s",
            "5s ago",
            "soon",
            "87601h",
            "99999999999999999999h",
            "2h 30",
            "1 2h",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_duration_survives_being_written(seconds in 0..=LONGEST.as_secs(), nanos in 0u32..1_000_000_000) {
            let duration = Duration::new(seconds, nanos).min(LONGEST);
            prop_assert_eq!(parse_duration(&duration_text(duration)), Some(duration));
        }

        #[test]
        fn every_allowed_amount_survives_being_written(nanos in 0u64..=1_000_000_000_000_000) {
            let amount = Usd::from_nanos(nanos);
            prop_assert_eq!(usd(amount.dollars()), Some(amount));
        }
    }
}
