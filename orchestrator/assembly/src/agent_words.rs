//! The agent as it is typed after `--`: which adapter drives it, and that adapter's keys.
//!
//! Programs that are known report what they use and cost, so their own adapter drives them, by whatever
//! path they are called. Arguments that the adapter has a key for become that key; those that it always
//! gives are left out; all others are handed on, and the adapter says which of them it cannot take.

use std::path::Path;

use toml::{Table, Value};

/// What an argument of a known program stands for.
#[derive(Clone, Copy)]
enum Meaning {
    /// The adapter gives it anyway.
    Given,
    /// The same, with a value.
    GivenWithValue,
    /// A key, whose value comes next.
    Key(&'static str),
    /// A key, whose value is a list that comes next.
    List(&'static str),
    /// A key with this value.
    Switch(&'static str, &'static str),
}

use Meaning::{Given, GivenWithValue, Key, List, Switch};

/// A program that has an adapter of its own.
struct Program {
    name: &'static str,
    adapter: &'static str,
    /// The arguments that are not simply handed on.
    arguments: &'static [(&'static str, Meaning)],
}

const KNOWN: [Program; 2] = [
    Program {
        name: "claude",
        adapter: "claude-cli",
        arguments: &[
            ("-p", Given),
            ("--print", Given),
            ("--verbose", Given),
            ("--output-format", GivenWithValue),
            ("--model", Key("model")),
            ("--permission-mode", Key("permission_mode")),
            ("--max-turns", Key("max_turns")),
            ("--dangerously-skip-permissions", Switch("permission_mode", "bypassPermissions")),
            ("--allowedTools", List("allowed_tools")),
            ("--allowed-tools", List("allowed_tools")),
            ("--disallowedTools", List("disallowed_tools")),
            ("--disallowed-tools", List("disallowed_tools")),
        ],
    },
    Program {
        name: "codex",
        adapter: "codex",
        arguments: &[
            ("exec", Given),
            ("e", Given),
            ("--json", Given),
            ("--skip-git-repo-check", Given),
            ("-", Given),
            ("-m", Key("model")),
            ("--model", Key("model")),
            ("-s", Key("sandbox")),
            ("--sandbox", Key("sandbox")),
            ("--dangerously-bypass-approvals-and-sandbox", Switch("sandbox", "danger-full-access")),
        ],
    },
];

/// The table `[agent]` for these words, of which there is at least one.
pub fn agent(words: &[String]) -> Table {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    let known = KNOWN.iter().find(|known| name.is_some_and(|name| name == known.name));
    let (adapter, config) = match known {
        Some(known) => (known.adapter, known.config(words)),
        None => ("command", command(words)),
    };
    Table::from_iter([
        ("adapter".to_owned(), Value::from(adapter)),
        ("config".to_owned(), Value::Table(config)),
    ])
}

impl Program {
    fn config(&self, words: &[String]) -> Table {
        let mut config = Table::new();
        let mut words = words.iter().map(String::as_str);
        config.extend(words.next().map(|program| ("program".to_owned(), program.into())));
        let mut args: Vec<Value> = Vec::new();
        while let Some(word) = words.next() {
            let (flag, inline) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
                _ => (word, None),
            };
            let mut value = || inline.or_else(|| words.next());
            let meaning = self.arguments.iter().find(|(name, _)| *name == flag);
            let pair = match meaning.map(|(_, meaning)| *meaning) {
                Some(Given) => continue,
                Some(GivenWithValue) => {
                    value();
                    continue;
                }
                Some(Switch(key, value)) => Some((key, value.into())),
                Some(Key(key)) => value().map(|value| (key, number_or_text(value))),
                Some(List(key)) => value().map(|value| (key, list(value))),
                None => None,
            };
            match pair {
                Some((key, value)) => drop(config.insert(key.to_owned(), value)),
                // Also one that lacks its value: the program says so itself.
                None => args.push(word.into()),
            }
        }
        if !args.is_empty() {
            config.insert("args".to_owned(), Value::Array(args));
        }
        config
    }
}

fn number_or_text(value: &str) -> Value {
    value.parse::<i64>().map_or_else(|_| value.into(), Value::from)
}

/// Rules between commas or spaces; those in parentheses belong to one.
fn list(text: &str) -> Value {
    let mut rules = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match rules.last_mut() {
            Some(rule) if depth > 0 || !matches!(c, ',' | ' ') => rule.push(c),
            _ => rules.push(String::new()),
        }
    }
    Value::Array(rules.into_iter().filter(|rule| !rule.is_empty()).map(Value::from).collect())
}

/// Any program: it gets the prompt on standard input, unless one of its arguments has a place for it.
fn command(words: &[String]) -> Table {
    let has = |place: &str| words.iter().any(|word| word.contains(place));
    let program = words.iter().map(|word| Value::from(word.as_str())).collect();
    let mut config = Table::from_iter([("program".to_owned(), Value::Array(program))]);
    let places = [("{prompt}", "arg"), ("{prompt_file}", "file")];
    if let Some((_, way)) = places.iter().find(|(place, _)| has(place)) {
        config.insert("prompt".to_owned(), (*way).into());
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(words: &str, table: &str) {
        let words: Vec<String> = words.split(' ').map(|word| word.replace('~', " ")).collect();
        assert_eq!(agent(&words), table.parse::<Table>().unwrap());
    }

    #[test]
    fn known_programs_get_their_adapter() {
        becomes("claude -p", "adapter = 'claude-cli'\nconfig = { program = 'claude' }");
        becomes(
            "/opt/bin/claude --print --output-format json --model=opus --max-turns 7 --add-dir /x",
            "adapter = 'claude-cli'\n[config]\nprogram = '/opt/bin/claude'\nmodel = 'opus'\n\
             max_turns = 7\nargs = ['--add-dir', '/x']",
        );
        becomes(
            "claude -p --dangerously-skip-permissions --allowedTools Write,Bash(git~log:*)~Edit",
            "adapter = 'claude-cli'\n[config]\nprogram = 'claude'\n\
             permission_mode = 'bypassPermissions'\n\
             allowed_tools = ['Write', 'Bash(git log:*)', 'Edit']",
        );
        becomes(
            "codex exec --json -m gpt-5 -s workspace-write -c a=b",
            "adapter = 'codex'\n[config]\nprogram = 'codex'\nmodel = 'gpt-5'\n\
             sandbox = 'workspace-write'\nargs = ['-c', 'a=b']",
        );
    }

    #[test]
    fn a_flag_without_its_value_is_handed_on() {
        becomes(
            "claude -p --model",
            "adapter = 'claude-cli'\nconfig = { program = 'claude', args = ['--model'] }",
        );
    }

    #[test]
    fn any_other_program_is_a_command() {
        becomes(
            "./agent.sh -v",
            "adapter = 'command'\nconfig = { program = ['./agent.sh', '-v'] }",
        );
        becomes(
            "aider --message {prompt}",
            "adapter = 'command'\n[config]\nprogram = ['aider', '--message', '{prompt}']\n\
             prompt = 'arg'",
        );
        becomes(
            "tool --file={prompt_file}",
            "adapter = 'command'\n[config]\nprogram = ['tool', '--file={prompt_file}']\n\
             prompt = 'file'",
        );
    }
}
