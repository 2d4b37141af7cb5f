//! Writes files of a checkpoint into another folder.

use std::ffi::OsString;
use std::path::Path;

use crate::error::Result;
use crate::object_id::ObjectId;
use crate::path::{RepoPath, join_nul};
use crate::private::remove_if_there;
use crate::repository::Repository;

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
        remove_if_there(&index)?;
        let git = || self.private_git().env("GIT_INDEX_FILE", &index);
        git().args(["read-tree", tree.as_str()]).read(&*self.git)?;
        let mut prefix = OsString::from("--prefix=");
        prefix.push(folder);
        prefix.push("/");
        let checkout = git().args(["checkout-index", "--force"]).arg(prefix);
        match paths {
            None => checkout.arg("--all").read(&*self.git)?,
            Some(paths) => {
                checkout.args(["-z", "--stdin"]).stdin(join_nul(paths)).read(&*self.git)?
            }
        };
        remove_if_there(&index)
    }
}
