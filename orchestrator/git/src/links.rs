//! Links that an agent may have put into the git directory: git follows them, and would write where they lead.

use std::fs;
use std::path::Path;

use crate::error::{GitError, Result};
use crate::repository::Repository;

impl Repository {
    /// Fails if the store of objects, or a folder in it, is a link.
    pub(crate) fn refuse_linked_objects(&self) -> Result<()> {
        refuse_link(&self.objects)?;
        let fail = |error| GitError::io(&self.objects, error);
        for entry in fs::read_dir(&self.objects).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if entry.file_type().map_err(fail)?.is_symlink() {
                return Err(GitError::LinkInRepository(entry.path()));
            }
        }
        Ok(())
    }

    /// Fails if what git writes with a commit on a branch is a link. What confines git confines that as well.
    pub(crate) fn refuse_linked_commit(&self, branch: &str) -> Result<()> {
        if self.git.confines() {
            return Ok(());
        }
        self.refuse_links(&format!("refs/heads/{branch}"))?;
        let names = ["COMMIT_EDITMSG", "logs", "logs/HEAD"].into_iter();
        names.map(|name| self.git_dir.join(name)).try_for_each(|path| refuse_link(&path))
    }

    /// Fails if a file in the common directory, such as a reference, its reflog, or a folder on the way to one of them is
    /// a link.
    pub(crate) fn refuse_links(&self, file: &str) -> Result<()> {
        [Path::new(file), &Path::new("logs").join(file)].into_iter().try_for_each(|file| {
            let parts = file.ancestors().filter(|part| !part.as_os_str().is_empty());
            parts.map(|part| self.common_dir.join(part)).try_for_each(|part| refuse_link(&part))
        })
    }
}

fn refuse_link(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(GitError::LinkInRepository(path.to_owned())),
        // What is missing is no link, and git makes it.
        _ => Ok(()),
    }
}
