//! The paths that a command goes through, and the files that it runs, behind whatever programs: what its words name,
//! and those of the scripts and recipes that it runs. Words are only compared with what is there, so that one that is
//! no path does no harm.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, normalize_lexically, read_file};

use crate::config::Config;
use crate::files::Reach;
use crate::script;

/// How many words are looked at.
const MAX_WORDS: usize = 1024;
/// How many folders are compared with each word.
const MAX_FOLDERS: usize = 16;
/// How many files a folder beside the workspace may have whose scripts are looked at.
const MAX_BESIDE: usize = 64;
/// The most bytes of a file that may be a script.
const MAX_BYTES: usize = 1024 * 1024;
/// What separates words, and paths within a word.
const SEPARATORS: &str = ";&|()<>{}\"'`=:,$";
/// Ends of the names of scripts that do not say themselves by what they are run.
const SCRIPTS: [&str; 10] = ["sh", "bash", "ksh", "zsh", "py", "rb", "pl", "js", "mjs", "cjs"];

/// The paths of a command: absolute, and as they are written. A `..` behind a link leads elsewhere than without it.
#[derive(Debug, Default)]
pub(crate) struct CommandPaths {
    /// All that may be one.
    pub(crate) passed: BTreeSet<PathBuf>,
    /// Those that are scripts now, or that an interpreter is given.
    pub(crate) scripts: BTreeSet<PathBuf>,
    /// Scripts that an interpreter is given by the command itself, each with the index of its word.
    pub(crate) given: Vec<(usize, PathBuf)>,
}

impl CommandPaths {
    /// Finds the paths of the command of a validator.
    pub(crate) fn new(config: &Config, workspace: &Path) -> Self {
        let cwd = workspace.join(config.folder());
        let reach = Reach::new(config, workspace);
        let mut paths = Self::default();
        paths.add(&cwd, &config.program, workspace);
        paths.given = find_given(&cwd, &config.program);
        for invocation in &reach.known {
            paths.add(&workspace.join(&invocation.folder), &invocation.words, workspace);
        }
        for file in &reach.read {
            paths.add_file(&cwd, file, workspace);
        }
        paths
    }

    /// Adds what the words of a command name from a folder, or from one that they name.
    fn add(&mut self, folder: &Path, words: &[String], workspace: &Path) {
        let parts: Vec<String> =
            words.iter().flat_map(|word| split(word)).take(MAX_WORDS).map(str::to_owned).collect();
        self.passed.insert(folder.to_owned());
        let folders = self.add_words(folder, &parts);
        for named in folders {
            self.add_words(&named, &parts);
            self.add_scripts_beside(&named, workspace);
        }
        self.scripts.extend(find_given(folder, words).into_iter().map(|(_, path)| path));
    }

    /// Adds words in a folder, and returns the folders that they name.
    fn add_words(&mut self, folder: &Path, words: &[String]) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let named = words.iter().map(|word| folder.join(before_pattern(word)));
        let matching = words.iter().flat_map(|word| find_matching(folder, word));
        for path in named.chain(matching) {
            if folders.len() < MAX_FOLDERS && path.is_dir() && !folders.contains(&path) {
                folders.push(path.clone());
            }
            if is_script(&path) {
                self.scripts.insert(path.clone());
            }
            self.passed.insert(path);
        }
        folders
    }

    /// Adds the scripts in a folder outside of the workspace, unless it is one of many files: they may be found there
    /// by `find` and the like.
    fn add_scripts_beside(&mut self, folder: &Path, workspace: &Path) {
        let plain = normalize_lexically(folder);
        if plain.starts_with(workspace) || workspace.starts_with(&plain) {
            return;
        }
        let Ok(entries) = plain.read_dir() else { return };
        let paths: Vec<PathBuf> = entries
            .take(MAX_BESIDE + 1)
            .filter_map(|entry| Some(folder.join(entry.ok()?.file_name())))
            .collect();
        if paths.len() <= MAX_BESIDE {
            self.scripts.extend(paths.into_iter().filter(|path| is_script(path)));
        }
    }

    /// Adds what a file names that the command runs, also from where that lies: `"$(dirname "$0")/x.sh"`.
    fn add_file(&mut self, folder: &Path, file: &Path, workspace: &Path) {
        self.scripts.insert(file.to_owned());
        let Some(text) = read_text(file) else { return };
        let words: Vec<String> = split(&text).take(MAX_WORDS).map(str::to_owned).collect();
        for named in self.add_words(folder, &words) {
            self.add_scripts_beside(&named, workspace);
        }
        let beside = file.parent().unwrap_or(folder);
        let behind = |word: &String| Some(word.split_once('/')?.1.to_owned());
        let words: Vec<String> = words.iter().filter_map(behind).collect();
        self.add_words(beside, &words);
    }
}

/// Returns a word up to the folder in which the shell looks for the names that a pattern in it matches.
fn before_pattern(word: &str) -> &str {
    plain_part(word).map_or(word, |plain| plain.rsplit_once('/').map_or("", |(folder, _)| folder))
}

/// Returns what stands before the first pattern in a word, if it has one.
fn plain_part(word: &str) -> Option<&str> {
    word.find(['*', '?', '[']).and_then(|end| word.get(..end))
}

/// Returns the folders whose names the first pattern in a word may match: all that begin as that does.
fn find_matching(folder: &Path, word: &str) -> Vec<PathBuf> {
    let Some(plain) = plain_part(word) else { return Vec::new() };
    let (above, begin) = plain.rsplit_once('/').unwrap_or(("", plain));
    let above = if above.is_empty() { folder.to_owned() } else { folder.join(above) };
    let Ok(entries) = above.read_dir() else { return Vec::new() };
    let begins = |name: &OsString| name.as_encoded_bytes().starts_with(begin.as_bytes());
    let names = entries.flatten().map(|entry| entry.file_name()).filter(begins);
    names.map(|name| above.join(name)).filter(|path| path.is_dir()).take(MAX_FOLDERS).collect()
}

/// Returns the scripts that interpreters are given, wherever they stand among the words and in a word that is a line.
fn find_given(folder: &Path, words: &[String]) -> Vec<(usize, PathBuf)> {
    let mut found = Vec::new();
    for start in 0..words.len() {
        let command = words.get(start..).unwrap_or_default();
        if let Some((offset, script)) =
            script::find(command).and_then(|index| Some((index, command.get(index)?)))
        {
            found.push((start + offset, folder.join(script)));
        }
        let Some(line) = words.get(start).filter(|word| word.contains(char::is_whitespace)) else {
            continue;
        };
        let parts: Vec<String> = split(line).map(str::to_owned).collect();
        for at in 0..parts.len() {
            let command = parts.get(at..).unwrap_or_default();
            let script = script::find(command).and_then(|index| command.get(index));
            found.extend(script.map(|script| (start, folder.join(script))));
        }
    }
    found
}

/// Returns the words of a text, and the paths in them.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || SEPARATORS.contains(c));
    // The value of a variable that is not set: `${DIR:-app}`.
    let values = words.clone().filter_map(|word| word.strip_prefix(['-', '+']));
    words.chain(values).filter(|word| !word.is_empty())
}

/// Whether there is a file that is run by an interpreter, as its first line or its name tells.
fn is_script(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let named = path.extension().is_some_and(|end| SCRIPTS.iter().any(|script| end == *script));
    named || read_text(path).is_some_and(|text| text.starts_with("#!"))
}

fn read_text(path: &Path) -> Option<String> {
    let path = normalize_lexically(path);
    let bytes = read_file(&path, MAX_BYTES, SymlinkPolicy::Follow).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_scripts_and_paths_behind_any_program() {
        let temp = tempfile::TempDir::new().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let workspace = root.join("ws");
        for (path, text) in [
            ("acc/run.sh", ". ./ci/lib.sh\nsh \"$(dirname \"$0\")/more.sh\"\n"),
            ("acc/more.sh", "true\n"),
            ("acc/check", "#!/usr/bin/tool\n"),
            ("ws/Makefile", "test:\n\tcd app && sh ../ci/check.sh\n"),
            ("ws/ci/check.sh", "sh ../acc/run.sh\n"),
            ("ws/app/main", "x"),
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let run = "ws/../acc/run.sh";
        for (program, script) in [
            (json!(["timeout", "60", "sh", "../acc/run.sh"]), run),
            (json!(["env", "-S", "sh ../acc/run.sh"]), run),
            (json!(["nice", "sh", "../acc/run.sh"]), run),
            (json!(["bash", "-lc", "sh ../acc/run.sh"]), run),
            (json!(["sh", "-c", "exec sh ../acc/run.sh"]), run),
            (json!(["sh", "-c", "echo ../acc/run.sh | xargs sh"]), run),
            (json!(["find", "ci", "-exec", "sh", "../acc/run.sh", ";"]), run),
            (json!(["npx", "--", "bash", "../acc/run.sh"]), run),
            (json!(["uv", "run", "--", "python3", "../acc/run.sh"]), run),
            (json!(["anything", "--with=../acc/check"]), "ws/../acc/check"),
            (json!(["sh", "ci/check.sh"]), run),
            (json!(["sh", "../acc/run.sh"]), "acc/more.sh"),
            (json!(["sh", "-c", "for t in ../acc/*.sh; do sh $t; done"]), run),
            (json!(["find", "../acc", "-name", "*.sh", "-exec", "sh", "{}", ";"]), run),
        ] {
            let config = Config::parse(json!({ "program": program })).unwrap();
            let found = CommandPaths::new(&config, &workspace).scripts;
            assert!(found.contains(&root.join(script)), "{program}: {found:?}");
        }
        for (table, path) in [
            (json!({"program": ["sh", "../ci/check.sh"], "cwd": "app"}), "app/../ci/check.sh"),
            (json!({"program": ["sh", "-c", "cd app && sh ../ci/check.sh"]}), "app/../ci/check.sh"),
            (json!({"program": ["sh", "app/../ci/check.sh"]}), "app/../ci/check.sh"),
            (json!({"program": ["sh", "-c", "cd \"${DIR:-app}\" && sh ../ci/check.sh"]}), "app"),
            (
                json!({"program": ["sh", "-c", "for d in ap*/; do (cd \"$d\" && sh ../ci/check.sh); done"]}),
                "app",
            ),
            (json!({"program": ["make", "test"]}), "app/../ci/check.sh"),
            (json!({"program": ["just", "-d", "app", "../ci/check.sh"]}), "app/../ci/check.sh"),
            (json!({"program": ["tool", "--dir=app", "x"]}), "app"),
            (json!({"program": ["true"], "cwd": "app"}), "app"),
        ] {
            let config = Config::parse(table.clone()).unwrap();
            let found = CommandPaths::new(&config, &workspace).passed;
            assert!(found.contains(&workspace.join(path)), "{table}: {found:?}");
        }
    }
}
