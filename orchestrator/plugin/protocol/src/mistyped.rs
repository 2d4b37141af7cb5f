//! Says which key of a frame has a value of the wrong type, in the words of JSON.

use serde_json::Value;

/// Returns the message of a wrong type in words, with the path of the key if it can be told; `None` for any other
/// message.
pub(crate) fn describe(value: &Value, message: &str) -> Option<String> {
    let (found, expected) = message.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let mut paths = Vec::new();
    find(value, found, &mut Vec::new(), &mut paths);
    let place = match paths.as_slice() {
        [only] => format!("`{only}`"),
        _ => "a value".to_owned(),
    };
    Some(format!("{place} is {}, expected {}", found_words(found), expected_words(expected)))
}

/// Finds the paths of all values that a message describes so.
fn find(value: &Value, found: &str, path: &mut Vec<String>, paths: &mut Vec<String>) {
    if !path.is_empty() && is_described(value, found) {
        paths.push(path.join("."));
    }
    let mut descend = |key: String, value: &Value| {
        path.push(key);
        find(value, found, path, paths);
        path.pop();
    };
    match value {
        Value::Object(values) => values.iter().for_each(|(key, value)| descend(key.clone(), value)),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| descend(at.to_string(), value));
        }
        _ => {}
    }
}

fn is_described(value: &Value, found: &str) -> bool {
    match value {
        Value::Null => matches!(found, "null" | "unit value"),
        Value::Bool(value) => found == format!("boolean `{value}`"),
        Value::Number(number) => {
            found == format!("integer `{number}`") || found == format!("floating point `{number}`")
        }
        Value::String(text) => found == format!("string {text:?}"),
        Value::Array(_) => found == "sequence",
        Value::Object(_) => found == "map",
    }
}

fn found_words(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit value" => "null".to_owned(),
        _ => match found.split_once(' ') {
            Some(("string", text)) => format!("the text {text}"),
            Some(("integer", number)) => format!("the number {number}"),
            _ => found.replace("floating point", "the number").replace("boolean", "the boolean"),
        },
    }
}

fn expected_words(expected: &str) -> &str {
    match expected {
        "f32" | "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" => "a whole number",
        "a map" => "an object",
        "a sequence" => "a list",
        _ if expected.starts_with("struct ") => "an object",
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_key_is_named_where_only_one_fits() {
        let event = json!({"type": "usage", "usage": {"cost": "0.1"}});
        let message = "invalid type: string \"0.1\", expected f64";
        let described = describe(&event, message).unwrap();
        assert_eq!(described, "`usage.cost` is the text \"0.1\", expected a number");
        let two = json!({"a": [true], "b": true});
        let described = describe(&two, "invalid type: boolean `true`, expected a string").unwrap();
        assert_eq!(described, "a value is the boolean `true`, expected a string");
        let described = describe(&json!({"a": [1]}), "invalid type: sequence, expected struct X");
        assert_eq!(described.unwrap(), "`a` is a list, expected an object");
        assert_eq!(describe(&two, "unknown variant `x`, expected `y`"), None);
    }
}
