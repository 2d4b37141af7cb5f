//! Whether a table of the configuration fits the JSON Schema that a plugin gives of it.
//!
//! What is followed are the types, values, keys and elements that a schema names. Anything else in it, such
//! as references and patterns, is for editors, and the plugin's own to check.

use ralph_orchestrator_contract::BuildError;
use serde_json::{Map, Value};

/// Checks a table.
///
/// # Errors
/// The first mistake, with the path of its key.
pub(crate) fn check_table(schema: &Value, table: &Value) -> Result<(), BuildError> {
    check_value(schema, table, &mut Vec::new())
}

fn check_value(schema: &Value, value: &Value, path: &mut Vec<String>) -> Result<(), BuildError> {
    let wrong = |path: &[String], message: String| BuildError {
        key: path.to_vec(),
        unknown_key: None,
        message,
    };
    let Some(schema) = schema.as_object() else { return Ok(()) };
    if let Some(types) = schema.get("type")
        && let Some(message) = other_type(types, value)
    {
        return Err(wrong(path, message));
    }
    let allowed = schema.get("const").map(std::slice::from_ref);
    let allowed = allowed.or_else(|| schema.get("enum")?.as_array().map(Vec::as_slice));
    if let Some(allowed) = allowed.filter(|allowed| !allowed.contains(value)) {
        let allowed: Vec<_> = allowed.iter().map(Value::to_string).collect();
        return Err(wrong(path, format!("expected {}", allowed.join(" or "))));
    }
    match value {
        Value::Object(table) => check_keys(schema, table, path),
        Value::Array(elements) => {
            let Some(items) = schema.get("items") else { return Ok(()) };
            for (index, element) in elements.iter().enumerate() {
                path.push(index.to_string());
                check_value(items, element, path)?;
                path.pop();
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_keys(
    schema: &Map<String, Value>,
    table: &Map<String, Value>,
    path: &mut Vec<String>,
) -> Result<(), BuildError> {
    let known = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties").filter(|_| {
        // Which keys are meant by patterns is not followed.
        !schema.contains_key("patternProperties")
    });
    for (name, value) in table {
        let of_key = known.and_then(|known| known.get(name)).or(others);
        if of_key == Some(&Value::Bool(false)) {
            let names = known.into_iter().flat_map(Map::keys).map(|name| format!("`{name}`"));
            let names = names.collect::<Vec<_>>().join(", ");
            let expected = if names.is_empty() {
                "there are no fields".to_owned()
            } else {
                format!("expected one of {names}")
            };
            let message = format!("unknown field `{name}`, {expected}");
            return Err(BuildError { key: path.clone(), unknown_key: Some(name.clone()), message });
        }
        path.push(name.clone());
        check_value(of_key.unwrap_or(&Value::Null), value, path)?;
        path.pop();
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    match required.filter_map(Value::as_str).find(|name| !table.contains_key(*name)) {
        Some(missing) => {
            let message = format!("missing field `{missing}`");
            Err(BuildError { key: path.clone(), unknown_key: None, message })
        }
        None => Ok(()),
    }
}

/// Returns what is wrong if the value has none of these types.
fn other_type(types: &Value, value: &Value) -> Option<String> {
    let names: Vec<&str> = match types {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let fits = |name: &&str| match *name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        // A type of a newer schema.
        _ => true,
    };
    if names.is_empty() || names.iter().any(fits) {
        return None;
    }
    let expected: Vec<_> =
        names.iter().filter(|name| **name != "null").map(|name| words(name)).collect();
    let found = match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "a table",
    };
    Some(format!("expected {}, found {found}", expected.join(" or ")))
}

fn words(name: &str) -> &'static str {
    match name {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "a boolean",
        "array" => "an array",
        _ => "a table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mistake(table: &Value) -> (String, Option<String>, String) {
        let schema = json!({
            "type": "object",
            "properties": {
                "file": {"type": "string"},
                "mode": {"enum": ["fast", "slow"]},
                "steps": {"type": "array", "items": {"type": "object", "required": ["run"],
                    "properties": {"run": {"type": "string"}}, "additionalProperties": false}},
                "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
                "odd": {"$ref": "#/definitions/odd"},
            },
            "required": ["file"],
            "additionalProperties": false,
        });
        match check_table(&schema, table) {
            Ok(()) => (String::new(), None, String::new()),
            Err(error) => (error.key.join("."), error.unknown_key, error.message),
        }
    }

    #[test]
    fn a_table_that_fits_has_no_mistake() {
        let table = json!({"file": "a", "mode": "fast", "steps": [{"run": "x"}], "limits": {"a": 1},
            "odd": [true]});
        assert_eq!(mistake(&table), (String::new(), None, String::new()));
        assert_eq!(check_table(&Value::Bool(true), &table), Ok(()));
        assert_eq!(check_table(&json!({"type": "new"}), &table), Ok(()));
    }

    #[test]
    fn a_mistake_is_found_at_its_place() {
        for (table, key, unknown, part) in [
            (json!({"file": 7}), "file", None, "expected a string, found a number"),
            (json!({}), "", None, "missing field `file`"),
            (json!({"file": "a", "fiel": 1}), "", Some("fiel"), "unknown field `fiel`"),
            (json!({"file": "a", "mode": "x"}), "mode", None, "expected \"fast\" or \"slow\""),
            (
                json!({"file": "a", "steps": [{"run": "x"}, {"rnu": "x"}]}),
                "steps.1",
                Some("rnu"),
                "`run`",
            ),
            (json!({"file": "a", "steps": [{}]}), "steps.0", None, "missing field `run`"),
            (json!({"file": "a", "limits": {"a": 1.5}}), "limits.a", None, "expected an integer"),
        ] {
            let (at, name, message) = mistake(&table);
            assert_eq!((at.as_str(), name.as_deref()), (key, unknown), "{table}");
            assert!(message.contains(part), "{table}: {message}");
        }
    }
}
