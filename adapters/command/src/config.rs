//! The adapter's own keys.

use ralph_orchestrator_contract::{BuildError, parse_config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `[agent.config]` of the `command` adapter.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The program and its arguments.
    pub(crate) program: Vec<String>,
    /// How it gets the prompt: on standard input, as an argument (`{prompt}` in `program`, else the last), or in
    /// a file whose path is an argument (`{prompt_file}` in `program`, else the last).
    #[serde(default)]
    pub(crate) prompt: PromptBy,
    /// What it prints on standard output.
    #[serde(default)]
    pub(crate) output: OutputKind,
}

/// How the program gets the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PromptBy {
    /// On standard input.
    #[default]
    Stdin,
    /// As an argument.
    Arg,
    /// In a file whose path is an argument.
    File,
}

/// What the program prints on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OutputKind {
    /// Its own text.
    #[default]
    Text,
    /// Claude Code's `--output-format json` or `stream-json`, or what prints the same.
    ClaudeJson,
    /// `codex exec --json`.
    CodexJson,
    /// `opencode run --format json`.
    #[serde(rename = "opencode-json")]
    OpenCodeJson,
}

impl Config {
    pub(crate) fn parse(table: Value) -> Result<Self, BuildError> {
        let config: Self = parse_config(table)?;
        let example = r#"such as ["my-agent", "--flag"]"#;
        match config.program.first() {
            None => Err(BuildError::at(
                "program",
                format!("expected a program and its arguments, {example}"),
            )),
            Some(name) if name.trim().is_empty() => {
                let message = format!("expected the name or path of a program, {example}");
                Err(BuildError::at_element(&["program"], 0, message))
            }
            Some(_) => match config.program.iter().position(|part| part.contains('\0')) {
                Some(at) => {
                    let message = "a program or argument cannot contain a NUL character";
                    Err(BuildError::at_element(&["program"], at, message))
                }
                None => Ok(config),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_are_stdin_and_text() {
        let config = Config::parse(json!({"program": ["a", "b"]})).unwrap();
        assert_eq!((config.prompt, config.output), (PromptBy::Stdin, OutputKind::Text));
    }

    #[test]
    fn mistakes_are_named_by_their_key() {
        let key = |table| Config::parse(table).unwrap_err().key.join(".");
        assert_eq!(key(json!({"program": []})), "program");
        assert_eq!(key(json!({"program": [" "]})), "program.0");
        assert_eq!(key(json!({"program": ["a", "b\u{0}c"]})), "program.1");
        assert_eq!(key(json!({"program": "a b"})), "program");
        assert_eq!(key(json!({"program": ["a"], "prompt": "tty"})), "prompt");
        assert_eq!(key(json!({"program": ["a"], "output": "json"})), "output");
        let unknown = Config::parse(json!({"program": ["a"], "promt": "arg"})).unwrap_err();
        assert_eq!(unknown.unknown_key.as_deref(), Some("promt"));
        assert!(Config::parse(json!({})).unwrap_err().message.contains("program"));
    }

    #[test]
    fn every_output_has_its_name() {
        for (name, kind) in [
            ("text", OutputKind::Text),
            ("claude-json", OutputKind::ClaudeJson),
            ("codex-json", OutputKind::CodexJson),
            ("opencode-json", OutputKind::OpenCodeJson),
        ] {
            let config = Config::parse(json!({"program": ["a"], "output": name})).unwrap();
            assert_eq!(config.output, kind);
        }
    }
}
