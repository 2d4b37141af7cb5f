//! Makes the files of an environment.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use ralph_orchestrator_safe_fs::{FileFingerprint, real_path};
use rustix::fs::FileType;

use super::copy::{CopyRules, copy_file, copy_tree, create_folder, set_mode};
use super::dockerfile::{
    CopyLine, Dockerfile, FileAction, IgnoreFile, ModeChange, RunEffect, SetupCommand, compile,
    is_pattern, resolve,
};
use super::model::{EnvironmentSource, FileCopy, Task, VerifierEnvironment};
use super::own::SOLUTION_FOLDER;
use super::problem::TreeError;
use super::settings::{EnvironmentSettings, User};
use super::template::{MissingVariable, resolve_env};
use super::text_file::read_text_if_exists;
use super::tree::{Selection, TreeSink, find_plain, is_plain_folder, walk_tree};

/// Folders of the system, which environments share and cannot write.
const SYSTEM_FOLDERS: [&str; 13] = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys",
    "usr",
];
/// Folders that a trial itself puts into the environment.
const RESERVED_FOLDERS: [&str; 3] = ["tests", "solution", "logs"];

/// A folder of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its absolute path in the environment.
    pub path: String,
    /// The folder on this machine.
    pub folder: PathBuf,
}

/// The files of an environment, and what its processes begin with.
#[derive(Clone, Debug)]
pub struct StagedEnvironment {
    /// The folder on this machine that holds everything.
    pub root: PathBuf,
    /// What comes where; no path is below another's.
    pub mounts: Vec<Mount>,
    /// What the image has where the trial puts its own files: it lies below those. No agent sees it.
    pub(super) covered: Vec<Mount>,
    /// The folder that processes run in, by its path in the environment.
    pub workdir: String,
    /// The environment variables of the task.
    pub env: BTreeMap<String, String>,
    /// The user that the environment names.
    pub user: Option<User>,
    /// The commands of RUN lines, in order, those that were interpreted included.
    pub setup: Vec<SetupCommand>,
}

impl StagedEnvironment {
    /// Returns an environment without anything in it.
    pub(super) const fn empty(root: PathBuf) -> Self {
        Self {
            workdir: String::new(),
            env: BTreeMap::new(),
            user: None,
            setup: Vec::new(),
            mounts: Vec::new(),
            covered: Vec::new(),
            root,
        }
    }

    /// Returns where a path of the environment is on this machine; none if it is in no mount. The path may be relative
    /// to the work directory.
    #[must_use]
    pub fn host_path(&self, path: &str) -> Option<PathBuf> {
        let path = resolve(&self.workdir, path);
        let place = |mount: &Mount| {
            let rest = Path::new(&path).strip_prefix(&mount.path).ok()?;
            Some(if rest == Path::new("") { mount.folder.clone() } else { mount.folder.join(rest) })
        };
        self.mounts.iter().find_map(place)
    }

    /// Returns an environment with these files, which processes see at `mounts`.
    #[must_use]
    pub fn with_mounts(
        root: PathBuf,
        mounts: Vec<Mount>,
        workdir: String,
        env: BTreeMap<String, String>,
    ) -> Self {
        Self { mounts, workdir, env, ..Self::empty(root) }
    }

    /// Returns the folder on this machine of what the image has at a path where the trial puts its own files.
    pub(super) fn find_covered(&self, path: &str) -> Option<&Path> {
        let covered = self.covered.iter().find(|mount| mount.path == path);
        covered.map(|mount| mount.folder.as_path())
    }

    /// Copies what the image has in `/logs` into the folder of the trial's logs.
    ///
    /// # Errors
    /// A file cannot be copied.
    pub fn install_logs(&self, logs: &Path) -> Result<(), TreeError> {
        let rules = CopyRules { replace: true, ..CopyRules::default() };
        self.find_covered("/logs").map_or(Ok(()), |folder| copy_tree(folder, logs, rules).map(drop))
    }
}

/// The files of an environment cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// A file cannot be read, copied or written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A variable is missing.
    #[error(transparent)]
    Variable(#[from] MissingVariable),
    /// A line of the Dockerfile cannot be followed.
    #[error("{}:{line}: {reason}", path.display())]
    Dockerfile {
        /// The Dockerfile.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// What the environment is made from cannot be staged as files.
    #[error("{}: the environment cannot be made from files alone; `Task::find_obstacles` says why", folder.display())]
    NotFiles {
        /// The task's folder.
        folder: PathBuf,
    },
    /// A path of the environment cannot be one.
    #[error("{0}")]
    Path(String),
}

impl Task {
    /// Makes the files of the agent's environment below `into/root`, which is created and must not exist. `host` are the
    /// orchestrator's environment variables, for `${NAME}`. A task of the own form is copied, its solution aside: its folder has
    /// the same path in the environment as on the machine.
    ///
    /// # Errors
    /// Returns an error if a file is missing or unsafe, or a line of the Dockerfile cannot be followed.
    pub fn stage(
        &self,
        into: &Path,
        host: &BTreeMap<String, String>,
    ) -> Result<StagedEnvironment, StageError> {
        self.stage_source(&self.source, &self.environment, into, host, false)
    }

    /// Makes the files of a verifier's own environment below `into/root`.
    ///
    /// # Errors
    /// As [`stage`](Self::stage).
    pub fn stage_verifier(
        &self,
        environment: &VerifierEnvironment,
        into: &Path,
        host: &BTreeMap<String, String>,
    ) -> Result<StagedEnvironment, StageError> {
        let bundled = environment.has_bundled_tests;
        self.stage_source(&environment.source, &environment.settings, into, host, bundled)
    }

    fn stage_source(
        &self,
        source: &EnvironmentSource,
        settings: &EnvironmentSettings,
        into: &Path,
        host: &BTreeMap<String, String>,
        has_bundled_tests: bool,
    ) -> Result<StagedEnvironment, StageError> {
        let root = real_path(into).join("root");
        if find_plain(&root)?.is_some() {
            let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(TreeError::from_io(&root, exists).into());
        }
        create_folder(&root)?;
        let staged = StagedEnvironment::empty(root);
        match source {
            EnvironmentSource::Configuration(_) => return self.stage_folder(staged),
            EnvironmentSource::Dockerfile(dockerfile) => {
                let stager = DockerfileStager { dockerfile, root: &staged.root };
                stager.stage()?;
            }
            EnvironmentSource::Files(files) => {
                let workdir = find_workdir(settings, source).ok_or_else(|| self.not_files())?;
                copy_files(files, &staged.root, &workdir)?;
            }
            _ => return Err(self.not_files()),
        }
        self.describe_staged(staged, source, settings, host, has_bundled_tests)
    }

    pub(super) fn not_files(&self) -> StageError {
        StageError::NotFiles { folder: self.folder.clone() }
    }

    /// Says of files that were made what comes where, and what processes begin with.
    pub(super) fn describe_staged(
        &self,
        mut staged: StagedEnvironment,
        source: &EnvironmentSource,
        settings: &EnvironmentSettings,
        host: &BTreeMap<String, String>,
        has_bundled_tests: bool,
    ) -> Result<StagedEnvironment, StageError> {
        let workdir = find_workdir(settings, source).ok_or_else(|| self.not_files())?;
        match source {
            EnvironmentSource::Dockerfile(dockerfile) => {
                staged.env.clone_from(&dockerfile.env);
                staged.user.clone_from(&dockerfile.user);
                staged.setup = dockerfile.setup_commands().cloned().collect();
            }
            EnvironmentSource::Files(_) => {}
            _ => return Err(self.not_files()),
        }
        find_mount_point(&workdir, has_bundled_tests).map_err(StageError::Path)?;
        create_folder(&locate(&staged.root, &workdir))?;
        staged.env.extend(resolve_env(&settings.env, host)?);
        staged.workdir = workdir;
        let is_covered = |mount: &Mount| find_mount_point(&mount.path, has_bundled_tests).is_err();
        (staged.covered, staged.mounts) =
            list_mounts(&staged.root)?.into_iter().partition(is_covered);
        Ok(staged)
    }

    /// Copies the whole folder but the solution.
    fn stage_folder(&self, mut staged: StagedEnvironment) -> Result<StagedEnvironment, StageError> {
        let has_solution = self.steps.iter().any(|step| step.oracle.is_some());
        let filter = |path: &Path, _: bool| {
            let is_solution = has_solution && path == Path::new(SOLUTION_FOLDER);
            if is_solution { Selection::Skip } else { Selection::Take }
        };
        copy_tree(
            &self.folder,
            &staged.root,
            CopyRules { filter: &filter, ..CopyRules::default() },
        )?;
        let path = staged.root.to_string_lossy().into_owned();
        staged.mounts = vec![Mount { path: path.clone(), folder: staged.root.clone() }];
        staged.workdir = path;
        Ok(staged)
    }
}

/// Returns the work directory of an environment, if it is known.
pub(super) fn find_workdir(
    settings: &EnvironmentSettings,
    source: &EnvironmentSource,
) -> Option<String> {
    let own = settings.workdir.as_deref().map(|path| resolve("/", path));
    own.or_else(|| match source {
        EnvironmentSource::Dockerfile(dockerfile) => dockerfile.workdir.clone(),
        _ => None,
    })
}

/// Returns the folder of the environment that has to be mounted for a path: the first part of it.
///
/// # Errors
/// Returns why there can be none.
pub(super) fn find_mount_point(path: &str, has_bundled_tests: bool) -> Result<String, String> {
    let point = find_image_folder(path)?;
    let first = point.trim_start_matches('/');
    if RESERVED_FOLDERS.contains(&first) && !(has_bundled_tests && first == "tests") {
        return Err(format!(
            "{path} is in /{first}, where the trial itself puts its files: use a folder such as /app"
        ));
    }
    Ok(point)
}

/// Returns the folder of the root in which a line of a Dockerfile makes files.
///
/// # Errors
/// Returns why it cannot.
pub(super) fn find_image_folder(path: &str) -> Result<String, String> {
    let mut parts = Path::new(path).components().filter(|part| *part != Component::RootDir);
    let Some(Component::Normal(first)) = parts.next() else {
        return Err(format!(
            "{path} is the root folder of the environment: use a folder such as /app"
        ));
    };
    let first = first.to_string_lossy();
    if SYSTEM_FOLDERS.contains(&&*first) {
        return Err(format!(
            "{path} is in /{first}, which is the machine's own and read-only: use a folder such as /app or /opt"
        ));
    }
    Ok(format!("/{first}"))
}

/// Returns where a path of the environment lies below the root on this machine.
pub(super) fn locate(root: &Path, path: &str) -> PathBuf {
    let relative = path.trim_start_matches('/');
    if relative.is_empty() { root.to_owned() } else { root.join(relative) }
}

pub(super) fn list_mounts(root: &Path) -> Result<Vec<Mount>, TreeError> {
    let io = |error| TreeError::from_io(root, error);
    let mut mounts = Vec::new();
    for entry in root.read_dir().map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        mounts.push(Mount { path: format!("/{name}"), folder: entry.path() });
    }
    mounts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(mounts)
}

fn copy_files(files: &[FileCopy], root: &Path, workdir: &str) -> Result<(), TreeError> {
    let workdir = locate(root, workdir);
    create_folder(&workdir)?;
    files.iter().try_for_each(|file| copy_file(&file.source, &workdir.join(&file.target), None))
}

/// Returns the files and folders of the context that a COPY line names, relative to it.
///
/// # Errors
/// Returns which source is missing, unsafe or left out by `.dockerignore`.
pub(super) fn find_sources(
    dockerfile: &Dockerfile,
    copy: &CopyLine,
) -> Result<Vec<PathBuf>, String> {
    let ignore = read_ignore(dockerfile)?;
    let mut found = Vec::new();
    for source in &copy.sources {
        let mut matches = vec![PathBuf::new()];
        for part in source.split('/').filter(|part| !matches!(*part, "" | ".")) {
            matches = expand_part(&dockerfile.context, matches, part)?;
        }
        let is_taken = |path: &PathBuf| {
            path.as_os_str().is_empty() || ignore.select(path, true) != Selection::Skip
        };
        matches.retain(is_taken);
        if matches.is_empty() {
            return Err(format!(
                "{source} is not in {}, or left out by .dockerignore",
                dockerfile.context.display()
            ));
        }
        found.append(&mut matches);
    }
    Ok(found)
}

/// Returns what has this name, or matches this pattern, in the folders.
fn expand_part(context: &Path, folders: Vec<PathBuf>, part: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for folder in folders {
        if !is_pattern(part) {
            let path = folder.join(part);
            if find_plain(&context.join(&path)).map_err(|error| error.to_string())?.is_some() {
                found.push(path);
            }
            continue;
        }
        let matcher = compile(part)?;
        let here = context.join(&folder);
        if !is_plain_folder(&here).map_err(|error| error.to_string())? {
            continue;
        }
        let io = |error: std::io::Error| format!("{}: {error}", here.display());
        for entry in here.read_dir().map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            if matcher.is_match(&name) {
                found.push(folder.join(name));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read_ignore(dockerfile: &Dockerfile) -> Result<IgnoreFile, String> {
    for name in ["Dockerfile.dockerignore", ".dockerignore"] {
        let path = dockerfile.context.join(name);
        let text = read_text_if_exists(&path, super::dockerfile::MAX_BYTES);
        if let Some(text) = text.map_err(|error| error.to_string())? {
            return IgnoreFile::from_text(&text)
                .map_err(|(line, reason)| format!("{}:{line}: {reason}", path.display()));
        }
    }
    Ok(IgnoreFile::default())
}

pub(super) struct DockerfileStager<'d> {
    pub(super) dockerfile: &'d Dockerfile,
    pub(super) root: &'d Path,
}

impl DockerfileStager<'_> {
    fn error(&self, line: usize, reason: String) -> StageError {
        StageError::Dockerfile { path: self.dockerfile.path.clone(), line, reason }
    }

    fn stage(&self) -> Result<(), StageError> {
        self.require_supported()?;
        self.dockerfile.actions.iter().try_for_each(|action| self.perform(action))
    }

    pub(super) fn require_supported(&self) -> Result<(), StageError> {
        match self.dockerfile.unsupported.first() {
            Some((line, reason)) => Err(self.error(*line, reason.clone())),
            None => Ok(()),
        }
    }

    /// Makes the files of a line. Of a RUN line that is what is known of it.
    pub(super) fn perform(&self, action: &FileAction) -> Result<(), StageError> {
        match action {
            FileAction::Folder { path } => create_folder(&self.place(1, path)?)?,
            FileAction::Copy(copy) => self.copy(copy)?,
            FileAction::Run(command) => self.apply_effects(command)?,
        }
        Ok(())
    }

    fn place(&self, line: usize, path: &str) -> Result<PathBuf, StageError> {
        find_image_folder(path).map_err(|reason| self.error(line, reason))?;
        Ok(locate(self.root, path))
    }

    fn copy(&self, copy: &CopyLine) -> Result<(), StageError> {
        let failed = |reason| self.error(copy.line, format!("COPY: {reason}"));
        let ignore = read_ignore(self.dockerfile).map_err(failed)?;
        let mut exclude = IgnoreFile::default();
        copy.exclude.iter().try_for_each(|pattern| exclude.add(pattern)).map_err(failed)?;
        let sources = find_sources(self.dockerfile, copy).map_err(failed)?;
        let target = self.place(copy.line, &copy.target)?;
        let is_folder = copy.is_folder || sources.len() > 1 || is_plain_folder(&target)?;
        for source in sources {
            let from = self.dockerfile.context.join(&source);
            let from =
                if source.as_os_str().is_empty() { self.dockerfile.context.clone() } else { from };
            if is_plain_folder(&from)? {
                let filter = |path: &Path, is_folder: bool| match ignore
                    .select(&source.join(path), is_folder)
                {
                    Selection::Take => exclude.select(path, is_folder),
                    other => other,
                };
                let rules = CopyRules { mode: copy.mode, filter: &filter, ..CopyRules::default() };
                copy_tree(&from, &target, rules)?;
            } else if ignore.select(&source, false) == Selection::Take {
                let name = source.file_name().unwrap_or_default();
                let target = if is_folder { target.join(name) } else { target.clone() };
                copy_file(&from, &target, copy.mode)?;
            }
        }
        Ok(())
    }

    fn apply_effects(&self, command: &SetupCommand) -> Result<(), StageError> {
        for effect in command.effects.iter().flatten() {
            match effect {
                RunEffect::Install(_) => {}
                RunEffect::Folder { path, mode } => {
                    let folder = self.place(command.line, &resolve(&command.workdir, path))?;
                    create_folder(&folder)?;
                    mode.map_or(Ok(()), |mode| set_mode(&folder, mode))?;
                }
                RunEffect::Mode { path, change, is_recursive } => {
                    let path = self.place(command.line, &resolve(&command.workdir, path))?;
                    let Some(found) = find_plain(&path)? else {
                        let reason = format!("RUN: chmod: {} is not there", path.display());
                        return Err(self.error(command.line, reason));
                    };
                    set_mode(&path, change.apply(found.mode))?;
                    if *is_recursive && found.file_type() == FileType::Directory {
                        walk_tree(&path, &mut ModeSetter { root: &path, change: *change })?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sets the modes of everything in a tree.
struct ModeSetter<'r> {
    root: &'r Path,
    change: ModeChange,
}

impl TreeSink for ModeSetter<'_> {
    fn visit_folder(&mut self, path: &Path, mode: u32) -> Result<(), TreeError> {
        set_mode(&self.root.join(path), self.change.apply(mode))
    }

    fn visit_file(
        &mut self,
        path: &Path,
        _: File,
        found: &FileFingerprint,
    ) -> Result<(), TreeError> {
        set_mode(&self.root.join(path), self.change.apply(found.mode))
    }

    fn visit_link(&mut self, _path: &Path, _target: &Path) -> Result<(), TreeError> {
        Ok(())
    }
}
