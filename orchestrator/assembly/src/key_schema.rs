//! The JSON Schema of the keys of a table.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The keys of a table that has no others.
pub(crate) fn closed<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut keys = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(root) = keys.as_object_mut() {
        root.remove("$schema");
        root.remove("title");
    }
    without_null(&mut keys);
    keys
}

/// The keys of a table that has those that core knows, too.
pub(crate) fn open<T: JsonSchema>() -> Value {
    beside_others(closed::<T>())
}

/// Returns a schema that allows keys beside its own.
pub(crate) fn beside_others(mut keys: Value) -> Value {
    if let Some(root) = keys.as_object_mut() {
        root.remove("additionalProperties");
    }
    keys
}

/// TOML has no null: a key that may be missing is missing.
fn without_null(node: &mut Value) {
    match node {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|word| word != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}
