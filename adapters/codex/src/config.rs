//! `[agent.config]`, and the arguments it stands for.

use std::ffi::OsString;
use std::path::Path;

use ralph_adapter_common::agent_tools::{SERVER, relay_command};
use ralph_adapter_common::validate_system_prompt;
use ralph_orchestrator_contract::{BuildError, parse_config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Codex's own key for instructions beside its own.
const INSTRUCTIONS: &str = "developer_instructions";

/// How long a validation may take while a tool is called, in seconds.
const TOOL_TIMEOUT: u32 = 24 * 60 * 60;

/// Arguments that belong to the adapter, and what to use instead.
const RESERVED: [(&str, &str); 19] = [
    ("--json", "it is always given"),
    ("--skip-git-repo-check", "it is always given"),
    ("-", "the prompt is given on standard input"),
    ("--", "the prompt is given on standard input"),
    ("-m", "use the key `model`"),
    ("--model", "use the key `model`"),
    ("-s", "use the key `sandbox`"),
    ("--sandbox", "use the key `sandbox`"),
    ("--dangerously-bypass-approvals-and-sandbox", "use `sandbox = \"danger-full-access\"`"),
    ("--approve-for-me", "nobody is there to approve anything"),
    ("-C", "use `run.workspace`"),
    ("--cd", "use `run.workspace`"),
    ("--worktree", "use `run.workspace`"),
    ("-h", "it does no work"),
    ("--help", "it does no work"),
    ("-V", "it does no work"),
    ("--version", "it does no work"),
    ("resume", "each iteration is a fresh thread"),
    ("fork", "each iteration is a fresh thread"),
];

/// `[agent.config]` of the `codex` adapter.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The program: a name looked for in `PATH`, or a path.
    #[serde(default = "program")]
    pub(crate) program: String,
    /// The model; prices are looked up by it. Codex's own choice by default.
    pub(crate) model: Option<String>,
    /// Instructions beside those of Codex itself (its key `developer_instructions`), the same in every
    /// iteration. None by default.
    #[schemars(extend("minLength" = 1))]
    system_prompt: Option<String>,
    /// Codex's own sandbox.
    #[serde(default)]
    sandbox: Sandbox,
    /// Give the agent the orchestrator's tools: to claim completion, ask for a human and leave notes.
    #[serde(default)]
    pub(crate) tools: bool,
    /// Further arguments.
    #[serde(default)]
    pub(crate) args: Vec<String>,
}

/// Codex's own sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Sandbox {
    #[default]
    DangerFullAccess,
    WorkspaceWrite,
    ReadOnly,
}

fn program() -> String {
    "codex".to_owned()
}

impl Config {
    pub(crate) fn parse(table: Value) -> Result<Self, BuildError> {
        let config: Self = parse_config(table)?;
        config.validate()?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), BuildError> {
        if self.program.trim().is_empty() {
            return Err(BuildError::at("program", "empty; expected a program, such as \"codex\""));
        }
        if self.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err(BuildError::at("model", "empty; expected a model, such as \"gpt-5\""));
        }
        let gives = |arg: &str| arg.trim_start_matches("-c").starts_with(INSTRUCTIONS);
        validate_system_prompt(
            self.system_prompt.as_deref(),
            &self.args,
            "the instructions are",
            gives,
        )?;
        for (index, arg) in self.args.iter().enumerate() {
            let name = arg.split('=').next().unwrap_or_default();
            // A word that is an option's value may be any.
            let is_value = index
                .checked_sub(1)
                .and_then(|before| self.args.get(before))
                .is_some_and(|before| before.starts_with('-') && !before.contains('='));
            let reserved = RESERVED.iter().find(|(reserved, _)| *reserved == name);
            let problem = match reserved {
                Some((name, instead)) if name.starts_with('-') || !is_value => {
                    format!("`{name}` cannot be given here: {instead}")
                }
                _ if arg.contains('\0') => "an argument cannot contain a NUL character".to_owned(),
                _ => continue,
            };
            return Err(BuildError::at_element(&["args"], index, problem));
        }
        Ok(())
    }

    /// Returns the arguments of an iteration whose tools are described in this file.
    pub(crate) fn argv(&self, tools_file: &Path) -> Vec<OsString> {
        let mut argv: Vec<OsString> =
            ["exec", "--json", "--skip-git-repo-check"].map(OsString::from).into();
        match self.sandbox {
            Sandbox::DangerFullAccess => {
                argv.push("--dangerously-bypass-approvals-and-sandbox".into());
            }
            Sandbox::WorkspaceWrite => argv.extend(within("workspace-write")),
            Sandbox::ReadOnly => argv.extend(within("read-only")),
        }
        if let Some(model) = &self.model {
            argv.extend(["--model".into(), model.into()]);
        }
        if let Some(text) = &self.system_prompt {
            argv.extend(["-c".into(), format!("{INSTRUCTIONS}={}", toml_text(text)).into()]);
        }
        if self.tools {
            argv.extend(tools(tools_file));
        }
        argv.extend(self.args.iter().map(OsString::from));
        // Not left to whether standard input is a terminal.
        argv.push("-".into());
        argv
    }
}

/// Returns the arguments that declare the orchestrator's tools.
fn tools(file: &Path) -> impl Iterator<Item = OsString> {
    let (program, [command, file]) = relay_command(file);
    let keys = [
        format!("command={}", toml_text(&program.display().to_string())),
        format!("args=[{}, {}]", toml_text(&command), toml_text(&file)),
        // A claim is validated while the tool is called.
        format!("tool_timeout_sec={TOOL_TIMEOUT}"),
        // Otherwise the first turn may begin without them.
        "required=true".to_owned(),
    ];
    keys.into_iter().flat_map(|key| ["-c".into(), format!("mcp_servers.{SERVER}.{key}").into()])
}

/// Returns a text as TOML has it, on one line: as JSON does, but for one more control character.
fn toml_text(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn within(mode: &str) -> [OsString; 4] {
    ["--sandbox", mode, "-c", "approval_policy=\"never\""].map(OsString::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn argv(table: Value) -> String {
        let argv = Config::parse(table).unwrap().argv(Path::new("tools.json"));
        argv.into_iter().map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nothing_configured() {
        let expected = "exec --json --skip-git-repo-check \
                        --dangerously-bypass-approvals-and-sandbox -";
        assert_eq!(argv(json!({})), expected);
    }

    #[test]
    fn everything_configured() {
        let table = json!({"program": "./codex", "model": "gpt-5", "sandbox": "workspace-write",
            "args": ["-c", "sandbox_workspace_write.network_access=true", "-p", "resume"]});
        let expected = "exec --json --skip-git-repo-check --sandbox workspace-write \
                        -c approval_policy=\"never\" --model gpt-5 \
                        -c sandbox_workspace_write.network_access=true -p resume -";
        assert_eq!(argv(table), expected);
        assert!(argv(json!({"sandbox": "read-only"})).contains("--sandbox read-only"));
    }

    #[test]
    fn the_system_prompt_is_one_line_of_toml() {
        let text = "Say \"done\".\n\tC:\\x \u{7f}é";
        let argv =
            Config::parse(json!({"system_prompt": text})).unwrap().argv(Path::new("tools.json"));
        let at = argv.iter().position(|arg| arg == "-c").unwrap();
        let expected = r#"developer_instructions="Say \"done\".\n\tC:\\x \u007fé""#;
        assert_eq!(argv[at + 1].to_str(), Some(expected));
    }

    #[test]
    fn mistakes_are_named_by_their_key() {
        let cases = [
            (json!({"program": " "}), "program"),
            (json!({"program": ["codex"]}), "program"),
            (json!({"model": ""}), "model"),
            (json!({"sandbox": "yolo"}), "sandbox"),
            (json!({"system_prompt": ""}), "system_prompt"),
            (json!({"system_prompt": "a", "args": ["-c", "developer_instructions=b"]}), "args.1"),
            (json!({"args": ["--oss", "--model=x"]}), "args.1"),
            (json!({"args": ["resume"]}), "args.0"),
            (json!({"args": ["--oss", "-"]}), "args.1"),
            (json!({"args": ["a\u{0}"]}), "args.0"),
        ];
        for (table, key) in cases {
            let error = Config::parse(table.clone()).unwrap_err();
            assert_eq!(error.key.join("."), key, "{table}: {error}");
        }
        let error = Config::parse(json!({"modle": "gpt-5"})).unwrap_err();
        assert_eq!(error.unknown_key.as_deref(), Some("modle"));
    }
}
