//! The work's files as an explanation sees them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_checkout::{ChangedFile, Variant, WorkContent, WorkState};
use ralph_orchestrator_explain::{
    ExplainedPart, FileContent, FileEvent, FileRole, PartRegion, PartVerdict, PatchVariant,
    WorkFile,
};
use ralph_orchestrator_safe_fs::escape;
use ralph_orchestrator_test_results::{find_steering_changes, is_steering_file};
use ralph_orchestrator_workspace::ProtectedPaths;

/// Folders of tests.
const TEST_FOLDERS: &[&str] = &["test", "tests", "__tests__", "spec", "specs"];

/// The work in parts that can be left out, and those that cannot.
pub(super) struct Parts {
    pub(super) files: BTreeMap<String, WorkFile>,
    /// What was or is in these files is not known, so that nothing is tried of them.
    pub(super) unknown: Vec<ExplainedPart>,
}

impl Parts {
    /// Takes what changed and is not protected.
    pub(super) fn new(changed: &[ChangedFile], protected: &ProtectedPaths) -> Self {
        let mut parts = Self { files: BTreeMap::new(), unknown: Vec::new() };
        for file in changed.iter().filter(|file| !protected.contains(&file.path)) {
            let states = (known(&file.start), known(&file.now));
            match (file.path.to_str(), states) {
                (Some(path), (Some(base), Some(work))) => {
                    let role = find_role(path, base.as_ref(), work.as_ref());
                    parts.files.insert(path.to_owned(), WorkFile { base, work, role });
                }
                _ => parts.unknown.push(ExplainedPart {
                    path: escape(&file.path),
                    role: FileRole::Work,
                    region: PartRegion::File { event: FileEvent::Replaced },
                    verdict: PartVerdict::NotTried,
                }),
            }
        }
        parts
    }
}

fn known(state: &WorkState) -> Option<Option<FileContent>> {
    match state {
        WorkState::Missing => Some(None),
        WorkState::Known(WorkContent::File { bytes, is_executable }) => {
            let (bytes, is_executable) = (bytes.clone(), *is_executable);
            Some(Some(FileContent::Regular { bytes, is_executable }))
        }
        WorkState::Known(WorkContent::Link { target }) => {
            Some(Some(FileContent::Link { target: target.clone() }))
        }
        WorkState::Unknown => None,
    }
}

/// Returns what a variant says, as the checkout takes it.
pub(super) fn to_checkout(variant: &PatchVariant) -> Variant {
    let content = |content: &FileContent| match content {
        FileContent::Regular { bytes, is_executable } => {
            WorkContent::File { bytes: bytes.clone(), is_executable: *is_executable }
        }
        FileContent::Link { target } => WorkContent::Link { target: target.clone() },
    };
    let files = variant.files.iter();
    files.map(|(path, file)| (PathBuf::from(path), file.as_ref().map(content))).collect()
}

fn find_role(path: &str, base: Option<&FileContent>, work: Option<&FileContent>) -> FileRole {
    let text = |content: Option<&FileContent>| match content {
        Some(FileContent::Regular { bytes, .. }) => Some(bytes.clone()),
        _ => None,
    };
    let steers =
        || !find_steering_changes(path, text(base).as_deref(), text(work).as_deref()).is_empty();
    if is_steering_file(path) && steers() {
        FileRole::SteersChecks
    } else if is_test(path) {
        FileRole::OwnTest
    } else {
        FileRole::Work
    }
}

/// Whether a file is one of tests, by its path.
fn is_test(path: &str) -> bool {
    let path = Path::new(path);
    let is_test_folder = |folder: &Path| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| TEST_FOLDERS.contains(&name))
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let ends = ["_test", "_spec", ".test", ".spec", "Test", "Tests"];
    path.ancestors().skip(1).any(is_test_folder)
        || stem.starts_with("test_")
        || ends.iter().any(|end| stem.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, start: WorkState, now: &str) -> ChangedFile {
        let content = |text: &str| {
            WorkState::Known(WorkContent::File {
                bytes: text.as_bytes().into(),
                is_executable: false,
            })
        };
        ChangedFile { path: path.into(), start, now: content(now) }
    }

    #[test]
    fn files_have_roles_and_what_is_protected_is_no_part() {
        let changed = [
            file("src/tax.py", WorkState::Missing, "x"),
            file("tests/own.py", WorkState::Missing, "x"),
            file("pkg/test_tax.py", WorkState::Missing, "x"),
            file("web/tax.test.js", WorkState::Missing, "x"),
            file("setup.cfg", WorkState::Missing, "[tool:pytest]\naddopts = -k one\n"),
            file("conftest.py", WorkState::Missing, "x"),
            file("kept/test_a.py", WorkState::Missing, "x"),
            file("large.bin", WorkState::Unknown, "x"),
        ];
        let protected = ProtectedPaths::new(&["kept/**".to_owned()]).unwrap();
        let Parts { files, unknown } = Parts::new(&changed, &protected);
        let roles: Vec<_> = files.iter().map(|(path, file)| (path.as_str(), file.role)).collect();
        let expected = [
            ("conftest.py", FileRole::SteersChecks),
            ("pkg/test_tax.py", FileRole::OwnTest),
            ("setup.cfg", FileRole::SteersChecks),
            ("src/tax.py", FileRole::Work),
            ("tests/own.py", FileRole::OwnTest),
            ("web/tax.test.js", FileRole::OwnTest),
        ];
        assert_eq!(roles, expected);
        let unknown: Vec<&str> = unknown.iter().map(|part| part.path.as_str()).collect();
        assert_eq!(unknown, ["large.bin"]);
    }
}
