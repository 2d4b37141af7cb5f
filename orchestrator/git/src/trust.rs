//! What an agent must not have changed before hooks, filters and signing programs may run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::command::GitCommand;
use crate::error::{GitError, Result};
use crate::path::RepoPath;
use crate::private::{read_record, write_record};
use crate::repository::{Repository, RepositoryFolders};
use crate::settings::Setting;

const RECORD: &str = "trusted.json";

/// The largest hook that is compared, in bytes; a larger one is compared by its beginning.
const MAX_HOOK: u64 = 16 * 1024 * 1024;

/// Beginnings of keys that name no program and that agents change in honest work.
const HARMLESS: [&str; 5] = ["advice.", "branch.", "color.", "user.email", "user.name"];

/// The same for sections of which other keys name programs.
const PARTLY_HARMLESS: [(&str, &[&str]); 2] =
    [("remote.", &[".url", ".pushurl", ".fetch"]), ("submodule.", &[".url", ".active", ".branch"])];

/// Digests of git's configuration and hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TrustedConfiguration {
    keys: BTreeMap<String, String>,
    hooks: BTreeMap<RepoPath, String>,
}

/// What a workspace's repository was when its first run began, or a person accepted it.
#[derive(Debug, Serialize, Deserialize)]
struct KeptRepository {
    location: RepoPath,
    #[serde(flatten)]
    folders: RepositoryFolders,
    /// What the repository itself says and has: the user's own files are no agent's to write.
    own: TrustedConfiguration,
}

impl KeptRepository {
    /// Whether it is where it was kept, or was moved with its workspace.
    fn is_at(&self, kept: &Self) -> bool {
        self.location == kept.location || self.folders.are_moved_from(&kept.folders)
    }
}

impl Repository {
    /// Records git's configuration and hooks as they are: those that the user is responsible for.
    ///
    /// Call it when a run begins, before its first agent, and not when a run is resumed. Real commits
    /// and worktrees compare with it, since they run hooks, filters and signing programs. What these
    /// programs start in turn is not compared.
    ///
    /// # Errors
    ///
    /// Fails if git does, or the record cannot be written.
    pub fn trust_configuration(&self) -> Result<()> {
        let _lock = self.lock()?;
        self.private.write_record(RECORD, &self.collect_configuration(&self.workspace)?)
    }

    /// Records what another run has recorded, whose private folder this is: its agents have worked here since. If it has recorded
    /// nothing, the same as [`trust_configuration`](Self::trust_configuration).
    ///
    /// # Errors
    ///
    /// Fails as that, and if the record cannot be read.
    pub fn trust_as_in(&self, folder: &Path) -> Result<()> {
        match read_record::<TrustedConfiguration>(&folder.join(RECORD))? {
            None => self.trust_configuration(),
            Some(recorded) => {
                let _lock = self.lock()?;
                self.private.write_record(RECORD, &recorded)
            }
        }
    }

    /// Records the configuration as [`trust_configuration`](Self::trust_configuration) does, but what the repository
    /// itself says as it was when the workspace's first run began: agents have worked here since then. What is kept of
    /// that lies in this folder, which no agent reaches.
    ///
    /// # Errors
    ///
    /// Fails as that, and with [`GitError::RepositoryChanged`] if git finds the repository elsewhere than then.
    pub fn trust_as_before(&self, folder: &Path) -> Result<()> {
        let _lock = self.lock()?;
        let mut trusted = self.collect_configuration(&self.workspace)?;
        let (paths, now) = (kept_paths(folder, &self.workspace), self.describe_own()?);
        match read_kept(&paths)? {
            None => write_kept(folder, &paths, &now)?,
            Some(kept) if !now.is_at(&kept) => {
                let [before, now] = [&kept, &now].map(|found| self.to_full_paths(&found.location));
                return Err(self.describe_change(&before, &now));
            }
            Some(kept) => {
                take_back(&mut trusted.keys, &kept.own.keys, &now.own.keys);
                take_back(&mut trusted.hooks, &kept.own.hooks, &now.own.hooks);
            }
        }
        self.private.write_record(RECORD, &trusted)
    }

    /// Keeps the repository as it is for [`trust_as_before`](Self::trust_as_before), since a person accepts it. Returns
    /// what is another than what was kept; nothing if nothing was.
    ///
    /// # Errors
    ///
    /// Fails if git does, or it cannot be written.
    pub fn accept(&self, folder: &Path) -> Result<Vec<String>> {
        let _lock = self.lock()?;
        let (paths, now) = (kept_paths(folder, &self.workspace), self.describe_own()?);
        let Some(kept) = read_kept(&paths)? else { return Ok(Vec::new()) };
        let mut changes = kept.own.list_changes(&now.own);
        if !now.is_at(&kept) {
            changes.push("its place".to_owned());
        }
        write_kept(folder, &paths, &now)?;
        Ok(changes)
    }

    /// Returns whether something is kept of the repository of a workspace.
    pub fn is_kept(folder: &Path, workspace: &Path) -> bool {
        workspace
            .canonicalize()
            .is_ok_and(|real| kept_paths(folder, &real).iter().any(|path| path.exists()))
    }

    fn to_full_paths(&self, location: &RepoPath) -> RepoPath {
        let paths = location.as_bytes().split(|byte| *byte == b'\n');
        let paths = paths.map(|path| self.workspace.join(OsStr::from_bytes(path)));
        let paths: Vec<Vec<u8>> = paths.map(|path| path.into_os_string().into_vec()).collect();
        RepoPath::from_bytes(paths.join(&b'\n'))
    }

    fn describe_own(&self) -> Result<KeptRepository> {
        let mut own = self.list_settings(&self.workspace)?;
        own.retain(|setting| setting.is_own);
        let hooks = self.find_hooks(&self.workspace)?;
        let hooks = match self.is_own(&hooks) {
            true => self.digest_all_hooks(&hooks)?,
            false => BTreeMap::new(),
        };
        // What lies in the workspace is moved with it.
        let full = self.expected_location();
        let paths = full.split(|byte| *byte == b'\n').map(|path| {
            let path = Path::new(OsStr::from_bytes(path));
            path.strip_prefix(&self.workspace).unwrap_or(path).as_os_str().as_bytes()
        });
        let location = RepoPath::from_bytes(paths.collect::<Vec<_>>().join(&b'\n'));
        Ok(KeptRepository {
            location,
            folders: self.folders(),
            own: TrustedConfiguration { keys: digest_settings(&own), hooks },
        })
    }

    /// Fails if the configuration that git reads in a folder is not the trusted one.
    pub(crate) fn verify_configuration(&self, folder: &Path) -> Result<()> {
        let trusted: TrustedConfiguration =
            self.private.read_record(RECORD)?.ok_or(GitError::ConfigurationNotRecorded)?;
        let current = self.collect_configuration(folder)?;
        let changes = trusted.list_changes(&current);
        if changes.is_empty() { Ok(()) } else { Err(GitError::ConfigurationChanged(changes)) }
    }

    fn collect_configuration(&self, folder: &Path) -> Result<TrustedConfiguration> {
        Ok(TrustedConfiguration {
            keys: digest_settings(&self.list_settings(folder)?),
            hooks: self.digest_all_hooks(&self.find_hooks(folder)?)?,
        })
    }

    fn find_hooks(&self, folder: &Path) -> Result<PathBuf> {
        let command = GitCommand::new(folder, &self.outer).arg("rev-parse");
        let command = command.args(["--path-format=absolute", "--git-path", "hooks"]);
        command.read_path(&*self.git)
    }

    /// Returns the digests of the hooks, and of what lies beside a hooks' folder of the working tree: husky keeps there
    /// what its hooks run.
    fn digest_all_hooks(&self, folder: &Path) -> Result<BTreeMap<RepoPath, String>> {
        let mut hooks = digest_hooks(folder)?;
        let above = folder.parent().filter(|above| {
            let is_of_git =
                [&self.git_dir, &self.common_dir].iter().any(|git| folder.starts_with(git));
            above.starts_with(&self.top_level) && **above != self.top_level && !is_of_git
        });
        if let Some(above) = above {
            let beside = digest_hooks(above)?.into_iter();
            hooks.extend(beside.map(|(name, digest)| {
                (RepoPath::from_bytes(format!("../{name}").as_bytes()), digest)
            }));
        }
        Ok(hooks)
    }
}

impl TrustedConfiguration {
    /// Names what is another now.
    fn list_changes(&self, now: &Self) -> Vec<String> {
        let mut changes = list_differences(&self.keys, &now.keys);
        let hooks = list_differences(&self.hooks, &now.hooks);
        changes.extend(hooks.into_iter().map(|hook| format!("hook {hook}")));
        changes
    }
}

/// Returns the files in which it is kept what the repository of a workspace was: named after the folder, wherever it is
/// moved, and after its path.
fn kept_paths(folder: &Path, workspace: &Path) -> Vec<PathBuf> {
    let path = blake3::hash(workspace.as_os_str().as_bytes()).to_hex().to_string();
    let place = fs::metadata(workspace).map(|found| format!("{}-{}", found.dev(), found.ino()));
    let names = place.into_iter().chain([path]);
    names.map(|name| folder.join(format!("repository-{name}.json"))).collect()
}

fn read_kept(paths: &[PathBuf]) -> Result<Option<KeptRepository>> {
    let found = paths.iter().find(|path| path.exists());
    found.map_or(Ok(None), |path| read_record(path))
}

fn write_kept(folder: &Path, paths: &[PathBuf], kept: &KeptRepository) -> Result<()> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| GitError::io(folder, error))?;
    paths.iter().try_for_each(|path| write_record(path, kept))
}

/// Makes digests of now those that were kept, where these are others.
fn take_back<K: Ord + Clone>(
    digests: &mut BTreeMap<K, String>,
    kept: &BTreeMap<K, String>,
    now: &BTreeMap<K, String>,
) {
    for name in kept.keys().chain(now.keys()).filter(|name| kept.get(*name) != now.get(*name)) {
        match kept.get(name) {
            Some(digest) => digests.insert(name.clone(), digest.clone()),
            None => digests.remove(name),
        };
    }
}

/// Returns a digest of all values of each key that can name a program.
fn digest_settings(settings: &[Setting]) -> BTreeMap<String, String> {
    let mut values: BTreeMap<&str, blake3::Hasher> = BTreeMap::new();
    for setting in settings.iter().filter(|setting| !is_harmless(&setting.key)) {
        values.entry(&setting.key).or_default().update(&setting.entry).update(&[0]);
    }
    let digests = values.into_iter();
    digests.map(|(key, hasher)| (key.to_owned(), hasher.finalize().to_hex().to_string())).collect()
}

fn is_harmless(key: &str) -> bool {
    HARMLESS.iter().any(|beginning| key.starts_with(beginning))
        || PARTLY_HARMLESS.iter().any(|(beginning, endings)| {
            key.starts_with(beginning) && endings.iter().any(|ending| key.ends_with(ending))
        })
}

fn list_differences<K: Ord + std::fmt::Display>(
    before: &BTreeMap<K, String>,
    now: &BTreeMap<K, String>,
) -> Vec<String> {
    let mut names: Vec<&K> = before.keys().chain(now.keys()).collect();
    names.sort();
    names.dedup();
    names.into_iter().filter(|name| before.get(name) != now.get(name)).map(K::to_string).collect()
}

/// Returns the digests of all files in the hooks' folder but git's samples.
fn digest_hooks(folder: &Path) -> Result<BTreeMap<RepoPath, String>> {
    let mut hooks = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(hooks);
        }
        Err(error) => return Err(GitError::io(folder, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| GitError::io(folder, error))?;
        let name = entry.file_name();
        if !name.as_bytes().ends_with(b".sample") {
            hooks.insert(RepoPath::from_bytes(name.as_bytes()), digest_hook(&entry.path()));
        }
    }
    Ok(hooks)
}

/// Digests a hook's permissions and content, behind a link too. No pipe is waited for.
fn digest_hook(path: &Path) -> String {
    let digest = || -> std::io::Result<String> {
        let mut hasher = blake3::Hasher::new();
        if let Ok(target) = fs::read_link(path) {
            hasher.update(target.as_os_str().as_bytes());
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        hasher.update(&std::os::unix::fs::MetadataExt::mode(&metadata).to_le_bytes());
        if metadata.is_file() {
            let mut content = Vec::new();
            file.take(MAX_HOOK).read_to_end(&mut content)?;
            hasher.update(&content);
        }
        Ok(hasher.finalize().to_hex().to_string())
    };
    digest().unwrap_or_else(|error| error.kind().to_string())
}
