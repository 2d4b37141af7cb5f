//! Deserialising field by field, so that one odd field is lost alone.

use std::collections::BTreeMap;

use serde::de::{Deserialize as _, DeserializeOwned, Deserializer};
use serde_json::Value;

/// The field, or its default if it has another type.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

/// The elements that can be read; nothing if it is no list.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(match Value::deserialize(deserializer)? {
        Value::Array(items) => {
            items.into_iter().filter_map(|item| T::deserialize(item).ok()).collect()
        }
        _ => Vec::new(),
    })
}

/// The entries that can be read; nothing if it is no object.
pub(crate) fn map<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(match Value::deserialize(deserializer)? {
        Value::Object(entries) => entries
            .into_iter()
            .filter_map(|(key, value)| Some((key, T::deserialize(value).ok()?)))
            .collect(),
        _ => BTreeMap::new(),
    })
}

/// A count: a whole number, a float that is one in effect, or nothing.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value.as_u64().or_else(|| {
        let float = value.as_f64().filter(|float| *float >= 0.0)?;
        // A float-to-integer cast saturates, which is what is wanted here.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(float.round() as u64)
    }))
}
