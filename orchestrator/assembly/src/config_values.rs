//! Values of the configuration that commands set.

use ralph_orchestrator_config::{Flag, command_words};
use ralph_validator_command::is_shell_command;
use toml::{Table, Value};

/// Returns a value that a flag sets.
pub fn flag(name: &str, key: &'static str, value: Value) -> Flag {
    let text = match value {
        // As a basic string on one line, whatever is in it.
        Value::String(text) => {
            serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
        }
        value => value.to_string(),
    };
    Flag { name: name.to_owned(), key, text }
}

/// Returns the validator that runs a command.
pub fn validator(check: &str, protected: &[String]) -> Table {
    let name = check.split_whitespace().collect::<Vec<_>>().join(" ");
    let array = |words: Vec<String>| Value::Array(words.into_iter().map(Value::from).collect());
    Table::from_iter([
        ("kind".to_owned(), "command".into()),
        ("name".to_owned(), name.into()),
        ("program".to_owned(), array(program(check))),
        ("protect".to_owned(), array(protected.to_vec())),
    ])
}

/// The words of a check. A line that only a shell can run is given to one: `source` and `[[` are bash's.
fn program(check: &str) -> Vec<String> {
    let mut words = command_words(check);
    if words.first().is_some_and(|word| is_shell_command(word)) {
        words = vec!["sh".to_owned(), "-c".to_owned(), check.to_owned()];
    }
    let needs_bash = check.split_whitespace().any(|word| word == "source" || word == "[[");
    if let Some(shell) = words.first_mut().filter(|shell| *shell == "sh" && needs_bash) {
        "bash".clone_into(shell);
    }
    words
}
