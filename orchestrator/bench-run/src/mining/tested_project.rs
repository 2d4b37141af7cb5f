//! What a project is tested by, which whoever knows languages and test systems says.

use std::path::Path;

/// What a file of a project is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedFileKind {
    /// A test, or what tests read.
    Test,
    /// Source text.
    Code,
    /// Anything else.
    Other,
}

/// A command that runs tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestCommand {
    /// The test system.
    pub system: String,
    /// The folder in which it is run, relative to the project; empty for the project's own.
    pub folder: String,
    /// Its words.
    pub words: Vec<String>,
    /// Each matches a line of its output if at least one test has passed.
    pub must_match: Vec<String>,
}

/// How projects are tested: what is known of languages and test systems.
pub trait ProjectTests: Sync {
    /// Says what a file is, by its path in the project.
    fn classify(&self, path: &Path) -> ChangedFileKind;

    /// Whether a file is source text, by its name.
    fn is_source(&self, path: &Path) -> bool;

    /// Returns what runs these files of tests in a project; nothing if its test system is not known.
    fn find_commands(&self, project: &Path, files: &[String]) -> Vec<TestCommand>;

    /// Returns what installs the dependencies of a project, as a shell's line; none if nothing does.
    fn find_setup(&self, project: &Path) -> Option<String>;
}
