//! The build and test systems that are recognised, by the files that they leave in a folder.

pub(crate) mod dependencies;
mod lock_files;
mod node;
mod other;
pub(crate) mod patterns;
mod python;
mod tasks;

use std::fs;
use std::path::Path;

/// A test system in a folder.
#[derive(Debug, Default)]
pub(crate) struct TestSystem {
    /// For the validator, if there are several.
    pub(crate) name: &'static str,
    /// The file that it was recognised by.
    pub(crate) because: Option<String>,
    pub(crate) program: Vec<String>,
    /// Each matches a line of its output if at least one test has passed.
    pub(crate) must_match: Vec<&'static str>,
    /// Files that define the check; those that are there get protected.
    pub(crate) definitions: &'static [&'static str],
    /// Files that have a part in the check and that the agent may have to change.
    pub(crate) open: Vec<String>,
    /// What it leaves behind, as lines of a `.gitignore`.
    pub(crate) artefacts: &'static [&'static str],
    /// It is a Makefile, justfile or script, which most likely runs all tests below it.
    pub(crate) is_task: bool,
}

impl TestSystem {
    /// A command that the user named. Some runners say only in a verbose run which tests were skipped.
    pub(crate) fn asked(mut program: Vec<String>) -> Self {
        let words: Vec<&str> = program.iter().map(String::as_str).collect();
        let is_verbose =
            words.iter().any(|word| ["-v", "--verbose", "-q", "--quiet"].contains(word));
        match words.as_slice() {
            _ if is_verbose => {}
            ["go", "test", ..] => program.insert(2, "-v".to_owned()),
            [_, "-m", "unittest", ..] => program.push("-v".to_owned()),
            _ => {}
        }
        let must_match = patterns::of_command(&program);
        Self { name: "tests", program, must_match, ..Self::default() }
    }
}

/// All that fit the folder, and what is to be said of what does not.
pub(crate) fn find(folder: &Path) -> (Vec<TestSystem>, Vec<String>) {
    let project = ProjectDir { folder };
    let mut notes = Vec::new();
    let mut systems = other::find(&project);
    systems.extend(node::find(&project, &mut notes));
    systems.extend(python::find(&project));
    let tasks = tasks::find(&project);
    match tasks {
        Some(task) if systems.is_empty() => systems.push(TestSystem { is_task: true, ..task }),
        Some(task) => notes.push(format!(
            "`{}` exists too and was not added: it most likely runs the same tests",
            task.program.join(" ")
        )),
        None => {}
    }
    (systems, notes)
}

/// The folder that is searched for test systems.
struct ProjectDir<'a> {
    folder: &'a Path,
}

impl ProjectDir<'_> {
    fn has(&self, name: &str) -> bool {
        self.folder.join(name).is_file()
    }

    fn has_folder(&self, name: &str) -> bool {
        self.folder.join(name).is_dir()
    }

    /// The first of these files that is there.
    fn first<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has(name))
    }

    /// A file with this ending directly in the folder.
    fn ending(&self, end: &str) -> Option<String> {
        let entries = self.folder.read_dir().ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.ends_with(end) && self.has(name)).min()
    }

    /// The text of a file; empty if it is not there.
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

fn found(name: &'static str, because: &str, program: &[&str]) -> TestSystem {
    TestSystem {
        name,
        because: Some(because.to_owned()),
        program: words(program),
        ..TestSystem::default()
    }
}
