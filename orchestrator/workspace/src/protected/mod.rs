//! The paths that must be as they were when the run began.

pub(super) mod differences;
mod passed_paths;
mod shadows;
#[cfg(test)]
mod tests;
mod tool_files;
pub(super) mod walker;

pub use shadows::shadowed_folder;
pub use tool_files::is_cache;
pub(super) use tool_files::{BYTECODE, is_cached, is_compiled, repository_of};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use ralph_orchestrator_safe_fs::{escape, normalize_lexically, unescape};

use super::globs::{GlobError, PathGlobs};
use super::program_digests::ProgramDigests;
use ralph_orchestrator_contract::{Change, ChangeKind};

/// The most paths that can be protected.
const MAX_PATHS: usize = 200_000;

/// Why protected paths could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ProtectedError {
    /// A glob is wrong.
    #[error("protected paths: {0}")]
    Glob(#[from] GlobError),
    /// The workspace cannot be looked at.
    #[error("workspace {path}: {source}; it has to be a folder that can be read")]
    Workspace {
        /// The workspace as given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The globs match too much.
    #[error("protected paths: more than {limit} match; protect fewer paths")]
    TooMany {
        /// How many are allowed.
        limit: usize,
    },
    /// It was asked to stop, see [`Baseline::take_until`].
    #[error("looking at the protected paths was cancelled")]
    Cancelled,
}

/// The state of the protected paths at some time: for each what it is, whether it can be executed,
/// and what it holds. Files ignored by git are as protected as others; the workspace's own `.git` is
/// only if a glob names it.
///
/// Serialised as an object from path to state. Bytes of a path that are not UTF-8 are written
/// `\xNN`, a backslash is doubled. A reserved glob is written as `/reserved/GLOB`, which is no path
/// in the workspace, an absolute path as `/outside/PATH`, and one that a check goes through as `/passed/PATH`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Baseline {
    paths: BTreeMap<PathBuf, String>,
    /// There are more than these: what is missing is not known to be gone.
    is_cut: bool,
    /// PathGlobs that nothing matched, and that nothing is to match.
    reserved: BTreeSet<String>,
    /// Files outside of the workspace by absolute path, with what each led to and held.
    outside: BTreeMap<PathBuf, String>,
    /// Paths that checks go through, as they are written, with where each led: relative to the workspace, or
    /// absolute outside of it.
    passed: BTreeMap<PathBuf, PathBuf>,
}

/// What the key of a reserved glob begins with.
const RESERVED: &str = "/reserved/";
/// Its value.
const ABSENT: &str = "absent";
/// The state of a file that was changed only in thought: no file has it.
const ALTERED: &str = "altered";
/// What the key of an absolute path begins with.
const OUTSIDE: &str = "/outside";
/// What the key of a path begins with that a check goes through.
const PASSED: &str = "/passed/";

impl From<Baseline> for BTreeMap<String, String> {
    fn from(baseline: Baseline) -> Self {
        let reserved = baseline.reserved.into_iter();
        let reserved = reserved.map(|glob| (format!("{RESERVED}{glob}"), ABSENT.to_owned()));
        let outside = baseline.outside.into_iter();
        let outside = outside.map(|(path, state)| (format!("{OUTSIDE}{}", escape(&path)), state));
        let paths = baseline.paths.into_iter().map(|(path, state)| (escape(&path), state));
        let passed = baseline.passed.into_iter();
        let passed =
            passed.map(|(path, real)| (format!("{PASSED}{}", escape(&path)), escape(&real)));
        paths.chain(reserved).chain(outside).chain(passed).collect()
    }
}

impl TryFrom<BTreeMap<String, String>> for Baseline {
    type Error = String;

    fn try_from(map: BTreeMap<String, String>) -> Result<Self, String> {
        let mut baseline = Self::default();
        for (text, state) in map {
            if let Some(glob) = text.strip_prefix(RESERVED) {
                baseline.reserved.insert(glob.to_owned());
                continue;
            }
            let invalid = |text: &str| format!("{text:?} is no escaped path");
            if let Some(path) = text.strip_prefix(PASSED) {
                let path = unescape(path).ok_or_else(|| invalid(path))?;
                let real = unescape(&state).ok_or_else(|| invalid(&state))?;
                baseline.passed.insert(path, real);
                continue;
            }
            let (text, paths) = match text.strip_prefix(OUTSIDE) {
                Some(path) => (path, &mut baseline.outside),
                None => (text.as_str(), &mut baseline.paths),
            };
            let path = unescape(text).ok_or_else(|| invalid(text))?;
            paths.insert(path, state);
        }
        Ok(baseline)
    }
}

impl Baseline {
    /// Returns those of these globs that nothing matched when [`reserve`](Self::reserve) was called.
    #[must_use]
    pub fn reserved(&self, globs: &[String]) -> Vec<String> {
        globs.iter().filter(|glob| self.reserved.contains(*glob)).cloned().collect()
    }

    /// Remembers those of these files that lie outside of the workspace, wherever they seem to lie.
    pub fn add_outside(&mut self, workspace: &Path, files: impl IntoIterator<Item = PathBuf>) {
        let mut digests = ProgramDigests::default();
        for file in files {
            let is_inside = |path: &Path| path.starts_with(workspace);
            let plain = normalize_lexically(&file);
            if !is_inside(&plain) && !file.canonicalize().is_ok_and(|real| is_inside(&real)) {
                let state = digests.of_target(&file);
                self.outside.insert(file, state);
            }
        }
    }

    /// Returns which files outside of the workspace, of these and in folders of these, are not as they were
    /// remembered.
    pub fn outside_changes(&self, paths: &[PathBuf], digests: &mut ProgramDigests) -> Vec<Change> {
        let mut changed = BTreeSet::new();
        for path in paths {
            let beneath = self.outside.range(path.clone()..);
            let beneath = beneath.take_while(|(file, _)| file.starts_with(path));
            let differs =
                |(file, before): &(&PathBuf, &String)| **before != digests.of_target(file);
            changed.extend(beneath.filter(differs).map(|(file, _)| file.clone()));
        }
        let changed = changed.into_iter();
        changed.map(|path| Change { path, kind: ChangeKind::Modified }).collect()
    }

    /// Returns all of them that are not as they were remembered.
    fn list_changed_outside(&self) -> Vec<PathBuf> {
        let mut digests = ProgramDigests::default();
        let changed =
            self.outside.iter().filter(|(path, state)| digests.of_target(path) != **state);
        changed.map(|(path, _)| path.clone()).collect()
    }

    /// Whether a path that was found matches this glob.
    ///
    /// # Errors
    /// If the glob is wrong.
    pub fn has_match(&self, glob: &String) -> Result<bool, ProtectedError> {
        let glob = PathGlobs::new(std::slice::from_ref(glob))?;
        Ok(self.paths.keys().any(|path| glob.matches(path)))
    }

    /// Returns what is different `now`, as far as these globs go; sorted by path. A file that was not there and is
    /// taken instead of a protected one, such as `a.so` beside `a.py` or `tests.py` beside `tests`, is one that was
    /// added. What git does in a repository below the workspace is no change if that was there.
    ///
    /// # Errors
    /// If a glob is wrong.
    pub fn changes(&self, now: &Self, globs: &[String]) -> Result<Vec<Change>, ProtectedError> {
        let globs = PathGlobs::new(globs)?;
        let paths: BTreeSet<&PathBuf> = self.paths.keys().chain(now.paths.keys()).collect();
        let is_source = |path: &Path| self.paths.contains_key(path) && globs.matches(path);
        let holds_source = |folder: PathBuf| {
            let mut beneath = self.modules_beneath(&folder);
            beneath.any(|path| globs.matches(path))
        };
        let is_of_git = |path: &Path| {
            let repository = repository_of(path);
            repository.is_some_and(|folder| self.paths.contains_key(&folder.join("HEAD")))
        };
        let counts = |path: &&PathBuf| {
            let matches = globs.matches(path);
            let is_new = || !self.paths.contains_key(*path);
            let shadows = || {
                shadows::shadows(path, is_source) || shadowed_folder(path).is_some_and(holds_source)
            };
            (matches || is_new() && shadows()) && !is_cached(path) && !is_of_git(path)
        };
        let changes = paths.into_iter().filter(counts).filter_map(|path| {
            let kind = match (self.paths.get(path), now.paths.get(path)) {
                (before, after) if before == after => return None,
                (None, _) => ChangeKind::Added,
                (_, None) if now.is_cut => return None,
                (_, None) => ChangeKind::Removed,
                _ => ChangeKind::Modified,
            };
            Some(Change { path: path.clone(), kind })
        });
        Ok(changes.collect())
    }

    /// Returns what it would be after these changes. What was not looked at when it was taken stays unknown.
    #[must_use]
    pub fn with_changes(&self, changes: &[Change]) -> Self {
        let mut after = self.clone();
        for Change { path, kind } in changes {
            match kind {
                ChangeKind::Removed => drop(after.paths.remove(path)),
                ChangeKind::Added => drop(after.paths.insert(path.clone(), ALTERED.to_owned())),
                ChangeKind::Modified | ChangeKind::Redirected => {
                    after.paths.entry(path.clone()).and_modify(|state| ALTERED.clone_into(state));
                }
            }
        }
        after
    }

    /// Returns the modules of Python beneath a folder.
    fn modules_beneath<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
        let beneath = self.paths.range(folder.to_owned()..).map(|(path, _)| path);
        let beneath = beneath.take_while(move |path| path.starts_with(folder));
        beneath.filter(|path| path.extension().is_some_and(|end| end == "py"))
    }

    /// Returns the paths, relative to the workspace, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.keys().map(PathBuf::as_path)
    }

    /// Returns how many paths there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether nothing is protected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

/// What globs protect, by name alone.
#[derive(Debug)]
pub struct ProtectedPaths {
    globs: PathGlobs,
}

impl ProtectedPaths {
    /// Compiles globs that are relative to the workspace.
    ///
    /// # Errors
    /// If a glob is wrong.
    pub fn new(globs: &[String]) -> Result<Self, ProtectedError> {
        Ok(Self { globs: PathGlobs::new(globs)? })
    }

    /// Whether there is no glob.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    /// Whether a path, relative to the workspace, is protected.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.globs.matches(path)
    }

    /// Whether what appears at a path or goes from there is none of its business: it is neither protected nor taken
    /// instead of what is, or it is what a tool keeps there for itself.
    #[must_use]
    pub fn ignores(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        let is_source = |source: &Path| self.contains(source);
        let concerns = self.contains(path)
            || shadows::shadows(path, is_source)
            || shadows::shadows_as_folder(path, is_source);
        let is_tools = is_cache(name) || is_cached(path) || repository_of(path).is_some();
        !concerns || is_tools
    }
}
