//! Suggests what to write instead of a value of the wrong shape.

use figment::value::Value;

use crate::inline;

/// Keys that take a program and its arguments.
const PROGRAMS: [&str; 3] = ["program", "command", "setup"];
/// What only a shell understands.
const SHELL: [char; 15] =
    ['|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '\n'];

/// Returns the value as it has to be written, if `message` says that its shape is wrong and the right one
/// can be told.
pub(crate) fn advice(value: Option<&Value>, path: &[String], message: &str) -> Option<String> {
    let key = path.last()?;
    match value? {
        Value::String(_, text) if message.starts_with("expected an array") => {
            let is_program = PROGRAMS.contains(&key.as_str());
            let words = if is_program { command_words(text) } else { vec![text.clone()] };
            Some(format!("write {} = {}", inline::key_part(key), array(&words)))
        }
        Value::Array(_, values) if message.starts_with("expected a string") => {
            let words = values.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
            let (first, rest) = words.split_first()?;
            let written = format!("write {} = {}", inline::key_part(key), inline::string(first));
            if rest.is_empty() || !PROGRAMS.contains(&key.as_str()) {
                return rest.is_empty().then_some(written);
            }
            Some(format!("{written}, and its arguments as args = {}", array(rest)))
        }
        _ => None,
    }
}

/// Returns the words of a command as a shell would see them; where it would do more than split them, the
/// shell and the command.
#[must_use]
pub fn command_words(command: &str) -> Vec<String> {
    if command.contains(SHELL) {
        return vec!["sh".to_owned(), "-c".to_owned(), command.to_owned()];
    }
    command.split_whitespace().map(str::to_owned).collect()
}

fn array<S: AsRef<str>>(words: &[S]) -> String {
    let words = words.iter().map(|word| inline::string(word.as_ref())).collect::<Vec<_>>();
    format!("[{}]", words.join(", "))
}
