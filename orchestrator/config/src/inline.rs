//! TOML values on one line. The writers of the `toml` crate may spread text over several.

use toml::Value;

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
