//! What only a shell understands: the validator runs programs.

use ralph_orchestrator_shell_text::is_assignment;
use ralph_orchestrator_text::escape_line;
use serde_json::Value;

use crate::config::Config;

/// Commands that act on the shell which runs them, so that a program of that name has no effect, and words of
/// its language.
const COMMANDS: [&str; 20] = [
    "!", ".", "[[", "alias", "case", "cd", "eval", "exec", "export", "for", "if", "popd", "pushd",
    "set", "shift", "source", "ulimit", "unset", "until", "while",
];
/// Words that stand between two commands, or lead output elsewhere. Single ones, such as `;` and `>`, are
/// arguments of programs like `find` and `expr`.
const OPERATORS: [&str; 5] = ["&&", "||", "2>&1", ">>", "|&"];

/// Whether a word begins a line that only a shell can run: one of its own commands, or `NAME=value`.
#[must_use]
pub fn is_shell_command(word: &str) -> bool {
    COMMANDS.contains(&word) || is_assignment(word)
}

/// What is wrong with a command that is written for a shell: the index of the word, what to write, and
/// whether it cannot work at all.
pub(crate) fn find_problem(config: &Config) -> Option<(usize, String, bool)> {
    let program = &config.program;
    let first = program.first()?;
    let is_command = is_shell_command(first);
    let operator = program.iter().position(|word| OPERATORS.contains(&word.as_str()));
    let index = if is_command { 0 } else { operator? };
    let word = program.get(index)?;
    let what =
        if is_command { "is a command of the shell, not a program" } else { "means nothing here" };
    let line = Value::from(program.join(" "));
    let message = format!(
        "`{}` {what}, and no shell is used; write program = [\"sh\", \"-c\", {}]",
        escape_line(word),
        escape_line(&line.to_string())
    );
    Some((index, message, is_command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(program: &Value) -> Option<(usize, String, bool)> {
        find_problem(&Config::parse(json!({ "program": program })).unwrap())
    }

    #[test]
    fn says_how_to_use_a_shell() {
        let (index, message, fatal) = problem(&json!(["cd", "a b", "&&", "make"])).unwrap();
        assert_eq!((index, fatal), (0, true));
        assert!(
            message.ends_with(r#"write program = ["sh", "-c", "cd a b && make"]"#),
            "{message}"
        );
        let (index, message, fatal) = problem(&json!(["make", "||", "true"])).unwrap();
        assert_eq!((index, fatal), (1, false));
        assert!(message.starts_with("`||` means nothing here"), "{message}");
        assert!(problem(&json!(["CI=1", "make"])).is_some_and(|(_, _, fatal)| fatal));
    }

    #[test]
    fn programs_and_their_arguments_are_no_problem() {
        for program in [
            json!(["sh", "-c", "cd a && make"]),
            json!(["find", ".", "-exec", "x", "{}", ";"]),
            json!(["expr", "2", ">", "1"]),
            json!(["./a=b"]),
            json!(["make", "A=1"]),
        ] {
            assert_eq!(problem(&program), None);
        }
    }
}
