//! The commands that come next.

use std::path::Path;

use ralph_orchestrator_terminal::output;

/// Prints a line as it fits the terminal.
pub(crate) fn say(text: &str) {
    output::result_folded(text, 4);
}

/// Returns the option that names the configuration, if it has to be named.
pub(crate) fn option_of(file: &Path) -> String {
    match file.to_str() {
        Some("ralph.toml") | None => String::new(),
        Some(name) => format!(" -c {name}"),
    }
}

/// Prints commands with what they do.
pub(crate) fn next_commands(option: &str, commands: &[(&str, &str)]) {
    for (command, what) in commands {
        let command = format!("ralph-orchestrator{option} {command}");
        say(&format!("  {command:<28}  # {what}"));
    }
}
