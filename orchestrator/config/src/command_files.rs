//! Which files a command names, as far as that can be seen without running it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file, real_path};
use ralph_orchestrator_shell_text::read_shell;

/// As much of what lies in folders is looked at.
const MOST_FILES: usize = 2000;
/// A larger script is not read, in bytes.
const LARGEST_SCRIPT: usize = 256 * 1024;
/// How deep texts of a shell are followed into each other.
const DEEPEST: usize = 4;
/// What interpreters start of a folder.
const STARTS: [&str; 3] = ["__main__.py", "index.js", "package.json"];

/// Returns the files that the words of a command name, seen from this folder: those in texts that a shell is given, modules
/// behind `-m`, and of a folder all files. A program of the system is none of them.
pub(crate) fn find_command_files(words: &[String], folder: &Path) -> BTreeSet<PathBuf> {
    let mut finder = Finder { folder: real_path(folder), looked_at: 0, found: BTreeSet::new() };
    finder.add_words(words, folder, 0);
    finder.found
}

struct Finder {
    folder: PathBuf,
    /// What folders had in them, so far.
    looked_at: usize,
    found: BTreeSet<PathBuf>,
}

impl Finder {
    fn add_words(&mut self, words: &[String], base: &Path, depth: usize) {
        let mut before = "";
        for (at, word) in words.iter().enumerate() {
            let is_of_system = at == 0 && (word.starts_with('/') || !word.contains('/'));
            if !is_of_system {
                self.add_path(&base.join(word), depth);
            }
            if let Some((_, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) {
                self.add_path(&base.join(value), depth);
            }
            if before == "-m" {
                self.add_module(word, base, depth);
            }
            if word.contains(|c: char| c.is_whitespace() || "<>;|&".contains(c)) {
                self.add_text(word, base, depth);
            }
            before = word;
        }
    }

    fn add_text(&mut self, text: &str, base: &Path, depth: usize) {
        if depth >= DEEPEST {
            return;
        }
        let mut base = base.to_owned();
        for command in read_shell(text).commands() {
            let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
            match words.as_slice() {
                [word, folder, ..] if word == "cd" => base = base.join(folder),
                words => self.add_words(words, &base, depth + 1),
            }
            for file in &command.reads {
                self.add_path(&base.join(&file.text), depth + 1);
            }
        }
    }

    /// Adds a module of Python, with what is run before it.
    fn add_module(&mut self, name: &str, base: &Path, depth: usize) {
        let mut folder = base.to_owned();
        for part in name.split('.').filter(|part| !part.is_empty()) {
            folder.push(part);
            self.add_path(&folder.join("__init__.py"), depth);
        }
        self.add_path(&folder, depth);
        folder.as_mut_os_string().push(".py");
        self.add_path(&folder, depth);
    }

    fn add_path(&mut self, path: &Path, depth: usize) {
        if path.is_dir() {
            self.add_folder(path);
        } else if path.is_file() && self.found.insert(path.to_owned()) {
            let text = read_file(path, LARGEST_SCRIPT, SymlinkPolicy::Follow).ok();
            let text = text.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
            if is_shell_script(&text) {
                let folder = self.folder.clone();
                self.add_text(&text, &folder, depth);
            }
        }
    }

    /// Adds all files of a folder; of one that the configuration lies in, which holds much else, only what is started.
    fn add_folder(&mut self, folder: &Path) {
        if self.folder.starts_with(real_path(folder)) {
            STARTS.iter().for_each(|name| {
                let file = folder.join(name);
                if file.is_file() {
                    self.found.insert(file);
                }
            });
            return;
        }
        let mut entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for path in entries.iter().map(fs::DirEntry::path) {
            self.looked_at += 1;
            let name = path.file_name().unwrap_or_default();
            let is_kept_by_programs =
                name == "__pycache__" || name.as_encoded_bytes().starts_with(b".");
            // A link may lead to a folder around it.
            let is_followed = !path.is_symlink() || path.is_file();
            if !is_kept_by_programs && is_followed && self.looked_at < MOST_FILES {
                self.add_path(&path, DEEPEST);
            }
        }
    }
}

fn is_shell_script(text: &str) -> bool {
    let first = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
    let mut words = first.split(|c: char| c.is_whitespace() || c == '/');
    words.any(|word| ["sh", "bash", "dash", "ksh", "zsh", "ash"].contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_wherever_a_command_names_them() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        for name in ["p.py", "pd/__main__.py", "pd/sub/x.py", "pk/__init__.py", "pk/m.py", "in d/y"]
        {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        fs::create_dir_all(root.join("pd/__pycache__")).unwrap();
        fs::write(root.join("pd/__pycache__/x.pyc"), "").unwrap();
        fs::write(root.join("start"), "#!/usr/bin/env bash\nexec python3 p.py\n").unwrap();
        for (command, expected) in [
            (&["python3", "p.py"][..], "p.py"),
            (&["sh", "-c", "exec python3 p.py"], "p.py"),
            (&["sh", "-c", "x=1; bash -c 'python3 \"p.py\"'"], "p.py"),
            (&["sh", "-c", "cd pd/sub && python3 x.py"], "pd/sub/x.py"),
            (&["env", "-S", "python3 -u p.py"], "p.py"),
            (&["bash", "-c", "python3 - < p.py"], "p.py"),
            (&["bash", "-c", "python3 -<p.py"], "p.py"),
            (&["node", "--require=./p.py"], "p.py"),
            (&["python3", "pd"], "pd/__main__.py pd/sub/x.py"),
            (&["python3", "-m", "p"], "p.py"),
            (&["python3", "-m", "pk.m"], "pk/__init__.py pk/m.py"),
            (&["sh", "-c", "python3 -m pk.m"], "pk/__init__.py pk/m.py"),
            (&["./start"], "p.py start"),
            (&["start"], ""),
            (&["/bin/sh", "."], ""),
            (&["cat", "in d/y"], "in d/y"),
        ] {
            let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            let found: BTreeSet<PathBuf> = find_command_files(&words, root)
                .iter()
                .map(|file| file.strip_prefix(root).unwrap().components().collect())
                .collect();
            let names: Vec<_> = found.iter().map(|file| file.display().to_string()).collect();
            assert_eq!(names.join(" "), expected, "{command:?}");
        }
    }
}
