//! Calls of a shell and of the orchestrator's own tools, whatever the agent calls them.

use serde_json::{Value, json};

use super::{Request, Turn};

/// From a command to a tool's arguments.
type Arguments = fn(&str) -> Value;

/// The tools that run commands, and what they are to be called with.
const SHELLS: [(&str, Arguments); 6] = [
    // Claude Code
    ("Bash", |command| json!({"command": command, "description": "run", "timeout": 600_000})),
    // Codex, in this order: an older one with both means the first
    ("exec_command", |command| json!({"cmd": command, "login": false, "yield_time_ms": 30_000})),
    ("shell_command", |command| json!({"command": command})),
    ("shell", |command| json!({"command": ["bash", "-c", command]})),
    // OpenCode
    ("bash", |command| json!({"command": command, "description": "run", "timeout": 600_000})),
    // Qwen Code and Gemini CLI
    ("run_shell_command", |command| json!({"command": command, "is_background": false})),
];

/// The turn with its shell calls, and those of the orchestrator's tools, made calls of the tools that the
/// request offers for them.
pub(super) fn resolve(mut turn: Turn, request: &Request) -> Result<Turn, String> {
    for block in &mut turn.blocks {
        let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "own_tool" {
            let name = block.get("name").and_then(Value::as_str).unwrap_or_default();
            let offered = request
                .offered_as(name)
                .ok_or_else(|| format!("the script calls `{name}`, but it is not offered"))?;
            let input = block.get("input").cloned().unwrap_or_default();
            *block = json!({"type": "tool_use", "name": offered, "input": input});
            continue;
        }
        if kind != "shell" {
            continue;
        }
        let command = block.get("command").and_then(Value::as_str).unwrap_or_default();
        let (name, input) =
            SHELLS.iter().find(|(name, _)| request.offers(name)).ok_or_else(|| {
                format!("the script runs `{command}`, but no shell is offered for it")
            })?;
        *block = json!({"type": "tool_use", "name": name, "input": input(command)});
    }
    Ok(turn)
}
