//! Keeps what a task wants kept of its environment, and gives it to a separate verifier.

use std::path::{Component, Path, PathBuf};

use globset::{Glob, GlobSet, GlobSetBuilder};
use ralph_orchestrator_safe_fs::real_path;
use rustix::fs::FileType;

use super::copy::{CopyRules, copy_file, copy_tree, create_folder};
use super::problem::TreeError;
use super::settings::{Artifact, MAIN_SERVICE};
use super::stage::{Mount, StagedEnvironment, find_mount_point, locate};
use super::tree::{Selection, find_plain};

/// The folder whose content is always kept.
const CONVENTION: &str = "/logs/artifacts";

/// Something about an artifact that a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactFinding {
    /// The artifact's path in the environment.
    pub source: String,
    /// What became of it.
    pub message: String,
}

/// Copies the artifacts of a step out of the environment, into a folder that is created if it is missing: each to its
/// destination, else to its own path below the folder. Then copies them into the environment `verifier`, if there is
/// one, each to its own path. What is missing or unsafe is left out and reported.
///
/// # Errors
/// Returns an error if a file of ours cannot be read or written.
pub fn copy_artifacts(
    artifacts: &[Artifact],
    staged: &StagedEnvironment,
    into: &Path,
    mut verifier: Option<&mut StagedEnvironment>,
) -> Result<Vec<ArtifactFinding>, TreeError> {
    let into = real_path(into);
    create_folder(&into)?;
    let convention = Artifact {
        source: CONVENTION.to_owned(),
        destination: None,
        exclude: Vec::new(),
        service: None,
    };
    let is_declared =
        artifacts.iter().any(|artifact| artifact.source.trim_end_matches('/') == CONVENTION);
    let implicit = (!is_declared).then_some(&convention);
    let mut findings = Vec::new();
    for artifact in implicit.into_iter().chain(artifacts) {
        let is_main = artifact.service.as_deref().is_none_or(|service| service == MAIN_SERVICE);
        let mut report = |message: String| {
            findings.push(ArtifactFinding { source: artifact.source.clone(), message });
        };
        let Some(from) = staged.host_path(&artifact.source).filter(|_| is_main) else {
            if artifact.source != CONVENTION {
                report("is outside of the task's folders: nothing was kept".to_owned());
            }
            continue;
        };
        let kept = into.join(kept_path(artifact));
        match copy_one(artifact, &from, &kept, &mut report) {
            Ok(skipped) => {
                for path in skipped {
                    report(format!(
                        "{} was left out: an unsafe link or a special file",
                        path.display()
                    ));
                }
            }
            Err(error) if error.can_be_of_agent() => report(format!("was kept in part: {error}")),
            Err(error) => return Err(error),
        }
        if let Some(verifier) = verifier.as_deref_mut()
            && find_plain(&kept)?.is_some()
        {
            deliver(&artifact.source, &kept, verifier, &mut report)?;
        }
    }
    Ok(findings)
}

/// Returns where an artifact is kept: its destination, else its own path.
fn kept_path(artifact: &Artifact) -> PathBuf {
    let path = artifact.destination.as_deref().unwrap_or(&artifact.source);
    Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

fn copy_one(
    artifact: &Artifact,
    from: &Path,
    to: &Path,
    report: &mut dyn FnMut(String),
) -> Result<Vec<PathBuf>, TreeError> {
    let found = match find_plain(from) {
        Ok(Some(found)) => found.file_type(),
        Ok(None) => {
            if artifact.source != CONVENTION {
                report("is not there: nothing was kept".to_owned());
            }
            return Ok(Vec::new());
        }
        Err(error) => {
            report(error.to_string());
            return Ok(Vec::new());
        }
    };
    let excluded = match compile_excludes(&artifact.exclude) {
        Ok(excluded) => excluded,
        Err(error) => {
            report(format!("`exclude`: {error}"));
            return Ok(Vec::new());
        }
    };
    let filter = |path: &Path, _is_folder: bool| {
        if is_excluded(&excluded, path) { Selection::Skip } else { Selection::Take }
    };
    match found {
        FileType::Directory => copy_tree(
            from,
            to,
            CopyRules { filter: &filter, skip_unsafe: true, replace: true, mode: None },
        ),
        FileType::RegularFile => copy_file(from, to, None).map(|()| Vec::new()),
        _ => Ok(vec![from.to_owned()]),
    }
}

/// Copies what was kept to its own path in another environment, whose folder of that path is emptied before.
fn deliver(
    source: &str,
    kept: &Path,
    verifier: &mut StagedEnvironment,
    report: &mut dyn FnMut(String),
) -> Result<(), TreeError> {
    let target = super::dockerfile::resolve(&verifier.workdir, source);
    if verifier.host_path(&target).is_none() {
        match find_mount_point(&target, false) {
            Ok(path) => {
                let folder = locate(&verifier.root, &path);
                create_folder(&folder)?;
                verifier.mounts.push(Mount { path, folder });
            }
            Err(reason) => {
                report(format!("was not given to the verifier: {reason}"));
                return Ok(());
            }
        }
    }
    let Some(to) = verifier.host_path(&target) else { return Ok(()) };
    let is_folder = find_plain(kept)?.is_some_and(|found| found.file_type() == FileType::Directory);
    if !is_folder {
        return copy_file(kept, &to, None);
    }
    if find_plain(&to)?.is_some_and(|found| found.file_type() == FileType::Directory) {
        empty_folder(&to)?;
    }
    copy_tree(kept, &to, CopyRules::default()).map(drop)
}

/// Removes everything in a folder, which may be mounted itself.
fn empty_folder(folder: &Path) -> Result<(), TreeError> {
    let io = |error| TreeError::from_io(folder, error);
    for entry in folder.read_dir().map_err(io)? {
        let entry = entry.map_err(io)?;
        let removed = if entry.file_type().map_err(io)?.is_dir() {
            std::fs::remove_dir_all(entry.path())
        } else {
            std::fs::remove_file(entry.path())
        };
        removed.map_err(|error| TreeError::from_io(&entry.path(), error))?;
    }
    Ok(())
}

fn compile_excludes(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern.trim_end_matches('/'))?);
    }
    set.build()
}

/// Whether a pattern matches the path from any of its parts on, as with `tar --exclude`.
fn is_excluded(patterns: &GlobSet, path: &Path) -> bool {
    let mut rest = path.components();
    loop {
        if rest.as_path() == Path::new("") {
            return false;
        }
        if patterns.is_match(rest.as_path()) {
            return true;
        }
        rest.next();
    }
}
