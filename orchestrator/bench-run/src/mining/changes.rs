//! What of a commit is its work, and what its tests.

use ralph_orchestrator_git::{EntryKind, RepoPath, TreeChange};

use super::outcome::DropReason;
use super::tested_project::{ChangedFileKind, ProjectTests};

/// The files of a commit, apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommitParts {
    /// Tests that are new or changed.
    pub tests: Vec<RepoPath>,
    /// Tests that are gone.
    pub removed_tests: Vec<String>,
    /// Other files that are new or changed.
    pub work: Vec<RepoPath>,
    /// Other files that are gone.
    pub removed_work: Vec<String>,
}

impl CommitParts {
    /// Returns the paths of the tests that are there, as far as they are text.
    #[must_use]
    pub fn list_test_files(&self) -> Vec<String> {
        let texts = self.tests.iter().filter_map(|path| std::str::from_utf8(path.as_bytes()).ok());
        texts.map(str::to_owned).collect()
    }
}

/// Tells the tests of a commit from its work.
///
/// # Errors
/// Returns why it can be no task: it has only one of them, or something that a task cannot bring.
pub fn sort_changes(
    changes: &[TreeChange],
    project: &dyn ProjectTests,
) -> Result<CommitParts, DropReason> {
    let kinds: Vec<ChangedFileKind> =
        changes.iter().map(|change| project.classify(change.path.as_path())).collect();
    match (kinds.contains(&ChangedFileKind::Test), kinds.contains(&ChangedFileKind::Code)) {
        (true, true) => {}
        (true, false) => return Err(DropReason::TestsOnly),
        (false, true) => return Err(DropReason::NoTests),
        (false, false) => return Err(DropReason::NoCode),
    }
    let is_submodule =
        |change: &TreeChange| [change.before, change.after].contains(&Some(EntryKind::Submodule));
    if let Some(change) = changes.iter().find(|change| is_submodule(change)) {
        return Err(DropReason::Submodule(change.path.to_string()));
    }
    let mut parts = CommitParts::default();
    for (change, kind) in changes.iter().zip(kinds) {
        let (there, gone) = match kind {
            ChangedFileKind::Test => (&mut parts.tests, &mut parts.removed_tests),
            ChangedFileKind::Code | ChangedFileKind::Other => {
                (&mut parts.work, &mut parts.removed_work)
            }
        };
        if change.after.is_some() {
            there.push(change.path.clone());
        } else {
            // A script of ours has to name it.
            let path = std::str::from_utf8(change.path.as_bytes())
                .map_err(|_| DropReason::Refused(format!("{}: no UTF-8", change.path)))?;
            gone.push(path.to_owned());
        }
    }
    if parts.tests.is_empty() {
        return Err(DropReason::TestsRemoved);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tested_project::TestCommand;
    use super::*;

    struct ByName;

    impl ProjectTests for ByName {
        fn classify(&self, path: &Path) -> ChangedFileKind {
            let has_end = path.extension().is_some_and(|end| end == "py");
            match (path.starts_with("tests"), has_end) {
                (true, _) => ChangedFileKind::Test,
                (false, true) => ChangedFileKind::Code,
                (false, false) => ChangedFileKind::Other,
            }
        }

        fn is_source(&self, path: &Path) -> bool {
            path.extension().is_some()
        }

        fn find_commands(&self, _: &Path, _: &[String]) -> Vec<TestCommand> {
            Vec::new()
        }

        fn find_setup(&self, _: &Path) -> Option<String> {
            None
        }
    }

    fn sort(changes: &[(&[u8], Option<EntryKind>)]) -> Result<CommitParts, DropReason> {
        let changes: Vec<TreeChange> = changes
            .iter()
            .map(|(path, after)| TreeChange {
                path: RepoPath::from_bytes(*path),
                before: Some(EntryKind::File),
                after: *after,
            })
            .collect();
        sort_changes(&changes, &ByName)
    }

    #[test]
    fn a_commit_needs_tests_that_are_there_and_code() {
        let file = Some(EntryKind::File);
        for (changes, expected) in [
            (vec![(&b"README"[..], file)], DropReason::NoCode),
            (vec![(b"a.py", file), (b"README", file)], DropReason::NoTests),
            (vec![(b"tests/a", file), (b"README", file)], DropReason::TestsOnly),
            (vec![(b"tests/a", None), (b"a.py", file)], DropReason::TestsRemoved),
            (
                vec![(b"tests/a", file), (b"a.py", file), (b"lib", Some(EntryKind::Submodule))],
                DropReason::Submodule("lib".to_owned()),
            ),
            (
                vec![(b"tests/a", file), (b"\xff.py", None), (b"a.py", file)],
                DropReason::Refused("\\xff.py: no UTF-8".to_owned()),
            ),
        ] {
            assert_eq!(sort(&changes), Err(expected));
        }
        let parts = sort(&[
            (b"tests/a", file),
            (b"tests/\xff", file),
            (b"tests/old", None),
            (b"a.py", file),
            (b"b.py", None),
            (b"README", file),
        ])
        .unwrap();
        assert_eq!((parts.tests.len(), parts.list_test_files()), (2, vec!["tests/a".to_owned()]));
        assert_eq!((parts.work.len(), parts.removed_work), (2, vec!["b.py".to_owned()]));
        assert_eq!(parts.removed_tests, ["tests/old"]);
    }
}
