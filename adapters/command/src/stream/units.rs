//! Figures of a line in their units.

use jiff::Timestamp;
use ralph_orchestrator_contract::Usd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The unit of a cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CostUnit {
    /// US dollars.
    #[default]
    Usd,
    /// Hundredths of a US dollar.
    Cents,
    /// Millionths of a US dollar.
    MicroUsd,
}

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TimeUnit {
    /// From now.
    Seconds,
    /// From now.
    Milliseconds,
    /// Since 1970.
    EpochSeconds,
    /// Since 1970.
    EpochMilliseconds,
    /// Such as `2026-11-29T03:00:00Z` (RFC 3339).
    Timestamp,
}

/// The unit of the used part of a rate window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UsedUnit {
    /// 1 is all of it.
    Share,
    /// 100 is all of it.
    Percent,
}

impl CostUnit {
    /// Returns the cost, if this is a number that is not negative.
    pub(crate) fn cost(self, value: &Value) -> Option<Usd> {
        let units = match self {
            Self::Usd => 1.0,
            Self::Cents => 1e2,
            Self::MicroUsd => 1e6,
        };
        Usd::from_dollars(number(value)? / units)
    }
}

impl TimeUnit {
    /// Returns the moment in milliseconds since the Unix epoch, `now_ms` being the present one.
    pub(crate) fn moment(self, value: &Value, now_ms: u64) -> Option<u64> {
        let whole = |factor: f64| to_count(number(value)? * factor);
        match self {
            Self::Seconds => Some(now_ms.saturating_add(whole(1e3)?)),
            Self::Milliseconds => Some(now_ms.saturating_add(whole(1.0)?)),
            Self::EpochSeconds => whole(1e3),
            Self::EpochMilliseconds => whole(1.0),
            Self::Timestamp => {
                let at: Timestamp = value.as_str()?.parse().ok()?;
                u64::try_from(at.as_millisecond()).ok()
            }
        }
    }
}

impl UsedUnit {
    /// Returns the share that is used, if this is a number that is not negative.
    pub(crate) fn share(self, value: &Value) -> Option<f64> {
        let used = number(value).filter(|used| *used >= 0.0)?;
        Some(match self {
            Self::Share => used,
            Self::Percent => used / 100.0,
        })
    }
}

/// Returns the tokens, if this is a whole number that is not negative.
pub(crate) fn tokens(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| number(value).filter(|number| number.fract() == 0.0).and_then(to_count))
}

/// Returns a number. Some programs print amounts as strings, so that no reader rounds them.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|number| number.is_finite())
}

/// Returns the nearest whole number, unless this is negative; one that is too large becomes the largest.
fn to_count(number: f64) -> Option<u64> {
    // A float-to-integer cast saturates, which is what is wanted here.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (number >= 0.0).then(|| number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_are_whole_numbers_that_are_not_negative() {
        for (value, expected) in [
            (json!(7), Some(7)),
            (json!(7.0), Some(7)),
            (json!("7"), Some(7)),
            (json!(u64::MAX), Some(u64::MAX)),
            (json!(1e300), Some(u64::MAX)),
            (json!(-1), None),
            (json!(0.5), None),
            (json!("many"), None),
            (json!("NaN"), None),
            (json!("inf"), None),
            (json!(true), None),
            (json!([7]), None),
        ] {
            assert_eq!(tokens(&value), expected, "{value}");
        }
    }

    #[test]
    fn a_cost_is_in_its_unit() {
        let dollars = |dollars: f64| Usd::from_dollars(dollars);
        for (unit, value, expected) in [
            (CostUnit::Usd, json!(0.13), dollars(0.13)),
            (CostUnit::Usd, json!("0.13"), dollars(0.13)),
            (CostUnit::Cents, json!(13), dollars(0.13)),
            (CostUnit::MicroUsd, json!(130_000), dollars(0.13)),
            (CostUnit::Usd, json!(1e300), Some(Usd::MAX)),
            (CostUnit::Usd, json!(-0.01), None),
            (CostUnit::Usd, json!("free"), None),
            (CostUnit::Usd, json!({}), None),
        ] {
            assert_eq!(unit.cost(&value), expected, "{value} {unit:?}");
        }
    }

    #[test]
    fn a_moment_is_in_its_unit() {
        let now = 1_000_000;
        for (unit, value, expected) in [
            (TimeUnit::Seconds, json!(1.5), Some(1_001_500)),
            (TimeUnit::Milliseconds, json!("200"), Some(1_000_200)),
            (TimeUnit::EpochSeconds, json!(1_800_000_000), Some(1_800_000_000_000)),
            (TimeUnit::EpochMilliseconds, json!(1_800_000_000_123_u64), Some(1_800_000_000_123)),
            (TimeUnit::Timestamp, json!("1970-01-01T01:00:02+01:00"), Some(2000)),
            (TimeUnit::Timestamp, json!("tomorrow"), None),
            (TimeUnit::Timestamp, json!("1960-01-01T00:00:00Z"), None),
            (TimeUnit::Timestamp, json!(7), None),
            (TimeUnit::Seconds, json!(-1), None),
            (TimeUnit::Seconds, json!(1e300), Some(u64::MAX)),
        ] {
            assert_eq!(unit.moment(&value, now), expected, "{value} {unit:?}");
        }
    }

    #[test]
    fn a_used_part_is_a_share() {
        assert_eq!(UsedUnit::Share.share(&json!(0.4)), Some(0.4));
        assert_eq!(UsedUnit::Percent.share(&json!(40)), Some(0.4));
        assert_eq!(UsedUnit::Percent.share(&json!(-40)), None);
        assert_eq!(UsedUnit::Percent.share(&json!(null)), None);
    }
}
