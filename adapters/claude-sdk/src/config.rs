//! `[agent.config]`, and the arguments it stands for.

use std::ffi::OsString;

use ralph_adapter_common::agent_tools::{RULE, SERVER};
use ralph_adapter_common::claude_program::{ClaudeOptions, no_empty};
use ralph_orchestrator_contract::{BuildError, Usd, parse_config};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::policy::rule::Rule;

/// Arguments that belong to this adapter, and what to use instead.
const RESERVED: [(&str, &str); 9] = [
    ("-p", "the adapter speaks with the session while it runs"),
    ("--print", "the adapter speaks with the session while it runs"),
    ("--input-format", "the adapter writes stream-json"),
    ("--include-partial-messages", "it is always given"),
    ("--permission-prompt-tool", "the adapter answers itself"),
    ("--allowedTools", "use the key `permissions.allow`"),
    ("--allowed-tools", "use the key `permissions.allow`"),
    ("--disallowedTools", "use the key `permissions.deny`"),
    ("--disallowed-tools", "use the key `permissions.deny`"),
];
/// The word for no such bound.
const NONE: &str = "none";
/// What waits for a person who is not there.
const FOR_PEOPLE: [&str; 3] = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];

/// `[agent.config]` of the `claude-sdk` adapter.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The program: a name looked for in `PATH`, or a path.
    #[serde(default = "program")]
    program: String,
    /// The model. Claude Code's own choice by default.
    model: Option<String>,
    /// The permission mode. "bypassPermissions" by default, because nobody is there to ask.
    #[schemars(extend("enum" = ["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan"]))]
    permission_mode: Option<String>,
    /// What the agent may and may not do.
    #[serde(default)]
    permissions: Permissions,
    /// What follows Claude Code's own system prompt, the same in every iteration. Nothing by default.
    #[schemars(extend("minLength" = 1))]
    system_prompt: Option<String>,
    /// The most turns of one iteration. No bound by default.
    #[schemars(range(min = 1))]
    max_turns: Option<u32>,
    /// Further arguments.
    #[serde(default)]
    args: Vec<String>,
    /// The share of the context at which the session is handed over to the next iteration; "none" for never.
    #[serde(default = "handoff_at")]
    #[schemars(schema_with = "handoff_at_schema")]
    handoff_at: HandoffAt,
    /// Validate claims before the session ends, and let the agent go on if they are rejected.
    #[serde(default = "validate_in_session")]
    validate_in_session: bool,
    /// After so many rejections the session may end. 0 is the same as not to validate in the session.
    #[serde(default = "max_in_session_rejections")]
    max_in_session_rejections: u32,
}

/// The share of the context at which the session is handed over, or the word for never.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a share above 0 and below 1, such as 0.7, or \"none\"")]
enum HandoffAt {
    Share(f64),
    Word(String),
}

impl HandoffAt {
    /// Returns the share; `None` for never.
    fn share(&self) -> Result<Option<f64>, BuildError> {
        let found = match self {
            Self::Share(share) if *share > 0.0 && *share < 1.0 => return Ok(Some(*share)),
            Self::Word(word) if word == NONE => return Ok(None),
            Self::Share(share) => share.to_string(),
            Self::Word(word) => format!("{word:?}"),
        };
        let message = format!(
            "expected the share of the context at which to hand off, above 0 and below 1, such as 0.7, \
             or \"{NONE}\"; found {found}"
        );
        Err(BuildError::at("handoff_at", message))
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Permissions {
    /// Rules of the tools that need no approval.
    allow: Vec<String>,
    /// Rules of the tools that are always refused, or tables `{ rule = "…", reason = "…" }`; the model is
    /// given the reason.
    deny: Vec<Denied>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a rule, such as \"Bash(git push:*)\", or { rule = \"…\", reason = \"…\" }"
)]
enum Denied {
    Plain(String),
    Explained { rule: String, reason: String },
}

fn program() -> String {
    ClaudeOptions::PROGRAM.to_owned()
}

const fn handoff_at() -> HandoffAt {
    HandoffAt::Share(0.70)
}

fn handoff_at_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "string", "const": NONE},
    ]})
}

const fn validate_in_session() -> bool {
    true
}

const fn max_in_session_rejections() -> u32 {
    3
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) options: ClaudeOptions,
    /// What is denied with a reason.
    pub(crate) deny: Vec<Rule>,
    /// The share of the context at which the session is handed off, if at all.
    pub(crate) handoff_at: Option<f64>,
    /// How many claims are rejected in the session at most.
    pub(crate) max_rejections: u32,
}

impl Config {
    pub(crate) fn parse(table: Value) -> Result<Self, BuildError> {
        let table: Table = parse_config(table)?;
        let Permissions { allow, deny } = table.permissions;
        no_empty(&["permissions", "allow"], allow.iter().map(String::as_str))?;
        no_empty(&["permissions", "deny"], deny.iter().map(Denied::rule))?;
        let deny = rules(deny)?;
        let handoff_at = table.handoff_at.share()?;
        let options = ClaudeOptions {
            program: table.program,
            model: table.model,
            permission_mode: table.permission_mode,
            allowed: allow.into_iter().chain([RULE.to_owned()]).collect(),
            disallowed: deny
                .iter()
                .filter(|rule| !rule.hides_a_reason())
                .map(|rule| rule.text().to_owned())
                .chain(FOR_PEOPLE.map(str::to_owned))
                .collect(),
            system_prompt: table.system_prompt,
            max_turns: table.max_turns,
            args: table.args,
        };
        options.validate(&RESERVED)?;
        Ok(Self {
            options,
            deny,
            handoff_at,
            max_rejections: if table.validate_in_session {
                table.max_in_session_rejections
            } else {
                0
            },
        })
    }

    /// The arguments of an iteration that may cost so much.
    pub(crate) fn argv(&self, budget: Option<Usd>) -> Vec<OsString> {
        let servers = json!({"mcpServers": {SERVER: {"name": SERVER, "type": "sdk"}}}).to_string();
        let first = [
            "--output-format",
            "stream-json",
            "--verbose",
            "--input-format",
            "stream-json",
            "--include-partial-messages",
            "--permission-prompt-tool",
            "stdio",
            "--mcp-config",
            &servers,
        ];
        self.options.argv(&first, budget)
    }
}

impl Denied {
    fn rule(&self) -> &str {
        match self {
            Self::Plain(rule) | Self::Explained { rule, .. } => rule,
        }
    }
}

fn rules(denied: Vec<Denied>) -> Result<Vec<Rule>, BuildError> {
    let rule = |(index, denied)| {
        let (text, reason) = match denied {
            Denied::Plain(rule) => (rule, None),
            Denied::Explained { rule, reason } => (rule, Some(reason)),
        };
        Rule::new(&text, reason)
            .map_err(|problem| BuildError::at_element(&["permissions", "deny"], index, problem))
    };
    denied.into_iter().enumerate().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn argv(table: Value, budget: Option<Usd>) -> Vec<String> {
        let argv = Config::parse(table).unwrap().argv(budget);
        argv.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    const FIRST: &str = "--output-format stream-json --verbose --input-format stream-json \
        --include-partial-messages --permission-prompt-tool stdio \
        --mcp-config {\"mcpServers\":{\"ralph\":{\"name\":\"ralph\",\"type\":\"sdk\"}}}";

    #[test]
    fn nothing_configured() {
        let expected = format!(
            "{FIRST} --permission-mode bypassPermissions --allowedTools mcp__ralph \
             --disallowedTools AskUserQuestion,EnterPlanMode,ExitPlanMode"
        );
        assert_eq!(argv(json!({}), None).join(" "), expected);
        let config = Config::parse(json!({})).unwrap();
        assert_eq!((config.handoff_at, config.max_rejections), (Some(0.7), 3));
    }

    #[test]
    fn everything_configured() {
        let table = json!({"program": "./claude", "model": "sonnet", "permission_mode": "dontAsk",
            "permissions": {"allow": ["Write", "Bash(cat:*)"], "deny": ["WebSearch",
                {"rule": "Bash(git push:*)", "reason": "no"}, {"rule": "Task", "reason": "alone"}]},
            "max_turns": 7, "args": ["--fallback-model", "haiku"], "handoff_at": 0.5,
            "validate_in_session": false, "max_in_session_rejections": 9});
        let expected = format!(
            "{FIRST} --model sonnet --permission-mode dontAsk \
             --allowedTools Write,Bash(cat:*),mcp__ralph \
             --disallowedTools WebSearch,Bash(git push:*),AskUserQuestion,EnterPlanMode,ExitPlanMode \
             --max-turns 7 --max-budget-usd 0.55 --fallback-model haiku"
        );
        // A tool that is taken away cannot be refused with a reason.
        assert_eq!(argv(table.clone(), Usd::from_dollars(0.55)).join(" "), expected);
        let config = Config::parse(table).unwrap();
        assert_eq!((config.handoff_at, config.max_rejections), (Some(0.5), 0));
    }

    #[test]
    fn a_hand_off_can_be_turned_off() {
        assert_eq!(Config::parse(json!({"handoff_at": "none"})).unwrap().handoff_at, None);
    }

    #[test]
    fn mistakes_are_named_by_their_key() {
        let cases = [
            (json!({"program": " "}), "program"),
            (json!({"model": ""}), "model"),
            (json!({"permission_mode": "yolo"}), "permission_mode"),
            (json!({"max_turns": 0}), "max_turns"),
            (json!({"handoff_at": 1.0}), "handoff_at"),
            (json!({"handoff_at": 0}), "handoff_at"),
            (json!({"handoff_at": -0.1}), "handoff_at"),
            (json!({"handoff_at": "70%"}), "handoff_at"),
            (json!({"validate_in_session": 1}), "validate_in_session"),
            (json!({"max_in_session_rejections": -1}), "max_in_session_rejections"),
            (json!({"permissions": {"allow": ["Write", ""]}}), "permissions.allow.1"),
            (json!({"permissions": {"deny": ["Write", " "]}}), "permissions.deny.1"),
            (json!({"permissions": {"deny": ["Bash(git push"]}}), "permissions.deny.0"),
            (json!({"permissions": {"deny": [7]}}), "permissions.deny.0"),
            (json!({"args": ["--debug", "--resume=x"]}), "args.1"),
            (json!({"args": ["--input-format"]}), "args.0"),
        ];
        for (table, key) in cases {
            let error = Config::parse(table.clone()).unwrap_err();
            assert_eq!(error.key.join("."), key, "{table}: {error}");
        }
        let error = Config::parse(json!({"modle": "sonnet"})).unwrap_err();
        assert_eq!(error.unknown_key.as_deref(), Some("modle"));
        let error = Config::parse(json!({"permissions": {"alow": []}})).unwrap_err();
        assert_eq!(
            (error.key, error.unknown_key.as_deref()),
            (vec!["permissions".into()], Some("alow"))
        );
    }
}
