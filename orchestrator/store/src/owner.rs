//! The owner of a state directory: a workspace identifies a run, together with a task of it and a configuration that a
//! person names beside the usual one.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ralph_orchestrator_config::FILE_NAME;
use ralph_orchestrator_machine::{FileIdentity, Latch};
use ralph_orchestrator_safe_fs::{ReadError, SymlinkPolicy, escape, read_file, unescape};
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::error::StateError;
use super::latch::LatchFile;
use super::layout::Layout;
use super::lock::is_being_deleted;
use super::{Key, guarded_file::GuardedFile};

const VERSION: u32 = 1;
/// In the place that a state directory would have by default: where it is instead.
const ELSEWHERE: &str = "elsewhere.json";
/// Larger than any such file, in bytes: two paths and little more.
const LARGEST: usize = 256 * 1024;

/// The workspace, the configuration and the task that a state directory belongs to, as `owner.json` has them.
/// Paths are absolute and without links; what is no UTF-8 in them is escaped as in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    version: u32,
    workspace: String,
    configuration: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<FileIdentity>,
    /// That of a configuration which tells the runs of the workspace apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configuration_folder: Option<FileIdentity>,
    /// Workspaces that had the runs until a person accepted another folder in their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    former: Vec<FileIdentity>,
}

impl Owner {
    /// Returns the owner for a workspace and a configuration file, if there is one.
    #[must_use]
    pub fn new(workspace: &Path, configuration: Option<&Path>) -> Self {
        Self {
            version: VERSION,
            workspace: escape(workspace),
            configuration: configuration.map(escape),
            task: None,
            folder: None,
            configuration_folder: None,
            former: Vec::new(),
        }
    }

    /// Adds the task, if it is one of several of the configuration.
    #[must_use]
    pub fn with_task(mut self, task: Option<&str>) -> Self {
        self.task = task.map(str::to_owned);
        self
    }

    /// Keeps the configuration that belonged to the run before, where there is none now: what was accepted of it holds on.
    #[must_use]
    pub fn keep_configuration(self, before: &Self) -> Self {
        let known = before.configuration().filter(|_| before.distinct_configuration().is_none());
        let Some(known) = known.filter(|_| self.configuration.is_none()) else { return self };
        let inside =
            before.workspace().and_then(|old| Some(known.strip_prefix(old).ok()?.to_owned()));
        let kept = match (self.workspace(), inside) {
            (Some(workspace), Some(inside)) => workspace.join(inside),
            _ => known,
        };
        Self { configuration: Some(escape(&kept)), ..self }
    }

    /// Adds what tells the workspace's folder from others, wherever it is moved.
    #[must_use]
    pub const fn with_folder(mut self, folder: FileIdentity) -> Self {
        self.folder = Some(folder);
        self
    }

    /// Adds what tells the folder of its configuration from others, if that tells the runs of the workspace apart.
    #[must_use]
    pub fn with_configuration_folder(self) -> Self {
        let file = self.distinct_configuration();
        let configuration_folder = file.and_then(|file| identity_of(file.parent()?));
        Self { configuration_folder, ..self }
    }

    /// Keeps what is known of folders that had the runs before.
    #[must_use]
    pub fn keep_former(self, before: &Self) -> Self {
        self.with_former(before.former.iter().copied())
    }

    /// Takes the runs over from the folder that had them.
    #[must_use]
    pub fn take_over(self, before: &Self) -> Self {
        self.with_former(before.former.iter().copied().chain(before.folder))
    }

    fn with_former(mut self, former: impl Iterator<Item = FileIdentity>) -> Self {
        let own = self.folder;
        let is_other = |folder: &FileIdentity| !own.is_some_and(|own| own.is_same(*folder));
        self.former = former.filter(is_other).collect();
        self
    }

    /// Returns the workspace.
    #[must_use]
    pub fn workspace(&self) -> Option<PathBuf> {
        unescape(&self.workspace)
    }

    /// Returns the configuration file; `None` for a run without one.
    #[must_use]
    pub fn configuration(&self) -> Option<PathBuf> {
        self.configuration.as_deref().and_then(unescape)
    }

    /// Returns the id of the task, if it is one of several of the configuration.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Returns what told the workspace's folder from others when a run last began.
    #[must_use]
    pub const fn folder(&self) -> Option<FileIdentity> {
        self.folder
    }

    /// Returns the configuration if it tells the runs of the workspace apart. The `ralph.toml` of the workspace, or of a
    /// folder above it, does not: that file may appear, disappear or be replaced without the run becoming another.
    #[must_use]
    pub fn distinct_configuration(&self) -> Option<PathBuf> {
        let file = self.configuration()?;
        let is_usual = file.file_name().is_some_and(|name| name == FILE_NAME)
            && file.parent().is_some_and(|folder| {
                self.workspace().is_some_and(|workspace| workspace.starts_with(folder))
            });
        (!is_usual).then_some(file)
    }

    /// Whether both are the same run's.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.workspace, self.distinct_configuration(), &self.task)
            == (&other.workspace, other.distinct_configuration(), &other.task)
    }

    /// Whether this is the run of the other, whose workspace was moved since.
    #[must_use]
    pub fn is_moved_from(&self, before: &Self) -> bool {
        let is_there = || {
            let there = before.workspace().filter(|there| !is_behind_link(there));
            there
                .and_then(|there| identity_of(&there))
                .is_some_and(|there| before.folder.is_some_and(|folder| folder.is_same(there)))
        };
        self.has_same_folder(before)
            && self.task == before.task
            && self.has_same_configuration(before)
            && !is_there()
    }

    /// Whether a person has accepted the workspace of the other in the place of this one.
    #[must_use]
    pub fn is_succeeded_by(&self, other: &Self) -> bool {
        self.folder.is_some_and(|folder| other.has_succeeded(folder))
            && self.task == other.task
            && self.has_same_configuration(other)
    }

    /// Whether a person has accepted the workspace in the place of this folder.
    #[must_use]
    pub fn has_succeeded(&self, folder: FileIdentity) -> bool {
        self.former.iter().any(|former| former.is_same(folder))
    }

    /// Whether both are known to be of the same folder.
    #[must_use]
    pub fn has_same_folder(&self, other: &Self) -> bool {
        self.folder.zip(other.folder).is_some_and(|(one, other)| one.is_same(other))
    }

    /// Whether both have no configuration that tells the runs of the workspace apart, or the same one, wherever it was moved.
    fn has_same_configuration(&self, before: &Self) -> bool {
        let name = |owner: &Self| Some(owner.distinct_configuration()?.file_name()?.to_owned());
        let folders = self.configuration_folder.zip(before.configuration_folder);
        self.configuration_inside() == before.configuration_inside()
            || (folders.is_some_and(|(now, before)| now.is_same(before))
                && name(self) == name(before))
    }

    /// Returns the configuration that tells the runs of the workspace apart, relative to that if it lies inside.
    fn configuration_inside(&self) -> Option<PathBuf> {
        let file = self.distinct_configuration()?;
        let inside = self.workspace().and_then(|all| Some(file.strip_prefix(all).ok()?.to_owned()));
        Some(inside.unwrap_or(file))
    }

    /// Refuses a state directory that belongs to another workspace or configuration.
    ///
    /// # Errors
    /// [`StateError::Foreign`] if it does; its record cannot be read.
    pub fn verify(&self, layout: &Layout) -> Result<(), StateError> {
        match Self::read(layout)? {
            Some(owner)
                if !self.is_same(&owner)
                    && !self.is_moved_from(&owner)
                    && !self.is_succeeded_by(&owner) =>
            {
                Err(StateError::Foreign {
                    path: layout.root().to_owned(),
                    owner: owner.describe(),
                    asked: self.describe(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns the owner of a state directory; `None` if none is recorded.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn read(layout: &Layout) -> Result<Option<Self>, StateError> {
        let path = layout.owner();
        let bytes = match read_file(&path, LARGEST, SymlinkPolicy::Follow) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(ReadError::Io(error)) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(StateError::io("read", &path)(error));
            }
            // A folder or a pipe in its place, or something much larger, is none of ours.
            Err(error) => return Err(StateError::damaged(&path, error.to_string())),
        };
        let owner: Self = serde_json::from_slice(&bytes)
            .map_err(|error| StateError::damaged(&path, format!("names no owner: {error}")))?;
        if owner.version > VERSION {
            let problem = format!("written by a newer version (format {})", owner.version);
            return Err(StateError::damaged(&path, problem));
        }
        Ok(Some(owner))
    }

    /// Writes it, unless it is there already, and keeps it as it is.
    pub(super) fn keep(&self, disk: &Disk, layout: &Layout) -> Result<GuardedFile, StateError> {
        let text = self.record(disk, layout)?;
        GuardedFile::new(disk, layout.owner(), &text)
    }

    /// Writes it, unless it is there already. Returns its text.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn record(&self, disk: &Disk, layout: &Layout) -> Result<Vec<u8>, StateError> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        let path = layout.owner();
        if disk.read_at_most(&path, LARGEST).ok().as_ref() != Some(&text) {
            disk.clear(&path, fs::Metadata::is_file)?;
            disk.write_private(&path, &text)?;
        }
        Ok(text)
    }

    /// Describes the owner for messages.
    fn describe(&self) -> String {
        let workspace = &self.workspace;
        let task = self.task.as_ref().map(|task| format!(", task {task}")).unwrap_or_default();
        match &self.configuration {
            Some(configuration) => format!("{configuration} (workspace {workspace}{task})"),
            None => format!("no configuration file (workspace {workspace}{task})"),
        }
    }
}

/// Returns what tells a folder from others, wherever it is moved.
#[must_use]
pub fn identity_of(folder: &Path) -> Option<FileIdentity> {
    Some(identity_from(&fs::metadata(folder).ok()?))
}

/// Returns the identity of the file that this was read of.
#[must_use]
pub fn identity_from(found: &fs::Metadata) -> FileIdentity {
    let made = found.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made_ns = made.and_then(|made| u64::try_from(made.as_nanos()).ok());
    FileIdentity { device: found.dev(), inode: found.ino(), made_ns }
}

/// Where a state directory is that the configuration put elsewhere.
#[derive(Serialize, Deserialize)]
struct Elsewhere {
    dir: String,
}

/// Records that the state directory that would have been `default` is `layout`, for [`state_dirs`].
///
/// # Errors
/// It cannot be written.
pub fn record_elsewhere(disk: &Disk, default: &Path, layout: &Layout) -> Result<(), StateError> {
    let text = serde_json::to_string(&Elsewhere { dir: escape(layout.root()) }).unwrap_or_default();
    let path = default.join(ELSEWHERE);
    if disk.read_at_most(&path, LARGEST).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(());
    }
    disk.make_dir(default).map_err(StateError::io("create", default))?;
    disk.clear(&path, fs::Metadata::is_file)?;
    disk.write_private(&path, text.as_bytes())
}

fn elsewhere(default: &Path) -> Option<Layout> {
    let bytes = read_file(&default.join(ELSEWHERE), LARGEST, SymlinkPolicy::Follow).ok()?;
    let found: Elsewhere = serde_json::from_slice(&bytes).ok()?;
    unescape(&found.dir).map(Layout::new)
}

/// A state directory below the folder of all states, or known there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    /// Its paths.
    pub layout: Layout,
    /// Whose it is.
    pub owner: Owner,
}

impl StateDir {
    /// Returns the run that it has now, if it has one and that can be told.
    #[must_use]
    pub fn run(&self) -> Option<String> {
        Some(self.latch()?.run)
    }

    /// Returns the same, if it is not complete.
    #[must_use]
    pub fn unfinished_run(&self) -> Option<String> {
        let latch = self.latch()?;
        (!matches!(latch.latch, Latch::Completed(_))).then_some(latch.run)
    }

    fn latch(&self) -> Option<LatchFile> {
        if is_being_deleted(&self.layout) {
            return None;
        }
        let disk = &Disk::default();
        let key = Key::read(disk, &self.layout.key()).ok()??;
        LatchFile::read(disk, &key, &self.layout.latch()).ok()?
    }
}

/// Returns the state directories below `states`, such as `$XDG_STATE_HOME/ralph-orchestrator`, by their
/// paths. What cannot be read is left out. Those that `state.dir` put elsewhere are among them.
#[must_use]
pub fn state_dirs(states: &Path) -> Vec<StateDir> {
    let entries = fs::read_dir(states).into_iter().flatten().flatten();
    let mut found: Vec<StateDir> = entries
        .flat_map(|entry| [Some(Layout::new(entry.path())), elsewhere(&entry.path())])
        .flatten()
        .filter_map(|layout| {
            let owner = Owner::read(&layout).ok()??;
            Some(StateDir { layout, owner })
        })
        .collect();
    found.sort_by(|one, other| one.layout.root().cmp(other.layout.root()));
    found.dedup_by(|one, other| one.layout == other.layout);
    found
}

/// Whether a link is on the way: one that was left where a folder was leads to where it is now.
fn is_behind_link(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|real| real != path)
}

/// Returns those of them that belong to the workspace with this path, which is absolute and without links:
/// one for each configuration. It may have had another path when a run of it last began.
#[must_use]
pub fn state_dirs_of(states: &Path, workspace: &Path) -> Vec<StateDir> {
    let folder = identity_of(workspace);
    let was_moved_here = |owner: &Owner, before: &Path| {
        let is_it = |there: FileIdentity| owner.folder.is_some_and(|known| known.is_same(there));
        let is_there = || !is_behind_link(before) && identity_of(before).is_some_and(is_it);
        folder.is_some_and(is_it) && !is_there()
    };
    let mut found = state_dirs(states);
    found.retain(|state| {
        let known = state.owner.workspace();
        known.is_some_and(|known| known == workspace || was_moved_here(&state.owner, &known))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(states: &Path, name: &str, owner: &Owner) -> Layout {
        let layout = Layout::new(states.join(name));
        fs::create_dir_all(layout.root()).unwrap();
        drop(owner.keep(&Disk::default(), &layout).unwrap());
        layout
    }

    #[test]
    fn finds_the_states_of_a_workspace_and_leaves_out_what_it_cannot_read() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;
        let temp = tempfile::tempdir().unwrap();
        let states = temp.path();
        let odd = Path::new(OsStr::from_bytes(b"/w/\xff\\"));
        let one = Owner::new(odd, Some(Path::new("/w/ralph.toml")));
        let two =
            Owner::new(odd, None).with_folder(FileIdentity { device: 1, inode: 2, made_ns: None });
        let other = Owner::new(Path::new("/v"), None);
        layout(states, "b", &one);
        layout(states, "a", &two);
        layout(states, "c", &other);
        for (name, content) in [("d", "no json"), ("e", "{\"version\":2,\"workspace\":\"/v\"}")] {
            fs::create_dir(states.join(name)).unwrap();
            fs::write(states.join(name).join("owner.json"), content).unwrap();
            assert!(Owner::read(&Layout::new(states.join(name))).is_err(), "{name}");
        }
        fs::create_dir(states.join("f")).unwrap();
        fs::write(states.join("g"), "").unwrap();
        let found = state_dirs_of(states, odd);
        assert_eq!(found.iter().map(|state| &state.owner).collect::<Vec<_>>(), [&two, &one]);
        assert_eq!(found[1].owner.configuration().as_deref(), Some(Path::new("/w/ralph.toml")));
        assert!(found[0].run().is_none());
        assert_eq!(state_dirs(states).len(), 3);
        assert!(state_dirs(&states.join("nowhere")).is_empty());
    }

    #[test]
    fn the_usual_configuration_tells_no_runs_apart() {
        let owner =
            |workspace, file: Option<&str>| Owner::new(Path::new(workspace), file.map(Path::new));
        let without = owner("/p/w", None);
        for usual in ["/p/w/ralph.toml", "/p/ralph.toml", "/ralph.toml"] {
            assert!(owner("/p/w", Some(usual)).is_same(&without), "{usual}");
        }
        for other in ["/p/w/night.toml", "/p/w/sub/ralph.toml", "/q/ralph.toml"] {
            let other = owner("/p/w", Some(other));
            assert!(!other.is_same(&without) && other.is_same(&other.clone()), "{other:?}");
        }
    }

    #[test]
    fn a_workspace_that_was_moved_keeps_its_run() {
        let temp = tempfile::tempdir().unwrap();
        let (old, new) = (temp.path().join("old"), temp.path().join("new"));
        fs::create_dir(&old).unwrap();
        let folder = identity_of(&old).unwrap();
        let before = Owner::new(&old, None).with_folder(folder);
        let layout = layout(temp.path(), "state", &before);
        let now = Owner::new(&new, Some(&new.join("ralph.toml")));
        let moved = now.clone().with_folder(folder);
        assert!(moved.verify(&layout).is_err(), "it is still there");
        fs::rename(&old, &new).unwrap();
        moved.verify(&layout).unwrap();
        assert!(now.verify(&layout).is_err(), "nothing is known of the folder");
        assert!(moved.clone().with_task(Some("ralph-1")).verify(&layout).is_err());
        // What has taken the old place is another workspace.
        fs::create_dir(&old).unwrap();
        moved.verify(&layout).unwrap();
    }

    #[test]
    fn another_workspace_or_configuration_is_refused_by_both_names() {
        let temp = tempfile::tempdir().unwrap();
        let configuration = Path::new("/w/night.toml");
        let own = Owner::new(Path::new("/w"), Some(configuration));
        let layout = layout(temp.path(), "state", &own);
        // The folder is no part of the identity.
        own.clone()
            .with_folder(FileIdentity { device: 1, inode: 2, made_ns: None })
            .verify(&layout)
            .unwrap();
        for other in [
            Owner::new(Path::new("/w"), None),
            Owner::new(Path::new("/w"), Some(Path::new("/w/b.toml"))),
            Owner::new(Path::new("/v"), Some(configuration)),
            own.clone().with_task(Some("ralph-1")),
        ] {
            let error = other.verify(&layout).unwrap_err().to_string();
            assert!(
                error.contains("/w/night.toml") && error.contains(&other.describe()),
                "{error}"
            );
        }
        own.verify(&Layout::new(temp.path().join("new"))).unwrap();
    }
}
