//! What an agent must not have changed before hooks, filters and signing programs may run.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::command::GitCommand;
use crate::error::{GitError, Result};
use crate::path::{RepoPath, split_nul};
use crate::repository::Repository;

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

    /// Fails if the configuration that git reads in a folder is not the trusted one.
    pub(crate) fn verify_configuration(&self, folder: &Path) -> Result<()> {
        let trusted: TrustedConfiguration =
            self.private.read_record(RECORD)?.ok_or(GitError::ConfigurationNotRecorded)?;
        let current = self.collect_configuration(folder)?;
        let mut changes = list_differences(&trusted.keys, &current.keys);
        let hooks = list_differences(&trusted.hooks, &current.hooks);
        changes.extend(hooks.into_iter().map(|hook| format!("hook {hook}")));
        if changes.is_empty() { Ok(()) } else { Err(GitError::ConfigurationChanged(changes)) }
    }

    fn collect_configuration(&self, folder: &Path) -> Result<TrustedConfiguration> {
        let begin = || GitCommand::new(folder, &self.outer);
        let listed = begin().args(["config", "--list", "-z"]).read(&*self.git)?;
        let mut values: BTreeMap<String, blake3::Hasher> = BTreeMap::new();
        for entry in split_nul(&listed) {
            let key = entry.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let key = RepoPath::from_bytes(key).to_string();
            if !is_harmless(&key) {
                values.entry(key).or_default().update(entry).update(&[0]);
            }
        }
        let hooks = begin().args(["rev-parse", "--path-format=absolute", "--git-path", "hooks"]);
        Ok(TrustedConfiguration {
            keys: values
                .into_iter()
                .map(|(key, hasher)| (key, hasher.finalize().to_hex().to_string()))
                .collect(),
            hooks: self.digest_all_hooks(&hooks.read_path(&*self.git)?)?,
        })
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
