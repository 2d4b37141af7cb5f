//! What the check relies on, and the agent must not change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use ralph_validator_command::find_script;
use serde_json::Value;

use super::check_commands::{commands, runs_tests, script_runs_tests};

/// Globs in the configuration; the user adds what is beyond.
const MOST_GLOBS: usize = 40;
/// Most folder entries that are read.
const MOST_ENTRIES: usize = 50_000;
/// Folders within folders.
const DEEPEST: usize = 8;

/// Folders of tests, wherever they are.
pub(crate) const FOLDERS: [&str; 5] = ["tests", "test", "spec", "__tests__", "Tests"];
/// Files of tests, wherever they are: globs for names.
const FILES: [&str; 27] = [
    "*_test.go",
    "test_*.py",
    "*_test.py",
    "conftest.py",
    "*_test.rb",
    "*_spec.rb",
    "*.test.js",
    "*.test.jsx",
    "*.test.ts",
    "*.test.tsx",
    "*.test.mjs",
    "*.test.cjs",
    "*.spec.js",
    "*.spec.jsx",
    "*.spec.ts",
    "*.spec.tsx",
    "*.spec.mjs",
    "*.spec.cjs",
    "*_test.dart",
    "tests.py",
    "*_test.js",
    "*_test.ts",
    "*_test.cc",
    "*_test.cpp",
    "*Tests.cs",
    "*Test.php",
    "*Tests.swift",
];
/// Where test runners look, right in the folder, for what is a test and how it is run.
const SETTINGS: [&str; 23] = [
    "pytest.ini",
    "tox.ini",
    "jest.config.js",
    "jest.config.ts",
    "jest.config.mjs",
    "jest.config.cjs",
    "vitest.config.js",
    "vitest.config.ts",
    "vitest.config.mjs",
    "playwright.config.js",
    "playwright.config.ts",
    ".mocharc.js",
    ".mocharc.json",
    ".mocharc.yml",
    ".mocharc.cjs",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".rspec",
    ".pytest.ini",
    "pytest.toml",
    "jest.config.json",
    ".mocharc.yaml",
    "ava.config.js",
];
/// Folders of what others wrote or programs made. What lies in them comes and goes.
pub(crate) const FOREIGN: [&str; 10] = [
    "node_modules",
    "vendor",
    "target",
    "dist",
    "build",
    "out",
    "venv",
    "__pycache__",
    "site-packages",
    "bower_components",
];

/// What to protect.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProtectedGlobs {
    /// Each matches something.
    pub(crate) globs: Vec<String>,
    /// Folders with tests for which there was no room.
    pub(crate) more: usize,
    /// There are no files that are tests by their names.
    pub(crate) lacks_tests: bool,
}

impl ProtectedGlobs {
    /// Adds those of these files that are there.
    pub(crate) fn add(&mut self, folder: &Path, files: &[&str]) {
        let there = files.iter().filter(|name| folder.join(name).is_file());
        for name in there.map(|name| (*name).to_owned()) {
            if !self.globs.contains(&name) {
                self.globs.insert(0, name);
            }
        }
    }

    /// What the user has to know of it.
    pub(crate) fn describe(&self, lines: &mut Vec<String>) {
        if !self.globs.is_empty() {
            lines.push(format!("  the agent must not change {}", self.globs.join(", ")));
        }
        if self.lacks_tests {
            lines.push(
                "  no test files were found: an agent that writes them decides what they prove"
                    .to_owned(),
            );
        }
        if self.more > 0 {
            let more = self.more;
            lines.push(format!("  {more} more folders have tests: add them to `protect` yourself"));
        }
    }
}

/// Tests in Python, as paths.
pub(crate) fn python_tests(folder: &Path) -> Vec<String> {
    let is_test = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name == "conftest.py"
            || name == "tests.py"
            || matches("test_*.py", name)
            || matches("*_test.py", name)
    };
    files(folder).into_iter().filter(|path| is_test(path)).filter_map(text).collect()
}

/// Whether there are tests that the test runners of Node.js and Bun find by themselves.
pub(crate) fn has_script_tests(folder: &Path) -> bool {
    files(folder).iter().any(|path| {
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let in_folder = path.parent().is_some_and(|at| at.iter().any(|part| part == "test"));
        ["js", "mjs", "cjs", "ts"].contains(&end)
            && (in_folder
                || stem == "test"
                || stem.starts_with("test-")
                || [".test", "-test", "_test"].iter().any(|mark| stem.ends_with(mark)))
    })
}

fn text(path: PathBuf) -> Option<String> {
    path.into_os_string().into_string().ok()
}

/// Returns the project's own files, sorted; at most [`MOST_ENTRIES`] entries are read.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::new(), 0)];
    let mut seen = 0;
    while let Some((at, depth)) = open.pop() {
        for entry in folder.join(&at).read_dir().into_iter().flatten().flatten() {
            seen += 1;
            let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
                continue;
            };
            if seen > MOST_ENTRIES || name.starts_with('.') {
                continue;
            }
            if kind.is_file() {
                found.push(at.join(name));
            } else if kind.is_dir() && depth < DEEPEST && !FOREIGN.contains(&name.as_str()) {
                open.push((at.join(name), depth + 1));
            }
        }
    }
    found.sort();
    found
}

/// Finds what the command names, what defines it, and the tests that it most likely runs.
pub(crate) fn find(folder: &Path, program: &[String]) -> ProtectedGlobs {
    let mut globs: Vec<String> = program.iter().filter_map(|word| named(folder, word)).collect();
    let definitions: &[&str] = match program.first().map(String::as_str) {
        Some("make" | "gmake") => &["GNUmakefile", "makefile", "Makefile"],
        Some("just") => &["justfile", "Justfile", ".justfile"],
        _ => &[],
    };
    let files = definitions.iter().chain(&SETTINGS).filter(|name| folder.join(name).is_file());
    globs.extend(files.map(|name| (*name).to_owned()));
    let recipes = recipe_commands(folder, program, definitions);
    let scripts = recipes.iter().filter_map(|command| script_of(folder, command));
    globs.extend(scripts.map(|(_, glob)| glob));
    let mut tests = TestFiles::default();
    tests.walk(folder, Path::new(""), 0);
    let found = tests.globs();
    let lacks_tests = found.is_empty();
    for glob in found {
        if !globs.contains(&glob) {
            globs.push(glob);
        }
    }
    let more = globs.len().saturating_sub(MOST_GLOBS);
    globs.truncate(MOST_GLOBS);
    ProtectedGlobs { globs, more, lacks_tests }
}

/// The commands of the recipes that a command runs: of a Makefile all, of a package its scripts.
fn recipe_commands(folder: &Path, program: &[String], definitions: &[&str]) -> Vec<Vec<String>> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let is_recipe = |line: &&str| line.starts_with(['\t', ' ']);
    let own = |line: &str| line.trim_start().trim_start_matches(['@', '-', '+']).to_owned();
    let lines = definitions
        .iter()
        .flat_map(|name| text(name).lines().filter(is_recipe).map(own).collect::<Vec<String>>());
    let mut lines: Vec<String> = lines.collect();
    let manager = program.first().map(|word| word.rsplit('/').next().unwrap_or(word));
    if matches!(manager, Some("npm" | "pnpm" | "yarn" | "bun")) {
        let package: Value = serde_json::from_str(&text("package.json")).unwrap_or_default();
        let scripts = package.get("scripts").and_then(Value::as_object).into_iter().flatten();
        let named = scripts.filter(|(name, _)| {
            let plain = name.trim_start_matches("pre").trim_start_matches("post");
            plain == "test" || program.iter().any(|word| word == plain)
        });
        lines.extend(named.filter_map(|(_, text)| text.as_str().map(str::to_owned)));
    }
    lines.iter().flat_map(|line| commands(line)).collect()
}

/// The glob for a word of the command that is the path of something in the folder.
pub(crate) fn named(folder: &Path, word: &str) -> Option<String> {
    let path = Path::new(word);
    let parts: Option<Vec<&str>> = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    let plain = escape(&parts.filter(|parts| !parts.is_empty())?.join("/"));
    let meta = folder.join(path).metadata().ok()?;
    if meta.is_dir() {
        // A folder that merely has the name of a command's word, such as `test`, is none of its own.
        return word.contains('/').then(|| format!("{plain}/**"));
    }
    meta.is_file().then_some(plain)
}

/// Test files that were found: for each folder, the globs below it.
#[derive(Default)]
struct TestFiles {
    found: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Folders right in the top folder that hold what others wrote somewhere.
    mixed: BTreeSet<PathBuf>,
    seen: usize,
}

impl TestFiles {
    fn walk(&mut self, top: &Path, at: &Path, depth: usize) {
        let Ok(entries) = top.join(at).read_dir() else { return };
        let mut names: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                Some((entry.file_name().into_string().ok()?, entry.file_type().ok()?))
            })
            .collect();
        names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, kind) in names {
            self.seen += 1;
            if self.seen > MOST_ENTRIES || name.starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                self.enter(top, &at.join(&name), &name, depth);
            } else if kind.is_file()
                && let Some(glob) = FILES.iter().find(|glob| matches(glob, &name))
            {
                self.found.entry(at.to_owned()).or_default().insert((*glob).to_owned());
            }
        }
    }

    fn enter(&mut self, top: &Path, path: &Path, name: &str, depth: usize) {
        if FOREIGN.contains(&name) {
            self.mixed
                .extend(path.components().next().map(|first| PathBuf::from(first.as_os_str())));
        } else if FOLDERS.contains(&name) {
            let is_empty = top.join(path).read_dir().is_ok_and(|mut found| found.next().is_none());
            if !is_empty {
                let parent = path.parent().unwrap_or(Path::new("")).to_owned();
                self.found.entry(parent).or_default().insert(format!("{name}/**"));
            }
        } else if depth < DEEPEST {
            self.walk(top, path, depth + 1);
        }
    }

    /// As few globs as possible, none of which matches what others wrote.
    fn globs(&self) -> Vec<String> {
        let mut globs = BTreeSet::new();
        for (folder, below) in &self.found {
            let first = folder.components().next().map(|first| PathBuf::from(first.as_os_str()));
            let prefix = match first {
                None => String::new(),
                Some(first) if self.mixed.contains(&first) => {
                    format!("{}/", escape(&folder.to_string_lossy()))
                }
                Some(first) => format!("{}/**/", escape(&first.to_string_lossy())),
            };
            globs.extend(below.iter().map(|glob| format!("{prefix}{glob}")));
        }
        globs.into_iter().collect()
    }
}

/// Whether a name matches a glob with at most one star.
fn matches(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((start, end)) => {
            name.len() > start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

/// A path as a glob that matches nothing else.
pub(crate) fn escape(path: &str) -> String {
    path.chars().fold(String::new(), |mut glob, c| {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            glob.push('\\');
        }
        glob.push(c);
        glob
    })
}

/// Returns what a command that runs tests relies on, and the agent must not change: what `init` protects where the program
/// is known or the script speaks of tests, otherwise only the script that it runs.
pub fn protected_by(folder: &Path, command: &str) -> Vec<String> {
    let mut globs = Vec::new();
    for command in commands(command) {
        let script = script_of(folder, &command);
        let is_test = |(word, _): &(String, String)| script_runs_tests(&folder.join(word));
        if runs_tests(&command) || script.as_ref().is_some_and(is_test) {
            globs.extend(find(folder, &command).globs);
        } else {
            globs.extend(script.map(|(_, glob)| glob));
        }
    }
    let mut seen = BTreeSet::new();
    globs.retain(|glob| seen.insert(glob.clone()));
    globs
}

/// Returns the word of a command that is a script in the folder, with its glob. What a program is given as its script is a
/// file; a word alone may be in PATH.
fn script_of(folder: &Path, command: &[String]) -> Option<(String, String)> {
    let script = find_script(command);
    let word = command.get(script.unwrap_or_default())?;
    let is_file = script.is_some_and(|at| at > 0) || word.contains('/');
    let glob = named(folder, word).filter(|glob| is_file && !glob.ends_with("/**"))?;
    Some((word.clone(), glob))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_known_wherever_its_program_lies() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tests")).unwrap();
        std::fs::write(folder.path().join("tests/test_a.py"), "").unwrap();
        let protects = |command| protected_by(folder.path(), command) == ["tests/**"];
        for command in [
            "pytest",
            ".venv/bin/pytest -q",
            "/opt/venv/bin/python -m pytest",
            "uv run pytest",
            "hatch test",
            "cargo nextest run",
            "node_modules/.bin/vitest run",
            "./vendor/bin/phpunit",
            "./gradlew test",
            "bin/rails test",
        ] {
            assert!(protects(command), "{command}");
        }
        for command in [
            "timeout -k 5 60 phpunit",
            "CI=1 php vendor/bin/phpunit",
            "bash -c 'cd . && phpunit'",
            "env A=b bats tests",
            "composer test",
            "composer run-script test",
        ] {
            assert!(protects(command), "{command}");
        }
        for command in ["./run", "python3 make.py", "sh -c true", "composer install"] {
            assert!(!protects(command), "{command}");
        }
    }

    #[test]
    fn scripts_that_recipes_run_are_protected() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("Makefile", "check: all\n\t@./run-tests.sh $(ARGS)\nall:\n\tcc -c a.c\n");
        write("run-tests.sh", "");
        write("tool.js", "");
        write("a.c", "");
        write("package.json", r#"{"scripts": {"test": "node tool.js", "start": "node a.c"}}"#);
        assert_eq!(protected_by(folder.path(), "make check"), ["Makefile", "run-tests.sh"]);
        assert_eq!(protected_by(folder.path(), "npm test"), ["tool.js"]);
    }

    #[test]
    fn a_script_that_speaks_of_tests_protects_them() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("tests")).unwrap();
        write("tests/test_a.py", "");
        write("build.sh", "javac *.java && java org.junit.runner.JUnitCore org.shop.Cart\n");
        write("ci.sh", "#!/bin/sh\nset -e\nbundle exec rspec\n");
        write("check.sh", "test -s new.txt\n");
        for (command, globs) in [
            ("./build.sh", vec!["build.sh", "tests/**"]),
            ("sh ci.sh -v", vec!["ci.sh", "tests/**"]),
            ("./check.sh", vec!["check.sh"]),
        ] {
            assert_eq!(protected_by(folder.path(), command), globs, "{command}");
        }
    }
}
