//! What the check relies on, and the agent must not change.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use ralph_orchestrator_shell_text::quote_command;
use ralph_validator_command::{find_script, makefile_recipes};
use serde_json::Value;

use super::check_commands::{commands, runs_tests, script_commands, script_runs_tests};
use super::packages::{find_settings, split_packages};
use super::systems::patterns::file_name;
use super::test_files::{self, escape};

/// Globs in the configuration; the user adds what is beyond.
const MOST_GLOBS: usize = 40;
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

/// Finds what the command names, what defines it, and the tests that it most likely runs.
pub(crate) fn find(folder: &Path, program: &[String]) -> ProtectedGlobs {
    find_for(folder, program, &[])
}

/// The same of a command that is started where others have entered these folders.
fn find_for(folder: &Path, command: &[String], entered: &[String]) -> ProtectedGlobs {
    let (program, mut packages) = split_packages(command);
    packages.extend_from_slice(entered);
    let program = program.as_slice();
    let mut globs: Vec<String> = program.iter().filter_map(|word| named(folder, word)).collect();
    let definitions = definitions(program);
    let files = definitions.iter().chain(&SETTINGS).filter(|name| folder.join(name).is_file());
    globs.extend(files.map(|name| (*name).to_owned()));
    let recipes = recipe_commands(folder, program, definitions);
    let scripts = recipes.iter().filter_map(|command| script_of(folder, command));
    globs.extend(scripts.map(|(_, glob)| glob));
    globs.extend(find_settings(folder, program, &packages));
    globs.extend(find_notebooks(folder, program).map(str::to_owned));
    let found = test_files::find_globs(folder);
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

/// Returns what notebooks are called where pytest runs them as tests.
fn find_notebooks(folder: &Path, program: &[String]) -> Option<&'static str> {
    let runs = |text: &str| ["--nbmake", "--nbval"].iter().any(|option| text.contains(option));
    let is_set = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        runs(&text)
    };
    let settings =
        ["pytest.ini", ".pytest.ini", "pytest.toml", "pyproject.toml", "setup.cfg", "tox.ini"];
    (program.iter().any(|word| runs(word)) || settings.into_iter().any(is_set))
        .then_some("**/*.ipynb")
}

/// The files in which the recipes of a command are.
fn definitions(program: &[String]) -> &'static [&'static str] {
    match program.first().map(String::as_str) {
        Some("make" | "gmake") => &["GNUmakefile", "makefile", "Makefile"],
        Some("just") => &["justfile", "Justfile", ".justfile"],
        _ => &[],
    }
}

/// Returns the commands that a program and its arguments come to: those of its shell line, of recipes and of scripts.
pub(crate) fn find_commands(folder: &Path, program: &[String]) -> Vec<Vec<String>> {
    let mut found = commands(&quote_command(program));
    for command in found.clone() {
        found.extend(recipe_commands(folder, &command, definitions(&command)));
    }
    for command in found.clone() {
        found.extend(
            script_of(folder, &command)
                .into_iter()
                .flat_map(|(script, _)| script_commands(&folder.join(script))),
        );
    }
    found
}

/// The commands of the recipes that a command runs: of a Makefile or justfile all, of a package its scripts.
fn recipe_commands(folder: &Path, program: &[String], definitions: &[&str]) -> Vec<Vec<String>> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let texts = definitions.iter().map(|name| text(name));
    let mut lines: Vec<String> = match program.first().map(|word| file_name(word)) {
        Some("just") => texts.flat_map(|text| just_recipes(&text)).collect(),
        _ => texts.flat_map(|text| makefile_recipes(&text)).collect(),
    };
    if let Some("npm" | "pnpm" | "yarn" | "bun") = program.first().map(|word| file_name(word)) {
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

fn just_recipes(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with(['\t', ' ']));
    lines.map(|line| line.trim_start().trim_start_matches(['@', '-']).to_owned()).collect()
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

/// Returns what a command that runs tests relies on, and the agent must not change: what `init` protects where the program
/// is known or the script speaks of tests, otherwise only the script that it runs.
pub fn protected_by(folder: &Path, command: &str) -> Vec<String> {
    let (mut globs, mut entered) = (Vec::new(), Vec::new());
    for command in commands(command) {
        if let [cd, inner, ..] = command.as_slice()
            && cd == "cd"
        {
            entered.push(inner.clone());
        }
        let script = script_of(folder, &command);
        let is_test = |(word, _): &(String, String)| script_runs_tests(&folder.join(word));
        if runs_tests(&split_packages(&command).0) || script.as_ref().is_some_and(is_test) {
            globs.extend(find_for(folder, &command, &entered).globs);
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
pub(crate) fn script_of(folder: &Path, command: &[String]) -> Option<(String, String)> {
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
            "bash -euo pipefail -c phpunit",
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
    fn notebooks_that_pytest_runs_are_tests() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("test_a.py", "");
        assert_eq!(protected_by(folder.path(), "pytest"), ["test_*.py"]);
        assert_eq!(protected_by(folder.path(), "pytest --nbmake"), ["**/*.ipynb", "test_*.py"]);
        write("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '--nbval-lax'\n");
        assert_eq!(protected_by(folder.path(), "make test"), ["**/*.ipynb", "test_*.py"]);
    }

    #[test]
    fn scripts_that_recipes_run_are_protected() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "Makefile",
            "check: all\n\t@./run-tests.sh $(ARGS)\nlint: ; sh ./lint.sh\nall:\n\tcc -c a.c\n",
        );
        write("run-tests.sh", "");
        write("lint.sh", "");
        write("tool.js", "");
        write("a.c", "");
        write("package.json", r#"{"scripts": {"test": "node tool.js", "start": "node a.c"}}"#);
        assert_eq!(
            protected_by(folder.path(), "make check"),
            ["Makefile", "run-tests.sh", "lint.sh"]
        );
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
