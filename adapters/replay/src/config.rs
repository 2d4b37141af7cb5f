//! The adapter's own keys.

use std::path::PathBuf;

use ralph_orchestrator_contract::{BuildError, parse_config};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// `[agent.config]` of the `replay` adapter.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A recorded session of Claude Code, or a folder with `1.jsonl`, `2.jsonl`, … for the iterations.
    pub(crate) session: PathBuf,
}

impl Config {
    pub(crate) fn parse(table: Value) -> Result<Self, BuildError> {
        let config: Self = parse_config(table)?;
        if config.session.as_os_str().is_empty() {
            let message = "expected the path of a recorded session, or of a folder with 1.jsonl, …";
            return Err(BuildError::at("session", message));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mistakes_are_named_by_their_key() {
        assert!(Config::parse(json!({"session": "x"})).is_ok());
        let key = |table| Config::parse(table).unwrap_err().key.join(".");
        assert_eq!(key(json!({"session": ""})), "session");
        assert!(Config::parse(json!({})).unwrap_err().message.contains("session"));
    }
}
