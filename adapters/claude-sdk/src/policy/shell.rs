//! Reading shell commands as well as it goes without running them.
//!
//! A shell can hide anything from this: it catches the plain and honest mistakes. What has to hold is
//! the sandbox's and the validators' matter.

use std::path::{Path, PathBuf};

use super::Place;

/// Programs that change what they are told, all of their words being taken for paths.
const CHANGERS: [&str; 15] = [
    "chmod", "chown", "dd", "ed", "mkdir", "mv", "patch", "rm", "rmdir", "shred", "tee", "touch",
    "truncate", "unlink", "unzip",
];
/// Programs whose last word is what they write.
const COPIERS: [&str; 5] = ["cp", "install", "ln", "rsync", "scp"];
/// Programs that change files if a word begins with one of these.
const IN_PLACE: [(&str, &[&str]); 5] = [
    ("sed", &["-i", "--in-place"]),
    ("perl", &["-i", "-pi"]),
    ("git", &["checkout", "restore", "rm", "mv", "clean"]),
    ("find", &["-delete"]),
    ("sort", &["-o"]),
];
/// Words before a command that are not the command.
const BEFORE: [&str; 12] =
    ["!", "command", "do", "else", "env", "exec", "if", "nohup", "sudo", "then", "time", "xargs"];

/// A simple command: its words, and the files that its output goes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Simple {
    pub(super) words: Vec<String>,
    into: Vec<String>,
}

/// The files that a command line is seen to write, as absolute paths.
pub(super) fn targets(line: &str, place: &Place) -> Vec<PathBuf> {
    let mut place = place.clone();
    let mut targets = Vec::new();
    for command in commands(line) {
        targets.extend(command.into.iter().map(|word| place.path(word)));
        let Some((program, words)) = command.words.split_first() else { continue };
        if program == "cd" {
            if let Some(to) = words.first() {
                place.cwd = place.path(to);
            }
            continue;
        }
        targets.extend(written(program, words).iter().map(|word| place.path(value(word))));
    }
    targets
}

/// The words that name what the program writes.
fn written<'a>(program: &str, words: &'a [String]) -> &'a [String] {
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

/// The path in a word such as `of=path` or `--output=path`.
fn value(word: &str) -> &str {
    word.split_once('=').map_or(word, |(_, value)| value)
}

/// The simple commands of a line, in order, without what comes before their names.
pub(super) fn commands(line: &str) -> Vec<Simple> {
    let mut commands = Vec::new();
    let mut now = Simple::default();
    let mut redirected = false;
    for token in tokens(line) {
        match token {
            Token::Word(word) if redirected => now.into.push(word),
            Token::Word(word) => {
                let before =
                    now.words.is_empty() && (BEFORE.contains(&word.as_str()) || assigns(&word));
                if !before {
                    now.words.push(word);
                }
            }
            Token::Into => {
                redirected = true;
                continue;
            }
            Token::End => commands.push(std::mem::take(&mut now)),
        }
        redirected = false;
    }
    commands.push(now);
    commands.retain(|command| *command != Simple::default());
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
    Into,
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
                tokens.push(Token::Into);
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
        let place = Place { cwd: workspace.clone(), workspace, home: Some("/home/me".into()) };
        targets(line, &place).into_iter().map(|path| path.display().to_string()).collect()
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
    fn commands_are_told_apart() {
        let words = |line: &str| -> Vec<String> {
            commands(line).into_iter().map(|command| command.words.join(" ")).collect()
        };
        assert_eq!(words("a b && c; d | e &\nf"), ["a b", "c", "d", "e", "f"]);
        assert_eq!(words("A=1 env B=2 git  push 'a;b'"), ["git push a;b"]);
        assert_eq!(words("echo ${x} {a,b}"), ["echo ${x}", "a,b}"]);
    }
}
