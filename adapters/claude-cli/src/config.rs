//! `[agent.config]`, and the arguments it stands for.

use std::ffi::OsString;

use orchestrator::contract::{BuildError, Usd, parse_config};
use serde::Deserialize;
use serde_json::Value;

const PERMISSION_MODES: [&str; 6] =
    ["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan"];
/// The mode in which nothing waits for a person to agree.
const BYPASS: &str = "bypassPermissions";

/// Arguments that belong to the adapter, and what to use instead.
const RESERVED: [(&str, &str); 20] = [
    ("-p", "it is always given"),
    ("--print", "it is always given"),
    ("--verbose", "it is always given"),
    ("--output-format", "the adapter reads stream-json"),
    ("--input-format", "the prompt is given as text"),
    ("--model", "use the key `model`"),
    ("--permission-mode", "use the key `permission_mode`"),
    ("--dangerously-skip-permissions", "use `permission_mode = \"bypassPermissions\"`"),
    ("--allowedTools", "use the key `allowed_tools`"),
    ("--allowed-tools", "use the key `allowed_tools`"),
    ("--disallowedTools", "use the key `disallowed_tools`"),
    ("--disallowed-tools", "use the key `disallowed_tools`"),
    ("--max-turns", "use the key `max_turns`"),
    ("--max-budget-usd", "use `limits.max_cost_usd`"),
    ("-c", "each iteration is a fresh session"),
    ("--continue", "each iteration is a fresh session"),
    ("-r", "each iteration is a fresh session"),
    ("--resume", "each iteration is a fresh session"),
    ("--from-pr", "each iteration is a fresh session"),
    ("--session-id", "each iteration is a fresh session"),
];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(default = "program")]
    pub(crate) program: String,
    pub(crate) model: Option<String>,
    permission_mode: Option<String>,
    #[serde(default)]
    allowed_tools: Vec<String>,
    #[serde(default)]
    disallowed_tools: Vec<String>,
    max_turns: Option<u32>,
    #[serde(default)]
    args: Vec<String>,
}

fn program() -> String {
    "claude".to_owned()
}

impl Config {
    pub(crate) fn parse(table: Value) -> Result<Self, BuildError> {
        let config: Self = parse_config(table)?;
        config.validate()?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), BuildError> {
        if self.program.trim().is_empty() {
            return Err(BuildError::at("program", "empty; expected a program, such as \"claude\""));
        }
        if self.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err(BuildError::at("model", "empty; expected a model, such as \"sonnet\""));
        }
        let mode = self.mode();
        if !PERMISSION_MODES.contains(&mode) {
            let known = PERMISSION_MODES.map(|mode| format!("`{mode}`")).join(", ");
            let message = format!("unknown mode `{mode}`; expected one of {known}");
            return Err(BuildError::at("permission_mode", message));
        }
        if self.max_turns == Some(0) {
            return Err(BuildError::at("max_turns", "0; expected at least 1, or no such key"));
        }
        no_empty("allowed_tools", &self.allowed_tools)?;
        no_empty("disallowed_tools", &self.disallowed_tools)?;
        for (index, arg) in self.args.iter().enumerate() {
            let name = arg.split('=').next().unwrap_or_default();
            let reserved = RESERVED.iter().find(|(reserved, _)| *reserved == name);
            if let Some((name, instead)) = reserved {
                let message = format!("`{name}` cannot be given here: {instead}");
                return Err(element("args", index, message));
            }
        }
        Ok(())
    }

    fn mode(&self) -> &str {
        self.permission_mode.as_deref().unwrap_or(BYPASS)
    }

    pub(crate) fn bypasses_permissions(&self) -> bool {
        self.mode() == BYPASS
    }

    /// The arguments of an iteration that may cost so much.
    pub(crate) fn argv(&self, budget: Option<Usd>) -> Vec<OsString> {
        let mut argv: Vec<OsString> =
            ["-p", "--output-format", "stream-json", "--verbose"].map(OsString::from).into();
        let mut option = |name: &str, value: &str| {
            argv.push(name.into());
            argv.push(value.into());
        };
        if let Some(model) = &self.model {
            option("--model", model);
        }
        option("--permission-mode", self.mode());
        if !self.allowed_tools.is_empty() {
            option("--allowedTools", &self.allowed_tools.join(","));
        }
        if !self.disallowed_tools.is_empty() {
            option("--disallowedTools", &self.disallowed_tools.join(","));
        }
        if let Some(max_turns) = self.max_turns {
            option("--max-turns", &max_turns.to_string());
        }
        if let Some(budget) = budget {
            option("--max-budget-usd", &dollars(budget));
        }
        argv.extend(self.args.iter().map(OsString::from));
        argv
    }
}

fn no_empty(key: &str, tools: &[String]) -> Result<(), BuildError> {
    match tools.iter().position(|tool| tool.trim().is_empty()) {
        Some(index) => {
            Err(element(key, index, "empty; expected a tool, such as \"Bash(git *)\"".to_owned()))
        }
        None => Ok(()),
    }
}

fn element(key: &str, index: usize, message: String) -> BuildError {
    BuildError { key: vec![key.to_owned(), index.to_string()], unknown_key: None, message }
}

/// Exact, with at least two decimals: rounding could make nothing of what is left.
fn dollars(amount: Usd) -> String {
    const NANOS: u64 = 1_000_000_000;
    let (whole, rest) = (amount.nanos() / NANOS, amount.nanos() % NANOS);
    let decimals = format!("{rest:09}");
    let decimals = decimals.trim_end_matches('0');
    format!("{whole}.{decimals:0<2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn argv(table: Value, budget: Option<Usd>) -> Vec<String> {
        let argv = Config::parse(table).unwrap().argv(budget);
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
            "max_turns": 7, "args": ["--fallback-model", "haiku"]});
        let argv = argv(table, Usd::from_dollars(0.55));
        let expected = "-p --output-format stream-json --verbose --model sonnet \
            --permission-mode dontAsk --allowedTools Write,Bash(cat:*) \
            --disallowedTools WebSearch --max-turns 7 --max-budget-usd 0.55 \
            --fallback-model haiku";
        assert_eq!(argv.join(" "), expected);
    }

    #[test]
    fn amounts_are_exact() {
        let shown = |d: f64| dollars(Usd::from_dollars(d).unwrap());
        assert_eq!(shown(50.0), "50.00");
        assert_eq!(shown(0.5), "0.50");
        assert_eq!(shown(12.345_678_9), "12.3456789");
        assert_eq!(dollars(Usd::from_nanos(1)), "0.000000001");
    }

    #[test]
    fn mistakes_are_named_by_their_key() {
        let cases = [
            (json!({"program": " "}), "program"),
            (json!({"program": ["claude"]}), "program"),
            (json!({"model": ""}), "model"),
            (json!({"permission_mode": "yolo"}), "permission_mode"),
            (json!({"max_turns": 0}), "max_turns"),
            (json!({"max_turns": -1}), "max_turns"),
            (json!({"allowed_tools": ["Write", ""]}), "allowed_tools.1"),
            (json!({"disallowed_tools": "Bash"}), "disallowed_tools"),
            (json!({"args": ["--debug", "--resume=x"]}), "args.1"),
            (json!({"args": ["--output-format"]}), "args.0"),
        ];
        for (table, key) in cases {
            let error = Config::parse(table.clone()).unwrap_err();
            assert_eq!(error.key.join("."), key, "{table}: {error}");
        }
        let error = Config::parse(json!({"modle": "sonnet"})).unwrap_err();
        assert_eq!(error.unknown_key.as_deref(), Some("modle"));
        let error = Config::parse(json!({"permission_mode": "yolo"})).unwrap_err();
        assert!(error.message.contains("`acceptEdits`, `auto`"), "{error}");
    }
}
