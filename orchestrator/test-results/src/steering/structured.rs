//! Settings of TOML and JSON files, by key.

use serde_json::Value;

use super::settings::Settings;

/// Deeper values belong to the key above them.
const MAX_DEPTH: usize = 32;

pub(super) fn read_toml(text: &str, keys: &[&str]) -> Option<Settings> {
    Some(select(&toml::from_str(text).ok()?, keys))
}

pub(super) fn read_json(text: &str, keys: &[&str]) -> Option<Settings> {
    Some(select(&serde_json::from_str(text).ok()?, keys))
}

fn select(value: &Value, keys: &[&str]) -> Settings {
    let mut settings = Settings::new();
    let mut path = Vec::new();
    collect(value, keys, &mut path, &mut settings);
    settings
}

/// Collects the values below steering keys. Tables in a list are told apart by their name.
fn collect(value: &Value, keys: &[&str], path: &mut Vec<String>, settings: &mut Settings) {
    let is_bounded = path.len() < MAX_DEPTH;
    let is_steering = keys.iter().any(|key| matches_path(key, path));
    let whole_key = path.join(".");
    let mut go_on = |segment: String, value: &Value| {
        path.push(segment);
        collect(value, keys, path, settings);
        path.pop();
    };
    match value {
        Value::Object(table) if !table.is_empty() && is_bounded => {
            for (key, value) in table {
                go_on(key.clone(), value);
            }
        }
        Value::Array(list) if list.iter().any(Value::is_object) && is_bounded => {
            for (index, value) in list.iter().enumerate() {
                let name = value.get("name").and_then(Value::as_str);
                go_on(name.map_or_else(|| index.to_string(), str::to_owned), value);
            }
        }
        _ if is_steering => {
            settings.insert(whole_key, value.to_string());
        }
        _ => {}
    }
}

/// Returns whether a pattern stands for the path of a value or for one of the tables that it is in.
fn matches_path(pattern: &str, path: &[String]) -> bool {
    if let Some(last) = pattern.strip_prefix("**.") {
        return path.last().is_some_and(|segment| segment == last);
    }
    let mut segments = path.iter();
    pattern.split('.').all(|pattern| {
        segments.next().is_some_and(|segment| match pattern.strip_suffix('*') {
            Some(start) => segment.starts_with(start),
            None => segment == pattern,
        })
    })
}
