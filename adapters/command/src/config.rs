//! The adapter's own keys.

use ralph_orchestrator_contract::{BuildError, parse_config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stream::{Rules, StreamKeys};

/// `[agent.config]` of the `command` adapter.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// The program and its arguments.
    program: Vec<String>,
    /// How it gets the prompt: on standard input, as an argument (`{prompt}` in `program`, else the last), or in
    /// a file whose path is an argument (`{prompt_file}` in `program`, else the last).
    #[serde(default)]
    prompt: PromptBy,
    /// What it prints on standard output.
    #[serde(default)]
    output: OutputKind,
    /// What the JSON lines that it prints mean, instead of `output`.
    #[serde(default)]
    #[schemars(with = "StreamKeys")]
    stream: Option<StreamKeys>,
}

/// The adapter's configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The program and its arguments.
    pub(crate) program: Vec<String>,
    pub(crate) prompt: PromptBy,
    pub(crate) output: Output,
}

/// How standard output is read.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    BuiltIn(OutputKind),
    Configured(Rules),
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
        let Keys { program, prompt, output, stream } = parse_config(table)?;
        check_program(&program)?;
        let output = match stream {
            None => Output::BuiltIn(output),
            Some(_) if output != OutputKind::Text => {
                let message = "either `output` or the table `stream` says what the program prints";
                return Err(BuildError::at("output", message));
            }
            Some(keys) => Output::Configured(Rules::new(keys)?),
        };
        Ok(Self { program, prompt, output })
    }
}

fn check_program(program: &[String]) -> Result<(), BuildError> {
    let example = r#"such as ["my-agent", "--flag"]"#;
    match program.first() {
        None => {
            let message = format!("expected a program and its arguments, {example}");
            Err(BuildError::at("program", message))
        }
        Some(name) if name.trim().is_empty() => {
            let message = format!("expected the name or path of a program, {example}");
            Err(BuildError::at_element(&["program"], 0, message))
        }
        Some(_) => match program.iter().position(|part| part.contains('\0')) {
            Some(at) => {
                let message = "a program or argument cannot contain a NUL character";
                Err(BuildError::at_element(&["program"], at, message))
            }
            None => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_are_stdin_and_text() {
        let config = Config::parse(json!({"program": ["a", "b"]})).unwrap();
        assert_eq!(config.prompt, PromptBy::Stdin);
        assert!(matches!(config.output, Output::BuiltIn(OutputKind::Text)));
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
        let stream = json!({"rule": [{"text": "$.text"}]});
        assert_eq!(
            key(json!({"program": ["a"], "output": "codex-json", "stream": stream})),
            "output"
        );
        let stream = json!({"rule": [{"text": "$.text"}, {"text": "$text"}]});
        assert_eq!(key(json!({"program": ["a"], "stream": stream})), "stream.rule.1.text");
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
            assert!(matches!(config.output, Output::BuiltIn(found) if found == kind));
        }
    }
}
