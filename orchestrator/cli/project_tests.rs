//! What `init` knows of projects, for benchmarks.

use std::path::Path;

use ralph_orchestrator_bench_command::{ChangedFileKind, ProjectTests, TestCommand};
use ralph_orchestrator_init::{
    ProjectFileKind, TouchedTestCommand, classify_file, find_dependency_setup, find_touched_tests,
    is_source_file,
};

/// Finds tests as `init` does.
pub(crate) struct DetectedTests;

impl ProjectTests for DetectedTests {
    fn classify(&self, path: &Path) -> ChangedFileKind {
        match classify_file(path) {
            ProjectFileKind::Test => ChangedFileKind::Test,
            ProjectFileKind::Code => ChangedFileKind::Code,
            ProjectFileKind::Other => ChangedFileKind::Other,
        }
    }

    fn is_source(&self, path: &Path) -> bool {
        is_source_file(path)
    }

    fn find_commands(&self, project: &Path, files: &[String]) -> Vec<TestCommand> {
        let to_command = |found: TouchedTestCommand| TestCommand {
            system: found.system.to_owned(),
            folder: found.folder,
            words: found.words,
            must_match: found.must_match.into_iter().map(str::to_owned).collect(),
        };
        find_touched_tests(project, files).into_iter().map(to_command).collect()
    }

    fn find_setup(&self, project: &Path) -> Option<String> {
        find_dependency_setup(project)
    }
}
