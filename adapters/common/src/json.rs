//! Lenient access to JSON whose shape belongs to somebody else.

use serde_json::Value;

/// Longest text of a tool's result that is passed on, in bytes.
const RESULT_MAX: usize = 64 * 1024;

/// The string under `key`, or an empty one.
#[must_use]
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The string under `key`, if it says something.
#[must_use]
pub fn some_text(value: &Value, key: &str) -> Option<String> {
    Some(text(value, key)).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The count under `key`; what is none counts nothing.
#[must_use]
pub fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// A tool's answer, cut where it is too long for an event.
#[must_use]
pub fn bounded(text: &str) -> String {
    if text.len() <= RESULT_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(RESULT_MAX);
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}\n[… {} bytes cut]", text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_results_are_cut_between_characters_and_say_so() {
        let long = "€".repeat(30_000);
        let cut = bounded(&long);
        assert!(cut.starts_with('€') && cut.ends_with("bytes cut]"), "{}", cut.len());
        assert!(cut.len() < RESULT_MAX + 64);
        assert_eq!(bounded("short"), "short");
    }
}
