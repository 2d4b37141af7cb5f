//! Tells what an agent did to the verification, by the files that it left.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::FileFingerprint;

use super::digest::hash_file;
use super::model::{Step, Task, Verification};
use super::problem::TreeError;
use super::reward::{REWARD_JSON, REWARD_TEXT};
use super::stage::StagedEnvironment;
use super::tree::{TreeSink, is_plain_folder, open_plain_file, walk_tree};
use super::verification::host_workdir;
use crate::trial::{CheatFinding, CheatKind};

/// Files of the work directory that have the names of tests, and what was in them before the agent began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestFiles {
    files: BTreeMap<PathBuf, Option<blake3::Hash>>,
}

/// Folders on this machine that the agent found at places of the verification; none for places that it did not find.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeftFiles<'p> {
    /// What was `/logs/verifier`.
    pub verifier_logs: Option<&'p Path>,
    /// What was `/tests`.
    pub tests: Option<&'p Path>,
    /// What was `/solution`.
    pub solution: Option<&'p Path>,
}

impl Task {
    /// Records the files of the work directory that have the names of the step's tests, before the agent begins.
    ///
    /// # Errors
    /// Returns an error if a file is unsafe or cannot be read.
    pub fn record_test_files(
        &self,
        step: &Step,
        staged: &StagedEnvironment,
    ) -> Result<TestFiles, TreeError> {
        let workdir = host_workdir(staged)?;
        let mut files = BTreeMap::new();
        for path in list_tests(step)? {
            let content = hash_if_file(&workdir.join(&path))?;
            files.insert(path, content);
        }
        Ok(TestFiles { files })
    }

    /// Returns what the agent did to the verification, once it has ended and before tests are installed: files with
    /// the names of tests that it made, changed or removed, reward files that it wrote, and what it left where tests
    /// and solution come to.
    ///
    /// # Errors
    /// Returns an error if the system fails. What the agent left cannot cause one.
    pub fn find_cheating(
        &self,
        staged: &StagedEnvironment,
        before: &TestFiles,
        left: &LeftFiles<'_>,
    ) -> Result<Vec<CheatFinding>, TreeError> {
        let mut found = Vec::new();
        let workdir = host_workdir(staged)?;
        for (path, before) in &before.files {
            let after = hash_if_file(&workdir.join(path))?;
            let kind = match (before, after) {
                (before, after) if *before == after => continue,
                (Some(_), None) => CheatKind::DeletedTests,
                _ => CheatKind::EditedTests,
            };
            let path = Path::new(&staged.workdir).join(path).display().to_string();
            found.push(CheatFinding { kind, path });
        }
        if let Some(logs) = left.verifier_logs {
            for name in [REWARD_JSON, REWARD_TEXT] {
                if logs.join(name).symlink_metadata().is_ok() {
                    let path = format!("/logs/verifier/{name}");
                    found.push(CheatFinding { kind: CheatKind::WroteReward, path });
                }
            }
        }
        let places = [
            (left.tests, "/tests", CheatKind::EditedTests),
            (left.solution, "/solution", CheatKind::ReachedForSolution),
        ];
        for (folder, place, kind) in places {
            let Some(folder) = folder else { continue };
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let path = format!("{place}/{}", entry.file_name().to_string_lossy());
                found.push(CheatFinding { kind, path });
            }
        }
        found.sort_by(|a, b| (a.kind, &a.path).cmp(&(b.kind, &b.path)));
        Ok(found)
    }
}

/// Returns the digest of a file; none if there is no regular file.
fn hash_if_file(path: &Path) -> Result<Option<blake3::Hash>, TreeError> {
    match open_plain_file(path) {
        Ok((file, _)) => hash_file(file).map(Some).map_err(|error| TreeError::from_io(path, error)),
        // A link, a pipe, a monster or what nobody may read in its place is not the file that was there.
        Err(
            TreeError::Link { .. } | TreeError::SpecialFile { .. } | TreeError::TooLarge { .. },
        ) => Ok(None),
        Err(TreeError::Io { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the paths of the files that the verifier brings along. Its script is left out: it is not run from the work
/// directory, and agents have scripts of that name.
fn list_tests(step: &Step) -> Result<Vec<PathBuf>, TreeError> {
    let mut paths = Vec::new();
    match &step.verification {
        Verification::Script { folders, files, script, .. } => {
            let beside = files.iter().map(|file| file.target.clone());
            paths.extend(beside.filter(|path| path != script));
            for folder in folders {
                if is_plain_folder(folder)? {
                    let mut list = PathList { paths: Vec::new() };
                    walk_tree(folder, &mut list)?;
                    paths.extend(list.paths.into_iter().filter(|path| path != script));
                }
            }
        }
        Verification::Command { files, .. } => {
            paths.extend(files.iter().map(|file| file.target.clone()));
        }
        Verification::Validators { files } => paths.extend(files.iter().cloned()),
    }
    Ok(paths)
}

struct PathList {
    paths: Vec<PathBuf>,
}

impl TreeSink for PathList {
    fn visit_folder(&mut self, _path: &Path, _mode: u32) -> Result<(), TreeError> {
        Ok(())
    }

    fn visit_file(&mut self, path: &Path, _: File, _: &FileFingerprint) -> Result<(), TreeError> {
        self.paths.push(path.to_owned());
        Ok(())
    }

    fn visit_link(&mut self, path: &Path, _target: &Path) -> Result<(), TreeError> {
        self.paths.push(path.to_owned());
        Ok(())
    }
}
