//! TOML values on one line. The writers of the `toml` crate may spread text over several.

use toml::Value;

use crate::model::units;

/// Formats a basic string.
pub(crate) fn string(text: &str) -> String {
    // JSON's escapes are TOML's, except that TOML wants one character more escaped.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Returns a value as it stands behind `key = `.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        Value::Array(array) => {
            let items = array.iter().map(self::value).collect::<Vec<_>>();
            format!("[{}]", items.join(", "))
        }
        Value::Table(table) if table.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let pair = |(key, value): (&String, &Value)| {
                format!("{} = {}", key_part(key), self::value(value))
            };
            format!("{{ {} }}", table.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Formats one part of a key.
pub(crate) fn key_part(part: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !part.is_empty() && part.chars().all(bare) { part.to_owned() } else { string(part) }
}

/// Returns a value as it stands behind `key = ` in TOML, on one line; null is "none".
#[must_use]
pub fn toml_text(json: &serde_json::Value) -> String {
    value(&to_toml(json.clone()))
}

/// Converts JSON to TOML. Null stands for a limit that is off; nothing else in a configuration can be null.
pub(crate) fn to_toml(value: serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::String(units::NONE.to_owned()),
        serde_json::Value::Bool(truth) => Value::Boolean(truth),
        serde_json::Value::Number(number) => number
            .as_i64()
            .map_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::MAX)), Value::Integer),
        serde_json::Value::String(text) => Value::String(text),
        serde_json::Value::Array(array) => Value::Array(array.into_iter().map(to_toml).collect()),
        serde_json::Value::Object(table) => {
            Value::Table(table.into_iter().map(|(key, value)| (key, to_toml(value))).collect())
        }
    }
}
