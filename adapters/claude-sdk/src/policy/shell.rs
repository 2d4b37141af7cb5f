//! Reads shell commands as far as possible without running them.
//!
//! A shell can hide anything from this: it catches honest mistakes. Guarantees are up to the sandbox and
//! the validators.

use std::path::{Path, PathBuf};

use ralph_orchestrator_shell_text::{Command, is_assignment, read_shell};

use super::tools::PathContext;

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

/// Returns the absolute paths that a command line visibly writes.
pub(super) fn written_paths(line: &str, paths: &PathContext) -> Vec<PathBuf> {
    let mut paths = paths.clone();
    let mut targets = Vec::new();
    for command in read_shell(line).commands() {
        targets.extend(command.writes.iter().map(|word| paths.resolve(&word.text)));
        let words = without_prefixes(command);
        let Some((program, words)) = words.split_first() else { continue };
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

/// Returns the commands of a line, in order, without what precedes their names.
pub(super) fn commands(line: &str) -> Vec<String> {
    let read = read_shell(line);
    let words = read.commands().map(without_prefixes);
    words.filter(|words| !words.is_empty()).map(|words| words.join(" ")).collect()
}

/// Returns the words of a command from its name on.
fn without_prefixes(command: &Command) -> Vec<String> {
    let words = command.words.iter().map(|word| word.text.clone());
    words.skip_while(|word| PREFIXES.contains(&word.as_str()) || is_assignment(word)).collect()
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
            ("echo \"$(rm a)\"", "/ws/a"),
            ("echo \\\\\nrm a", "/ws/a"),
            ("sh <<E\nrm a\nE", "/ws/a"),
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
            "true # rm a",
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
        assert_eq!(commands("a b && c; d | e &\nf"), ["a b", "c", "d", "e", "f"]);
        assert_eq!(commands("A=1 env B=2 git  push 'a;b'"), ["git push a;b"]);
        assert_eq!(commands("echo ${x} {a,b}"), ["echo ${x} {a,b}"]);
    }
}
