//! Reads shell commands as far as possible without running them.
//!
//! A shell can hide anything from this: it catches honest mistakes. Guarantees are up to the sandbox and
//! the validators.

use std::path::{Path, PathBuf};

use super::PathContext;

/// Programs that change files; all of their words are taken for paths.
const CHANGERS: [&str; 15] = [
    "chmod", "chown", "dd", "ed", "mkdir", "mv", "patch", "rm", "rmdir", "shred", "tee", "touch",
    "truncate", "unlink", "unzip",
];
/// Programs whose last word is what they write.
const COPIERS: [&str; 5] = ["cp", "install", "ln", "rsync", "scp"];
/// Programs that change files if a word begins with one of these.
const IN_PLACE: [(&str, &[&str]); 5] = [
    ("sed", &["-i", "--in-paths"]),
    ("perl", &["-i", "-pi"]),
    ("git", &["checkout", "restore", "rm", "mv", "clean"]),
    ("find", &["-delete"]),
    ("sort", &["-o"]),
];
/// Words before a command that are not the command.
const PREFIXES: [&str; 12] =
    ["!", "command", "do", "else", "env", "exec", "if", "nohup", "sudo", "then", "time", "xargs"];

/// A simple command: its words, and the files that its output goes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    pub(super) words: Vec<String>,
    redirects: Vec<String>,
}

/// Returns the absolute paths that a command line visibly writes.
pub(super) fn written_paths(line: &str, paths: &PathContext) -> Vec<PathBuf> {
    let mut paths = paths.clone();
    let mut targets = Vec::new();
    for command in commands(line) {
        targets.extend(command.redirects.iter().map(|word| paths.resolve(word)));
        let Some((program, words)) = command.words.split_first() else { continue };
        if program == "cd" {
            if let Some(to) = words.first() {
                paths.cwd = paths.resolve(to);
            }
            continue;
        }
        targets
            .extend(written_words(program, words).iter().map(|word| paths.resolve(path_in(word))));
    }
    targets
}

/// Returns the words that name what the program writes.
fn written_words<'a>(program: &str, words: &'a [String]) -> &'a [String] {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program);
    if CHANGERS.contains(&name) {
        return words;
    }
    if COPIERS.contains(&name) {
        return words.len().checked_sub(1).and_then(|last| words.get(last..)).unwrap_or_default();
    }
    let in_place = IN_PLACE.iter().find(|(program, _)| *program == name);
    let changes = in_place.is_some_and(|(_, marks)| {
        words.iter().any(|word| marks.iter().any(|mark| word.starts_with(mark)))
    });
    if changes { words } else { &[] }
}

/// Returns the path in a word such as `of=path` or `--output=path`.
fn path_in(word: &str) -> &str {
    word.split_once('=').map_or(word, |(_, value)| value)
}

/// Returns the simple commands of a line, in order, without what precedes their names.
pub(super) fn commands(line: &str) -> Vec<SimpleCommand> {
    let mut commands = Vec::new();
    let mut current = SimpleCommand::default();
    let mut redirected = false;
    for token in tokens(line) {
        match token {
            Token::Word(word) if redirected => current.redirects.push(word),
            Token::Word(word) => {
                let before = current.words.is_empty()
                    && (PREFIXES.contains(&word.as_str()) || assigns(&word));
                if !before {
                    current.words.push(word);
                }
            }
            Token::Redirect => {
                redirected = true;
                continue;
            }
            Token::End => commands.push(std::mem::take(&mut current)),
        }
        redirected = false;
    }
    commands.push(current);
    commands.retain(|command| *command != SimpleCommand::default());
    commands
}

fn assigns(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// Output goes to the next word.
    Redirect,
    /// A command ends.
    End,
}

fn tokens(line: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    // `Some` as soon as a word has begun, were it by an empty pair of quotes.
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '>') => {
                // A number before it names the stream, and `>>`, `>|` and `>&` write as well.
                let stream = word.as_ref().is_some_and(|w| w.chars().all(|c| c.is_ascii_digit()));
                let before = word.take().filter(|_| !stream);
                tokens.extend(before.map(Token::Word));
                while letters.next_if(|next| matches!(next, '>' | '|' | '&')).is_some() {}
                tokens.push(Token::Redirect);
            }
            (None, ';' | '|' | '&' | '\n' | '(' | ')' | '`' | '{' | '}') => {
                // In `&>` the first belongs to the second; in a word, braces are letters.
                if matches!(letter, '{' | '}') && word.is_some() {
                    word.get_or_insert_default().push(letter);
                } else {
                    tokens.extend(word.take().map(Token::Word));
                    if !(letter == '&' && letters.peek() == Some(&'>')) {
                        tokens.push(Token::End);
                    }
                }
            }
            (None, _) if letter.is_whitespace() || letter == '<' => {
                tokens.extend(word.take().map(Token::Word));
            }
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    tokens.extend(word.map(Token::Word));
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str) -> Vec<String> {
        let workspace = PathBuf::from("/ws");
        let paths =
            PathContext { cwd: workspace.clone(), workspace, home: Some("/home/me".into()) };
        written_paths(line, &paths).into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn what_is_written() {
        for (line, target) in [
            ("echo x > a", "/ws/a"),
            ("echo x>>a", "/ws/a"),
            ("echo x 2>a", "/ws/a"),
            ("echo x &> 'a b'", "/ws/a b"),
            ("make >|\"a\"", "/ws/a"),
            ("cd sub && rm -rf a", "/ws/sub/a"),
            ("cd /x; cat b | tee -a ~/a", "/home/me/a"),
            ("X=1 sudo /bin/rm a", "/ws/a"),
            ("cp b c a", "/ws/a"),
            ("sed -i s/x/y/ a", "/ws/a"),
            ("dd if=/dev/zero of=a", "/ws/a"),
            ("git checkout -- a", "/ws/a"),
            ("(rm a)", "/ws/a"),
            ("echo $(rm a)", "/ws/a"),
            ("if true; then rm a; fi", "/ws/a"),
            ("find . | xargs rm a\\ b", "/ws/a b"),
        ] {
            assert!(written(line).iter().any(|path| path == target), "{line}: {:?}", written(line));
        }
    }

    #[test]
    fn what_is_only_read() {
        for line in [
            "cat a",
            "cp a b",
            "sed s/x/y/ a",
            "echo 'x > a'",
            "git diff a",
            "grep -r rm a",
            "wc < a",
            "echo \"rm a\"",
            "",
            "'",
            "\\",
            "> ",
            "&&",
            "2>&1",
        ] {
            let written = written(line);
            assert!(!written.iter().any(|path| path == "/ws/a"), "{line}: {written:?}");
        }
    }

    #[test]
    fn commands_are_distinguished() {
        let words = |line: &str| -> Vec<String> {
            commands(line).into_iter().map(|command| command.words.join(" ")).collect()
        };
        assert_eq!(words("a b && c; d | e &\nf"), ["a b", "c", "d", "e", "f"]);
        assert_eq!(words("A=1 env B=2 git  push 'a;b'"), ["git push a;b"]);
        assert_eq!(words("echo ${x} {a,b}"), ["echo ${x}", "a,b}"]);
    }
}
