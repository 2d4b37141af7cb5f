//! The commands that the text of a check consists of, without what only starts them.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use ralph_orchestrator_shell_text::{is_assignment, read_shell};
use ralph_validator_command::find_shell_line;

use crate::systems::patterns::{self, file_name};

/// Shells within shells that are read.
const DEEPEST: usize = 4;
/// How much of a script is read, in bytes.
const MOST_SCRIPT: u64 = 256 * 1024;
/// Programs that start another one with the words that follow.
const STARTERS: [&str; 8] = ["env", "time", "nice", "exec", "command", "nohup", "xvfb-run", "sudo"];
/// Interpreters whose first word is what they run.
const INTERPRETERS: [&str; 5] = ["php", "ruby", "node", "perl", "python3"];

/// Returns the commands of a text, each without variables, time limits and shells before it.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    collect(text, 0, &mut found);
    found
}

fn collect(text: &str, depth: usize, found: &mut Vec<Vec<String>>) {
    let read = read_shell(text);
    for command in read.commands() {
        let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
        let words = without_starters(&words);
        match find_shell_line(words).and_then(|at| words.get(at)) {
            Some(inner) if depth < DEEPEST => collect(inner, depth + 1, found),
            _ if words.is_empty() => {}
            _ => found.push(words.to_vec()),
        }
    }
}

fn without_starters(mut words: &[String]) -> &[String] {
    while let [first, rest @ ..] = words {
        if file_name(first) == "timeout" {
            words = after_time_limit(rest);
        } else if is_assignment(first) || STARTERS.contains(&file_name(first)) {
            words = rest;
        } else {
            break;
        }
    }
    words
}

/// Returns what follows the options of `timeout` and its time.
fn after_time_limit(words: &[String]) -> &[String] {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        at += if matches!(word.as_str(), "-k" | "-s") { 2 } else { 1 };
    }
    words.get(at + 1..).unwrap_or_default()
}

/// Whether a command runs tests with a program that is known, itself or by an interpreter.
pub(crate) fn runs_tests(command: &[String]) -> bool {
    let words: Vec<&str> = command.iter().map(|word| file_name(word)).collect();
    let inner = match words.as_slice() {
        [first, rest @ ..] if INTERPRETERS.contains(first) => rest,
        _ => &[],
    };
    is_test_command(&words) || is_test_command(inner)
}

/// The same of words without the folders of programs.
fn is_test_command(words: &[&str]) -> bool {
    let runner = match words {
        ["npx" | "bunx", rest @ ..] | ["pnpm" | "yarn" | "bundle", "exec" | "run", rest @ ..] => {
            rest.iter().find(|word| !word.starts_with('-'))
        }
        ["npm" | "pnpm" | "yarn" | "bun", "test" | "t" | "run", ..]
        | ["make" | "gmake" | "just" | "rake" | "meson", "test" | "check", ..]
        | ["composer", "test" | "run" | "run-script", ..]
        | ["mvn" | "mvnw" | "gradle" | "gradlew" | "sbt" | "tox" | "nox" | "ctest", ..] => {
            return true;
        }
        [program, ..] => Some(program),
        [] => None,
    };
    let known = ["rspec", "rake", "phpunit", "pest", "phpspec", "bats"];
    let is_known = |word: &&str| known.contains(word) || patterns::is_script_runner(word);
    !patterns::of_command(words).is_empty()
        || runner.is_some_and(is_known)
        || words.contains(&"manage.py")
        || matches!(words, ["rails", "test", ..])
}

/// Returns the commands of a script, as far as it is text.
pub(crate) fn script_commands(script: &Path) -> Vec<Vec<String>> {
    let mut text = String::new();
    let read = File::open(script).and_then(|file| file.take(MOST_SCRIPT).read_to_string(&mut text));
    read.map_or(Vec::new(), |_| commands(&text))
}

/// Whether a script speaks of tests: in its commands, but for the `test` of shells.
pub(crate) fn script_runs_tests(script: &Path) -> bool {
    script_commands(script).iter().any(|command| {
        let own = usize::from(command.first().is_some_and(|word| word == "test"));
        let mut words = command.iter().skip(own).map(|word| word.to_lowercase());
        runs_tests(command)
            || words.any(|word| ["test", "junit"].iter().any(|of| word.contains(of)))
    })
}
