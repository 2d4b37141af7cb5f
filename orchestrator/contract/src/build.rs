//! Building an adapter, detector or validator from its part of the configuration.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a factory may know about the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildContext {
    /// The folder of the configuration file: relative paths of programs are relative to it.
    pub config_dir: PathBuf,
    /// Where the agent works: absolute. May not exist yet.
    pub workspace: PathBuf,
    /// The folder of the prompt file: absolute.
    pub prompt_dir: PathBuf,
    /// `PATH`, for finding programs once and for all.
    pub path: String,
}

/// A mistake in the configuration of an adapter, detector or validator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BuildError {
    /// The keys that lead to the mistake, within the table that was given.
    pub key: Vec<String>,
    /// The mistake is this key's name, not its value.
    pub unknown_key: Option<String>,
    /// What is wrong and what was expected.
    pub message: String,
}

impl BuildError {
    /// A mistake in the value of `key`, or in the whole table if `key` is empty.
    #[must_use]
    pub fn at(key: &str, message: impl Into<String>) -> Self {
        let key = if key.is_empty() { Vec::new() } else { vec![key.to_owned()] };
        Self { key, unknown_key: None, message: message.into() }
    }

    /// A mistake in the element at `index` of the list that these keys lead to.
    #[must_use]
    pub fn at_element(list: &[&str], index: usize, message: impl Into<String>) -> Self {
        let keys = list.iter().map(|key| (*key).to_owned());
        let key = keys.chain([index.to_string()]).collect();
        Self { key, unknown_key: None, message: message.into() }
    }
}

/// Why an adapter, detector or validator was not built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactoryError {
    /// What its name stands for does not work, or has nothing of the kind.
    #[error("{0}")]
    Unavailable(String),
    /// Its table has a mistake.
    #[error(transparent)]
    Table(#[from] BuildError),
}

/// Reads a configuration table into a type. The type should `deny_unknown_fields`.
///
/// # Errors
/// The first mistake, with the path of its key.
pub fn parse_config<T: DeserializeOwned>(table: Value) -> Result<T, BuildError> {
    let first_key = table.as_object().and_then(|table| table.keys().next().cloned());
    let error = match read_table(table) {
        Err(error) if error.key.is_empty() && error.message.contains("expected unit") => error,
        result => return result,
    };
    // A type without keys, such as `()`, is written as nothing in JSON and as an empty table in TOML.
    match first_key {
        None => serde_json::from_value(Value::Null).map_err(|_| error),
        Some(name) => {
            let message = format!("unknown field `{name}`, there are no fields");
            Err(BuildError { key: Vec::new(), unknown_key: Some(name), message })
        }
    }
}

fn read_table<T: DeserializeOwned>(table: Value) -> Result<T, BuildError> {
    serde_path_to_error::deserialize(table).map_err(|error| {
        let key = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                serde_path_to_error::Segment::Seq { index } => Some(index.to_string()),
                serde_path_to_error::Segment::Map { key } => Some(key.clone()),
                serde_path_to_error::Segment::Enum { variant } => Some(variant.clone()),
                serde_path_to_error::Segment::Unknown => None,
            })
            .collect::<Vec<_>>();
        let message = error.inner().to_string();
        let unknown_key = message
            .strip_prefix("unknown field `")
            .and_then(|rest| rest.split_once('`'))
            .map(|(name, _)| name.to_owned());
        // serde names the unknown field itself as the last part of the path.
        let key = match (&unknown_key, key.split_last()) {
            (Some(name), Some((last, rest))) if last == name => rest.to_vec(),
            _ => key,
        };
        BuildError { key, unknown_key, message }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        program: Vec<String>,
    }

    #[test]
    fn a_table_without_a_mistake_is_read() {
        let config = parse_config::<Config>(json!({"program": ["a"]})).unwrap();
        assert_eq!(config, Config { program: vec!["a".into()] });
    }

    #[test]
    fn a_mistake_is_named_by_its_path() {
        let key = |error: BuildError| error.key.join(".");
        assert_eq!(key(BuildError::at("", "no")), "");
        assert_eq!(key(BuildError::at("program", "no")), "program");
        assert_eq!(
            key(BuildError::at_element(&["permissions", "deny"], 2, "no")),
            "permissions.deny.2"
        );
    }

    #[test]
    fn a_wrong_value_is_named_by_its_path() {
        let error = parse_config::<Config>(json!({"program": ["a", 7]})).unwrap_err();
        assert_eq!((error.key, error.unknown_key), (vec!["program".into(), "1".into()], None));
    }

    #[test]
    fn a_type_without_keys_is_an_empty_table() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Nothing;
        assert_eq!(parse_config::<()>(json!({})), Ok(()));
        assert_eq!(parse_config::<Nothing>(json!({})), Ok(Nothing));
        let error = parse_config::<()>(json!({"modle": 1})).unwrap_err();
        assert_eq!((error.key, error.unknown_key), (vec![], Some("modle".into())));
    }

    #[test]
    fn an_unknown_key_is_distinguished_from_a_wrong_value() {
        let error = parse_config::<Config>(json!({"program": [], "modle": 1})).unwrap_err();
        assert_eq!((error.key, error.unknown_key), (vec![], Some("modle".into())));
    }
}
