//! The programs that a command runs: behind wrappers such as `env` and `timeout`, and on the lines of shells.

use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::normalize_lexically;
use ralph_orchestrator_shell_text::{Part, Word, is_assignment, read_shell};

use crate::config::Config;
use crate::shell_option;

/// How deep commands may be nested in each other.
const MAX_DEPTH: usize = 8;

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) words: Vec<String>,
    /// Where it runs, relative to the workspace.
    pub(crate) folder: PathBuf,
    /// Folders that Python searches first, relative to the workspace.
    pub(crate) python_path: Vec<PathBuf>,
}

/// What a command runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Invocations {
    /// In the workspace, as far as they are known.
    pub(crate) known: Vec<Invocation>,
    /// Lines, or parts of lines, that could not be read to their end.
    pub(crate) unread: Vec<String>,
}

impl Invocations {
    /// Returns what the command of a validator runs.
    pub(crate) fn from_config(config: &Config, workspace: &Path) -> Self {
        let words = config.program.iter().map(|text| Word { text: text.clone(), is_plain: true });
        let mut found = Self::default();
        found.add(&words.collect::<Vec<_>>(), &Place::new(workspace, &config.folder()), 0);
        found
    }

    /// Returns what shell text runs in a folder of the workspace.
    pub(crate) fn from_text(text: &str, workspace: &Path, folder: &Path) -> Self {
        let mut found = Self::default();
        found.add_line(text, &Place::new(workspace, folder), 0);
        found
    }

    fn add(&mut self, words: &[Word], place: &Place, depth: usize) {
        let mut place = place.clone();
        let mut words = words;
        while let Some((word, rest)) =
            words.split_first().filter(|(word, _)| is_assignment(&word.text))
        {
            place.assign(word);
            words = rest;
        }
        let Some(first) = words.first() else { return };
        let text = |words: &[Word]| words.iter().map(|word| word.text.clone()).collect::<Vec<_>>();
        let name = first.text.rsplit('/').next().unwrap_or(&first.text);
        if depth >= MAX_DEPTH {
            return self.unread.push(text(words).join(" "));
        }
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
            return match wrapper.unwrap(words, &mut place) {
                Some(Inner::Command(inner)) => self.add(inner, &place, depth + 1),
                Some(Inner::Line(line)) => self.add_line(&line, &place, depth + 1),
                None => self.unread.push(text(words).join(" ")),
            };
        }
        let all = text(words);
        if let Some(line) = shell_option::find(&all).and_then(|index| words.get(index)) {
            return if line.is_plain {
                self.add_line(&line.text, &place, depth + 1);
            } else {
                self.unread.push(line.text.clone());
            };
        }
        let Some(folder) = chosen_folder(name, words, &place.folder) else {
            return self.unread.push(all.join(" "));
        };
        if let Ok(folder) = folder.strip_prefix(&place.workspace) {
            let python_path = place.python_path;
            self.known.push(Invocation { words: all, folder: folder.to_owned(), python_path });
        }
    }

    fn add_line(&mut self, line: &str, place: &Place, depth: usize) {
        let read = read_shell(line);
        // Where the shell and each subshell is; unknown after `cd` to what only a shell knows.
        let mut places = vec![Some(place.clone())];
        let mut is_known = read.is_whole();
        for part in read.known() {
            let here = places.last().cloned().flatten();
            match (part, here) {
                (Part::Open, here) => places.push(here),
                (Part::Close, _) if places.len() > 1 => drop(places.pop()),
                (Part::Command(command), Some(mut here)) => {
                    let moved = self.add_of_shell(&command.words, &mut here, depth);
                    is_known &= moved;
                    if let Some(last) = places.last_mut() {
                        *last = moved.then_some(here);
                    }
                }
                (Part::Close, _) | (Part::Command(_), None) => is_known = false,
            }
        }
        if !is_known {
            self.unread.push(line.to_owned());
        }
    }

    /// Adds a command of a line, or does what it does to the shell; false if what follows runs nobody
    /// knows where.
    fn add_of_shell(&mut self, words: &[Word], place: &mut Place, depth: usize) -> bool {
        let name = words.first().map_or("", |word| word.text.as_str());
        match name {
            "cd" | "pushd" => {
                let target =
                    words.iter().skip(1).find(|word| !matches!(&*word.text, "-P" | "-L" | "--"));
                target.is_some_and(|target| target.text != "-" && place.enter(target))
            }
            // What it does to the shell is not followed.
            "eval" | "popd" => false,
            "export" => {
                let assigned = words.iter().filter(|word| is_assignment(&word.text));
                assigned.for_each(|word| place.assign(word));
                true
            }
            _ if words.iter().all(|word| is_assignment(&word.text)) => {
                words.iter().for_each(|word| place.assign(word));
                true
            }
            // Whatever it is, it leaves the shell where it is.
            _ if name != "[" && words.first().is_some_and(|word| !word.is_plain) => {
                let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
                self.unread.push(text.join(" "));
                true
            }
            _ => {
                self.add(words, place, depth + 1);
                true
            }
        }
    }
}

/// Where a command runs.
#[derive(Clone, Debug)]
struct Place {
    workspace: PathBuf,
    /// May lie outside of the workspace.
    folder: PathBuf,
    /// Relative to the workspace.
    python_path: Vec<PathBuf>,
}

impl Place {
    fn new(workspace: &Path, folder: &Path) -> Self {
        let folder = normalize_lexically(&workspace.join(folder));
        Self { workspace: workspace.to_owned(), folder, python_path: Vec::new() }
    }

    /// Changes to a folder; false if only a shell knows which.
    fn enter(&mut self, folder: &Word) -> bool {
        self.folder = normalize_lexically(&self.folder.join(&folder.text));
        folder.is_plain
    }

    fn assign(&mut self, word: &Word) {
        if let Some(path) = word.text.strip_prefix("PYTHONPATH=") {
            let folders = path.split(':').map(|part| normalize_lexically(&self.folder.join(part)));
            let inside = folders
                .filter_map(|folder| folder.strip_prefix(&self.workspace).map(Path::to_owned).ok());
            self.python_path = inside.collect();
        }
    }
}

/// A program that runs another, given by its arguments.
struct Wrapper {
    names: &'static [&'static str],
    /// Options of one letter that have a value.
    letters: &'static str,
    /// Long options whose value may be the next word.
    long: &'static [&'static str],
    /// Words that stand before the command.
    operands: usize,
}

const fn wrapper(
    names: &'static [&'static str],
    letters: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { names, letters, long, operands }
}

const WRAPPERS: [Wrapper; 8] = [
    wrapper(&["env"], "uCS", &["--unset", "--chdir", "--split-string"], 0),
    wrapper(&["timeout", "gtimeout"], "sk", &["--signal", "--kill-after"], 1),
    wrapper(&["nice"], "n", &["--adjustment"], 0),
    wrapper(&["time"], "fo", &["--format", "--output"], 0),
    wrapper(&["nohup", "setsid", "command", "builtin", "exec", "chronic", "unbuffer"], "a", &[], 0),
    wrapper(&["stdbuf"], "ioe", &["--input", "--output", "--error"], 0),
    wrapper(&["ionice"], "cn", &["--class", "--classdata"], 0),
    wrapper(
        &["xvfb-run"],
        "nsefpw",
        &[
            "--server-num",
            "--server-args",
            "--error-file",
            "--auth-file",
            "--xauth-protocol",
            "--wait",
        ],
        0,
    ),
];

/// What a wrapper runs.
enum Inner<'a> {
    Command(&'a [Word]),
    Line(String),
}

impl Wrapper {
    /// Returns what it runs; `None` if that cannot be known.
    fn unwrap<'a>(&self, words: &'a [Word], place: &mut Place) -> Option<Inner<'a>> {
        let is_env = self.names.contains(&"env");
        let mut rest = words.get(1..)?;
        while let Some((word, more)) = rest.split_first() {
            if !word.text.starts_with('-') {
                break;
            }
            rest = more;
            if word.text == "--" {
                break;
            }
            let Some((option, value)) = self.value(word, &mut rest) else { continue };
            match option {
                'C' if is_env && !place.enter(&value) => return None,
                'S' if is_env => {
                    let more = rest.iter().map(|word| word.text.as_str());
                    let line = std::iter::once(value.text.as_str()).chain(more).collect::<Vec<_>>();
                    return value.is_plain.then(|| Inner::Line(line.join(" ")));
                }
                _ => {}
            }
        }
        Some(Inner::Command(rest.get(self.operands..).unwrap_or_default()))
    }

    /// Returns the letter of an option that has a value, and that, which may be the next word.
    fn value(&self, word: &Word, rest: &mut &[Word]) -> Option<(char, Word)> {
        let attached = |text: &str| Word { text: text.to_owned(), is_plain: word.is_plain };
        let next = || {
            let (value, more) = rest.split_first()?;
            *rest = more;
            Some(value.clone())
        };
        if word.text.starts_with("--") {
            let (name, value) = match word.text.split_once('=') {
                Some((name, value)) => (name, Some(attached(value))),
                None => (word.text.as_str(), None),
            };
            let letter = match *self.long.iter().find(|long| **long == name)? {
                "--chdir" => 'C',
                "--split-string" => 'S',
                _ => '-',
            };
            return Some((letter, value.or_else(next)?));
        }
        let (at, letter) =
            word.text.char_indices().skip(1).find(|(_, c)| self.letters.contains(*c))?;
        let value = word.text.get(at + letter.len_utf8()..).filter(|value| !value.is_empty());
        Some((letter, value.map(attached).or_else(next)?))
    }
}

/// Options by which programs change to a folder.
const FOLDERS: [(&[&str], &[&str]); 7] = [
    (&["make", "gmake"], &["-C", "--directory"]),
    (&["npm", "npx"], &["--prefix", "-C"]),
    (&["pnpm"], &["-C", "--dir"]),
    (&["yarn", "bun"], &["--cwd"]),
    (&["go", "cargo"], &["-C"]),
    (&["uv", "poetry"], &["-C", "--directory"]),
    (&["gradle"], &["-p", "--project-dir"]),
];

/// Returns the folder in which a program works by its own options; `None` if only a shell knows it.
fn chosen_folder(name: &str, words: &[Word], folder: &Path) -> Option<PathBuf> {
    let mut folder = folder.to_owned();
    let known = FOLDERS.iter().find(|(names, _)| names.contains(&name));
    let Some((_, options)) = known else { return Some(folder) };
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let option = options.iter().find(|option| word.text.starts_with(**option));
        let Some(after) = option.and_then(|option| word.text.strip_prefix(option)) else {
            continue;
        };
        let is_long = option.is_some_and(|option| option.starts_with("--"));
        let value = match after.strip_prefix('=') {
            _ if after.is_empty() => words.next().cloned(),
            Some(value) if is_long => {
                Some(Word { text: value.to_owned(), is_plain: word.is_plain })
            }
            _ if is_long => None,
            _ => Some(Word { text: after.to_owned(), is_plain: word.is_plain }),
        };
        if let Some(value) = value {
            if !value.is_plain {
                return None;
            }
            folder = normalize_lexically(&folder.join(value.text));
        }
    }
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// What is run, each with its folder before it, and whether all could be read.
    fn of(program: &Value) -> (Vec<String>, bool) {
        let config = Config::parse(json!({ "program": program })).unwrap();
        let found = Invocations::from_config(&config, Path::new("/w"));
        let text = |one: &Invocation| format!("{}: {}", one.folder.display(), one.words.join(" "));
        (found.known.iter().map(text).collect(), found.unread.is_empty())
    }

    #[test]
    fn finds_the_program_behind_wrappers() {
        for (program, found) in [
            (json!(["timeout", "60", "p", "-v"]), ": p -v"),
            (json!(["timeout", "-s", "KILL", "-k5", "--foreground", "60", "p"]), ": p"),
            (json!(["timeout", "--signal", "KILL", "--kill-after=5", "60", "p"]), ": p"),
            (json!(["env", "-C", "a", "A=1", "p"]), "a: p"),
            (json!(["env", "-iCa", "p"]), "a: p"),
            (json!(["env", "--chdir=a/b", "-u", "X", "p"]), "a/b: p"),
            (json!(["env", "--chdir", "a", "--", "p"]), "a: p"),
            (json!(["env", "-S", "A=1 p -x"]), ": p -x"),
            (json!(["nice", "-n", "5", "time", "-p", "xvfb-run", "-a", "p"]), ": p"),
            (json!(["nohup", "stdbuf", "-oL", "ionice", "-c3", "p"]), ": p"),
            (json!(["make", "-C", "a", "-Cb", "t"]), "a/b: make -C a -Cb t"),
            (json!(["make", "--directory=a"]), "a: make --directory=a"),
            (json!(["npm", "--prefix", "a", "test"]), "a: npm --prefix a test"),
            (json!(["sh", "-c", "exec p"]), ": p"),
        ] {
            assert_eq!(of(&program), (vec![found.to_owned()], true), "{program}");
        }
    }

    #[test]
    fn finds_the_programs_of_a_line_and_where_they_run() {
        for (line, found, is_whole) in [
            ("p -v && true", &[": p -v", ": true"][..], true),
            ("A=1 p | tee out", &[": p", ": tee out"], true),
            ("cd a && p; cd b; q", &["a: p", "a/b: q"], true),
            ("(cd a && p) && q", &["a: p", ": q"], true),
            ("cd a/../.. && p", &[], true),
            ("cd /w/a && p", &["a: p"], true),
            ("cd ../w/a && p", &["a: p"], true),
            ("cd /tmp && p; cd /w && q", &[": q"], true),
            ("cd \"$A\" && p", &[], false),
            ("cd - && p", &[], false),
            ("p; $A q; r", &[": p", ": r"], false),
            ("[ -e a ] && p", &[": [ -e a ]", ": p"], true),
            ("p \"$A\"", &[": p $A"], true),
            ("bash -c 'cd a && p'", &["a: p"], true),
            ("timeout 5 sh -ec 'env -C a p'", &["a: p"], true),
            ("eval 'cd a'; p", &[], false),
            ("p; (", &[": p"], true),
            ("p)", &[": p"], false),
        ] {
            let found: Vec<String> = found.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(of(&json!(["sh", "-c", line])), (found, is_whole), "{line}");
        }
        let mut line = "p".to_owned();
        for _ in 0..MAX_DEPTH {
            line = format!("env {line}");
        }
        assert_eq!(of(&json!(["sh", "-c", line])), (Vec::new(), false));
    }

    #[test]
    fn knows_where_python_searches() {
        for line in ["PYTHONPATH=a:/tmp:../x p", "export PYTHONPATH=a; p", "env PYTHONPATH=a p"] {
            let config = Config::parse(json!({"program": ["sh", "-c", line]})).unwrap();
            let found = Invocations::from_config(&config, Path::new("/w"));
            assert_eq!(found.known[0].python_path, [Path::new("a")], "{line}");
        }
    }
}
