//! The programs that shell text calls, as far as that can be read without a shell.

use std::collections::BTreeSet;

use ralph_orchestrator_shell_text::{Word, is_assignment, read_shell};

/// Programs that bring others along, so that what is missing before need not be missing after.
const INSTALLERS: [&str; 12] =
    ["apk", "apt", "apt-get", "brew", "conda", "curl", "gem", "npm", "pip", "pip3", "uv", "wget"];
/// Programs that read shell text.
const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];
/// Programs that start the one that follows them.
const STARTERS: [&str; 7] = ["env", "exec", "nice", "nohup", "sudo", "time", "timeout"];
/// Commands that ask whether there is a program.
const QUESTIONS: [&str; 4] = ["command", "hash", "type", "which"];
/// How deep texts of a shell are followed into each other.
const DEEPEST: usize = 4;

/// What shell text calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CalledPrograms {
    /// Names of programs that are searched in `PATH`, builtins and functions among them.
    pub(crate) names: BTreeSet<String>,
    /// Whether it also calls something that installs programs.
    pub(crate) has_installer: bool,
    /// Names that it does without where they are missing.
    optional: BTreeSet<String>,
}

impl CalledPrograms {
    /// Reads shell text.
    pub(crate) fn from_text(text: &str) -> Self {
        let mut called = Self::default();
        called.add_text(text, 0);
        let Self { names, optional, .. } = &mut called;
        let is_function = |name: &str| {
            [format!("{name}()"), format!("{name} ()")].iter().any(|head| text.contains(head))
        };
        names.retain(|name| !optional.contains(name) && !is_function(name));
        called.has_installer = INSTALLERS.iter().any(|name| called.names.contains(*name));
        called
    }

    fn add_text(&mut self, text: &str, depth: usize) {
        for command in read_shell(text).commands() {
            self.add_words(&command.words, depth);
        }
    }

    fn add_words(&mut self, words: &[Word], depth: usize) {
        let assigned = words.iter().take_while(|word| is_assignment(&word.text)).count();
        let Some((word, rest)) = words.get(assigned..).and_then(<[Word]>::split_first) else {
            return;
        };
        let name = word.text.as_str();
        if !word.is_plain || !is_name(name) {
            return;
        }
        if QUESTIONS.contains(&name) {
            let asked = rest.iter().map(|word| word.text.clone());
            self.optional.extend(asked.filter(|word| is_name(word)));
            return;
        }
        self.names.insert(name.to_owned());
        if depth >= DEEPEST {
            return;
        }
        if let [option, text, ..] = rest
            && is_shell(name)
            && option.text.starts_with('-')
            && option.text.ends_with('c')
        {
            self.add_text(&text.text, depth + 1);
        }
        if STARTERS.contains(&name) {
            let own = rest.iter().take_while(|word| is_of_starter(&word.text)).count();
            self.add_words(rest.get(own..).unwrap_or_default(), depth + 1);
        }
    }
}

/// Whether a program, by name or path, reads shell text.
pub(crate) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program.rsplit('/').next().unwrap_or(program))
}

/// Whether a word is an option, a variable or a time of what starts a program, not yet that program.
fn is_of_starter(word: &str) -> bool {
    word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) || is_assignment(word)
}

/// Whether a word can be the name of a program that is searched.
fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_wherever_shell_text_calls_them() {
        for (text, names) in [
            ("if mytool run && grep -q x y; then echo 1; fi", "echo grep mytool"),
            ("A=1 mytool | tee z; ./own; /usr/bin/x; $TOOL y", "mytool tee"),
            ("exec env -i B=2 mytool", "env exec mytool"),
            ("timeout -k 5 10s mytool", "mytool timeout"),
            ("bash -lc 'cd x && mytool'", "bash cd mytool"),
            ("x=$(mytool --version)", "mytool"),
            ("command -v mytool || exit 1; mytool", "exit"),
            ("mytool() { echo x; }\nmytool", "echo"),
            ("# mytool\necho 'mytool'", "echo"),
        ] {
            let called = CalledPrograms::from_text(text);
            let found: Vec<&str> = called.names.iter().map(String::as_str).collect();
            assert_eq!(
                (found.join(" "), called.has_installer),
                (names.to_owned(), false),
                "{text}"
            );
        }
        assert!(CalledPrograms::from_text("curl -LsSf https://x | sh\nuvx pytest").has_installer);
    }
}
