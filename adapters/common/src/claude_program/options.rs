//! Options of `claude` in every mode, and the arguments they stand for.

use std::ffi::OsString;

use ralph_orchestrator_contract::{BuildError, Usd};

use crate::system_prompt::validate_system_prompt;

const PERMISSION_MODES: [&str; 6] =
    ["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan"];
/// The mode in which nothing waits for a person to agree.
const BYPASS: &str = "bypassPermissions";

/// What precedes the rest of the budget.
pub(crate) const BUDGET: &str = "--max-budget-usd";

/// What precedes the text that follows Claude Code's own system prompt.
const APPEND_SYSTEM_PROMPT: &str = "--append-system-prompt";
/// Arguments that give a system prompt.
const SYSTEM_PROMPTS: [&str; 4] = [
    APPEND_SYSTEM_PROMPT,
    "--append-system-prompt-file",
    "--system-prompt",
    "--system-prompt-file",
];

/// Arguments that belong to every adapter, and what to use instead.
const RESERVED: [(&str, &str); 13] = [
    ("--verbose", "it is always given"),
    ("--output-format", "the adapter reads stream-json"),
    ("--model", "use the key `model`"),
    ("--permission-mode", "use the key `permission_mode`"),
    ("--dangerously-skip-permissions", "use `permission_mode = \"bypassPermissions\"`"),
    ("--max-turns", "use the key `max_turns`"),
    ("--max-budget-usd", "use `limits.max_cost_usd`"),
    ("-c", "each iteration is a fresh session"),
    ("--continue", "each iteration is a fresh session"),
    ("-r", "each iteration is a fresh session"),
    ("--resume", "each iteration is a fresh session"),
    ("--from-pr", "each iteration is a fresh session"),
    ("--session-id", "each iteration is a fresh session"),
];

/// Options of `claude`, whichever adapter runs it.
#[derive(Clone, Debug)]
pub struct ClaudeOptions {
    /// A name looked for in `PATH`, or a path.
    pub program: String,
    /// The model; Claude Code's own choice by default.
    pub model: Option<String>,
    /// The permission mode; `bypassPermissions` by default.
    pub permission_mode: Option<String>,
    /// Rules of what needs no approval.
    pub allowed: Vec<String>,
    /// Rules of what is always refused.
    pub disallowed: Vec<String>,
    /// What follows Claude Code's own system prompt.
    pub system_prompt: Option<String>,
    /// The most turns.
    pub max_turns: Option<u32>,
    /// Further arguments.
    pub args: Vec<String>,
}

impl ClaudeOptions {
    /// The program if none is named.
    pub const PROGRAM: &'static str = "claude";

    /// Checks everything but the rules; `reserved` are arguments that belong to this adapter, beside
    /// those that belong to every one, and what to use instead.
    ///
    /// # Errors
    /// The first mistake, with its key.
    pub fn validate(&self, reserved: &[(&str, &str)]) -> Result<(), BuildError> {
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
        let gives = |arg: &str| SYSTEM_PROMPTS.contains(&arg.split('=').next().unwrap_or_default());
        validate_system_prompt(
            self.system_prompt.as_deref(),
            &self.args,
            "the system prompt is",
            gives,
        )?;
        for (index, arg) in self.args.iter().enumerate() {
            let name = arg.split('=').next().unwrap_or_default();
            let known = RESERVED.iter().chain(reserved).find(|(reserved, _)| *reserved == name);
            if let Some((name, instead)) = known {
                let message = format!("`{name}` cannot be given here: {instead}");
                return Err(BuildError::at_element(&["args"], index, message));
            }
        }
        Ok(())
    }

    fn mode(&self) -> &str {
        self.permission_mode.as_deref().unwrap_or(BYPASS)
    }

    /// Returns whether nothing waits for a person to agree.
    #[must_use]
    pub fn bypasses_permissions(&self) -> bool {
        self.mode() == BYPASS
    }

    /// Returns the arguments of an iteration with this budget, after `first`.
    #[must_use]
    pub fn argv(&self, first: &[&str], budget: Option<Usd>) -> Vec<OsString> {
        let mut argv: Vec<OsString> = first.iter().map(OsString::from).collect();
        let mut option = |name: &str, value: &str| {
            argv.push(name.into());
            argv.push(value.into());
        };
        if let Some(model) = &self.model {
            option("--model", model);
        }
        option("--permission-mode", self.mode());
        if !self.allowed.is_empty() {
            option("--allowedTools", &self.allowed.join(","));
        }
        if !self.disallowed.is_empty() {
            option("--disallowedTools", &self.disallowed.join(","));
        }
        if let Some(text) = &self.system_prompt {
            option(APPEND_SYSTEM_PROMPT, text);
        }
        if let Some(max_turns) = self.max_turns {
            option("--max-turns", &max_turns.to_string());
        }
        if let Some(budget) = budget {
            option(BUDGET, &dollars(budget));
        }
        argv.extend(self.args.iter().map(OsString::from));
        argv
    }
}

/// Refuses an empty rule in the list at `key`.
///
/// # Errors
/// Its place.
pub fn no_empty<'a>(
    key: &[&str],
    rules: impl IntoIterator<Item = &'a str>,
) -> Result<(), BuildError> {
    match rules.into_iter().position(|rule| rule.trim().is_empty()) {
        Some(index) => {
            let message = "empty; expected a tool, such as \"Bash(git *)\"";
            Err(BuildError::at_element(key, index, message))
        }
        None => Ok(()),
    }
}

/// Returns an exact amount with at least two decimals: rounding could make nothing of what is left.
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

    #[test]
    fn amounts_are_exact() {
        let shown = |d: f64| dollars(Usd::from_dollars(d).unwrap());
        assert_eq!(shown(50.0), "50.00");
        assert_eq!(shown(0.5), "0.50");
        assert_eq!(shown(12.345_678_9), "12.3456789");
        assert_eq!(dollars(Usd::from_nanos(1)), "0.000000001");
    }
}
