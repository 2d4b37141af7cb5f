//! Writes files of a checkpoint into another folder.

use std::ffi::OsString;
use std::path::Path;

use crate::command::GitCommand;
use crate::error::Result;
use crate::object_id::ObjectId;
use crate::path::{RepoPath, join_nul};
use crate::private::remove_if_there;
use crate::repository::Repository;
use crate::run_git::RunGit;

impl Repository {
    /// Writes the files of a tree, such as a checkpoint's, below `folder`, an absolute path: all of them, or those
    /// with these paths. Bytes are written as they are stored; submodules are not entered.
    ///
    /// # Errors
    ///
    /// Fails if git does, another operation of this run is active, or a path is not in the tree.
    pub fn export(&self, tree: &ObjectId, paths: Option<&[RepoPath]>, folder: &Path) -> Result<()> {
        let _lock = self.lock()?;
        let index = self.private.rollback_index();
        write_tree(&*self.git, &|| self.private_git(), &index, (tree, paths, folder))
    }
}

/// Writes files of a tree, all of them or those with these paths, below an absolute path. `index` is where git keeps which.
pub(crate) fn write_tree(
    git: &dyn RunGit,
    begin: &dyn Fn() -> GitCommand,
    index: &Path,
    (tree, paths, folder): (&ObjectId, Option<&[RepoPath]>, &Path),
) -> Result<()> {
    remove_if_there(index)?;
    let begin = || begin().env("GIT_INDEX_FILE", index);
    begin().args(["read-tree", tree.as_str()]).read(git)?;
    let mut prefix = OsString::from("--prefix=");
    prefix.push(folder);
    prefix.push("/");
    let checkout = begin().args(["checkout-index", "--force"]).arg(prefix);
    match paths {
        None => checkout.arg("--all").read(git)?,
        Some(paths) => checkout.args(["-z", "--stdin"]).stdin(join_nul(paths)).read(git)?,
    };
    remove_if_there(index)
}
