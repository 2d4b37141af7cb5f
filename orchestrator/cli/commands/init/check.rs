//! The command that proves the work done.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::protect::{self, Protected};
use crate::error::CommandError;

/// A command with what it relies on.
pub(super) struct Check {
    program: Vec<String>,
    /// `None` if no command was found.
    known: Option<Protected>,
    /// A file that defines the check and that the agent may need to change.
    open: Option<&'static str>,
}

impl Check {
    /// The command that was asked for, or the one that fits what lies in the folder.
    pub(super) fn find(folder: &Path, asked: Option<&str>) -> Result<Self, CommandError> {
        let program = match asked {
            Some(command) => Some(words(command)?),
            None => guess(folder),
        };
        let Some(program) = program else {
            return Ok(Self { program: Vec::new(), known: None, open: None });
        };
        let known = Some(protect::find(folder, &program));
        let runs = |word: &str| program.iter().any(|part| part == word);
        let defines = |name: &'static str| folder.join(name).is_file().then_some(name);
        let open = if ["npm", "pnpm", "yarn", "bun"].iter().any(|tool| runs(tool)) {
            defines("package.json")
        } else if runs("pytest") {
            defines("pyproject.toml")
        } else {
            None
        };
        Ok(Self { program, known, open })
    }

    /// The keys of the validator.
    pub(super) fn toml(&self) -> Result<String, CommandError> {
        let Some(known) = &self.known else {
            // Exit status 126 means that nothing could be checked: that is no fault of the work.
            let script = "echo 'write your check here: `program` below [[validator]] in ralph.toml' \
                          >&2; exit 126";
            return Ok(format!("program = {}\n", list(&["sh", "-c", script])?));
        };
        let mut toml = format!("program = {}\n", list(&self.program)?);
        if !known.globs.is_empty() {
            toml.push_str(
                "# The agent must not change what checks it. Take out what it is to write.\n",
            );
            toml.push_str(&format!("protect = {}\n", list(&known.globs)?));
        }
        if let Some(file) = self.open {
            toml.push_str(&format!(
                "# {file} has a part in the check too, but the agent may have to change it: protect it \
                 if not.\n"
            ));
        }
        Ok(toml)
    }

    /// What the user has to know of it.
    pub(super) fn lines(&self, file: &Path) -> Vec<String> {
        let Some(known) = &self.known else {
            return vec![format!(
                "  NO test command was found: write your check into `program` below [[validator]]\n  \
                 in {}, or use `init --force --test COMMAND`; nothing can be proved without it",
                file.display()
            )];
        };
        let mut lines = vec![format!("  completion is proved by `{}`", self.program.join(" "))];
        if !known.globs.is_empty() {
            lines.push(format!("  the agent must not change {}", known.globs.join(", ")));
        }
        if known.more > 0 {
            let more = known.more;
            lines.push(format!("  {more} more folders have tests: add them to `protect` yourself"));
        }
        if let Some(open) = self.open {
            lines.push(format!("  {open} has a part in the check and is not protected"));
        }
        lines
    }
}

/// A list of strings, which is the same in TOML as in JSON.
fn list<S: serde::Serialize>(words: &[S]) -> Result<String, CommandError> {
    let words: Result<Vec<String>, _> = words.iter().map(serde_json::to_string).collect();
    Ok(format!("[{}]", words.map_err(CommandError::internal)?.join(", ")))
}

/// A command in words; there is no shell that could read anything else.
fn words(command: &str) -> Result<Vec<String>, CommandError> {
    if command.contains(['"', '\'', '|', '&', ';', '>', '<', '$']) {
        return Err(CommandError::user(format!("`{command}` needs a shell"))
            .hinted("put it into a script and name the script"));
    }
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(CommandError::user("the test command is empty"));
    }
    Ok(words)
}

/// The test command that fits what lies in the folder.
fn guess(folder: &Path) -> Option<Vec<String>> {
    let is_there = |name: &str| folder.join(name).is_file();
    let make = ["GNUmakefile", "makefile", "Makefile"].into_iter().find(|name| is_there(name));
    let just = ["justfile", "Justfile", ".justfile"].into_iter().find(|name| is_there(name));
    let target = |name: &str| make.is_some_and(|file| has_target(&folder.join(file), name));
    let recipe = |name: &str| just.is_some_and(|file| has_target(&folder.join(file), name));
    let pytest = ["pyproject.toml", "pytest.ini", "conftest.py"];
    let command: &[&str] = if is_there("Cargo.toml") {
        &["cargo", "test"]
    } else if has_npm_test(&folder.join("package.json")) {
        &["npm", "test"]
    } else if is_there("go.mod") {
        &["go", "test", "./..."]
    } else if pytest.into_iter().any(is_there) {
        &["python3", "-m", "pytest"]
    } else if target("test") {
        &["make", "test"]
    } else if target("check") {
        &["make", "check"]
    } else if recipe("test") {
        &["just", "test"]
    } else if is_there("test.sh") {
        let meta = fs::metadata(folder.join("test.sh")).ok()?;
        let is_executable = meta.permissions().mode() & 0o111 != 0;
        if is_executable { &["./test.sh"] } else { &["sh", "./test.sh"] }
    } else {
        return None;
    };
    Some(command.iter().map(|word| (*word).to_owned()).collect())
}

/// Whether a Makefile or justfile has this target.
fn has_target(file: &Path, target: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with([' ', '\t', '#'])).any(|line| {
        let Some((names, rest)) = line.split_once(':') else { return false };
        let mut names = names.split_whitespace().map(|name| name.trim_start_matches('@'));
        !rest.starts_with('=') && names.any(|name| name == target)
    })
}

/// Whether `npm test` does more than to say that there is no test, which is what npm writes at first.
fn has_npm_test(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let test = package.pointer("/scripts/test").and_then(serde_json::Value::as_str);
    test.is_some_and(|test| !test.trim().is_empty() && !test.contains("no test specified"))
}
