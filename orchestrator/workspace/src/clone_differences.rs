//! Finds changed work that a clone of a commit has otherwise, though the commit carries it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};

use super::git::{Attributes, Conversion, GitEnvironment, Repository};
use super::tree::PinnedPaths;

/// The most that is read of a file, in bytes.
const FILE_LIMIT: usize = 16 * 1024 * 1024;
/// More changed files than this are not looked at.
const MOST_FILES: usize = 10_000;

/// Changed work that a clone has otherwise. Paths are relative to the workspace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CloneDifferences {
    /// Submodules with changed work: a clone has the commit of them that is recorded.
    pub submodules: BTreeSet<PathBuf>,
    /// Files that git stores otherwise, by the reason.
    pub converted: BTreeMap<Conversion, Vec<PathBuf>>,
}

impl CloneDifferences {
    /// Compares changed paths of a workspace (absolute, without links; what is gone may be among them) with what git would
    /// store of them. `pinned` is what was there when the run began.
    #[must_use]
    pub fn find(
        workspace: &Path,
        changed: &[PathBuf],
        pinned: &PinnedPaths,
        environment: &GitEnvironment,
    ) -> Self {
        let repository = match pinned.repository_top(workspace) {
            Some(top) => Repository::at(&top),
            None => Repository::find(workspace),
        };
        let Some(repository) = repository else { return Self::default() };
        let inside = workspace.strip_prefix(&repository.top).unwrap_or(Path::new("")).to_owned();
        let tracked = repository.tracked().unwrap_or_default();
        let submodules: Vec<&Path> =
            tracked.submodules().map(|path| Path::new(OsStr::from_bytes(path))).collect();
        let mut attributes = Attributes::new(&repository, environment);
        let mut found = Self::default();
        for path in changed.iter().take(MOST_FILES) {
            let whole = inside.join(path);
            if let Some(submodule) = submodules.iter().find(|module| whole.starts_with(module)) {
                let submodule = submodule.strip_prefix(&inside).unwrap_or(submodule);
                found.submodules.insert(submodule.to_owned());
                continue;
            }
            // What is no file is stored as it is.
            let file = workspace.join(path);
            let Ok(bytes) = read_file(&file, FILE_LIMIT, SymlinkPolicy::Refuse) else { continue };
            let is_new = !pinned.contains(path);
            for conversion in attributes.find_conversions(&whole, &bytes, is_new) {
                found.converted.entry(conversion).or_default().push(path.clone());
            }
        }
        found
    }
}
