//! `[agent.config]`, and the arguments it stands for.

use std::path::Path;

use ralph_adapter_common::agent_tools::{RULE, SERVER, relay_command};
use ralph_adapter_common::claude_program::{ClaudeOptions, no_empty};
use ralph_orchestrator_contract::{BuildError, parse_config};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Arguments that belong to this adapter, and what to use instead.
const RESERVED: [(&str, &str); 7] = [
    ("-p", "it is always given"),
    ("--print", "it is always given"),
    ("--input-format", "the prompt is given as text"),
    ("--allowedTools", "use the key `allowed_tools`"),
    ("--allowed-tools", "use the key `allowed_tools`"),
    ("--disallowedTools", "use the key `disallowed_tools`"),
    ("--disallowed-tools", "use the key `disallowed_tools`"),
];

/// `[agent.config]` of the `claude-cli` adapter.
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
    /// Rules of the tools that need no approval.
    #[serde(default)]
    allowed_tools: Vec<String>,
    /// Rules of the tools that are always refused.
    #[serde(default)]
    disallowed_tools: Vec<String>,
    /// What follows Claude Code's own system prompt, the same in every iteration. Nothing by default.
    #[schemars(extend("minLength" = 1))]
    system_prompt: Option<String>,
    /// The most turns of one iteration. No bound by default.
    #[schemars(range(min = 1))]
    max_turns: Option<u32>,
    /// Give the agent the orchestrator's tools: to claim completion, ask for a human and leave notes.
    #[serde(default)]
    tools: bool,
    /// Further arguments.
    #[serde(default)]
    args: Vec<String>,
}

fn program() -> String {
    ClaudeOptions::PROGRAM.to_owned()
}

/// What precedes the arguments that the configuration stands for.
pub(crate) const ARGS: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];

/// Reads `[agent.config]`.
///
/// Returns the options, and whether the agent has the orchestrator's tools.
pub(crate) fn parse(table: Value) -> Result<(ClaudeOptions, bool), BuildError> {
    let table: Table = parse_config(table)?;
    let has_tools = table.tools;
    let mut options = ClaudeOptions {
        program: table.program,
        model: table.model,
        permission_mode: table.permission_mode,
        allowed: table.allowed_tools,
        disallowed: table.disallowed_tools,
        system_prompt: table.system_prompt,
        max_turns: table.max_turns,
        args: table.args,
    };
    options.validate(&RESERVED)?;
    no_empty(&["allowed_tools"], options.allowed.iter().map(String::as_str))?;
    no_empty(&["disallowed_tools"], options.disallowed.iter().map(String::as_str))?;
    if has_tools {
        options.allowed.push(RULE.to_owned());
    }
    Ok((options, has_tools))
}

/// Returns what precedes the arguments that the configuration stands for, with the orchestrator's tools.
pub(crate) fn args_with_tools(file: &Path) -> Vec<String> {
    let (program, arguments) = relay_command(file);
    let server = json!({"type": "stdio", "command": program, "args": arguments});
    let servers = json!({"mcpServers": {SERVER: server}}).to_string();
    ARGS.map(str::to_owned).into_iter().chain(["--mcp-config".to_owned(), servers]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_contract::Usd;

    fn argv(table: Value, budget: Option<Usd>) -> Vec<String> {
        let argv = parse(table).unwrap().0.argv(&ARGS, budget);
        argv.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn nothing_configured() {
        let expected = [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "bypassPermissions",
        ];
        assert_eq!(argv(json!({}), None), expected);
    }

    #[test]
    fn everything_configured() {
        let table = json!({"program": "./claude", "model": "sonnet", "permission_mode": "dontAsk",
            "allowed_tools": ["Write", "Bash(cat:*)"], "disallowed_tools": ["WebSearch"],
            "system_prompt": "Be brief.", "max_turns": 7, "args": ["--fallback-model", "haiku"]});
        let argv = argv(table, Usd::from_dollars(0.55));
        let expected = "-p --output-format stream-json --verbose --model sonnet \
            --permission-mode dontAsk --allowedTools Write,Bash(cat:*) \
            --disallowedTools WebSearch --append-system-prompt Be brief. --max-turns 7 --max-budget-usd 0.55 \
            --fallback-model haiku";
        assert_eq!(argv.join(" "), expected);
    }

    #[test]
    fn mistakes_are_named_by_their_key() {
        let cases = [
            (json!({"program": " "}), "program"),
            (json!({"program": ["claude"]}), "program"),
            (json!({"model": ""}), "model"),
            (json!({"permission_mode": "yolo"}), "permission_mode"),
            (json!({"max_turns": 0}), "max_turns"),
            (json!({"system_prompt": " \n"}), "system_prompt"),
            (json!({"system_prompt": "a\u{0}"}), "system_prompt"),
            (json!({"system_prompt": "a", "args": ["--system-prompt", "b"]}), "args.0"),
            (json!({"max_turns": -1}), "max_turns"),
            (json!({"allowed_tools": ["Write", ""]}), "allowed_tools.1"),
            (json!({"disallowed_tools": "Bash"}), "disallowed_tools"),
            (json!({"args": ["--debug", "--resume=x"]}), "args.1"),
            (json!({"args": ["--output-format"]}), "args.0"),
        ];
        for (table, key) in cases {
            let error = parse(table.clone()).unwrap_err();
            assert_eq!(error.key.join("."), key, "{table}: {error}");
        }
        let error = parse(json!({"modle": "sonnet"})).unwrap_err();
        assert_eq!(error.unknown_key.as_deref(), Some("modle"));
        let error = parse(json!({"permission_mode": "yolo"})).unwrap_err();
        assert!(error.message.contains("`acceptEdits`, `auto`"), "{error}");
    }
}
