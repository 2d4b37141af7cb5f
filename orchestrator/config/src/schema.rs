//! The JSON Schema of the file, and what it says about keys.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::document::ConfigDocument;
use crate::key::{self, KeyPath};
use crate::model::units;
use crate::preset::{Defaults, PRESET};

/// Returns the JSON Schema of `ralph.toml`, for editors.
#[must_use]
pub fn schema(defaults: &Defaults) -> Value {
    let mut schema = keys_schema();
    for (table, key, default) in [
        ("AgentConfig", "adapter", json!(defaults.adapter)),
        ("Completion", "detectors", json!(defaults.detectors)),
    ] {
        let property = schema.pointer_mut(&format!("/definitions/{table}/properties/{key}"));
        if let Some(property) = property.and_then(Value::as_object_mut) {
            property.insert("default".to_owned(), default);
        }
    }
    let presets: Vec<&str> = defaults.presets.iter().map(|p| p.name.as_str()).collect();
    if let Some(preset) = schema.pointer_mut("/properties/preset").and_then(Value::as_object_mut) {
        preset.insert("enum".to_owned(), json!(presets));
    }
    schema
}

/// Returns the schema, without the defaults that only the caller knows.
fn keys_schema() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<ConfigDocument>().to_value();
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), Value::from("ralph.toml"));
        strip_table_defaults(root);
    }
    // What is null in JSON has to be a word in TOML.
    if let Some(definitions) = schema.get_mut("definitions").and_then(Value::as_object_mut) {
        for property in definitions.values_mut().filter_map(|d| d.get_mut("properties")) {
            name_null_defaults(property);
        }
    }
    schema
}

/// The defaults of a table's keys say it all; those of the tables would only repeat them.
fn strip_table_defaults(root: &mut Map<String, Value>) {
    let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        property.remove("default");
    }
}

fn name_null_defaults(properties: &mut Value) {
    let properties = properties.as_object_mut().into_iter().flat_map(Map::values_mut);
    for default in properties.filter_map(|property| property.get_mut("default")) {
        if default.is_null() {
            *default = Value::from(units::NONE);
        }
    }
}

/// Returns all keys with a fixed name, tables included.
pub(crate) fn fixed_keys() -> Vec<KeyPath> {
    let root = keys_schema();
    let mut keys = Vec::new();
    collect(&root, &root, &mut Vec::new(), &mut keys);
    keys
}

fn collect(root: &Value, node: &Value, path: &mut KeyPath, keys: &mut Vec<KeyPath>) {
    let node = resolved(root, node);
    let Some(properties) = node.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        path.push(name.clone());
        keys.push(path.clone());
        collect(root, property, path, keys);
        path.pop();
    }
}

/// Follows references, which may be wrapped to be given a description.
fn resolved<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    let wrapped = node.get("allOf").and_then(|all| all.get(0)).unwrap_or(node);
    let target = wrapped.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
    target.and_then(|pointer| root.pointer(pointer)).unwrap_or(node)
}

/// Returns the tables, other than that at `path`, that have a key called `name`.
pub(crate) fn tables_with(name: &str, path: &[String]) -> Vec<String> {
    fixed_keys()
        .iter()
        .filter_map(|key| key.split_last())
        .filter(|(last, table)| *last == name && *table != path && !table.is_empty())
        .map(|(_, table)| key::dotted(table))
        .collect()
}

/// Whether the key takes `"none"`.
pub(crate) fn may_be_none(path: &[String]) -> bool {
    match path {
        [table, key] => {
            table == "limits"
                || table == "handoff"
                || (table == "bench" && key.starts_with("max_cost"))
        }
        [table, _, key] => table == "validator" && key == "timeout",
        _ => false,
    }
}

/// Returns the names of the tables and arrays of tables that a file may have.
pub(crate) fn sections() -> Vec<String> {
    let schema = keys_schema();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(Map::keys).cloned().collect()
}

/// Returns every key with a fixed name that takes a value, such as `limits.max_cost_usd`: no tables.
#[must_use]
pub fn keys() -> Vec<String> {
    let all = fixed_keys();
    let is_table =
        |key: &KeyPath| all.iter().any(|other| other.len() > key.len() && other.starts_with(key));
    let is_value = |key: &&KeyPath| key.len() > 1 || key.first().is_some_and(|k| k == PRESET);
    let leaves = all.iter().filter(is_value).filter(|key| !is_table(key));
    leaves.map(|key| key::dotted(key)).collect()
}
