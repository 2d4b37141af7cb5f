//! The keys of a table, from its JSON Schema, as a table in Markdown.

use serde_json::Value;

use super::markdown::{cell, code};

/// So many tables within tables are described.
const DEPTH_MAX: usize = 6;
/// So many keys are described.
const KEYS_MAX: usize = 300;

/// Describes the keys of a table. The schema is a plugin's: what it says is bounded and not believed.
pub(super) fn describe_keys(schema: Option<&Value>, table: &str, beside: &str) -> String {
    let Some(schema) = schema else {
        return format!(
            "\nThe plugin says nothing of the keys of `{table}`: it announces no `schema`.{beside}\n"
        );
    };
    let mut rows = Vec::new();
    collect(schema, schema, "", 0, &mut rows);
    if rows.is_empty() {
        return format!("\n`{table}` has no keys of its own.{beside}\n");
    }
    let mut text = format!("\nKeys of `{table}`:{beside}\n\n");
    text.push_str("| key | type | default | what it is |\n|---|---|---|---|\n");
    let left_out = rows.len().saturating_sub(KEYS_MAX);
    rows.iter().take(KEYS_MAX).for_each(|row| text.push_str(row));
    if left_out > 0 {
        text.push_str(&format!("\n{left_out} more keys are left out.\n"));
    }
    text
}

/// Adds a row for each key of a table, and for those of the tables in it.
fn collect(root: &Value, table: &Value, above: &str, depth: usize, rows: &mut Vec<String>) {
    // One more shows that some are left out.
    if depth > DEPTH_MAX {
        return;
    }
    let required = table.get("required").and_then(Value::as_array);
    for (name, property) in table.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        let node = follow(root, property);
        let path = format!("{above}{name}");
        let is_required =
            required.is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)));
        rows.push(describe_key(root, &path, property, node, is_required));
        let (inner, ending) = match node.get("items") {
            Some(items) => (follow(root, items), "[]."),
            None => (node, "."),
        };
        collect(root, inner, &format!("{path}{ending}"), depth + 1, rows);
    }
}

fn describe_key(
    root: &Value,
    path: &str,
    property: &Value,
    node: &Value,
    is_required: bool,
) -> String {
    // A description beside a reference is about this very key.
    let find = |key: &str| property.get(key).or_else(|| node.get(key));
    let default = match (find("default"), is_required) {
        (Some(default), _) => code(&default.to_string()),
        (None, true) => "required".to_owned(),
        (None, false) => String::new(),
    };
    let mut description =
        find("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (value, text) in described_values(node) {
        description.push_str(&format!(" {value}: {text}"));
    }
    let kind = describe_type(root, node, 0);
    format!(
        "| {} | {} | {} | {} |\n",
        escape(&code(path)),
        escape(&kind),
        escape(&default),
        cell(&description)
    )
}

/// Returns each of the values among which one is chosen that has a description.
fn described_values(node: &Value) -> Vec<(String, &str)> {
    let choices = node.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let described = choices.filter_map(|choice| {
        let text = choice.get("description")?.as_str()?;
        Some((code(&choice.get("const")?.to_string()), text))
    });
    described.collect()
}

fn describe_type(root: &Value, node: &Value, depth: usize) -> String {
    let node = follow(root, node);
    if depth > DEPTH_MAX {
        return "anything".to_owned();
    }
    if let Some(values) = node.get("enum").and_then(Value::as_array) {
        return values.iter().map(|value| code(&value.to_string())).collect::<Vec<_>>().join(", ");
    }
    if let Some(value) = node.get("const") {
        return code(&value.to_string());
    }
    let choices = node.get("oneOf").or_else(|| node.get("anyOf")).and_then(Value::as_array);
    if let Some(choices) = choices {
        let mut words: Vec<String> =
            choices.iter().map(|choice| describe_type(root, choice, depth + 1)).collect();
        words.retain(|word| word != "null");
        words.dedup();
        return words.join(" or ");
    }
    match node.get("type") {
        Some(Value::String(word)) => describe_word(root, word, node, depth),
        Some(Value::Array(words)) => {
            let words = words.iter().filter_map(Value::as_str).filter(|word| *word != "null");
            let words: Vec<_> = words.map(|word| describe_word(root, word, node, depth)).collect();
            words.join(" or ")
        }
        _ if node.get("properties").is_some() => "table".to_owned(),
        _ => "anything".to_owned(),
    }
}

fn describe_word(root: &Value, word: &str, node: &Value, depth: usize) -> String {
    match word {
        "array" => match node.get("items").map(|items| describe_type(root, items, depth + 1)) {
            Some(items) => format!("array of {items}"),
            None => "array".to_owned(),
        },
        "object" => match node.get("additionalProperties").filter(|more| more.is_object()) {
            Some(values) => format!("table of {}", describe_type(root, values, depth + 1)),
            None => "table".to_owned(),
        },
        other => other.to_owned(),
    }
}

/// Follows a reference within the schema, which may be wrapped to be given a description.
fn follow<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    let mut node = node;
    // A reference may lead to itself.
    for _ in 0..DEPTH_MAX {
        let only = match node.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => only,
            _ => node,
        };
        let reference = only.get("$ref").and_then(Value::as_str);
        let Some(target) = reference.and_then(|text| root.pointer(text.strip_prefix('#')?)) else {
            return only;
        };
        node = target;
    }
    node
}

/// Escapes what ends a cell.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let schema = json!({
            "properties": {"step": {"$ref": "#/definitions/step"}, "loop": {"$ref": "#/definitions/loop"}},
            "definitions": {
                "step": {"type": "object", "properties": {"step": {"$ref": "#/definitions/step"}}},
                "loop": {"$ref": "#/definitions/loop"},
            },
        });
        let text = describe_keys(Some(&schema), "[agent.config]", "");
        assert!(text.contains("| `step.step` | table |"), "{text}");
        assert!(text.contains("| `loop` | anything |"), "{text}");
        assert!(text.lines().count() < 20, "{text}");
    }

    #[test]
    fn the_number_of_keys_is_bounded_and_what_is_no_schema_says_nothing() {
        let keys: serde_json::Map<_, _> =
            (0..=KEYS_MAX).map(|n| (format!("k{n}"), json!({"type": "string"}))).collect();
        let text = describe_keys(Some(&json!({"properties": keys})), "[agent.config]", "");
        assert!(text.ends_with("\n1 more keys are left out.\n"), "{text}");
        for schema in [json!(true), json!([]), json!({"properties": 7})] {
            let text = describe_keys(Some(&schema), "[agent.config]", "");
            assert_eq!(text, "\n`[agent.config]` has no keys of its own.\n");
        }
    }
}
