//! Git's own files beside a workspace: which they are, and where.

use std::fs;
use std::path::{Component, Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};

/// Longer than the files by which a worktree and its repository name each other.
const LONGEST_LINK: usize = 64 * 1024;
/// The name of git's folder in a checkout.
pub(crate) const GIT: &str = ".git";

/// Returns the folder with git's own files of the repository that a workspace is in, which all its worktrees share; `None`
/// without one.
pub(crate) fn find_repository(workspace: &Path) -> Option<PathBuf> {
    let found = workspace.ancestors().map(|folder| folder.join(GIT)).find(|git| git.exists())?;
    if found.is_dir() {
        return found.canonicalize().ok();
    }
    let own = follow(&found, Some("gitdir:"))?;
    let common = follow(&own.join("commondir"), None).unwrap_or(own);
    common.canonicalize().ok().filter(|common| common.is_dir())
}

/// Returns the folder that a file of git's names.
fn follow(file: &Path, prefix: Option<&str>) -> Option<PathBuf> {
    let text = read_file(file, LONGEST_LINK, SymlinkPolicy::Refuse).ok()?;
    let text = String::from_utf8(text).ok()?;
    let path = match prefix {
        Some(prefix) => text.strip_prefix(prefix)?,
        None => &text,
    };
    Some(file.parent()?.join(path.trim()))
}

/// Whether a path in git's folder is one that checks see as it is: objects, by whose names nothing else can be meant, and
/// large files, which are named by their content as well.
pub(crate) fn is_shared(path: &Path) -> bool {
    path.components()
        .any(|part| matches!(part, Component::Normal(name) if name == "objects" || name == "lfs"))
}

/// Whether a path in git's folder is not for checks: what runs something, and locks of whoever works there now.
pub(crate) fn is_withheld(path: &Path) -> bool {
    let is_hooks = |part: Component<'_>| part.as_os_str() == "hooks";
    path.components().any(is_hooks) || path.extension().is_some_and(|end| end == "lock")
}

/// Whether it is there and is a folder, no link to one.
pub(crate) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worktree_leads_to_the_repository_that_it_shares() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (main, tree) = (root.join("main"), root.join("tree/sub"));
        let own = main.join(".git/worktrees/tree");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&tree).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        let link = format!("gitdir: {}\n", own.display());
        fs::write(root.join("tree/.git"), link).unwrap();
        let common = Some(main.join(".git"));
        assert_eq!((find_repository(&tree), find_repository(&main)), (common.clone(), common));
        assert_eq!(find_repository(Path::new("/")), None);
    }
}
