//! `[agent.config]`.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{BuildError, parse_config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `[agent.config]` of the `acp` adapter.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The agent's program, a name looked for in `PATH` or a path, and its arguments.
    #[serde(default = "program")]
    pub(crate) program: Vec<String>,
    /// The id of a session mode that the agent offers. The agent's own choice by default.
    pub(crate) mode: Option<String>,
    /// The id of a model that the agent offers. The agent's own choice by default.
    pub(crate) model: Option<String>,
    /// What to answer when the agent asks for a permission: "allow", "reject", or a table of kinds of
    /// calls, such as `{ default = "allow", fetch = "reject" }`.
    #[serde(default)]
    pub(crate) permissions: Permissions,
    /// Give the agent the orchestrator's tools: to claim completion, ask for a human and leave notes.
    #[serde(default)]
    pub(crate) tools: bool,
}

/// What is answered when the agent asks for a permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected \"allow\", \"reject\", or a table of kinds, such as \
                 { default = \"allow\", fetch = \"reject\" }"
)]
pub(crate) enum Permissions {
    All(Answer),
    ByKind(BTreeMap<Kind, Answer>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    #[default]
    Allow,
    Reject,
}

/// A kind of tool call, or all that is not named.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Default,
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    SwitchMode,
    Other,
}

impl Default for Permissions {
    // Nobody is there to be asked, and an agent that is allowed nothing does nothing.
    fn default() -> Self {
        Self::All(Answer::Allow)
    }
}

impl Permissions {
    pub(crate) fn of(&self, kind: Kind) -> Answer {
        match self {
            Self::All(answer) => *answer,
            Self::ByKind(answers) => {
                answers.get(&kind).or(answers.get(&Kind::Default)).copied().unwrap_or_default()
            }
        }
    }
}

fn program() -> Vec<String> {
    vec!["claude-agent-acp".to_owned()]
}

impl Config {
    pub(crate) fn parse(table: Value) -> Result<Self, BuildError> {
        let config: Self = parse_config(table)?;
        if config.program.first().is_none_or(|program| program.trim().is_empty()) {
            let message =
                "empty; expected a program and its arguments, such as [\"gemini\", \"--acp\"]";
            return Err(BuildError::at("program", message));
        }
        if let Some(index) = config.program.iter().position(|word| word.contains('\0')) {
            let message = "an argument cannot contain a NUL character";
            return Err(BuildError::at_element(&["program"], index, message));
        }
        for (key, value, such) in
            [("mode", &config.mode, "bypassPermissions"), ("model", &config.model, "sonnet")]
        {
            if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
                let message = format!("empty; expected an id, such as \"{such}\"");
                return Err(BuildError::at(key, message));
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_configured() {
        let config = Config::parse(json!({})).unwrap();
        assert_eq!(config.program, ["claude-agent-acp"]);
        assert_eq!((config.mode, config.model), (None, None));
        assert_eq!(config.permissions.of(Kind::Execute), Answer::Allow);
    }

    #[test]
    fn permissions_by_kind() {
        let of = |table: Value, kind| {
            Config::parse(json!({"permissions": table})).unwrap().permissions.of(kind)
        };
        assert_eq!(of(json!("reject"), Kind::Read), Answer::Reject);
        let table = json!({"default": "reject", "read": "allow"});
        assert_eq!(of(table.clone(), Kind::Read), Answer::Allow);
        assert_eq!(of(table, Kind::Other), Answer::Reject);
        assert_eq!(of(json!({"switch_mode": "reject"}), Kind::Edit), Answer::Allow);
    }

    #[test]
    fn mistakes_are_named_by_their_key() {
        let cases = [
            (json!({"program": []}), "program"),
            (json!({"program": [" "]}), "program"),
            (json!({"program": "gemini"}), "program"),
            (json!({"program": ["gemini", "a\u{0}"]}), "program.1"),
            (json!({"mode": ""}), "mode"),
            (json!({"model": " "}), "model"),
            (json!({"permissions": "ask"}), "permissions"),
            (json!({"permissions": {"exec": "allow"}}), "permissions"),
            (json!({"permissions": {"read": "ask"}}), "permissions"),
        ];
        for (table, key) in cases {
            let error = Config::parse(table.clone()).unwrap_err();
            assert_eq!(error.key.join("."), key, "{table}: {error}");
        }
        let error = Config::parse(json!({"modle": "gpt-5"})).unwrap_err();
        assert_eq!(error.unknown_key.as_deref(), Some("modle"));
    }
}
