//! What git's configuration says, and who is responsible for it: the user, or whoever writes in the repository.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::command::GitCommand;
use crate::error::{GitError, Result};
use crate::path::RepoPath;
use crate::repository::Repository;

/// A value of a key; a key can have several.
#[derive(Debug)]
pub(crate) struct Setting {
    /// It is the repository's, so an agent can write it: from its files, or from one that lies in the working tree.
    pub(crate) is_own: bool,
    pub(crate) key: String,
    /// Key and value as git lists them.
    pub(crate) entry: Vec<u8>,
}

impl Setting {
    /// Returns the value; a key without one is true.
    pub(crate) fn value(&self) -> &OsStr {
        let end = self.entry.iter().position(|byte| *byte == b'\n');
        let value = end.and_then(|end| self.entry.get(end.saturating_add(1)..));
        OsStr::from_bytes(value.unwrap_or(b"true"))
    }
}

impl Repository {
    /// Returns all that git reads in a folder, in its order.
    pub(crate) fn list_settings(&self, folder: &Path) -> Result<Vec<Setting>> {
        let listed = GitCommand::new(folder, &self.outer);
        let listed = listed.args(["config", "--list", "-z", "--show-scope", "--show-origin"]);
        let listed = listed.read(&*self.git)?;
        let mut fields = listed.strip_suffix(b"\0").unwrap_or(&listed).split(|byte| *byte == 0);
        let mut settings = Vec::new();
        while let Some(scope) = fields.next().filter(|scope| !scope.is_empty()) {
            let (Some(origin), Some(entry)) = (fields.next(), fields.next()) else {
                return Err(GitError::UnexpectedOutput {
                    command: "config".to_owned(),
                    expected: "a scope, an origin and a value",
                });
            };
            let file = origin.strip_prefix(b"file:").map(|file| Path::new(OsStr::from_bytes(file)));
            let is_own = matches!(scope, b"local" | b"worktree")
                || file.is_some_and(|file| self.is_own(file));
            let key = entry.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let key = RepoPath::from_bytes(key).to_string();
            settings.push(Setting { is_own, key, entry: entry.to_vec() });
        }
        Ok(settings)
    }
}
